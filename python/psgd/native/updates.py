"""One update of many preconditioners together: the criteria, update rules and normalisers of ``src/precond``.

What is decided about a preconditioner, or about a factor of one, is an entry of a vector over all of them: small
operations cost the same whatever they work on. Every decision that depends on values is made on the device, by masks: an
update reads nothing back, and one from a pair that is not finite, or that would leave the group, changes nothing but
counters on the device.

Where processes hold some rows of each tensor (``over``), what must be known of all rows is asked of all of them."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from .composites import Composite, Kron
from .leaves import Images, norms, peak, peaks, surely
from .philox import ESTIMATE, Stream
from .rows import Alone, Ask

BALANCE_EVERY = 128
ALONE = Alone()
_MOST_CONSTANTS = 256


class Case(NamedTuple):
    """A preconditioner, and its pairs [pairs, n, 1]."""

    fit: Any
    v: Tensor
    h: Tensor


class Slot(NamedTuple):
    """A unit of one of the preconditioners, and what an update knows of it."""

    fit: Any
    place: int  # of the preconditioner in the list
    number: int  # of the unit in the preconditioner
    unit: Any
    images: Any  # None where they are spread over processes
    whole: bool  # they are all entries of those of the preconditioner, however arranged
    R: Any = None
    S: Any = None  # None: the normaliser needs none
    fixed: Any = None

    @property
    def by_row(self) -> bool:
        """Its entries belong to rows, of which other processes hold the rest."""
        return self.unit is self.fit.left


class Numbers(NamedTuple):
    """Of each preconditioner."""

    ok: Tensor
    weight: Tensor
    vanishing: Tensor  # what |h|, |v| and the largest possible |A| must be above, [3, count]
    images: Tensor  # norms of A and B, [2, count]; of the rows that are here
    rate: float


class Known(NamedTuple):
    """Of each slot, over all rows."""

    largest: Tensor  # |entry| of R
    top: Tensor
    norms: Tensor  # of A and B, [2, count]
    largest_S: Tensor  # of slots by row


class Updates:
    """Keeps the constants of the lists of preconditioners that it has moved."""

    def __init__(self) -> None:
        self._constants: Dict[Any, Tensor] = {}

    def run(
        self, fits: Sequence[Any], pairs: Sequence[Tuple[Tensor, Tensor]], ok: Tensor, rate: float, over: Any = ALONE
    ) -> None:
        """pairs: v and h of each, [pairs, n]; ok: a flag on the device, False: nothing changes; rate: the step size."""
        count = 1 if fits[0].left is not None else pairs[0][0].numel() // fits[0].n
        cases = [Case(fit, v.reshape(count, fit.n, 1), h.reshape(count, fit.n, 1)) for fit, (v, h) in zip(fits, pairs)]
        cases = [each._replace(h=each.h + each.fit.damping * each.v) if each.fit.damping > 0 else each for each in cases]
        split = [each for each in cases if each.fit.splits]
        joint = [each for each in cases if not each.fit.splits]
        if split:
            self._run_split(split, ok, rate, over)
        if joint:
            self._run_joint(joint, count, ok, rate, over)
        for fit in fits:
            fit.updates += 1
            if fit.starting and fit.device.type == "cpu":  # there it costs nothing to know
                fit.look()
        self._keep_in_range([each for fit in fits for each in zip(fit.units, fit.shares)], fits[0].limits.entry, over)

    def _run_split(self, cases: List[Case], ok: Tensor, rate: float, over: Any) -> None:
        """Diagonals alone, of which each entry is a group of its own: all of them are one vector."""
        widths = [each.fit.n for each in cases]
        fine = ok
        if any(each.fit.starting for each in cases):
            fine = _started(cases, over.answer(_sizes_of(cases)), ok).repeat_interleave(
                self.constant(fine, widths), output_size=sum(widths))  # fmt: skip
        v, h = (torch.cat([getattr(each, name)[:, :, 0] for each in cases], 1) for name in "vh")
        q = torch.cat([unit.state[0] for each in cases for unit in each.fit.units])
        q = _by_entry(q, (q * h).abs_(), (v / q).abs_(), fine, rate, cases[0].fit.limits.vanishing)
        units = [unit for each in cases for unit in each.fit.units]
        for unit, state in zip(units, q.split_with_sizes([unit.n for unit in units])):
            unit.state = [state]

    def _run_joint(self, cases: List[Case], count: int, ok: Tensor, rate: float, over: Any) -> None:
        """All others."""
        fits, limits = [each.fit for each in cases], cases[0].fit.limits
        known = over.answer(_sizes_of(cases))
        most, size = known.maxima[0].view(2, -1), known.norms[0].view(2, -1)
        okay = _started(cases, known, ok)
        images = _images(cases, most)
        A, B = [each.A for each in images], [each.B for each in images]
        top = over.answer(Ask(maxima=[peaks(A + B)])).maxima[0].view(2, -1).amax(0)
        okay = okay & torch.isfinite(top)
        logs = torch.log2(torch.where(okay & (top > 0), top, torch.ones_like(top)))
        exponent = torch.where(logs.abs() > limits.square, torch.floor(logs), torch.zeros_like(logs))
        down = torch.exp2(-exponent)
        weight = torch.exp2((2 * exponent).clamp(-1000, 1000)) / count
        totals = self.constant(top, [fit.total * count for fit in fits])
        reach = (totals * ((most * down) ** 2).sum(0)).sqrt()
        vanishing = limits.vanishing * torch.cat([size * down, reach[None]])
        if not surely((exponent == 0).all()):
            A, B = (list(torch._foreach_mul(X, down.unbind())) for X in (A, B))
        whitened = any(fit.rule.images == "whitened" for fit in fits)
        of_images = norms(A + B).view(2, -1) if whitened else size
        numbers = Numbers(okay, weight, vanishing, of_images, rate)
        self._move(fits, [Images(a, b) for a, b in zip(A, B)], numbers, over)

    def constant(self, like: Tensor, values: Sequence[float]) -> Tensor:
        """Numbers that depend on no value, sent to the device once; integers where like is a flag."""
        dtype = like.dtype if like.is_floating_point() else torch.int64
        key = dtype, like.device, tuple(values)
        if key not in self._constants:
            if len(self._constants) >= _MOST_CONSTANTS:
                self._constants.clear()
            self._constants[key] = torch.tensor(values, dtype=dtype, device=like.device)
        return self._constants[key]

    def _move(self, fits: Sequence[Any], images: Sequence[Images], numbers: Numbers, over: Any) -> None:
        """All units from the old values."""
        made: List[Tuple[Any, List[Tensor]]] = []
        by_kind: Dict[Tuple[str, str], List[Slot]] = {}
        for place, (fit, whole) in enumerate(zip(fits, images)):
            for index, (unit, own) in enumerate(fit.root.units(whole)):
                if hasattr(unit, "fit"):
                    made.append((unit, unit.fit(own, fit, index, numbers.weight[place], numbers.rate, numbers.ok[place])))
                    continue
                if fit.rule.images == "own":
                    own = Images(unit.act(own.A), unit.act(own.B))
                slot = Slot(fit, place, index, unit, own, own.A.numel() == whole.A.numel())
                by_kind.setdefault((fit.norms[index], fit.rule_name), []).append(slot)
        for (norm, _), slots in by_kind.items():
            made += self._moved_by_entry(slots, numbers) if norm == "entry" else self._moved(slots, norm, numbers, over)
        for unit, state in made:
            unit.state = state
        for fit in fits:
            if fit.rule.balance or (fit.updates + 1) % BALANCE_EVERY == 0:
                for kron in [kron for kron in _krons(fit.root) if kron.can_rescale]:
                    largest = over.answer(Ask(maxima=[torch.stack(kron.largest_of_factors())])).maxima[0]
                    kron.balance(fit.rule.balance, largest)

    def _moved(self, slots: List[Slot], norm: str, numbers: Numbers, over: Any) -> List[Tuple[Any, List[Tensor]]]:
        """The new state of each unit."""
        places = self.constant(numbers.ok, [slot.place for slot in slots])
        slots, known = _known([_with_sums(slot, norm) for slot in slots], numbers, places, over)
        ok = numbers.ok[places]
        c = _factors(slots, known, norm, ok, numbers.weight[places], numbers.rate)
        mix = self.constant(c, [slot.unit.mix for slot in slots])
        moves = ok & (known.largest > 0)
        sane = torch.isfinite(c) & (c * known.largest * mix < 1e9) & (c * known.top < 1)
        for k, slot in enumerate(slots):
            if hasattr(slot.unit, "inside"):
                sane[k] &= slot.unit.inside(c[k], slot.R)
        if slots[0].fit.rule.images == "whitened":
            lengths = self.constant(c, [slot.fit.sizes[slot.number] for slot in slots])
            sane = sane & ~_vanishing(known, lengths, c, numbers.vanishing[:, places], slots[0].fit.limits.vanishing)
        stays, moves = moves & ~sane, moves & sane
        steps = torch.where(moves, -c, torch.zeros_like(c)).unbind()
        Ms = torch._foreach_mul([slot.R for slot in slots], steps)
        if not surely(moves.all()):
            counts = torch.zeros_like(numbers.ok, dtype=torch.int64).index_add_(0, places, stays.to(torch.int64)).unbind()
            by_place = {slot.place: slot.fit.skipped for slot in slots}
            torch._foreach_add_(list(by_place.values()), [counts[place] for place in by_place])
            for M in Ms:  # 0 where it must not move, whatever R is
                M.nan_to_num_(0, 0, 0)
        return [(slot.unit, _stepped(slot, M, go)) for slot, M, go in zip(slots, Ms, moves.unbind())]

    def _moved_by_entry(self, slots: List[Slot], numbers: Numbers) -> List[Tuple[Any, List[Tensor]]]:
        """Diagonals of which each entry is normalised by itself, in sums with other groups."""
        widths = [slot.unit.n for slot in slots]
        A, B = (torch.cat([getattr(slot.images, name)[:, :, 0] for slot in slots], 1).abs_() for name in "AB")
        q = torch.cat([slot.unit.state[0] for slot in slots])
        places = self.constant(numbers.ok, [slot.place for slot in slots])
        ok = numbers.ok[places].repeat_interleave(self.constant(numbers.ok, widths), output_size=sum(widths))
        q = _by_entry(q, A, B, ok, numbers.rate, slots[0].fit.limits.vanishing)
        return [(slot.unit, [own]) for slot, own in zip(slots, q.split_with_sizes(widths))]

    def _keep_in_range(self, units: Sequence[Tuple[Any, int]], limit: float, over: Any) -> None:
        """Units whose largest entry is near the limits of what can be squared are scaled back by a power of two."""
        held = [(unit, share) for unit, share in units if unit.can_rescale]
        if not held:
            return
        held.sort(key=lambda each: hasattr(each[0], "fit"))
        plain = [unit.entries() for unit, _ in held if not hasattr(unit, "fit")]
        largest = [peaks(plain)] if plain else []
        largest += [unit.largest().reshape(1) for unit, _ in held[len(plain) :]]
        log = torch.log2(over.answer(Ask(maxima=[torch.cat(largest)])).maxima[0])
        limits = self.constant(log, [limit / share for _, share in held])
        far = log.abs() > limits
        if surely(~far.any()):
            return
        shift = torch.where(far, -4 * log.sign(), torch.zeros_like(log))
        tensors: List[Tensor] = []
        factors: List[Tensor] = []
        for (unit, _), factor in zip(held, torch.exp2(shift).unbind()):
            tensors += unit.scaled()
            factors += [factor] * len(unit.scaled())
        torch._foreach_mul_(tensors, factors)


def _sizes_of(cases: Sequence[Case]) -> Ask:
    """The largest entries and the norms of h, then those of v."""
    both = [each.h for each in cases] + [each.v for each in cases]
    return Ask(maxima=[peaks(both)], norms=[norms(both)])


def _started(cases: Sequence[Case], known: Ask, ok: Tensor) -> Tensor:
    """Whether each pair is finite. Where a Q still waits for pairs to start from, it takes this one."""
    okay = ok & torch.isfinite(known.maxima[0]).view(2, -1).all(0)
    size = known.norms[0].view(2, -1)
    for k, each in enumerate(cases):
        if each.fit.starting:
            each.fit.start_from(size[1, k], size[0, k], okay[k])
    return okay


def _by_entry(q: Tensor, A: Tensor, B: Tensor, ok: Tensor, rate: float, low: float) -> Tensor:
    """Each q by the sign of its R = sum A^2 - B^2, and not where a further step would leave the range. A, B: sizes of the
    images, [pairs, n]."""
    info, a, b = torch.finfo(q.dtype), A.amax(0), B.amax(0)
    larger = torch.maximum(a, b)
    if A.shape[0] == 1:
        sign = torch.sign(a - b)
    else:
        scale = larger.clamp_min(info.tiny)
        sign = torch.sign(((A / scale) ** 2 - (B / scale) ** 2).sum(0))
    rises = (q * (1 + rate) <= info.max) & ((q * low < 1) | (a > 0))
    falls = (q * (1 - rate) >= info.tiny) & ((q > low) | (b > 0))
    moves = torch.where(sign < 0, rises, falls) & ok & (larger < torch.inf)
    return (q * torch.where(moves, 1 - rate * sign, torch.ones_like(q))).clamp_min_(info.tiny)


def _images(cases: Sequence[Case], most: Tensor) -> List[Images]:
    made, floor = [], None
    for k, (fit, v, h) in enumerate(cases):
        if fit.rule.images == "whitened":
            made.append(Images(fit.root.act(h), fit.root.act(v, transpose=True, inverse=True)))
            continue
        if floor is None:
            floor = torch.finfo(most.dtype).eps * most[0] / torch.where(most[1] > 0, most[1], torch.ones_like(most[1]))
        made.append(Images(fit.root.act_p(h + floor[k] * v, 1), v))
    return made


def _with_sums(slot: Slot, norm: str) -> Slot:
    unit, own = slot.unit, slot.images
    if norm != "second":
        return slot._replace(R=unit.difference(own))
    GA, GB = unit.gram(own.A), unit.gram(own.B)
    return slot._replace(R=GA - GB, S=GA + GB, fixed=unit.fixed(own.A) + unit.fixed(own.B))


def _known(slots: List[Slot], numbers: Numbers, places: Tensor, over: Any) -> Tuple[List[Slot], Known]:
    """What each process has of its rows becomes what there is of all: sums of the factors that all rows share, and
    maxima of the first, whose entries stay where their rows are."""
    if all(slot.whole for slot in slots):
        sizes = numbers.images[:, places]
    else:
        sizes = norms([slot.images.A for slot in slots] + [slot.images.B for slot in slots]).view(2, -1)
    zero = numbers.weight.new_zeros(())
    own = [slot for slot in slots if slot.by_row]
    tops = [slot.unit.top(slot.R).clamp_min(0) if slot.R.numel() else zero for slot in own]
    of_rows = torch.stack([
        peaks([slot.R for slot in own]), torch.stack(tops),
        torch.stack([zero if slot.S is None else peak(slot.S) for slot in own]),
    ]) if own else None  # fmt: skip
    if over is not ALONE:
        sums = [x for slot in slots if not slot.by_row for x in _to_add(slot)]
        known = over.answer(Ask(sums, [] if of_rows is None else [of_rows], [sizes]))
        added, sizes = iter(known.sums), known.norms[0]
        of_rows = known.maxima[0] if own else None
        slots = [slot if slot.by_row else _added(slot, added) for slot in slots]
    whole = peaks([slot.R for slot in slots])
    top = torch.stack([zero if slot.by_row else slot.unit.top(slot.R) for slot in slots])
    S = torch.zeros_like(top)
    if of_rows is not None:
        for k, values in zip([k for k, slot in enumerate(slots) if slot.by_row], of_rows.unbind(1)):
            whole[k], top[k], S[k] = values.unbind()
    return slots, Known(whole, top, sizes, S)


def _to_add(slot: Slot) -> List[Tensor]:
    unit = slot.unit
    return [unit.packed(slot.R)] + ([] if slot.S is None else [unit.packed(slot.S), slot.fixed])


def _added(slot: Slot, sums: Any) -> Slot:
    """Over all rows, as which its images are spread over processes."""
    R = slot.unit.unpacked(next(sums))
    if slot.S is None:
        return slot._replace(R=R, images=None)
    return slot._replace(R=R, S=slot.unit.unpacked(next(sums)), fixed=next(sums), images=None)


def _factors(slots: List[Slot], known: Known, norm: str, ok: Tensor, weight: Tensor, rate: float) -> Tensor:
    if norm == "none":
        return 2 * rate * weight
    if norm == "max":
        return rate / known.largest
    sizes = torch.stack([_size(slot, known, k, norm) for k, slot in enumerate(slots)])
    if norm == "spectral":
        return rate / sizes
    old = torch.stack([slot.fit.running[slot.number][0] for slot in slots])
    new = running(old, weight * sizes, slots[0].fit.decay)
    for slot, kept in zip(slots, torch.where(ok, new, old).unbind()):
        slot.fit.running[slot.number][0] = kept
    return rate / new * weight


def running(old: Tensor, size: Tensor, decay: float) -> Tensor:
    """L <- max(decay L + (1 - decay) size, size)."""
    size = size.clamp_max(torch.finfo(size.dtype).max)
    return torch.maximum(decay * old + (1 - decay) * size, size)


def _size(slot: Slot, known: Known, k: int, norm: str) -> Any:
    """||R||_2 or, for second, about ||S||_2."""
    if slot.by_row:  # its spectral norm is its largest entry
        return known.largest[k] if norm == "spectral" else known.largest_S[k] + slot.fixed
    if norm == "spectral":
        return slot.unit.spectral(slot.R, slot.images, -1)
    return slot.unit.norm(slot.S, slot.images, _draw(slot)) + slot.fixed


def _draw(slot: Slot) -> Stream:
    return Stream.of(0, ESTIMATE, slot.number, slot.fit.updates)


def _vanishing(known: Known, lengths: Tensor, c: Tensor, sizes: Tensor, least: float) -> Tensor:
    """Q nearly annihilates h, and Q^-T nearly annihilates v: one step further Q is singular (src/precond)."""
    h, v, most = sizes
    R = torch.sqrt(lengths * known.largest)
    small = (known.norms[0] <= h) & (known.norms[1] <= v)
    flat = ((h == 0) | (R <= h)) & ((v == 0) | (R <= v))
    made: Tensor = (c * known.largest >= least) & (R <= most) & (small | flat)
    return made


def _stepped(slot: Slot, M: Tensor, moves: Tensor) -> Any:
    """The state after a step of I + M."""
    unit, rule = slot.unit, slot.fit.rule
    if rule.side == "both":
        M = M / 2
        return unit.symmetrised(unit.right(unit.left(unit.state, M), M))
    state = unit.right(unit.state, M) if rule.side == "right" else unit.left(unit.state, M)
    if rule.rotate:
        turned = unit.rotated(state, _draw(slot))
        state = [torch.where(moves, new, old) for new, old in zip(turned, state)]
    return state


def _krons(group: Any) -> List[Kron]:
    if not isinstance(group, Composite):
        return []
    inner = [kron for part in group.parts for kron in _krons(part)]
    return inner + ([group] if isinstance(group, Kron) else [])
