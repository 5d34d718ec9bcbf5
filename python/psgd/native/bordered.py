"""Bordered diagonals as torch ops: a diagonal and its last column or, transposed, its last row."""
from __future__ import annotations

from typing import Any, List, Tuple

import torch
from torch import Tensor

from .leaves import Images, Leaf, bound, energies, excess, filled


class Norm(Leaf):
    """[diag(d) c; 0 s] or, transposed, [diag(d) 0; c' s]; the state is (d, s) and c."""

    name = "norm"
    mix = 2
    corner_fixed = False

    def reset(self, scale: Any) -> List[Tensor]:
        q = filled((self.n,), scale, self.dtype, self.device)
        if self.corner_fixed:
            q = torch.cat([q[:-1], torch.ones_like(q[-1:])])
        return [q, torch.zeros(self.n - 1, dtype=self.dtype, device=self.device)]

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        return _bordered(self.state, X, self.transposed != transpose, inverse)

    def act_p(self, X: Tensor, reuse: float) -> Tensor:
        diagonal, y = self.kept(self._squared)
        rows = fibres(X)
        made: Tensor = rows * diagonal
        if self.transposed:
            made.addr_(rows @ y, y)
        else:
            made.addr_(rows[:, -1], y)[:, -1].addmv_(rows, y)
        return as_fibres(made, X)

    def _squared(self) -> Tuple[Tensor, Tensor]:
        """Q'Q = diag(x) + y e' + e y' with e = (0, .., 0, 1) or, transposed, diag(x) + yy'."""
        q, c = self.state
        if self.transposed:
            return q * q * _all_but_last(q), torch.cat([c, q[-1:]])
        diagonal = q * q
        diagonal[-1].add_(c @ c)
        return diagonal, torch.nn.functional.pad(q[:-1] * c, (0, 1))

    def gram(self, X: Tensor) -> Tensor:
        squares = energies(X)
        if self.corner_fixed:
            squares = squares * _all_but_last(squares)
        rows = fibres(X)
        return torch.cat([squares, (rows[:, -1] @ rows)[:-1]])

    def difference(self, own: Images) -> Tensor:
        squares, a, b = excess(own), fibres(own.A), fibres(own.B)
        if self.corner_fixed:
            squares[-1] = 0
        return torch.cat([squares, torch.addmv(a[:, -1] @ a, b.t(), b[:, -1], alpha=-1)[:-1]])

    def spectral(self, R: Tensor, images: Images, sign: int) -> Tensor:
        d, c = R[: self.n].abs(), R[self.n :].abs()
        across = torch.cat([d[:-1] + c, d[-1:]])
        along = torch.cat([d[:-1], d[-1:] + c.sum()])
        return bound(across, along, (R * R).sum())

    def top(self, R: Tensor) -> Tensor:
        return R[: self.n].amax()

    def left(self, state: List[Tensor], M: Tensor) -> List[Tensor]:
        q, side = state
        grown, own, other = 1 + M[: self.n], slice(-1), slice(-1, None)
        if self.transposed:
            own, other = other, own
        side = torch.addcmul(side * grown[own], M[self.n :], q[other])
        return [(q * grown).clamp_min_(torch.finfo(self.dtype).tiny), side]


class BNorm(Norm):
    name = "bnorm"
    can_rescale = False
    corner_fixed = True

    def fixed(self, X: Tensor) -> Tensor:
        return (X[:, -1] ** 2).sum()


def fibres(X: Tensor) -> Tensor:
    """As rows, [outer inner, n]."""
    return X[:, :, 0] if X.shape[2] == 1 else X.transpose(1, 2).reshape(-1, X.shape[1])


def as_fibres(rows: Tensor, X: Tensor) -> Tensor:
    """Rows in the shape of X."""
    if X.shape[2] == 1:
        return rows[:, :, None]
    return rows.view(X.shape[0], X.shape[2], X.shape[1]).transpose(1, 2)


def _all_but_last(x: Tensor) -> Tensor:
    """1, .., 1, 0."""
    made = torch.ones_like(x)
    made[-1] = 0
    return made


def _bordered(state: List[Tensor], X: Tensor, last_row: bool, inverse: bool) -> Tensor:
    (q, c), rows = state, fibres(X)
    made = rows / q if inverse else rows * q
    first, last = made[:, :-1], made[:, -1]
    if last_row and not inverse:
        last.addmv_(rows[:, :-1], c)
    elif last_row:
        last.addmv_(first, c / q[-1], alpha=-1)
    elif not inverse:
        first.addr_(rows[:, -1], c)
    else:
        first.addr_(last, c / q[:-1], alpha=-1)
    return as_fibres(made, X)
