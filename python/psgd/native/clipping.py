"""The limits of a direction, options ``clip-element``, ``clip-rms``, ``clip``, ``clip-relative`` and ``clip-recent``, as
``src/optim/step`` has them. All is decided on the device; a limit that depends on what was is a tensor there."""
from __future__ import annotations

import math
from typing import Any, Callable, List, Mapping, Sequence, Tuple

import torch
from torch import Tensor

from .leaves import norms

Norms = Callable[[Sequence[Tensor]], Tensor]


class Clipping:
    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.first_rms = torch.full((), -1.0, dtype=dtype, device=device)  # of the parameters, or of the first direction
        self.rms_known = False
        # ||d||, on average; whether the last one exceeded the limit. next: what it becomes if the step is taken
        self.recent = self.next_recent = torch.zeros(2, dtype=dtype, device=device)

    def follow(self, settings: Mapping[str, Any]) -> None:
        self.element, self.rms, self.whole, self.relative, self.of_recent = (
            float(settings[name]) for name in ("clip-element", "clip-rms", "clip", "clip-relative", "clip-recent")
        )
        self.by_sqrt = settings["clip-by"] == "sqrt"

    def scales(
        self, directions: List[Tensor], thetas: List[Tensor], shares: Tensor, of_each: Norms, rms: Callable[[Tensor], Tensor],
        counts: Sequence[int], total: int,
    ) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Clips the elements of the directions; returns what each direction is to be multiplied by, for its share and
        the limits, its norm before, and that of its parameters. of_each: gives norms; rms: what clip-rms lets the norm
        of each be; counts, total: elements of each, and of all tensors there are."""
        finite = None
        if self.element > 0:
            finite = torch.isfinite(of_each(directions))  # the clamp would hide it
            for k, share in enumerate(shares.unbind()):
                directions[k] = (directions[k] / share).clamp(-self.element, self.element)
            shares = torch.ones_like(shares)
        sizes, of_thetas = of_each(directions + thetas).view(2, -1)
        if finite is not None:
            sizes = torch.where(finite, sizes, torch.full_like(sizes, math.inf))
        scales = shares.reciprocal()
        lengths = sizes * scales
        if self.rms > 0:
            scales = scales * _factor(rms(sizes), lengths)
            lengths = sizes * scales if self.whole > 0 or self.relative > 0 or self.of_recent > 0 else lengths
        if self.whole > 0:
            factor = _factor(self.whole * (math.sqrt(total) if self.by_sqrt else 1), norms([lengths])[0])
            lengths, scales = lengths * factor, scales * factor
        if self.relative > 0:
            norm, theta = norms([lengths, of_thetas])
            factor = self._to_parameters(norm, theta, math.sqrt(sum(counts)))
            lengths, scales = lengths * factor, scales * factor
        if self.of_recent > 0:
            scales = scales * self._to_recent(norms([lengths])[0])
        return scales, sizes, of_thetas

    def _to_parameters(self, norm: Tensor, theta: Tensor, root: float) -> Tensor:
        """The factor that clip-relative asks for."""
        rms = theta / root
        if not self.rms_known:
            start = torch.where(rms > 0, rms, norm / root)
            self.first_rms = torch.where((self.first_rms < 0) & (norm > 0) & (norm < math.inf), start, self.first_rms)
        middle = (self.first_rms * torch.maximum(rms, self.first_rms)).sqrt()
        factor = _factor((self.relative * root) * middle, norm)
        return factor if self.rms_known else torch.where(norm > 0, factor, torch.ones_like(factor))

    def _to_recent(self, norm: Tensor) -> Tensor:
        """The factor that brings a direction of this norm to the limit; what recent becomes goes to next_recent."""
        recent, fine = self.recent[0], torch.isfinite(norm)
        limit = torch.where(recent > 0, self.of_recent * recent, torch.full_like(recent, math.inf))
        kept = torch.minimum(norm, limit)
        average = torch.where(recent > 0, 0.95 * recent + (1 - 0.95) * kept, kept)
        longer = (norm > limit) | ~fine
        self.next_recent = torch.stack([torch.where(fine, average, recent), longer.to(recent.dtype)])
        return torch.where(fine & longer, limit / norm, torch.ones_like(norm))

    def keep(self, ok: Tensor) -> None:
        """The step is taken where ok."""
        if self.of_recent > 0:
            self.recent = torch.where(ok, self.next_recent, self.recent)

    def look(self) -> None:
        """Reads from the device what will not change again."""
        self.rms_known = bool(self.first_rms >= 0)

    def state(self) -> List[Tensor]:
        return [self.first_rms[None], self.recent]

    def load(self, first_rms: Tensor, recent: Tensor) -> None:
        dtype = self.first_rms.dtype
        self.first_rms, self.rms_known, self.recent = first_rms[0].to(dtype), False, recent.to(dtype)


def _factor(limit: Any, size: Tensor) -> Tensor:
    """What brings a size down to a limit."""
    made: Tensor = (limit / size).clamp_max(1)
    return made
