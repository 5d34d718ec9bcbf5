"""Parameters whose rows are spread over processes (DTensor with ``Shard(0)``, as FSDP2 makes them), moved by torch ops.

``diag`` and ``kron(diag,..)``, so ``scan`` and ``scaw`` too, never mix rows: every process fits and moves its own rows,
and only sums of the other factors, maxima and norms are all-reduced, those of all tensors in one message. A tensor with
any other group has an owner, who gets its gradient from all, holds its state and sends back the direction: gradients
go out and directions come in by one ``all_to_all_single`` each. The result is that of one process to rounding."""
from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .._errors import ArgumentError, FormatError, UnsupportedError
from .._sharded import Shards, as_shards, local_of, whole
from .._units import Unit
from ..group import Group
from .composites import Kron, parse
from .fit import NativeFit, NativeView
from .flat import Flat
from .leaves import FEW, Diag, Identity
from .rounding import HALVES, round_stochastically
from .rows import Processes, Rows
from .tensors import NativeList


class ShardedList(NativeList):
    sharded = True

    def __init__(self, group: Dict[str, Any], units: Sequence[Unit], shards: Shards, *rest: Any) -> None:
        if group["criterion"] == "newton":
            raise UnsupportedError('sharded parameters take criterion="fisher": FSDP has no second derivative')
        self.shards, self.processes = shards, Processes(shards.group)
        self.rows = [self._rows_of(unit, self.processes.rank) for unit in units]
        self.widths = [math.prod(unit.shape) // unit.shape[0] for unit in units]
        self.owners: Dict[int, int] = {}
        super().__init__(group, units, *rest)

    def _rows_of(self, unit: Unit, rank: int) -> Rows:
        return Rows.of(unit.shape[0], rank, self.processes.size)

    def _make_fits(self, specs: Sequence[str]) -> None:
        costs: Dict[int, float] = {}
        self.specs = list(specs)
        for i, (spec, unit) in enumerate(zip(specs, self.units)):
            if not _keeps_rows_apart(spec, unit.shape):
                group = Group(spec, unit.shape)
                costs[i] = group.update_flops + group.apply_flops
        self.owners = _assign(costs, self.processes.size)
        for i, (spec, unit) in enumerate(zip(specs, self.units)):
            if self.owners.get(i, self.processes.rank) == self.processes.rank:
                rows = None if i in self.owners else self.rows[i]
                self.fits[i] = NativeFit(spec, unit.shape, self.dtype, self.device, self.settings, rows)

    # --- one step

    def _joined(self, unit: Unit, tensors: Sequence[Optional[Tensor]]) -> Tensor:
        """The rows that are here."""
        rows = self._rows_of(unit, self.processes.rank)
        count = rows.stop - rows.start
        parts = []
        for tensor, p in zip(tensors, unit.params):
            local = torch.zeros_like(local_of(p)) if tensor is None else local_of(self.shards.cut_alike(tensor, p))
            parts.append(local.detach().reshape(count, math.prod(p.shape[1:])).to(self.dtype))
        return (parts[0] if len(parts) == 1 else torch.cat(parts, 1)).reshape(count, *unit.shape[1:])

    def _all_finite(self, tensors: Sequence[Tensor]) -> Tensor:
        return self.processes.max((~super()._all_finite(tensors)).to(self.dtype)) == 0

    def _norms(self, tensors: Sequence[Tensor]) -> Tensor:
        return self.processes.norm(super()._norms(tensors))

    def _normal(self, index: int, count: int) -> Tensor:
        if index in self.owners:
            return super()._normal(index, count)
        rows, width = self.rows[index], self.widths[index]
        return self._probe(index, (rows.stop - rows.start) * width, rows.start * width).view(1, -1)

    def _directions(self, g: Flat, ok: Tensor) -> List[Tensor]:
        here = dict(zip(g.keys, g.parts()))
        held = {i: own for i, own in here.items() if i not in self.owners}
        held.update(self._to_owners(here))
        made: Dict[int, Tensor] = {}
        if held:
            m = self._averaged(Flat.of(held, self.rooms, "held"), ok)
            averages = dict(zip(m.keys, m.parts()))
            pairs = {i: self._pair(i, own, averages[i]) for i, own in held.items() if self._due(i)}
            self._fit({i: pair for i, pair in pairs.items() if pair is not None and i in self.owners}, ok)
            self._fit({i: pair for i, pair in pairs.items() if pair is not None and i not in self.owners}, ok, self.processes)
            made = dict(zip(m.keys, self._applied(m)))
        back = self._from_owners(here, made)
        return [back[i] if i in self.owners else made[i] for i in g.keys]

    def _owned(self, by: int, present: Mapping[int, Tensor]) -> List[int]:
        return [i for i in present if self.owners.get(i) == by]

    def _to_owners(self, here: Mapping[int, Tensor]) -> Dict[int, Tensor]:
        """Rows of gradients to the owners of their tensors: the whole ones of those that are owned here."""
        if not any(i in self.owners for i in here):
            return {}
        size, own = self.processes.size, self._owned(self.processes.rank, here)
        out = [_flat([here[i] for i in self._owned(r, here)], self.taken.new_empty(0, dtype=self.dtype)) for r in range(size)]
        counts = [[self._count(i, r) for i in own] for r in range(size)]
        got = self.processes.exchange(out, [sum(each) for each in counts], out[0])
        parts = [each.split_with_sizes(count) for each, count in zip(got, counts)]
        return {i: torch.cat([part[k] for part in parts]).view(self.units[i].shape) for k, i in enumerate(own)}

    def _from_owners(self, here: Mapping[int, Tensor], made: Mapping[int, Tensor]) -> Dict[int, Tensor]:
        """Rows of directions from the owners of their tensors."""
        if not any(i in self.owners for i in here):
            return {}
        size, own, nothing = self.processes.size, self._owned(self.processes.rank, here), next(iter(here.values()))
        out = []
        for r in range(size):
            rows = [(i, self._rows_of(self.units[i], r)) for i in own]
            out.append(_flat([made[i][each.start : each.stop] for i, each in rows], nothing.new_empty(0)))
        theirs = [self._owned(r, here) for r in range(size)]
        counts = [[here[i].numel() for i in each] for each in theirs]
        got = self.processes.exchange(out, [sum(each) for each in counts], out[0])
        found: Dict[int, Tensor] = {}
        for each, count, listed in zip(got, counts, theirs):
            found.update({i: part.view(here[i].shape) for i, part in zip(listed, each.split_with_sizes(count))})
        return found

    def _count(self, index: int, rank: int) -> int:
        rows = self._rows_of(self.units[index], rank)
        return (rows.stop - rows.start) * self.widths[index]

    def _store(self, thetas: Mapping[int, Tensor]) -> None:
        for i, made in thetas.items():
            unit, rows, width = self.units[i], self.rows[i], self.widths[i]
            half = unit.params[0].dtype
            if half in HALVES:
                at = rows.start * width
                made = round_stochastically(made, half, self.seed, self.first + i, self.step_count, at)
            made = made.reshape(rows.stop - rows.start, width)
            parts = [made] if len(unit.params) == 1 else [made[:, :-1], made[:, -1]]
            for part, p in zip(parts, unit.params):
                local = local_of(p)
                local.copy_(part.reshape(local.shape))

    # --- what people look at

    def preconditioner(self, index: int) -> NativeView:
        if index not in self.fits:
            raise ValueError(f"the preconditioner of {self.units[index].name} is held by process {self.owners[index]}")
        return super().preconditioner(index)

    def _condition(self, index: int) -> Optional[float]:
        return super()._condition(index) if index in self.owners else None

    # --- state: bytes, cut over the processes as the parameters are

    def _counters(self, index: int) -> List[Tensor]:
        steps = torch.tensor([self.steps[index], self.step_count], device=self.device)
        return [steps, self.taken[index : index + 1], self.skips, *self.clipping.state()]

    def _average_of(self, index: int, shape: Tuple[int, ...]) -> List[Tensor]:
        if self.momentum == 0:
            return []
        if index in self.averages:
            return [self.averages[index]]
        return [torch.zeros(shape, dtype=self.dtype, device=self.device)]

    def _by_row(self, index: int) -> List[Tensor]:
        """What a process has of its rows: [rows, ..] each."""
        fit, rows = self.fits[index], self.rows[index]
        count = rows.stop - rows.start
        own = fit.state_tensors()[:1] if isinstance(fit.left, Diag) else []
        width = 1 if isinstance(fit.root, Kron) else self.widths[index]
        average = self._average_of(index, (count, *self.units[index].shape[1:]))
        return [x.reshape(count, width) for x in own] + [x.reshape(count, self.widths[index]) for x in average]

    def _in_common(self, index: int) -> List[Tensor]:
        fit = self.fits[index]
        return self._counters(index) + fit.state_tensors()[isinstance(fit.left, Diag) :]

    def _of_owner(self, index: int) -> List[Tensor]:
        return self._counters(index) + self._average_of(index, self.units[index].shape) + self.fits[index].state_tensors()

    def entries(self) -> Dict[int, Dict[str, Tensor]]:
        """The state of each tensor by key. All processes call it."""
        made: Dict[int, Dict[str, Tensor]] = {}
        for i in range(len(self.units)):
            if i not in self.owners:
                rows = self._by_row(i)
                count = self.rows[i].stop - self.rows[i].start
                chars = [x.contiguous().view(torch.uint8).reshape(count, x.element_size() * x.shape[1]) for x in rows]
                made[i] = {"shared_bytes": _to_bytes(self._in_common(i)).cpu()}
                if chars:
                    made[i]["row_bytes"] = as_shards(torch.cat(chars, 1), self.rows[i].total, self.shards)
        mine = {i: _to_bytes(self._of_owner(i)) for i, owner in self.owners.items() if owner == self.processes.rank}
        lengths = torch.tensor([len(mine[i]) if i in mine else 0 for i in self.owners], device=self.device)
        if self.owners:
            lengths = self.processes.max(lengths.double()).long()
        for i, length in zip(self.owners, lengths.tolist()):
            own = mine.get(i, torch.empty(0, dtype=torch.uint8, device=self.device))
            cuts = [Rows.of(length, r, self.processes.size) for r in range(self.processes.size)]
            out = [own[cut.start : cut.stop] if i in mine else own for cut in cuts]
            here = cuts[self.processes.rank]
            sizes = [here.stop - here.start if r == self.owners[i] else 0 for r in range(self.processes.size)]
            got = self.processes.exchange(out, sizes, own)[self.owners[i]]
            made[i] = {"owner_bytes": as_shards(got, length, self.shards)}
        return made

    def load_entries(self, saved: Mapping[int, Mapping[str, Tensor]]) -> None:
        """All processes call it. Nothing changes where a state is not one of these tensors."""
        found = {i: self._read(i, entry) for i, entry in saved.items()}
        for i, (counters, average, state) in found.items():
            steps, taken, skips, first_rms, recent = counters
            self.steps[i], self.step_count = (int(x) for x in steps)
            self.taken[i], self.skips, self.unbiased = taken[0], skips, False
            self.clipping.load(first_rms, recent)
            if i in self.fits:
                self.fits[i].load_tensors(state)
            if average:
                self.averages[i] = average[0]

    def _read(self, index: int, entry: Mapping[str, Tensor]) -> Tuple[List[Tensor], List[Tensor], List[Tensor]]:
        """Counters, the moving average and the state of the fit."""
        name = self.units[index].name
        try:
            if index in self.owners:
                chars, own = whole(entry["owner_bytes"]).to(torch.uint8).to(self.device), self._counters(index)
                if index not in self.fits:
                    return _from_bytes(chars[: sum(map(_size, own))], own), [], []
                made, counters = _from_bytes(chars, self._of_owner(index)), len(own)
                averages = counters + (self.momentum > 0)
                return made[:counters], made[counters:averages], made[averages:]
            common = _from_bytes(whole(entry["shared_bytes"]).to(torch.uint8).to(self.device), self._in_common(index))
            rows, own = self.rows[index], self._by_row(index)
            if own:
                given = self.shards.rows(entry["row_bytes"], rows).to(torch.uint8).to(self.device)
                own = _from_row_bytes(given, own)
            fit = self.fits[index]
            state = [own[0].reshape(fit.state_tensors()[0].shape)] if isinstance(fit.left, Diag) else []
            shape = (rows.stop - rows.start, *self.units[index].shape[1:])
            average = [own[-1].reshape(shape)] if self.momentum > 0 else []
            counters = len(self._counters(index))
            return common[:counters], average, state + common[counters:]
        except (KeyError, ValueError, RuntimeError, ArgumentError) as why:
            raise FormatError(f"the state of {name} is not one of these shards: {why}") from why


def _keeps_rows_apart(spec: str, shape: Tuple[int, ...]) -> bool:
    """diag, kron(diag,..) and kron(identity,..), with more rows than there are short cuts for."""
    root = parse(spec, shape, torch.float32, torch.device("meta"))
    if isinstance(root, Kron):
        return isinstance(root.parts[0], (Diag, Identity)) and shape[0] == root.parts[0].n > FEW
    return isinstance(root, Diag)


def _assign(costs: Mapping[int, float], size: int) -> Dict[int, int]:
    """Who owns what: the costliest first, each to the process with the smallest load so far."""
    load, owners = [0.0] * size, {}
    for i in sorted(costs, key=lambda i: (-costs[i], i)):
        owners[i] = min(range(size), key=lambda r: (load[r], r))
        load[owners[i]] += costs[i]
    return dict(sorted(owners.items()))


def _flat(tensors: Sequence[Tensor], nothing: Tensor) -> Tensor:
    return torch.cat([nothing, *(x.reshape(-1) for x in tensors)])


def _to_bytes(tensors: Sequence[Tensor]) -> Tensor:
    device = tensors[0].device
    return torch.cat([x.to(device).contiguous().reshape(-1).view(torch.uint8) for x in tensors])


def _size(x: Tensor) -> int:
    return x.numel() * x.element_size()


def _from_bytes(chars: Tensor, like: Sequence[Tensor]) -> List[Tensor]:
    sizes = [_size(x) for x in like]
    if chars.dim() != 1 or len(chars) != sum(sizes):
        raise ValueError(f"there are {chars.numel()} bytes where {sum(sizes)} belong")
    return [part.clone().view(x.dtype).reshape(x.shape) for part, x in zip(chars.split_with_sizes(sizes), like)]


def _from_row_bytes(chars: Tensor, like: Sequence[Tensor]) -> List[Tensor]:
    sizes = [x.shape[1] * x.element_size() for x in like]
    if chars.dim() != 2 or chars.shape[1] != sum(sizes):
        raise ValueError(f"a row has {chars.shape[-1]} bytes where {sum(sizes)} belong")
    return [part.clone().contiguous().view(x.dtype) for part, x in zip(chars.split_with_sizes(sizes, 1), like)]
