#!/usr/bin/python3
"""psgd group --plan and --draw: what they print and draw."""
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
import zlib

BUILD = sys.argv.pop() if len(sys.argv) > 2 else "build"
if len(sys.argv) > 1:
    sys.argv.pop()
PSGD = os.path.join(BUILD, "psgd")


def psgd(*words):
    return subprocess.run([PSGD, "group", *words], capture_output=True, text=True, check=False)


def pixels(path):
    """Palette indices of a PNG as psgd writes it, row by row, and the palette."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, found = 8, b"", {}
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0]
        found[kind] = body
        at += 12 + size
    width, height = struct.unpack(">II", found[b"IHDR"][:8])
    packed = zlib.decompress(found[b"IDAT"])
    rows = [packed[y * (width + 1) + 1:(y + 1) * (width + 1)] for y in range(height)]
    return rows, found[b"PLTE"]


class GroupCommand(unittest.TestCase):
    def test_plan_shows_a_line_for_each_tensor(self):
        out = psgd("--plan", "--budget", "1.5x", "--shapes", "96x364,256x128x3x3,10")
        self.assertEqual(out.returncode, 0, out.stderr)
        lines = out.stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["tensor", "96x364", "256x128x3x3", "10", "all"])
        self.assertIn("kron(tri,tri,tri,tri)", lines[2])
        self.assertEqual(out.stdout, psgd("--plan", "--budget", "1.5x", "--shapes", "96x364,256x128x3x3,10").stdout)

    def test_plan_has_the_budget_of_auto(self):
        for shapes, same in (("512x512,512x256", ["--budget", "4x"]), ("8x9,10", ["--budget", "65536"])):
            self.assertEqual(psgd("--plan", "--shapes", shapes).stdout, psgd("--plan", "--shapes", shapes, *same).stdout)
        self.assertIn("at most 4 x, or 64 KB", psgd("--list").stdout)

    def test_plan_by_bytes_stays_below(self):
        out = psgd("--plan", "--budget", "100k", "--shapes", "96x364,300")
        total = int(out.stdout.splitlines()[-1].split()[1].replace(",", ""))
        self.assertLessEqual(total, 100000)

    def test_ranks_hold_less_of_q_and_even_moves_stay_bounded(self):
        out = psgd("--plan", "kron(dense,dense)", "--ranks", "6", "--gradient-flops", "1e9", "--shapes",
                   ",".join(["64x65"] * 8)).stdout.split("\n\n")[-1].splitlines()
        rows = [line.replace(",", "").split() for line in out if line.split()[:1] != ["ranks"] and line.strip()]
        self.assertEqual([row[0] for row in rows], ["1", "2", "4", "6"])
        q = [int(row[1]) for row in rows]
        self.assertEqual(q[0], 2 * q[1])
        self.assertEqual(q[0], 4 * q[2])
        self.assertEqual(rows[0][2], "0")
        # g and Hv of the other half to it, Pg of the own half back: 3/2 of 8 tensors.
        self.assertEqual(int(rows[1][2]), 3 * 4 * 64 * 65 * 4)
        for row in rows:
            self.assertAlmostEqual(sum(map(float, row[3:6])), float(row[6]), delta=2e-3 * float(row[6]))
        self.assertEqual(psgd("--plan", "--ranks", "0", "--shapes", "4x4").returncode, 2)
        self.assertEqual(psgd("--plan", "--ranks", "2", "--gflops", "0", "--shapes", "4x4").returncode, 2)

    def test_plan_refuses(self):
        for words in (["--budget", "much"], ["--budget", "-1x"], ["--time", "1"], ["--shapes", "3y4"]):
            out = psgd("--plan", "--shapes", "4x4", *words)
            self.assertEqual(out.returncode, 2, words)
            self.assertEqual(len(out.stderr.splitlines()), 1)
        self.assertEqual(psgd("--plan").returncode, 2)

    def test_pattern_of_a_triangle(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "q.png")
            out = psgd("tri", "--shape", "4", "--draw", path)
            self.assertEqual(out.stdout, f"written: {path}\n")
            self.assertEqual(out.returncode, 0, out.stderr)
            rows, palette = pixels(path)
            cell, margin = 480 // 4, 16
            for i in range(4):
                for j in range(4):
                    colour = rows[margin + i * cell + 60][margin + j * cell + 60]
                    white = palette[3 * colour:3 * colour + 3] == b"\xff\xff\xff"
                    self.assertEqual(white, j < i, (i, j))

    def test_values_come_from_files(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        with tempfile.TemporaryDirectory() as folder:
            path, q = os.path.join(folder, "q.png"), os.path.join(folder, "Q1.npy")
            numpy.save(q, numpy.array([[1.0, -1.0], [0.0, 0.25]]))
            out = psgd("dense", "--shape", "2", "--draw", path, "--q", q)
            self.assertEqual(out.returncode, 0, out.stderr)
            rows, palette = pixels(path)
            at = [[rows[16 + 120 + 240 * i][16 + 120 + 240 * j] for j in range(2)] for i in range(2)]
            red = [[palette[3 * at[i][j]] for j in range(2)] for i in range(2)]
            self.assertEqual(red[1][0], 255)
            self.assertLess(red[0][0], red[1][1])  # blue, the larger the darker
            self.assertGreater(red[0][1], 150)     # orange
            numpy.save(q, numpy.zeros((2, 3)))
            self.assertEqual(psgd("dense", "--shape", "2", "--draw", path, "--q", q).returncode, 1)
            numpy.save(q, numpy.eye(3))
            out = psgd("dense", "--shape", "2", "--draw", path, "--q", q)
            self.assertEqual((out.returncode, "a matrix of side 3" in out.stderr), (2, True), out.stderr)
            out = psgd("dense", "--shape", "3", "--draw", path, "--q", f"{q},{q}")
            self.assertEqual((out.returncode, "has 1 factor, and --q names 2 files" in out.stderr), (2, True))

    def test_an_svg_has_captions_and_the_cells_of_the_pattern(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "q.svg")
            out = psgd("kron(diag,tri)", "--shape", "2x3", "--draw", path)
            self.assertEqual(out.returncode, 0, out.stderr)
            drawing = xml.etree.ElementTree.parse(path).getroot()
            texts = [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
            self.assertEqual(texts[0], "kron(diag,tri) on 2 \u00d7 3")
            self.assertEqual(texts[1:4], ["Q = Q1 \u2297 Q2, 6 \u00d7 6", "Q1, along dimension 1, 2 \u00d7 2",
                                          "Q2, along dimension 2, 3 \u00d7 3"])
            cells = [rect for rect in drawing.iter("{http://www.w3.org/2000/svg}rect")
                     if rect.get("fill") not in ("none", "#fff")]
            # Cells in a row are one: six rows of Q, two of the diagonal, three of the triangle.
            self.assertEqual(len(cells), 6 + 2 + 3)

    def test_a_rank_above_the_size_is_told(self):
        out = psgd("lra(500)", "--shape", "100")
        self.assertEqual(out.returncode, 0)
        self.assertIn("it is lra(100)", out.stderr)
        self.assertEqual(psgd("lra(5)", "--shape", "100").stderr, "")


if __name__ == "__main__":
    unittest.main()
