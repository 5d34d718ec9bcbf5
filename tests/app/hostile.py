"""Checkpoints taken apart and put together again with a right checksum, as a hostile user would."""
import struct

SECTIONS = 6
HEAD = struct.Struct("<8sq q7d2q" + "16sq" * SECTIONS)


def checksum(blocks):
    """FNV-1a over words of 8 bytes, the last of each block padded with zeros."""
    total = 14695981039346656037
    for block in blocks:
        block = bytes(block) + bytes(-len(block) % 8)
        for (word,) in struct.iter_unpack("<Q", block):
            total = (total ^ word) * 1099511628211 % 2**64
            total ^= total >> 29
    return struct.pack("<Q", total)


class Checkpoint:
    def __init__(self, path):
        with open(path, "rb") as file:
            whole = file.read()
        fields = HEAD.unpack_from(whole)
        self.magic, self.progress, self.sections, at = fields[0], list(fields[2:12]), {}, HEAD.size
        for name, size in zip(fields[12::2], fields[13::2]):
            self.sections[name.rstrip(b"\0").decode()] = whole[at:at + size]
            at += size
        assert whole[at:] == checksum([whole[:HEAD.size], *self.sections.values()])

    def settings(self):
        return dict(line.split("=", 1) for line in self.sections["settings"].rstrip(b"\0").decode().splitlines())

    def change_settings(self, **new):
        lines = {**self.settings(), **new}
        self.sections["settings"] = "".join(f"{name}={value}\n" for name, value in lines.items()).encode() + b"\0"

    def write(self, path, total=None, sizes=None):
        """With another size of the file, or of sections, than is true where they are given."""
        sizes = {**{name: len(body) for name, body in self.sections.items()}, **(sizes or {})}
        table = [value for name in self.sections for value in (name.encode(), sizes[name])]
        if total is None:
            total = HEAD.size + sum(map(len, self.sections.values())) + 8
        blocks = [HEAD.pack(self.magic, total, *self.progress, *table), *self.sections.values()]
        with open(path, "wb") as file:
            file.write(b"".join(blocks) + checksum(blocks))
