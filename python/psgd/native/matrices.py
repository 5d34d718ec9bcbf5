"""Groups whose Q is kept as a square matrix: triangular, dense and block matrices."""
from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import torch
from torch import Tensor

from .leaves import FEW, Images, Leaf, as_rows, bound, filled, rotation_angle
from .philox import Stream

_ROWS = 32  # of the block with which a norm is estimated


def mixed(M: Tensor, X: Tensor) -> Tensor:
    """M times the n-long fibres of X [outer, n, inner], as one product where they are rows or columns of a matrix: torch
    makes many small ones of a batch."""
    outer, n, inner = X.shape
    if inner == 1:
        return X.reshape(outer, n).matmul(M.t()).reshape(outer, n, 1)
    return M.matmul(X[0])[None] if outer == 1 else M.matmul(X)


class Matrix(Leaf):
    def algebra(self, S: Tensor) -> Tensor:
        """Pi of a symmetric matrix."""
        raise NotImplementedError

    def reset(self, scale: Any) -> List[Tensor]:
        return [torch.diag(filled((self.n,), scale, self.dtype, self.device))]

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        M = torch.linalg.inv_ex(self.state[0])[0] if inverse else self.state[0]
        return mixed(M.t() if transpose else M, X)

    def act_p(self, X: Tensor, reuse: float) -> Tensor:
        if self.n > X.shape[0] * X.shape[2] * reuse:  # the product Q'Q would cost more than it saves
            return super().act_p(X, reuse)
        return mixed(self.kept(lambda: self.state[0].t() @ self.state[0]), X)

    def gram(self, X: Tensor) -> Tensor:
        rows = as_rows(X)
        return self.algebra(rows @ rows.t())

    def difference(self, own: Images) -> Tensor:
        a, b = as_rows(own.A), as_rows(own.B)
        return self.algebra(torch.addmm(a @ a.t(), b, b.t(), alpha=-1))

    def unpacked(self, packed: Tensor) -> Tensor:
        return packed.view(self.n, self.n)

    def spectral(self, R: Tensor, images: Images, sign: int) -> Tensor:
        sizes = R.abs()
        return bound(sizes.sum(1), sizes.sum(0), (R * R).sum())

    def top(self, R: Tensor) -> Tensor:
        return R.diagonal().amax()

    def left(self, state: List[Tensor], M: Tensor) -> List[Tensor]:
        return [torch.addmm(state[0], M, state[0])]


class Tri(Matrix):
    name = "tri"
    lower = False

    def __init__(self, n: int, transposed: bool, dtype: torch.dtype, device: Any) -> None:
        super().__init__(n, transposed, dtype, device)
        self.mix = n

    def algebra(self, S: Tensor) -> Tensor:
        return S.tril() if self.lower else S.triu()

    def packed(self, R: Tensor) -> Tensor:
        row, column = self._triangle()
        return R[row, column]

    def unpacked(self, packed: Tensor) -> Tensor:
        R = packed.new_zeros((self.n, self.n))
        R[self._triangle()] = packed
        return R

    def _triangle(self) -> Tuple[Tensor, Tensor]:
        row, column = torch.triu_indices(self.n, self.n, device=self.device)
        return (column, row) if self.lower else (row, column)

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        Q = self.state[0].t() if transpose else self.state[0]
        if not inverse:
            return mixed(Q, X)
        outer, n, inner = X.shape
        upper = self.lower == transpose
        if inner == 1:
            rows: Tensor = torch.linalg.solve_triangular(Q.t(), X[:, :, 0], upper=not upper, left=False)
            return rows[:, :, None]
        solved: Tensor = torch.linalg.solve_triangular(Q, as_rows(X), upper=upper)
        return solved.reshape(n, outer, inner).permute(1, 0, 2)

    def left(self, state: List[Tensor], M: Tensor) -> List[Tensor]:
        Q = torch.addmm(state[0], M, state[0])
        Q.diagonal().clamp_min_(torch.finfo(self.dtype).tiny)
        return [Q]


class Tril(Tri):
    name = "tril"
    lower = True


class Dense(Matrix):
    name = "dense"
    self_adjoint = True
    unprotected = True

    def __init__(self, n: int, transposed: bool, dtype: torch.dtype, device: Any) -> None:
        super().__init__(n, transposed, dtype, device)
        self.mix = n

    def algebra(self, S: Tensor) -> Tensor:
        return S

    def spectral(self, R: Tensor, images: Images, sign: int) -> Tensor:
        if images is None or images.columns > 1:
            return super().spectral(R, images, sign)
        return _norm_of_two(images.A.reshape(-1), images.B.reshape(-1), sign)

    def packed(self, R: Tensor) -> Tensor:
        row, column = torch.triu_indices(self.n, self.n, device=self.device)
        return R[row, column]

    def unpacked(self, packed: Tensor) -> Tensor:
        row, column = torch.triu_indices(self.n, self.n, device=self.device)
        R = packed.new_empty((self.n, self.n))
        R[row, column] = R[column, row] = packed
        return R

    def norm(self, S: Tensor, images: Images, draw: Stream) -> Tensor:
        if images is None:  # they are spread over processes, and many
            return norm_estimate(S, draw)
        if images.columns == 1:
            return _norm_of_two(images.A.reshape(-1), images.B.reshape(-1), 1)
        if images.columns <= FEW:
            return _norm_of_few(torch.cat([as_rows(images.A), as_rows(images.B)], 1))
        return norm_estimate(S, draw)

    def top(self, R: Tensor) -> Tensor:
        return R.new_zeros(())

    def right(self, state: List[Tensor], M: Tensor) -> List[Tensor]:
        return [torch.addmm(state[0], state[0], M)]

    def symmetrised(self, state: List[Tensor]) -> List[Tensor]:
        return [(state[0] + state[0].t()) / 2]

    def rotated(self, state: List[Tensor], draw: Stream) -> List[Tensor]:
        Q = state[0]
        S = Q.t() - Q
        turns = S.abs().amax() > torch.finfo(self.dtype).eps * Q.abs().amax()
        norm = norm_estimate(S, draw)
        S = S / torch.where(turns, norm, torch.ones_like(norm))
        T = S @ Q
        t = rotation_angle(norm / 2 * (S * S).sum(), -(S * T).sum())
        return [torch.where(turns, Q + t * T + (t * t / 2) * (S @ T), Q)]


class Block(Matrix):
    """[A C; 0 B] or, transposed, [A 0; C B]; Pi is that of the parts, and all of C."""

    name = "block"

    def __init__(self, parts: Sequence[Any], transposed: bool, dtype: torch.dtype, device: Any) -> None:
        super().__init__(sum(part.n for part in parts), transposed, dtype, device)
        self.parts, self.mix = list(parts), sum(part.n for part in parts)
        self.can_rescale = all(part.can_rescale for part in parts)
        self.unprotected = any(part.unprotected for part in parts)

    def reset(self, scale: Any) -> List[Tensor]:
        for part in self.parts:
            part.state = part.reset(scale)
        return [self._assembled()]

    def take(self, elements: Tensor) -> Tensor:
        first, last = self.parts[0].n, self.parts[1].n
        C, elements = elements[: first * last], elements[first * last :]
        for part in self.parts:
            elements = part.take(elements)
        made = self._assembled()
        if self.transposed:
            made[first:, :first] = C.view(last, first)
        else:
            made[:first, first:] = C.view(first, last)
        self.state = [made]
        return elements

    def _assembled(self) -> Tensor:
        """[A 0; 0 B]."""
        made = torch.zeros((self.n, self.n), dtype=self.dtype, device=self.device)
        at = 0
        for part in self.parts:
            eye = torch.eye(part.n, dtype=self.dtype, device=self.device)[None]
            made[at : at + part.n, at : at + part.n] = part.act(eye)[0]
            at += part.n
        return made

    def algebra(self, S: Tensor) -> Tensor:
        k = self.parts[0].n
        first, second = algebra_of(self.parts[0], S[:k, :k]), algebra_of(self.parts[1], S[k:, k:])
        if self.transposed:
            return torch.cat([torch.cat([first, torch.zeros_like(S[:k, k:])], 1), torch.cat([S[k:, :k], second], 1)])
        return torch.cat([torch.cat([first, S[:k, k:]], 1), torch.cat([torch.zeros_like(S[k:, :k]), second], 1)])

    def fixed(self, X: Tensor) -> Tensor:
        k = self.parts[0].n
        made: Tensor = self.parts[0].fixed(X[:, :k]) + self.parts[1].fixed(X[:, k:])
        return made


def algebra_of(part: Any, S: Tensor) -> Tensor:
    """Pi of a square matrix onto the algebra of any group, as a matrix."""
    name = part.name
    if name == "identity":
        return torch.zeros_like(S)
    if name == "scale":
        return torch.diag_embed(S.diagonal().mean().expand(part.n))
    if name == "diag":
        return torch.diag_embed(S.diagonal())
    if name in ("norm", "bnorm"):
        last = torch.zeros_like(S)
        if part.transposed:
            last[-1, :-1] = S[-1, :-1]
        else:
            last[:-1, -1] = S[:-1, -1]
        diagonal = S.diagonal().clone()
        if part.corner_fixed:
            diagonal[-1] = 0
        return last + torch.diag_embed(diagonal)
    if name == "xmat":
        anti = torch.diag_embed(S.flip(1).diagonal()).flip(1)
        both = torch.diag_embed(S.diagonal()) + anti
        if part.n % 2:
            both[part.n // 2, part.n // 2] = S[part.n // 2, part.n // 2]
        return both
    if name == "sum":
        whole = torch.zeros_like(S)
        for child, a, b in part.slices():
            whole[a:b, a:b] = algebra_of(child, S[a:b, a:b])
        return whole
    made: Tensor = part.algebra(S)
    return made


def _norm_of_two(a: Tensor, b: Tensor, sign: int) -> Tensor:
    """The largest |eigenvalue| of aa' + sign bb', exactly."""
    aa, bb, ab = a @ a, b @ b, a @ b
    half = 0.5 * (aa + sign * bb)
    if sign > 0:
        return half.abs() + torch.sqrt((0.5 * (aa - bb)) ** 2 + ab * ab)
    rest = aa * bb - ab * ab
    across = b - ab / torch.where(aa > 0, aa, torch.ones_like(aa)) * a
    rest = torch.where(rest < 0.1 * aa * bb, aa * (across @ across), rest)
    return half.abs() + torch.sqrt(half * half + rest)


def _norm_of_few(Y: Tensor) -> Tensor:
    """||YY'||_2 of a few columns, by squaring Y'Y until only its largest eigenvalue is left."""
    M = Y.t() @ Y
    norm, power = torch.ones_like(M[0, 0]), 1.0
    for _ in range(60):
        largest = M.diagonal().amax()
        safe = torch.where(largest > 0, largest, torch.ones_like(largest))
        norm, power = norm * largest**power, power / 2
        M = M / safe
        M = M @ M
    return norm


def norm_estimate(M: Tensor, draw: Stream) -> Tensor:
    """The spectral norm of a symmetric or skew matrix from below, by subspace iteration (src/la/matrix)."""
    n = M.shape[0]
    largest = M.abs().amax()
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    M = M / scale
    row = M.index_select(0, (M * M).sum(1).argmax().reshape(1))[0]
    V = draw.normal(_ROWS * n, M.dtype, M.device).view(_ROWS, n)
    V = torch.where((V @ row)[:, None] < 0, -V, V) + row
    for _ in range(2):
        W = V @ M
        size = W.norm(dim=1, keepdim=True)
        V = (W / torch.where(size > 0, size, torch.ones_like(size))) @ M
    made: Tensor = V.norm(dim=1).amax() * largest
    return made
