"""Tensors whose rows are spread over processes: what an update must know of all rows, and how processes exchange it."""
from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence

import torch
import torch.distributed as dist
from torch import Tensor


class Rows(NamedTuple):
    """Rows start to stop of total."""

    start: int
    stop: int
    total: int

    @staticmethod
    def of(count: int, index: int, processes: int) -> "Rows":
        """Those of a process: torch.chunk's, which is how DTensor cuts a dimension."""
        size = -(-count // processes)
        return Rows(min(index * size, count), min((index + 1) * size, count), count)


class Ask(NamedTuple):
    """Tensors of which an update needs the sum over the rows of all processes, the maximum (all >= 0) or, for norms, the
    root of the sum of squares."""

    sums: List[Tensor] = []
    maxima: List[Tensor] = []
    norms: List[Tensor] = []


class Alone:
    """The process that holds all rows: what is asked for is the answer."""

    def answer(self, ask: Ask) -> Ask:
        return ask


class Processes:
    """Those that hold the rows of the same tensors."""

    def __init__(self, group: Any) -> None:
        self.group, self.size, self.rank = group, dist.get_world_size(group), dist.get_rank(group)

    def answer(self, ask: Ask) -> Ask:
        # some backends lose NaN in a maximum
        safe = [torch.nan_to_num(x, nan=torch.inf, posinf=torch.inf) for x in ask.maxima]
        squares = self._reduced([x.double() ** 2 for x in ask.norms], dist.ReduceOp.SUM)
        norms = [x.sqrt().to(own.dtype) for x, own in zip(squares, ask.norms)]
        return Ask(self._reduced(ask.sums, dist.ReduceOp.SUM), self._reduced(safe, dist.ReduceOp.MAX), norms)

    def _reduced(self, tensors: Sequence[Tensor], op: Any) -> List[Tensor]:
        if not tensors:
            return []
        flat = torch.cat([x.reshape(-1) for x in tensors])
        dist.all_reduce(flat, op, group=self.group)
        return [part.view(x.shape) for part, x in zip(flat.split_with_sizes([x.numel() for x in tensors]), tensors)]

    def max(self, x: Tensor) -> Tensor:
        return self.answer(Ask(maxima=[x])).maxima[0]

    def norm(self, x: Tensor) -> Tensor:
        """Of each entry, a norm of what is here."""
        return self.answer(Ask(norms=[x])).norms[0]

    def exchange(self, out: Sequence[Tensor], sizes: Sequence[int], like: Tensor) -> List[Tensor]:
        """out[r] to process r; what process r sends is sizes[r] long."""
        sent = torch.cat([like.new_empty(0), *(x.reshape(-1) for x in out)])
        got = like.new_empty(sum(sizes))
        dist.all_to_all_single(got, sent, list(sizes), [x.numel() for x in out], group=self.group)
        return list(got.split_with_sizes(list(sizes)))
