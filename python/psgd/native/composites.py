"""Kronecker products and direct sums, and the tree of a spec."""
from __future__ import annotations

import math
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .._errors import UnsupportedError
from ..group import Group
from .bordered import BNorm, Norm
from .leaves import Diag, Identity, Images, Scale, XMat
from .matrices import Block, Dense, Tri, Tril


class Composite:
    name = ""
    transposed = False
    state: List[Tensor] = []

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)
        self.self_adjoint = all(part.self_adjoint for part in parts)
        self.unprotected = any(part.unprotected for part in parts)

    def nodes(self) -> List[Any]:
        return [node for part in self.parts for node in part.nodes()]

    def largest(self) -> Tensor:
        return torch.stack([part.largest() for part in self.parts]).amax()

    def take(self, elements: Tensor) -> Tensor:
        for part in self.parts:
            elements = part.take(elements)
        return elements


class Kron(Composite):
    name = "kron"

    def __init__(self, parts: Sequence[Any]) -> None:
        super().__init__(parts)
        self.n = 1
        for part in parts:
            self.n *= part.n
        self.can_rescale = any(part.can_rescale for part in parts)
        self._shapes: Dict[Tuple[int, int], List[Tuple[int, int, int]]] = {}
        # in which act_p applies the factors, which commute: diagonals last, in place
        mixing = [i for i, part in enumerate(parts) if not isinstance(part, (Diag, Identity))]
        self._order = mixing + [i for i, part in enumerate(parts) if isinstance(part, Diag)]

    def start(self, scale: Any) -> None:
        for part in self.parts:
            start(part, scale ** (1 / len(self.parts)))

    def _modes(self, outer: int, inner: int) -> List[Tuple[int, int, int]]:
        """The shape in which the fibres of each factor are in the middle."""
        if (outer, inner) not in self._shapes:
            sizes = [part.n for part in self.parts]
            around = [(math.prod(sizes[:i]), math.prod(sizes[i + 1 :])) for i in range(len(sizes))]
            self._shapes[outer, inner] = [(outer * a, n, b * inner) for n, (a, b) in zip(sizes, around)]
        return self._shapes[outer, inner]

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        shape = X.shape
        for part, mode in zip(self.parts, self._modes(shape[0], shape[2])):
            X = part.act(X.reshape(mode), transpose, inverse)
        return X.reshape(shape)

    def act_p(self, X: Tensor, reuse: float) -> Tensor:
        shape, modes, fresh = X.shape, self._modes(X.shape[0], X.shape[2]), False
        for i in self._order:
            part, X = self.parts[i], X.reshape(modes[i])
            X = X.mul_(part.squared()) if fresh and isinstance(part, Diag) else part.act_p(X, reuse)
            fresh = True
        return X.reshape(shape)

    def units(self, images: Optional[Images]) -> List[Tuple[Any, Optional[Images]]]:
        found: List[Tuple[Any, Optional[Images]]] = []
        if images is None:
            return [unit for part in self.parts for unit in part.units(None)]
        for part, mode in zip(self.parts, self._modes(images.A.shape[0], images.A.shape[2])):
            found += part.units(Images(images.A.reshape(mode), images.B.reshape(mode)))
        return found

    def rescale(self, c: Tensor) -> None:
        next(part for part in self.parts if part.can_rescale).rescale(c)

    def _factors(self) -> List[Any]:
        return [part for part in self.parts if part.can_rescale]

    def largest_of_factors(self) -> List[Tensor]:
        return [part.largest() for part in self._factors()]

    def balance(self, exactly: bool, largest: Sequence[Tensor]) -> None:
        """Brings the largest entries of the factors together: to their geometric mean, or by powers of two."""
        factors = self._factors()
        sizes = torch.stack(list(largest))
        if exactly:
            logs = sizes.log()
            scales = (logs.mean() - logs).exp()
        else:
            exponents = torch.frexp(sizes)[1] - 1
            middle = torch.round(exponents.to(sizes.dtype).mean())
            shifts = middle - exponents.to(sizes.dtype)
            shifts = torch.cat([shifts[:-1], -shifts[:-1].sum().reshape(1)])
            scales = torch.exp2(shifts)
        for part, scale in zip(factors, scales):
            part.rescale(scale)


class Sum(Composite):
    name = "sum"

    def __init__(self, parts: Sequence[Any]) -> None:
        super().__init__(parts)
        self.n = sum(part.n for part in parts)
        self.can_rescale = all(part.can_rescale for part in parts)

    def slices(self) -> List[Tuple[Any, int, int]]:
        found, at = [], 0
        for part in self.parts:
            found.append((part, at, at + part.n))
            at += part.n
        return found

    def start(self, scale: Any) -> None:
        for part in self.parts:
            start(part, scale)

    def reset(self, scale: Any) -> List[Tensor]:
        self.start(scale)
        return []

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        return torch.cat([part.act(X[:, a:b], transpose, inverse) for part, a, b in self.slices()], 1)

    def act_p(self, X: Tensor, reuse: float) -> Tensor:
        return torch.cat([part.act_p(X[:, a:b], reuse) for part, a, b in self.slices()], 1)

    def units(self, images: Optional[Images]) -> List[Tuple[Any, Optional[Images]]]:
        found: List[Tuple[Any, Optional[Images]]] = []
        for part, a, b in self.slices():
            found += part.units(None if images is None else Images(images.A[:, a:b], images.B[:, a:b]))
        return found

    def fixed(self, X: Tensor) -> Tensor:
        return torch.stack([part.fixed(X[:, a:b]) for part, a, b in self.slices()]).sum()

    def rescale(self, c: Tensor) -> None:
        for part in self.parts:
            part.rescale(c)


def start(group: Any, scale: Any) -> None:
    """Q <- scale I."""
    if isinstance(group, Composite):
        group.start(scale)  # type: ignore[attr-defined]
    else:
        group.state = group.reset(scale)


LEAVES: Dict[str, Any] = {
    "identity": Identity, "scale": Scale, "diag": Diag, "norm": Norm, "bnorm": BNorm, "xmat": XMat, "tri": Tri,
    "tril": Tril, "dense": Dense,
}  # fmt: skip
_LINE = re.compile(r"^( *)(t )?([a-z]+):(\d+) +([\d,]+)")


def parse(spec: str, shape: Tuple[int, ...], dtype: torch.dtype, device: Any) -> Any:
    """The group of a spec, sizes and short forms as the C library resolves them."""
    lines = [found for found in map(_LINE.match, repr(Group(spec, shape)).split("\n")) if found]
    group, rest = _build(lines, 0, dtype, device, spec)
    assert rest == len(lines)
    _tell_full_splus(group, spec)
    return group


def _build(lines: List[Any], at: int, dtype: torch.dtype, device: Any, spec: str) -> Tuple[Any, int]:
    depth, transposed, name = len(lines[at].group(1)), bool(lines[at].group(2)), lines[at].group(3)
    n, elements = int(lines[at].group(4)), int(lines[at].group(5).replace(",", ""))
    at, parts = at + 1, []
    while at < len(lines) and len(lines[at].group(1)) > depth:
        part, at = _build(lines, at, dtype, device, spec)
        parts.append(part)
    if name == "kron":
        return Kron(parts), at
    if name == "sum":
        return Sum(parts), at
    if name == "block":
        return Block(parts, transposed, dtype, device), at
    if n == 1 and name in ("norm", "bnorm"):
        name = "scale" if name == "norm" else "identity"
    if name in FAMILIES:
        return FAMILIES[name](n, FAMILIES[name].rank(n, elements), dtype, device), at
    if name not in LEAVES:
        raise UnsupportedError(f"{name} of {spec} has no form as torch ops; move the parameters to the CPU for it")
    return LEAVES[name](n, transposed, dtype, device), at


def _tell_full_splus(group: Any, spec: str) -> None:
    """splu(n) has as many elements as splu(n - 1): which of them is meant, the text alone tells."""
    nodes = [node for node in group.nodes() if node.name == "splu"]
    for node, rank in zip(nodes, re.findall(r"splu\(\s*(\d+)", spec)):
        node.r = node.n if node.r == node.n - 1 <= int(rank) - 1 else node.r
        node.mix = node.r + 1


FAMILIES: Dict[str, Any] = {}
