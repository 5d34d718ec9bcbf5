"""Stochastic rounding from float32 to bfloat16 and float16: up or down with the probabilities that make the mean exact.

Sums of small steps then arrive where rounding to nearest would lose each of them. The random bits are a function of
(seed, tensor, step, entry) alone."""
from __future__ import annotations

import torch
from torch import Tensor

from .philox import ROUND, Stream

HALVES = (torch.bfloat16, torch.float16)


def _random16(seed: int, tensor: int, step: int, start: int, count: int, device: torch.device) -> Tensor:
    """16 bits each, two from an entry of the stream: entry 2 k has the low ones of entry k."""
    first = start // 2
    bits = Stream.of(seed, ROUND, tensor, step).bits((start + count + 1) // 2 - first, device, first)
    return torch.stack([bits & 0xFFFF, bits >> 16], 1).reshape(-1)[start % 2 :][:count].to(torch.int32)


def round_stochastically(
    x: Tensor, dtype: torch.dtype, seed: int, tensor: int, step: int, start: int = 0
) -> Tensor:
    """float32 to a half type, what is beyond its range to its largest value. start: the entry of the tensor with which x
    begins."""
    largest = torch.finfo(dtype).max
    bits = x.contiguous().view(torch.int32)
    random = _random16(seed, tensor, step, start, x.numel(), x.device).view(x.shape)
    if dtype == torch.bfloat16:
        made = ((bits + random) & ~0xFFFF).view(torch.float32)
        return torch.where(torch.isfinite(made), made, x).clamp(-largest, largest).to(dtype)
    normal = ((bits + (random >> 3)) & ~0x1FFF).view(torch.float32)
    # below 2^-14 the spacing is 2^-24 throughout
    scaled = x * 2.0**24
    down = torch.floor(scaled)
    small = torch.copysign((down + (scaled - down >= 1 - random.to(torch.float32) * 2.0**-16)) * 2.0**-24, x)
    made = torch.where(x.abs() < 2.0**-14, small, normal)
    return torch.where(made.abs() <= largest, made, x).clamp(-largest, largest).to(dtype)
