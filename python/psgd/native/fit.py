"""A preconditioner P = Q'Q as torch ops: the criteria, update rules and normalisers of ``src/precond``.

Every decision that depends on values is made on the device, by masks: an update reads nothing back, and one from a pair
that is not finite, or that would leave the group, changes nothing but counters on the device."""
from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .._errors import ArgumentError, UnsupportedError
from . import families  # noqa: F401  registers lra and splu
from .composites import Composite, Kron, Sum, parse, start
from .leaves import Images
from .philox import ESTIMATE, Stream

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


LIMITS = {torch.float64: Limits(200, 400, 2.0**-24), torch.float32: Limits(24, 60, 2.0**-10)}


class NativeFit:
    """One preconditioner. settings: the options of psgd_precond_create, all of them, as text or numbers."""

    def __init__(
        self, spec: str, shape: Tuple[int, ...], dtype: torch.dtype, device: Any, settings: Mapping[str, Any]
    ) -> None:
        self.spec, self.shape, self.dtype, self.device = spec, shape, dtype, device
        self.root = parse(spec, shape, dtype, device)
        self.n = math.prod(shape)
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
            X = self.root.act(X)
            if what != "q":
                X = self.root.act(X, transpose=True)
        return X.reshape(x.shape)

    # --- one update

    def update(self, v: Tensor, h: Tensor, ok: Tensor, step: Optional[float] = None) -> None:
        """From pairs [pairs, n] of v and h; ok: a flag on the device, False: nothing changes. step: the learning rate
        where a schedule has changed it."""
        rate = self.step if step is None else step
        count = v.numel() // self.n
        h, v = h.reshape(count, self.n, 1), v.reshape(count, self.n, 1)
        if self.fisher and self.damping > 0:
            h = h + self.damping * v
        elif self.damping > 0:
            h = h + self.damping * v
        h_max, v_max = h.abs().amax(), v.abs().amax()
        ok = ok & torch.isfinite(h_max) & torch.isfinite(v_max)
        if self.init_first:
            self._start_from(v, h, ok)
        A, B = self._images(v, h, h_max, v_max)
        top = torch.maximum(A.abs().amax(), B.abs().amax())
        ok = ok & torch.isfinite(top)
        logs = torch.log2(torch.where(ok & (top > 0), top, torch.ones_like(top)))
        exponent = torch.where(logs.abs() > self.limits.square, torch.floor(logs), torch.zeros_like(logs))
        down = torch.exp2(-exponent)
        weight = torch.exp2((2 * exponent).clamp(-1000, 1000)) / count
        A, B = A * down, B * down
        sizes = self._sizes(v * down, h * down) if self.rule.images == "whitened" else None
        self._move(Images(A, B), sizes, weight, rate, ok)
        self.updates += 1
        self._keep_in_range()

    def _start_from(self, v: Tensor, h: Tensor, ok: Tensor) -> None:
        """Q <- s I, s the geometric mean of sqrt(||v|| / ||h||) over the first pairs that are not zero."""
        scale = (v.norm() / h.norm()).sqrt().clamp(1e-15, 1e15)
        begins = (self.waiting > 0) & ok & (h.norm() > 0) & (v.norm() > 0)
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

    def _sizes(self, v: Tensor, h: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """What ``_vanishing`` needs: VANISHING times |h| and |v|, and the largest that |A|^2 could be."""
        limit = self.limits.vanishing
        most = v.numel() * (h.abs().amax() ** 2 + v.abs().amax() ** 2)
        return limit * h.norm(), limit * v.norm(), limit * most.sqrt()

    def _vanishing(self, unit: Any, images: Images, largest: Tensor, c: Tensor, sizes: Any) -> Tensor:
        """Q nearly annihilates h, and Q^-T nearly annihilates v: one step further Q is singular (src/precond)."""
        h, v, most = sizes
        R = torch.sqrt(unit.n * largest)
        small = (images.A.norm() <= h) & (images.B.norm() <= v)
        flat = ((h == 0) | (R <= h)) & ((v == 0) | (R <= v))
        return (c * largest >= self.limits.vanishing) & (R <= most) & (small | flat)

    def _move(self, images: Images, sizes: Any, weight: Tensor, step: float, ok: Tensor) -> None:
        """All units from the old values."""
        made = []
        for index, (unit, own) in enumerate(self.root.units(images)):
            draw = Stream.of(0, ESTIMATE, index, self.updates)
            if hasattr(unit, "fit"):
                made.append(unit.fit(own, self, index, weight, step, ok))
                continue
            if self.rule.images == "own":
                own = Images(unit.act(own.A), unit.act(own.B))
            made.append(self._moved(unit, own, index, sizes, weight, step, ok, draw))
        for unit, state in zip(self.units, made):
            unit.state = state
        if self.rule.balance:
            self._balance(True)
        elif (self.updates + 1) % BALANCE_EVERY == 0:
            self._balance(False)

    def _moved(
        self, unit: Any, own: Images, index: int, sizes: Any, weight: Tensor, step: float, ok: Tensor, draw: Stream
    ) -> List[Tensor]:
        GA, GB = unit.gram(own.A), unit.gram(own.B)
        R = GA - GB
        norm = self.norms[index]
        if norm == "entry":
            R = self._signs(unit, R, own, step)
            largest = R.abs().amax()
            c = torch.full_like(largest, step)
        else:
            largest = unit.r_max(R)
            c = self._factor(norm, unit, R, GA + GB, own, index, largest, weight, step, ok, draw)
        moves = ok & (largest > 0)
        if norm != "entry":
            sane = torch.isfinite(c) & (c * largest * unit.mix < 1e9) & unit.inside(c, R)
            if sizes is not None:
                sane = sane & ~self._vanishing(unit, own, largest, c, sizes)
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
        self, norm: str, unit: Any, R: Any, S: Any, own: Images, index: int, largest: Tensor, weight: Tensor,
        step: float, ok: Tensor, draw: Stream,
    ) -> Tensor:  # fmt: skip
        if norm == "none":
            return 2 * step * weight
        if norm == "max":
            return step / largest
        if norm == "spectral":
            return step / unit.spectral(R, own, -1)
        size = weight * (unit.norm(S, own, draw) + unit.fixed(own.A) + unit.fixed(own.B))
        return step / self.keep_running(index, 0, size, ok) * weight

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

    def _balance(self, exactly: bool) -> None:
        for kron in _krons(self.root):
            kron.balance(exactly)

    def _keep_in_range(self) -> None:
        """Units whose largest entry is near the limits of what can be squared are scaled back by a power of two."""
        for unit, share in zip(self.units, self.shares):
            if not unit.can_rescale:
                continue
            limit = self.limits.entry / share
            log = torch.log2(unit.largest())
            shift = torch.where(log > limit, -4 * torch.ones_like(log), torch.zeros_like(log))
            shift = torch.where(log < -limit, 4 * torch.ones_like(log), shift)
            unit.rescale(torch.exp2(shift))

    # --- state and what people look at

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
        return self.root.act(eye.reshape(self.n, self.n, 1)).reshape(self.n, self.n).t()


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
