"""Groups without parts as torch ops: what ``src/group/leaf`` does, without branches on values.

X is [outer, n, inner], n-long fibres. ``gram(X)`` is Pi(XX') over all of them; R = gram(A) - gram(B) and S = gram(A) +
gram(B) are elements of the Lie algebra, laid out as the group likes. A step gives the state of (I + M)Q for an M that is
0 where the caller does not want one: nothing here reads a value back from the device."""
from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .philox import Stream

FEW = 4  # fibres up to which the library keeps an R as vectors, and knows some norms exactly


class Images(NamedTuple):
    """Of h and of v, [outer, n, inner]."""

    A: Tensor
    B: Tensor

    @property
    def columns(self) -> int:
        return self.A.shape[0] * self.A.shape[2]


def energies(X: Tensor) -> Tensor:
    """Of each row, over all fibres."""
    return (X * X).sum((0, 2))


def excess(own: Images) -> Tensor:
    """Energies of A without those of B."""
    return torch.addcmul(own.A * own.A, own.B, own.B, value=-1).sum((0, 2))


def peaks(tensors: Sequence[Tensor]) -> Tensor:
    """max |entry| of each; 0 where there is none."""
    ends = [torch.aminmax(x) if x.numel() else 2 * (x.new_zeros(()),) for x in tensors]
    if len(ends) == 1:
        return torch.maximum(-ends[0][0], ends[0][1]).reshape(1)
    return torch.maximum(-torch.stack([least for least, _ in ends]), torch.stack([most for _, most in ends]))


def peak(X: Tensor) -> Tensor:
    return peaks([X])[0]


_SAFE = {torch.float32: (1e-15, 1e18), torch.float64: (1e-140, 1e150)}  # norms whose squares are exact enough


def norms(tensors: Sequence[Tensor]) -> Tensor:
    """The norm of each, also where its square is out of range: then, or where that cannot be seen, in double."""
    first, there = tensors[0], all(x.numel() for x in tensors)
    if first.device.type in ("cpu", "mps", "meta"):  # the second has no double
        made = torch.stack(torch._foreach_norm(list(tensors)) if there else [torch.linalg.vector_norm(x) for x in tensors])
        low, high = _SAFE[first.dtype]
        if first.device.type != "cpu" or all(low < size < high for size in made.tolist()):
            return made
    if there and _foreach_takes_dtype():
        return torch.stack(torch._foreach_norm(list(tensors), 2, torch.float64)).to(first.dtype)
    return torch.stack([torch.linalg.vector_norm(x, dtype=torch.float64) for x in tensors]).to(first.dtype)


@lru_cache(maxsize=None)
def _foreach_takes_dtype() -> bool:
    """Newer versions do, and need one kernel for all tensors then."""
    major, minor = torch.__version__.split(".")[:2]
    return (int(major), int(minor)) >= (2, 6)


def all_finite(tensors: Sequence[Tensor]) -> Tensor:
    if tensors[0].device.type == "cpu" and all(math.isfinite(x.sum()) for x in tensors):  # the faster look
        return torch.ones((), dtype=torch.bool)
    return torch.isfinite(peaks(tensors)).all()


def surely(flag: Tensor) -> bool:
    """Whether a flag is known to be True: on a CPU it costs nothing to look."""
    return flag.device.type == "cpu" and bool(flag)


def as_rows(X: Tensor) -> Tensor:
    """[n, all fibres]."""
    return X.permute(1, 0, 2).reshape(X.shape[1], -1)


def bound(rows: Tensor, columns: Tensor, squares: Tensor) -> Tensor:
    """The smaller of ||R||_F and sqrt(||R||_1 ||R||_inf)."""
    return torch.minimum(squares.sqrt(), rows.amax().sqrt() * columns.amax().sqrt())


class Leaf:
    name = ""
    self_adjoint = False
    unprotected = False
    diagonal = False
    can_rescale = True
    mix = 1

    def __init__(self, n: int, transposed: bool, dtype: torch.dtype, device: Any) -> None:
        self.n, self.transposed, self.dtype, self.device = n, transposed, dtype, device
        self.state: List[Tensor] = []
        self._kept: Any = None

    def units(self, images: Optional[Images]) -> List[Tuple[Any, Optional[Images]]]:
        return [(self, images)]

    def nodes(self) -> List[Any]:
        return [self]

    def norm(self, S: Tensor, images: Images, draw: Stream) -> Tensor:
        """About ||S||_2 for S = Pi(AA' + BB')."""
        return self.spectral(S, images, 1)

    def fixed(self, X: Tensor) -> Tensor:
        """The sum of squares over the rows in which Q is I whatever the element."""
        return torch.zeros((), dtype=self.dtype, device=self.device)

    def kept(self, make: Callable[[], Any]) -> Any:
        """What is made of the state, until that is another one."""
        if self._kept is None or self._kept[0] is not self.state[0]:
            self._kept = self.state[0], make()
        return self._kept[1]

    def act_p(self, X: Tensor, reuse: float) -> Tensor:
        """Q'QX. reuse: how often a Q is applied before it changes, about."""
        return self.act(self.act(X), transpose=True)

    def difference(self, own: Images) -> Any:
        """R."""
        return self.gram(own.A) - self.gram(own.B)

    def top(self, R: Any) -> Tensor:
        """I - cR keeps its Q in the group where c times this is below 1."""
        made: Tensor = R.amax()
        return made

    def largest(self) -> Tensor:
        return peak(self.entries())

    def entries(self) -> Tensor:
        """All of the state, or where it is larger, what has the same largest entry."""
        return self.state[0] if len(self.state) == 1 else torch.cat(self.state)

    def scaled(self) -> List[Tensor]:
        """The tensors of the state of which Q is a multiple."""
        return self.state

    def rescale(self, c: Tensor) -> None:
        self.state = [x * c if any(x is own for own in self.scaled()) else x for x in self.state]

    def take(self, elements: Tensor) -> Tensor:
        """The state from the elements of the C core (psgd_precond_elements), as views of them; returns the rest."""
        made = []
        for x in self.state:
            made.append(elements[: x.numel()].view(x.shape))
            elements = elements[x.numel() :]
        self.state = made
        return elements

    def packed(self, R: Tensor) -> Tensor:
        """R as a vector without what is zero or there twice, and back."""
        return R.reshape(-1)

    def unpacked(self, packed: Tensor) -> Tensor:
        return packed

    # Where every Q is symmetric, or the group is commutative:

    def right(self, state: List[Tensor], M: Tensor) -> List[Tensor]:
        return self.left(state, M)

    def symmetrised(self, state: List[Tensor]) -> List[Tensor]:
        return state

    def rotated(self, state: List[Tensor], draw: Stream) -> List[Tensor]:
        return state

    # A group of its own has:

    def reset(self, scale: Any) -> List[Tensor]:
        raise NotImplementedError

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        raise NotImplementedError

    def gram(self, X: Tensor) -> Any:
        raise NotImplementedError

    def spectral(self, R: Any, images: Images, sign: int) -> Tensor:
        return peak(R)

    def left(self, state: List[Tensor], M: Any) -> List[Tensor]:
        """Of (I + M)Q."""
        raise NotImplementedError


def filled(n: Tuple[int, ...], scale: Any, dtype: torch.dtype, device: Any) -> Tensor:
    made: Tensor = torch.ones(n, dtype=dtype, device=device) * scale
    return made


class Scale(Leaf):
    """cI; Pi(S) = (tr S / n) I."""

    name = "scale"
    self_adjoint = True

    def reset(self, scale: Any) -> List[Tensor]:
        return [filled((), scale, self.dtype, self.device)]

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        return X / self.state[0] if inverse else X * self.state[0]

    def gram(self, X: Tensor) -> Tensor:
        return (X * X).sum() / self.n

    def act_p(self, X: Tensor, reuse: float) -> Tensor:
        made: Tensor = X * self.kept(lambda: self.state[0] * self.state[0])
        return made

    def unpacked(self, packed: Tensor) -> Tensor:
        return packed[0]

    def left(self, state: List[Tensor], M: Tensor) -> List[Tensor]:
        return [state[0] * (1 + M)]


class Identity(Leaf):
    name = "identity"
    self_adjoint = True
    can_rescale = False

    def reset(self, scale: Any) -> List[Tensor]:
        return []

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        return X

    def act_p(self, X: Tensor, reuse: float) -> Tensor:
        return X

    def largest(self) -> Tensor:
        return torch.zeros((), dtype=self.dtype, device=self.device)

    def units(self, images: Optional[Images]) -> List[Tuple[Any, Optional[Images]]]:
        return []

    def fixed(self, X: Tensor) -> Tensor:
        return (X * X).sum()


class Diag(Leaf):
    name = "diag"
    self_adjoint = True
    diagonal = True

    def reset(self, scale: Any) -> List[Tensor]:
        return [filled((self.n,), scale, self.dtype, self.device)]

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        q = self.state[0][:, None]
        return X / q if inverse else X * q

    def act_p(self, X: Tensor, reuse: float) -> Tensor:
        return X * self.squared()

    def squared(self) -> Tensor:
        """The diagonal of P, [n, 1]."""
        made: Tensor = self.kept(lambda: (self.state[0] * self.state[0])[:, None])
        return made

    def gram(self, X: Tensor) -> Tensor:
        return energies(X)

    def difference(self, own: Images) -> Tensor:
        return excess(own)

    def left(self, state: List[Tensor], M: Tensor) -> List[Tensor]:
        return [(state[0] * (1 + M)).clamp_min_(torch.finfo(self.dtype).tiny)]


class XMat(Leaf):
    """Diagonal d and antidiagonal e: 2 x 2 matrices [d_i e_i; e_j d_j], j = n - 1 - i."""

    name = "xmat"
    self_adjoint = True
    unprotected = True
    mix = 2

    def reset(self, scale: Any) -> List[Tensor]:
        q = filled((self.n,), scale, self.dtype, self.device)
        return [q, torch.zeros_like(q)]

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        d, e = self.state
        other = e.flip(0) if transpose else e
        if not inverse:
            return X * d[:, None] + other[:, None] * X.flip(1)
        det = d * d.flip(0) - e * e.flip(0)
        return (X * d.flip(0)[:, None] - other[:, None] * X.flip(1)) / det[:, None]

    def gram(self, X: Tensor) -> Tensor:
        mixed = (X * X.flip(1)).sum((0, 2))
        return torch.cat([energies(X), _without_middle(mixed)])

    def spectral(self, R: Tensor, images: Images, sign: int) -> Tensor:
        d, e = R[: self.n], R[self.n :]
        dj, ej = d.flip(0), e.flip(0)
        sizes = 0.5 * (torch.hypot(d + dj, e - ej) + torch.hypot(d - dj, e + ej))
        return sizes.amax()

    def inside(self, c: Tensor, R: Tensor) -> Tensor:
        a, b = 1 - c * R[: self.n], c * R[self.n :]
        det = a * a.flip(0) - b * b.flip(0)
        return (det.abs() > 4 * torch.finfo(self.dtype).eps).all()

    def left(self, state: List[Tensor], M: Tensor) -> List[Tensor]:
        (d, e), r, s = state, M[: self.n], M[self.n :]
        return [d + (r * d + s * e.flip(0)), e + (r * e + s * d.flip(0))]

    def right(self, state: List[Tensor], M: Tensor) -> List[Tensor]:
        (d, e), r, s = state, M[: self.n], M[self.n :]
        return [d + (d * r + e * s.flip(0)), e + (d * s + e * r.flip(0))]

    def symmetrised(self, state: List[Tensor]) -> List[Tensor]:
        return [state[0], (state[1] + state[1].flip(0)) / 2]

    def rotated(self, state: List[Tensor], draw: Stream) -> List[Tensor]:
        d, e = state
        skew = e.flip(0) - e
        norm = skew.abs().amax()
        turns = norm > torch.finfo(self.dtype).eps * torch.maximum(d.abs().amax(), e.abs().amax())
        s = skew / torch.where(turns, norm, torch.ones_like(norm))
        x, y = (s * s).sum() / 2 * norm, -(s * s * (d + d.flip(0))).sum() / 2
        s = rotation_angle(x, y) * s
        keep = 1 - s * s / 2
        made = [keep * d + s * e.flip(0), keep * e + s * d.flip(0)]
        return [torch.where(turns, new, old) for new, old in zip(made, state)]


def _without_middle(x: Tensor) -> Tensor:
    """An antidiagonal; where its length is odd the middle belongs to the diagonal."""
    if x.shape[0] % 2 == 0:
        return x
    half = x.shape[0] // 2
    return torch.cat([x[:half], torch.zeros_like(x[:1]), x[half + 1 :]])


def rotation_angle(x: Tensor, y: Tensor) -> Tensor:
    """t of Q + t (SQ + (t/2) SSQ) from x = tr SQ and y = tr SSQ; at most 1/8."""
    falling = y < 0
    best = -x / torch.where(falling, y, -torch.ones_like(y))
    return torch.where(falling, best.clamp_max(0.125), torch.full_like(best, 0.125))
