"""Tensors whose rows are spread over processes: what an update must know of all rows, and how it comes to know it."""
from __future__ import annotations

from typing import Any, Generator, Iterable, List, NamedTuple, Sequence

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


def finish(update: Generator[Ask, Ask, None]) -> None:
    """Of a tensor that is whole: what it asks for is the answer."""
    try:
        ask = next(update)
        while True:
            ask = update.send(ask)
    except StopIteration:
        pass


class Processes:
    """Those that hold the rows of the same tensors."""

    def __init__(self, group: Any) -> None:
        self.group, self.size, self.rank = group, dist.get_world_size(group), dist.get_rank(group)

    def finish(self, updates: Iterable[Generator[Ask, Ask, None]]) -> None:
        """Of many tensors at once: one message answers all of them."""
        live = [(update, next(update)) for update in updates]
        while live:
            answers = self.answer([ask for _, ask in live])
            waiting = []
            for (update, _), answer in zip(live, answers):
                try:
                    waiting.append((update, update.send(answer)))
                except StopIteration:
                    pass
            live = waiting

    def answer(self, asks: Sequence[Ask]) -> List[Ask]:
        sums = self._reduced([ask.sums for ask in asks], dist.ReduceOp.SUM)
        # some backends lose NaN in a maximum
        safe = [[torch.nan_to_num(x, nan=torch.inf, posinf=torch.inf) for x in ask.maxima] for ask in asks]
        maxima = self._reduced(safe, dist.ReduceOp.MAX)
        squares = self._reduced([[x.double() ** 2 for x in ask.norms] for ask in asks], dist.ReduceOp.SUM)
        norms = [[x.sqrt().to(own.dtype) for x, own in zip(of, ask.norms)] for of, ask in zip(squares, asks)]
        return [Ask(*each) for each in zip(sums, maxima, norms)]

    def _reduced(self, lists: Sequence[Sequence[Tensor]], op: Any) -> List[List[Tensor]]:
        tensors = [x for each in lists for x in each]
        if not tensors:
            return [[] for _ in lists]
        flat = torch.cat([x.reshape(-1) for x in tensors])
        dist.all_reduce(flat, op, group=self.group)
        parts = iter(part.view(x.shape) for part, x in zip(flat.split_with_sizes([x.numel() for x in tensors]), tensors))
        return [[next(parts) for _ in each] for each in lists]

    def max(self, x: Tensor) -> Tensor:
        return self.answer([Ask(maxima=[x])])[0].maxima[0]

    def norm(self, x: Tensor) -> Tensor:
        """Of each entry, a norm of what is here."""
        return self.answer([Ask(norms=[x])])[0].norms[0]

    def exchange(self, out: Sequence[Tensor], sizes: Sequence[int], like: Tensor) -> List[Tensor]:
        """out[r] to process r; what process r sends is sizes[r] long."""
        sent = torch.cat([like.new_empty(0), *(x.reshape(-1) for x in out)])
        got = like.new_empty(sum(sizes))
        dist.all_to_all_single(got, sent, list(sizes), [x.numel() for x in out], group=self.group)
        return list(got.split_with_sizes(list(sizes)))
