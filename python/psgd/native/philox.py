"""The library's random numbers as torch ops, on any device: Philox4x32-10 and the transform of Box and Muller.

A stream is named by (seed, purpose, tensor, step); entry i of it depends on nothing else (``src/core/rng.h``). Words of
32 bits are kept in int64, whose products wrap as those of 64 unsigned bits do. In f64 the deviates are those of the C
library to rounding; in f32 to a few units in the last place."""
from __future__ import annotations

import math
from typing import Any, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

PROBE, ESTIMATE, SHUFFLE, ROUND = 0, 5, 3, 6
_WORD = 0xFFFFFFFF
_LANES = 16


def _rounds(c: Sequence[Any], k0: int, k1: int) -> List[Any]:
    """Ten rounds on counters that are ints, int64 tensors or uint64 arrays."""
    c0, c1, c2, c3 = c
    for _ in range(10):
        p, q = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = ((q >> 32) & _WORD) ^ c1 ^ k0, q & _WORD, ((p >> 32) & _WORD) ^ c3 ^ k1, p & _WORD
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return [c0, c1, c2, c3]


class Stream(NamedTuple):
    key: Tuple[Any, Any]
    high: Tuple[Any, Any]

    @staticmethod
    def of(seed: int, purpose: int, tensor: int, step: Any) -> "Stream":
        """step: one, or an array of them in uint64 for as many streams."""
        which = (tensor << 8 | purpose) & 0xFFFFFFFFFFFFFFFF
        counter = step & _WORD, step >> 32 & _WORD, which & _WORD, which >> 32
        made = _rounds(counter, seed & _WORD, seed >> 32 & _WORD)
        return Stream((made[0], made[1]), (made[2], made[3]))

    def uniform(self, index: int = 0) -> Any:
        """An early number of the stream in (0, 1), from 52 bits."""
        first, second = (_rounds((2 * index + lane, 0, *self.high), *self.key)[0] for lane in (0, 1))
        return (((first << 32 | second) >> 12) + 0.5) * 2.0**-52

    def words(self, blocks: int, device: Any, first: int = 0) -> List[Tensor]:
        """The four words of each of so many blocks of 128 bits."""
        at = torch.arange(first, first + blocks, dtype=torch.int64, device=device)
        zero = torch.zeros((), dtype=torch.int64, device=device)
        return _rounds([at & _WORD, at >> 32, zero + self.high[0], zero + self.high[1]], *self.key)

    def bits(self, count: int, device: Any, start: int = 0) -> Tensor:
        """count entries from start on as 32 bits each."""
        first, tiles = _tiles(start, count, 4 * _LANES)
        words = self.words(tiles * _LANES, device, first * _LANES)
        made = torch.cat([word.expand(tiles * _LANES).view(tiles, 1, _LANES) for word in words], 1).reshape(-1)
        return made[start - first * 4 * _LANES :][:count]

    def normal(self, count: int, dtype: torch.dtype, device: Any, start: int = 0) -> Tensor:
        """count normal deviates from entry start on."""
        double = dtype == torch.float64
        tile = 2 * _LANES if double else 4 * _LANES
        first, tiles = _tiles(start, count, tile)
        w = self.words(tiles * _LANES, device, first * _LANES)
        if double:
            pairs = [_box_muller_f64(*w)]
        else:
            pairs = [_box_muller_f32(w[0], w[1]), _box_muller_f32(w[2], w[3])]
        lanes = [part.view(tiles, 1, _LANES) for pair in pairs for part in pair]
        return torch.cat(lanes, 1).reshape(-1)[start - first * tile :][:count].to(dtype)


def _tiles(start: int, count: int, tile: int) -> Tuple[int, int]:
    """The first tile that entries are in, and how many there are."""
    first = start // tile
    return first, -(-(start + count) // tile) - first


def _turned(r: Tensor, t: Tensor, quadrant: Tensor) -> Tuple[Tensor, Tensor]:
    s, c = r * torch.sin(t), r * torch.cos(t)
    odd = (quadrant & 1) == 1
    first, second = torch.where(odd, s, c), torch.where(odd, c, s)
    return torch.where(((quadrant + 1) >> 1 & 1) == 1, -first, first), torch.where(quadrant >> 1 == 1, -second, second)


def _box_muller_f64(w0: Tensor, w1: Tensor, w2: Tensor, w3: Tensor) -> Tuple[Tensor, Tensor]:
    u = ((w0 << 20 | w1 >> 12).to(torch.float64) + 0.5) * 2.0**-52
    turn = (w2 + (1 << 29)) & _WORD
    k = (turn & 0x3FFFFFFF) << 22 | w3 >> 10
    t = (k.to(torch.float64) * 2.0**-52 - 0.5) * (math.pi / 2)
    return _turned(torch.sqrt(-2 * torch.log(u)), t, turn >> 30)


def _box_muller_f32(w0: Tensor, w1: Tensor) -> Tuple[Tensor, Tensor]:
    u = ((w0 >> 1).to(torch.float32) + 0.5) * 2.0**-31
    turn = (w1 + (1 << 29)) & _WORD
    t = ((turn & 0x3FFFFFFF) - 0x20000000).to(torch.float32) * (math.pi / 2**31)
    return _turned(torch.sqrt(-2 * torch.log(u)), t, turn >> 30)
