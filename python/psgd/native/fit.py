"""A preconditioner P = Q'Q as torch ops: its group, its settings and its state. ``updates`` moves many of them together."""
from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .._errors import ArgumentError, UnsupportedError
from . import families  # noqa: F401  registers lra and splu
from .composites import Composite, Kron, Sum, parse, start
from .leaves import Leaf
from .rows import Rows
from .updates import Updates, running

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
        self.starting = self.init_first  # pairs that Q starts from may be missing
        self.limits = LIMITS[dtype]
        self.updates = 0
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)
        self.waiting = torch.full((), START_PAIRS if self.init_first else 0, dtype=torch.int64, device=device)
        self.start = torch.ones((), dtype=dtype, device=device)
        start(self.root, self.init_scale)
        self.units = [unit for unit, _ in self.root.units(None)]
        self.norms = self._norms()
        whole = sum(unit.n for unit in self.units) == self.n  # no identity among them
        self.splits = whole and set(self.norms) == {"entry"} and isinstance(self.root, (Sum, Leaf))
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
        for name in ("integrate", "unbiased"):
            if settings[name] in (True, "yes"):
                raise UnsupportedError(f"the option {name} is for parameters on the CPU")
        self.damping, self.step = float(settings["damping"]), float(settings["step"])
        self.decay, self.init_scale = float(settings["norm-decay"]), float(settings["init-scale"])
        self.init_first = settings["init"] == "first"
        self.rule_name, self.norm_name = resolve(self.root, settings["rule"], settings["norm"])
        self.rule = RULES[self.rule_name]
        self.by_entry = settings["norm"] == "auto" and self.rule_name == "eq"
        if self.step >= 1 and self.norm_name != "none":
            raise ArgumentError("option step must be below 1 unless norm is none")

    def _norms(self) -> List[str]:
        """Of each unit: a diag outside krons is normalised entry by entry where norm is entry or was auto."""
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

    def apply(self, x: Tensor, what: str = "p", reuse: float = 1) -> Tensor:
        """reuse: how often a Q is applied before it changes, about; P is kept where that is worth it."""
        X: Tensor = x.reshape(1, self.n, 1)
        if what in ("q", "qt"):
            X = self.root.act(X, transpose=what == "qt")
            return X.reshape(x.shape)
        for _ in range(2 if what == "p2" else 1):
            X = self.root.act_p(X, reuse)
        return X.reshape(x.shape)

    # --- one update

    @property
    def since_start(self) -> int:
        """Updates since Q was a multiple of I, where all pairs to start from were sound."""
        return max(0, self.updates - START_PAIRS + 1) if self.init_first else self.updates

    def update(self, v: Tensor, h: Tensor, ok: Tensor, step: Optional[float] = None) -> None:
        """From pairs [pairs, n] of v and h; ok: a flag on the device, False: nothing changes. step: the learning rate
        where a schedule has changed it."""
        Updates().run([self], [(v, h)], ok, self.step if step is None else step)

    def start_from(self, v_norm: Tensor, h_norm: Tensor, ok: Tensor) -> None:
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

    def keep_running(self, index: int, part: int, size: Tensor, ok: Tensor) -> Tensor:
        L = self.running[index][part]
        made = running(L, size, self.decay)
        self.running[index][part] = torch.where(ok, made, L)
        return made

    # --- state and what people look at

    def look(self) -> None:
        """Reads from the device whether Q has started."""
        self.starting = self.init_first and bool(self.waiting > 0)

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
        self.updates, self.starting = int(rest.pop()), self.init_first
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


class NativeView:
    """A preconditioner of the native path, to look at."""

    def __init__(self, fit: NativeFit) -> None:
        self.fit, self.spec, self.shape = fit, fit.spec, fit.shape

    @property
    def updates(self) -> int:
        return self.fit.updates

    @property
    def skipped(self) -> int:
        return int(self.fit.skipped)

    @property
    def Q(self) -> Any:
        return self.fit.Q().cpu().numpy()

    @property
    def P(self) -> Any:
        return self.Q.T @ self.Q

    def apply(self, g: Tensor) -> Tensor:
        """P g."""
        return self.fit.apply(g)
