"""States as bytes: tensors one after another and a checksum. They may come from anywhere: nothing in them is evaluated,
as a pickle would be, and no size is believed before the bytes are there."""
from __future__ import annotations

import math
import struct
import zlib
from typing import List, Sequence

import numpy as np
import torch
from torch import Tensor

_MAGIC = b"psgdnat1"
_DTYPES = (torch.float32, torch.float64, torch.int64)
_NUMPY = (np.dtype("<f4"), np.dtype("<f8"), np.dtype("<i8"))
_MAX_DIMS = 16


def pack(tensors: Sequence[Tensor]) -> bytearray:
    parts = [_MAGIC, struct.pack("<q", len(tensors))]
    for x in tensors:
        code = _DTYPES.index(x.dtype)
        parts.append(struct.pack(f"<{2 + x.dim()}q", code, x.dim(), *x.shape))
        parts.append(x.detach().cpu().contiguous().numpy().astype(_NUMPY[code], copy=False).tobytes())
    body = b"".join(parts)
    return bytearray(body + struct.pack("<q", zlib.crc32(body)))


def unpack(chars: bytes) -> List[Tensor]:
    """Raises ValueError with the reason."""
    if len(chars) < 24 or chars[:8] != _MAGIC:
        raise ValueError("it does not begin as one")
    body = chars[:-8]
    if struct.unpack("<q", chars[-8:])[0] != zlib.crc32(body):
        raise ValueError("its checksum is wrong")
    at = 8

    def numbers(count: int) -> List[int]:
        nonlocal at
        if len(body) - at < 8 * count:
            raise ValueError("it is truncated")
        at += 8 * count
        return list(struct.unpack_from(f"<{count}q", body, at - 8 * count))

    (count,) = numbers(1)
    found: List[Tensor] = []
    while len(found) < count:
        code, dims = numbers(2)
        if not (0 <= code < len(_DTYPES) and 0 <= dims <= _MAX_DIMS):
            raise ValueError("it has no such dtype, or too many dimensions")
        shape = numbers(dims)
        if any(size < 0 for size in shape) or math.prod(shape) * _NUMPY[code].itemsize > len(body) - at:
            raise ValueError("its sizes are not those of its contents")
        values = np.frombuffer(body, _NUMPY[code], math.prod(shape), at)
        at += values.nbytes
        if not np.isfinite(values).all():
            raise ValueError("it has values that are not finite")
        found.append(torch.from_numpy(values.astype(_NUMPY[code].newbyteorder("="), copy=True).reshape(shape)))
    if at != len(body):
        raise ValueError("there is more than it says")
    return found
