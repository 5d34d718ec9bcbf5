"""A preconditioner P = Q'Q as torch ops: the criteria, update rules and normalisers of ``src/precond``.

Every decision that depends on values is made on the device, by masks: an update reads nothing back, and one from a pair
that is not finite, or that would leave the group, changes nothing but counters on the device.

An update is a generator: it yields what must be known of all rows (``rows.Ask``). Where the tensor is whole, that is the
answer already; where processes hold some rows each, all of them answer together."""
from __future__ import annotations

import math
from typing import Any, Dict, Generator, List, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .._errors import ArgumentError, UnsupportedError
from . import families  # noqa: F401  registers lra and splu
from .composites import Composite, Kron, Sum, parse, start
from .leaves import Images, peak
from .philox import ESTIMATE, Stream
from .rows import Ask, Rows, finish

BALANCE_EVERY = 128
START_PAIRS = 5  # that init first starts from


class Rule(NamedTuple):
    images: str = "whitened"  # Qh and Q^-T v; applied: Ph and v; own: Q_i Ph and Q_i v
    side: str = "left"
    rotate: bool = False
    balance: bool = False


RULES = {
    "eq": Rule(), "qeq": Rule("applied", "right"), "pro": Rule("applied", rotate=True),
    "quad": Rule("applied", "both"), "qep": Rule("own", balance=True),
}  # fmt: skip


class Limits(NamedTuple):
    square: float  # exponents within which values may be squared
    entry: float  # of max |Q|
    vanishing: float


class Sums(NamedTuple):
    """Of one unit, over all its fibres."""

    R: Tensor
    S: Any  # None: the normaliser needs none
    fixed: Any
    largest: Tensor  # |entry| of R
    top: Tensor  # entry of R, or 0, of rows that are spread over processes
    norms: Any  # of A and B
    images: Optional[Images]  # None where they are spread over processes


Update = Generator[Ask, Ask, None]
LIMITS = {torch.float64: Limits(200, 400, 2.0**-24), torch.float32: Limits(24, 60, 2.0**-10)}


class NativeFit:
    """One preconditioner. settings: the options of psgd_precond_create, all of them, as text or numbers. rows: those that
    this process holds of a tensor that others hold the rest of; the group is then diag, or kron(diag,..)."""

    def __init__(
        self, spec: str, shape: Tuple[int, ...], dtype: torch.dtype, device: Any, settings: Mapping[str, Any],
        rows: Optional[Rows] = None,
    ) -> None:  # fmt: skip
        self.spec, self.shape, self.dtype, self.device = spec, shape, dtype, device
        self.root = parse(spec, shape, dtype, device)
        self.n = self.total = math.prod(shape)
        self.sizes = [unit.n for unit, _ in self.root.units(None)]
        self.left = None if rows is None else self._take(rows)
        self._read(settings)
        self.limits = LIMITS[dtype]
        self.updates = 0
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)
        self.waiting = torch.full((), START_PAIRS if self.init_first else 0, dtype=torch.int64, device=device)
        self.start = torch.ones((), dtype=dtype, device=device)
        start(self.root, self.init_scale)
        self.units = [unit for unit, _ in self.root.units(None)]
        self.norms = self._norms()
        self.shares = self._shares()
        self.running = [[self._zero() for _ in range(getattr(unit, "part_count", 1))] for unit in self.units]

    def _take(self, rows: Rows) -> Any:
        """Cuts the first factor down to the rows that are here, and returns it."""
        here = rows.stop - rows.start
        self.n = self.root.n = self.total // rows.total * here
        if not isinstance(self.root, Kron):
            return self.root
        self.root.parts[0].n = here
        return self.root.parts[0]

    def _zero(self) -> Tensor:
        return torch.zeros((), dtype=self.dtype, device=self.device)

    def _read(self, settings: Mapping[str, Any]) -> None:
        self.fisher = settings["criterion"] == "fisher"
        for name in ("integrate", "unbiased"):
            if settings[name] in (True, "yes"):
                raise UnsupportedError(f"the option {name} is for parameters on the CPU")
        self.damping, self.step = float(settings["damping"]), float(settings["step"])
        self.decay, self.init_scale = float(settings["norm-decay"]), float(settings["init-scale"])
        self.init_first, self.pairs = settings["init"] == "first", int(settings["pairs"])
        self.rule_name, self.norm_name = resolve(self.root, settings["rule"], settings["norm"])
        self.rule = RULES[self.rule_name]
        self.by_entry = settings["norm"] == "auto" and self.rule_name == "eq"
        if self.step >= 1 and self.norm_name != "none":
            raise ArgumentError("option step must be below 1 unless norm is none")

    def _norms(self) -> List[str]:
        """Of each unit: a diag that is no factor of a kron is normalised entry by entry unless somebody says else."""
        alone = {id(unit) for unit in _outside_krons(self.root)}
        named = self.norm_name == "entry"
        made = []
        for unit in self.units:
            splits = unit.name == "diag" and id(unit) in alone
            if named and not splits:
                raise UnsupportedError(
                    "norm entry is for diag and sums of diag, which split into groups of size 1; "
                    f"{unit.name} does not: use max"
                )
            made.append("entry" if splits and (named or self.by_entry) else self.norm_name)
        return made

    def _shares(self) -> List[int]:
        """How many factors can grow together with each unit: their product must stay finite."""
        found: Dict[int, int] = {}

        def visit(group: Any, share: int) -> None:
            if isinstance(group, Composite):
                if isinstance(group, Kron):
                    share *= max(1, sum(bool(part.units(None)) for part in group.parts))
                for part in group.parts:
                    visit(part, share)
            else:
                found[id(group)] = share

        visit(self.root, 1)
        return [found[id(unit)] for unit in self.units]

    # --- applying

    def apply(self, x: Tensor, what: str = "p") -> Tensor:
        X = x.reshape(1, self.n, 1)
        for _ in range(2 if what == "p2" else 1):
            if what != "qt":
                X = self.root.act(X)
            if what != "q":
                X = self.root.act(X, transpose=True)
        return X.reshape(x.shape)

    # --- one update

    def update(self, v: Tensor, h: Tensor, ok: Tensor, step: Optional[float] = None) -> None:
        """From pairs [pairs, n] of v and h; ok: a flag on the device, False: nothing changes. step: the learning rate
        where a schedule has changed it."""
        finish(self.updating(v, h, ok, step))

    def updating(self, v: Tensor, h: Tensor, ok: Tensor, step: Optional[float] = None) -> Update:
        """The same, a part at a time."""
        rate = self.step if step is None else step
        count = 1 if self.left is not None else v.numel() // self.n
        h, v = h.reshape(count, self.n, 1), v.reshape(count, self.n, 1)
        if self.damping > 0:
            h = h + self.damping * v
        known = yield Ask(maxima=[peak(h), peak(v)], norms=[h.norm(), v.norm()])
        (h_max, v_max), (h_norm, v_norm) = known.maxima, known.norms
        ok = ok & torch.isfinite(h_max) & torch.isfinite(v_max)
        if self.init_first:
            self._start_from(v_norm, h_norm, ok)
        A, B = self._images(v, h, h_max, v_max)
        known = yield Ask(maxima=[torch.maximum(peak(A), peak(B))])
        top = known.maxima[0]
        ok = ok & torch.isfinite(top)
        logs = torch.log2(torch.where(ok & (top > 0), top, torch.ones_like(top)))
        exponent = torch.where(logs.abs() > self.limits.square, torch.floor(logs), torch.zeros_like(logs))
        down = torch.exp2(-exponent)
        weight = torch.exp2((2 * exponent).clamp(-1000, 1000)) / count
        # what _vanishing needs: VANISHING times |h| and |v|, and the largest that |A|^2 could be
        most = (self.total * count * ((h_max * down) ** 2 + (v_max * down) ** 2)).sqrt()
        sizes = [self.limits.vanishing * size for size in (h_norm * down, v_norm * down, most)]
        yield from self._move(Images(A * down, B * down), sizes, weight, rate, ok)
        self.updates += 1
        yield from self._keep_in_range()

    def _start_from(self, v_norm: Tensor, h_norm: Tensor, ok: Tensor) -> None:
        """Q <- s I, s the geometric mean of sqrt(||v|| / ||h||) over the first pairs that are not zero."""
        scale = (v_norm / h_norm).sqrt().clamp(1e-15, 1e15)
        begins = (self.waiting > 0) & ok & (h_norm > 0) & (v_norm > 0)
        share = 1 / (START_PAIRS + 1 - self.waiting).to(self.dtype)
        scale = torch.where(share == 1, scale, scale**share * self.start ** (1 - share))
        self.start = torch.where(begins, scale, self.start)
        nodes = self.root.nodes()
        old = [node.state for node in nodes]
        start(self.root, torch.where(begins, scale, torch.ones_like(scale)))
        for node, before in zip(nodes, old):
            node.state = [torch.where(begins, new, kept) for new, kept in zip(node.state, before)]
        self.waiting = self.waiting - begins.to(torch.int64)

    def _images(self, v: Tensor, h: Tensor, h_max: Tensor, v_max: Tensor) -> Tuple[Tensor, Tensor]:
        if self.rule.images == "whitened":
            return self.root.act(h), self.root.act(v, transpose=True, inverse=True)
        floor = torch.finfo(self.dtype).eps * h_max / torch.where(v_max > 0, v_max, torch.ones_like(v_max))
        return self.root.act(self.root.act(h + floor * v), transpose=True), v

    def _vanishing(self, index: int, norms: Tuple[Tensor, Tensor], largest: Tensor, c: Tensor, sizes: Any) -> Tensor:
        """Q nearly annihilates h, and Q^-T nearly annihilates v: one step further Q is singular (src/precond)."""
        h, v, most = sizes
        R = torch.sqrt(self.sizes[index] * largest)
        small = (norms[0] <= h) & (norms[1] <= v)
        flat = ((h == 0) | (R <= h)) & ((v == 0) | (R <= v))
        made: Tensor = (c * largest >= self.limits.vanishing) & (R <= most) & (small | flat)
        return made

    def _move(self, images: Images, sizes: Any, weight: Tensor, step: float, ok: Tensor) -> Update:
        """All units from the old values."""
        made: Dict[int, List[Tensor]] = {}
        sums: Dict[int, Sums] = {}
        for index, (unit, own) in enumerate(self.root.units(images)):
            if hasattr(unit, "fit"):
                made[index] = unit.fit(own, self, index, weight, step, ok)
                continue
            if self.rule.images == "own":
                own = Images(unit.act(own.A), unit.act(own.B))
            sums[index] = self._sums(unit, own, index, step)
        sums = yield from self._over_rows(sums)
        for index, known in sums.items():
            draw = Stream.of(0, ESTIMATE, index, self.updates)
            made[index] = self._moved(self.units[index], known, index, sizes, weight, step, ok, draw)
        for index, state in made.items():
            self.units[index].state = state
        if self.rule.balance:
            yield from self._balance(True)
        elif (self.updates + 1) % BALANCE_EVERY == 0:
            yield from self._balance(False)

    def _sums(self, unit: Any, own: Images, index: int, step: float) -> Sums:
        """R, S where the normaliser takes it, and what else depends on all fibres."""
        GA, GB, norm = unit.gram(own.A), unit.gram(own.B), self.norms[index]
        S, fixed = (GA + GB, unit.fixed(own.A) + unit.fixed(own.B)) if norm == "second" else (None, None)
        whole = None if self.left is not None else own
        R = self._signs(unit, GA - GB, own, step) if norm == "entry" else GA - GB
        top = R.amax().clamp_min(0) if unit is self.left and R.numel() else self._zero()
        return Sums(R, S, fixed, unit.r_max(R), top, (own.A.norm(), own.B.norm()), whole)

    def _over_rows(self, sums: Dict[int, Sums]) -> Generator[Ask, Ask, Dict[int, Sums]]:
        """What each process has of its rows becomes what there is of all: sums of the factors that all rows share, and
        maxima of the first, whose entries stay where their rows are."""
        if self.left is None:
            return sums
        ask = Ask([], [], [])
        for index, own in sums.items():
            unit = self.units[index]
            if unit is self.left:
                ask.maxima.extend([own.largest, own.top, self._zero() if own.S is None else peak(own.S)])
            else:
                ask.sums.append(unit.packed(own.R))
                ask.sums.extend([] if own.S is None else [unit.packed(own.S), own.fixed])
            ask.norms.extend(own.norms)
        known = yield ask
        added, maxima, norms = map(iter, known)
        made: Dict[int, Sums] = {}
        for index, own in sums.items():
            unit, both = self.units[index], (next(norms), next(norms))
            if unit is self.left:
                made[index] = own._replace(largest=next(maxima), top=next(maxima), S=next(maxima), norms=both)
                continue
            R = unit.unpacked(next(added))
            S, fixed = (None, None) if own.S is None else (unit.unpacked(next(added)), next(added))
            made[index] = Sums(R, S, fixed, unit.r_max(R), own.top, both, None)
        return made

    def _moved(
        self, unit: Any, own: Sums, index: int, sizes: Any, weight: Tensor, step: float, ok: Tensor, draw: Stream
    ) -> List[Tensor]:
        R, largest, norm = own.R, own.largest, self.norms[index]
        if norm == "entry":
            c = torch.full_like(largest, step)
        else:
            c = self._factor(norm, unit, own, index, weight, step, ok, draw)
        moves = ok & (largest > 0)
        if norm != "entry":
            inside = c * own.top < 1 if unit is self.left else unit.inside(c, R)
            sane = torch.isfinite(c) & (c * largest * unit.mix < 1e9) & inside
            if self.rule.images == "whitened":
                sane = sane & ~self._vanishing(index, own.norms, largest, c, sizes)
            self.skipped = self.skipped + (moves & ~sane)
            moves = moves & sane
        state = unit.state
        if self.rule.side == "both":
            state = unit.symmetrised(unit.right(unit.left(state, c / 2, R), c / 2, R))
        elif self.rule.side == "right":
            state = unit.right(state, c, R)
        else:
            state = unit.left(state, c, R)
        if self.rule.rotate:
            state = unit.rotated(state, draw)
        return [torch.where(moves, new, old) for new, old in zip(state, unit.state)]

    def _factor(
        self, norm: str, unit: Any, own: Sums, index: int, weight: Tensor, step: float, ok: Tensor, draw: Stream
    ) -> Tensor:
        if norm == "none":
            return 2 * step * weight
        if norm == "max":
            return step / own.largest
        if unit is self.left:  # its spectral norm is its largest entry
            size = own.largest if norm == "spectral" else own.S + own.fixed
        else:
            size = unit.spectral(own.R, own.images, -1) if norm == "spectral" else (
                unit.norm(own.S, own.images, draw) + own.fixed)  # fmt: skip
        return step / size if norm == "spectral" else step / self.keep_running(index, 0, weight * size, ok) * weight

    def keep_running(self, index: int, part: int, size: Tensor, ok: Tensor) -> Tensor:
        """L <- max(decay L + (1 - decay) size, size)."""
        L = self.running[index][part]
        size = size.clamp_max(torch.finfo(self.dtype).max)
        made = torch.maximum(self.decay * L + (1 - self.decay) * size, size)
        self.running[index][part] = torch.where(ok, made, L)
        return made

    def _signs(self, unit: Any, R: Tensor, own: Images, step: float) -> Tensor:
        """Each entry of a diagonal by itself: the sign of R, 0 where a further step would leave the range."""
        q, info = unit.state[0], torch.finfo(self.dtype)
        a, b = own.A.abs().amax((0, 2)), own.B.abs().amax((0, 2))
        sign = torch.sign(R)
        low = self.limits.vanishing
        stops = (sign < 0) & ((q * (1 + step) > info.max) | ((q * low >= 1) & (a == 0)))
        stops = stops | ((sign > 0) & ((q * (1 - step) < info.tiny) | ((q <= low) & (b == 0))))
        return torch.where(stops, torch.zeros_like(sign), sign)

    def _balance(self, exactly: bool) -> Update:
        for kron in _krons(self.root):
            known = yield Ask(maxima=kron.largest_of_factors())
            kron.balance(exactly, known.maxima)

    def _keep_in_range(self) -> Update:
        """Units whose largest entry is near the limits of what can be squared are scaled back by a power of two."""
        held = [(unit, share) for unit, share in zip(self.units, self.shares) if unit.can_rescale]
        known = yield Ask(maxima=[unit.largest() for unit, _ in held])
        for (unit, share), largest in zip(held, known.maxima):
            limit = self.limits.entry / share
            log = torch.log2(largest)
            shift = torch.where(log > limit, -4 * torch.ones_like(log), torch.zeros_like(log))
            shift = torch.where(log < -limit, 4 * torch.ones_like(log), shift)
            unit.rescale(torch.exp2(shift))

    # --- state and what people look at

    def take(self, elements: Tensor) -> None:
        """Q from the elements of the C core, which are kept; a Q of its own is fitted no further."""
        rest = self.root.take(elements)
        assert rest.numel() == 0

    def state_tensors(self) -> List[Tensor]:
        running = [x.reshape(1) for unit in self.running for x in unit]
        return [x for node in self.root.nodes() for x in node.state] + running + [
            self.start.reshape(1), self.skipped.reshape(1), self.waiting.reshape(1), torch.tensor([self.updates])
        ]  # fmt: skip

    def load_tensors(self, saved: List[Tensor]) -> None:
        own = self.state_tensors()
        if len(saved) != len(own) or any(a.shape != b.shape for a, b in zip(saved, own)):
            raise ArgumentError("this is the state of another group, or of another shape")
        rest = [x.to(device=b.device, dtype=b.dtype).clone() for x, b in zip(saved, own)]
        self.updates = int(rest.pop())
        self.waiting, self.skipped, self.start = rest.pop()[0], rest.pop()[0], rest.pop()[0]
        for node in self.root.nodes():
            node.state = [rest.pop(0) for _ in node.state]
        for unit in self.running:
            for part in range(len(unit)):
                unit[part] = rest.pop(0)[0]

    def Q(self) -> Tensor:
        """As one dense matrix on the flattened tensor."""
        eye = torch.eye(self.n, dtype=self.dtype, device=self.device)
        made: Tensor = self.root.act(eye.reshape(self.n, self.n, 1))
        return made.reshape(self.n, self.n).t()


def _krons(group: Any) -> List[Kron]:
    if not isinstance(group, Composite):
        return []
    inner = [kron for part in group.parts for kron in _krons(part)]
    return inner + ([group] if isinstance(group, Kron) else [])


def _outside_krons(group: Any) -> List[Any]:
    if isinstance(group, Sum):
        return [leaf for part in group.parts for leaf in _outside_krons(part)]
    return [] if isinstance(group, Composite) else [group]


def resolve(root: Any, rule: str, norm: str) -> Tuple[str, str]:
    """auto of both replaced by what fits the group, as src/precond/rule.c does."""
    second = norm in ("auto", "second")
    if rule == "auto":
        rule = "pro" if root.self_adjoint and second else "eq"
    if rule not in RULES:
        raise ArgumentError(f"option rule must be one of auto, {', '.join(RULES)}, not {rule}")
    if rule != "eq":
        if not root.self_adjoint:
            raise UnsupportedError(f"rule {rule} needs a group that holds the transposes of its elements; use rule eq")
        if not second:
            raise ArgumentError(f"rule {rule} has the normaliser second: leave out the option norm")
        return rule, "second"
    if norm == "auto":
        norm = "spectral" if root.unprotected else "max"
    return rule, norm
