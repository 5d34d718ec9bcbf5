"""The factorised families lra(r) and splu(r), which have updates of their own (``src/group/family``)."""
from __future__ import annotations

import math
from typing import Any, List, Tuple

import torch
from torch import Tensor

from .composites import FAMILIES
from .leaves import Images, Leaf, bound, filled
from .philox import Stream

_INIT = 1  # the purpose of starting values
_ROUNDING = 64  # epsilons of the terms that cancelled: what is left of them gains nothing


class Family(Leaf):
    part_count = 1

    def __init__(self, n: int, r: int, dtype: torch.dtype, device: Any) -> None:
        super().__init__(n, False, dtype, device)
        self.r = r

    def act(self, X: Tensor, transpose: bool = False, inverse: bool = False) -> Tensor:
        outer, n, inner = X.shape
        rows = X.permute(0, 2, 1).reshape(-1, n)
        return self.apply(rows, transpose, inverse).reshape(outer, inner, n).permute(0, 2, 1)

    def apply(self, x: Tensor, transpose: bool, inverse: bool) -> Tensor:
        """The rows of x as vectors."""
        raise NotImplementedError

    def step_of(
        self, fit: Any, index: int, part: int, sizes: "Sizes", weight: Tensor, step: float, ok: Tensor
    ) -> Tensor:
        """c of a part, 0 where its R is."""
        norm = fit.norms[index]
        if norm == "none":
            return 2 * step * weight
        size = sizes.of(norm)
        there = size > 0
        safe = torch.where(there, size, torch.ones_like(size))
        if norm == "second":
            c = step / fit.keep_running(index, part, weight * size, ok & there) * weight
        else:
            c = step / safe
        return torch.where(there, c, torch.zeros_like(c))


class Sizes:
    """Of an R: max |R|, ||R||_2 or a bound, and that of the sum of the terms instead of their difference."""

    def __init__(self, largest: Any, spectral: Any, second: Any) -> None:
        self.made = {"max": largest, "spectral": spectral, "second": second}

    def of(self, norm: str) -> Tensor:
        made: Tensor = self.made[norm]()
        return made


class Lra(Family):
    """Q = (I + UV') diag(d); the state is d [n], U and V [r, n]."""

    name = "lra"
    unprotected = True
    part_count = 3

    @staticmethod
    def rank(n: int, elements: int) -> int:
        return (elements // n - 1) // 2

    def reset(self, scale: Any) -> List[Tensor]:
        stream, count = Stream.of(0, _INIT, self.n, self.r), self.r * self.n
        bits = stream.bits((count + 31) // 32, self.device)
        shifts = torch.arange(32, device=self.device)
        signs = (bits[:, None] >> shifts & 1).reshape(-1)[:count].to(self.dtype) * 2 - 1
        V = signs.reshape(self.r, self.n) / math.sqrt(self.n)
        return [filled((self.n,), scale, self.dtype, self.device), torch.zeros_like(V), V]

    def _small(self) -> Tuple[Tensor, Tensor]:
        """M = I + V'U and its inverse."""
        _, U, V = self.state
        M = torch.eye(self.r, dtype=self.dtype, device=self.device) + V @ U.t()
        return M, torch.linalg.inv_ex(M)[0]

    def apply(self, x: Tensor, transpose: bool, inverse: bool) -> Tensor:
        d, U, V = self.state
        first, second = (U, V) if transpose else (V, U)
        if inverse == transpose:  # d comes first in Q and Q^-T
            x = x / d if inverse else x * d
        t = x @ first.t()
        if inverse:
            I = self._small()[1]
            t = -(t @ (I if transpose else I.t()))
        x = x + t @ second
        if inverse != transpose:
            x = x / d if inverse else x * d
        return x

    def largest(self) -> Tensor:
        d, U, V = self.state
        if self.r == 0:
            return d.abs().amax()
        return (1 + self.r * U.abs().amax() * V.abs().amax()) * d.abs().amax()

    def scaled(self) -> List[Tensor]:
        return self.state[:1]

    def fit(self, own: Images, fit: Any, index: int, weight: Tensor, step: float, ok: Tensor) -> List[Tensor]:
        d, U, V = self.state
        a, b = own.A[:, :, 0], own.B[:, :, 0]
        eps = torch.finfo(self.dtype).eps
        M, I = self._small()
        VA, UA, VB, UB = a @ V.t(), a @ U.t(), b @ V.t(), b @ U.t()
        up, down = (a + UA @ V) * (a - VA @ I.t() @ U), (b + UB @ V) * (b - VB @ I.t() @ U)
        g, both = (up - down).sum(0), (up.abs() + down.abs()).sum(0).amax()
        most = g.abs().amax()
        sizes = Sizes(lambda: most, lambda: most, lambda: both)
        c, cut = _held(fit, index, self.step_of(fit, index, 0, sizes, weight, step, ok), most)
        sane = torch.isfinite(c) & (c * g.amax().clamp_min(0) < 1) & (c * most < 1e6)
        moves = ok & (most > _ROUNDING * eps * both)
        fit.skipped = fit.skipped + (moves & ~sane) + (moves & cut)
        new_d = torch.where(moves & sane, d - c * g * d, d)
        if self.r == 0:
            return [new_d, U, V]

        turn = fit.since_start % 128
        on_v = turn % 2 == 1
        fixed, x, y = (U, UA, UB) if on_v else (V, VA, VB)
        p, q = x @ fixed, y @ fixed
        sizes = _panel_sizes(a, b, p, q)
        c = self.step_of(fit, index, 2 if on_v else 1, sizes, weight, step, ok)
        turns = x.t() @ x - y.t() @ y
        c, cut = _held(fit, index, c, (turns * turns).sum().sqrt())
        moves = ok & (c > 0) & (sizes.of("spectral") > _ROUNDING * eps * sizes.of("second"))
        eye = torch.eye(self.r, dtype=self.dtype, device=self.device)
        safe = torch.where(torch.isfinite(c), c, torch.zeros_like(c))
        inside = torch.linalg.cholesky_ex(eye - safe * turns)[1] == 0
        next_M = (eye - safe * turns) @ M
        inverse = torch.linalg.inv_ex(next_M)[0]
        inside = inside & (next_M.abs().amax() * inverse.abs().amax() * eps < 0.05) & torch.isfinite(c)
        fit.skipped = fit.skipped + (moves & ~inside) + (moves & cut)
        if on_v:
            made = V - c * (x.t() @ (a + UA @ V) - y.t() @ (b + UB @ V))
            state = [new_d, U, torch.where(moves & inside, made, V)]
        else:
            made = U - c * ((x @ M).t() @ a - (y @ M).t() @ b)
            state = [new_d, torch.where(moves & inside, made, U), V]
        return _balanced(state) if turn == 127 else state


def _balanced(state: List[Tensor]) -> List[Tensor]:
    """U and V to about the same size, by a power of two."""
    d, U, V = state
    u, v = U.abs().amax(), V.abs().amax()
    there = (u > 0) & (v > 0)
    shift = torch.round(torch.log2(torch.where(there, v / u, torch.ones_like(u))) / 2)
    return [d, U * torch.exp2(shift), V * torch.exp2(-shift)]


def _held(fit: Any, index: int, c: Tensor, size: Tensor) -> Tuple[Tensor, Tensor]:
    """A plain step that would take away all of what it changes, or double it, is cut to half of that."""
    if fit.norms[index] != "none":
        return c, torch.zeros_like(c, dtype=torch.bool)
    cut = c * size >= 1
    return torch.where(cut, 0.5 / torch.where(cut, size, torch.ones_like(size)), c), cut


def _panel_sizes(a: Tensor, b: Tensor, p: Tensor, q: Tensor) -> Sizes:
    """Of R = sum a p' - b q'; norms of several pairs are added."""
    aa, bb, ab = (a * a).sum(1), (b * b).sum(1), (a * b).sum(1)
    pp, qq, pq = (p * p).sum(1), (q * q).sum(1), (p * q).sum(1)

    def spectral() -> Tensor:
        trace = aa * pp + bb * qq - 2 * ab * pq
        det = (aa * bb - ab * ab) * (pp * qq - pq * pq)
        root = (0.25 * trace * trace - det).clamp_min(0).sqrt()
        return (0.5 * trace + root).clamp_min(0).sqrt().sum()

    def largest() -> Tensor:
        tops = [(part[0].t() @ p - part[1].t() @ q).abs().amax() for part in zip(torch.split(a, 1024, 1), torch.split(b, 1024, 1))]
        return torch.stack(tops).amax()

    return Sizes(largest, spectral, lambda: ((aa * pp).sqrt() + (bb * qq).sqrt()).sum())


class Splu(Family):
    """Q = LU; the state is T [r, r], X [r, m], d [m] of L = [T 0; X' diag(d)], and the same of U'."""

    name = "splu"
    part_count = 2

    def __init__(self, n: int, r: int, dtype: torch.dtype, device: Any) -> None:
        super().__init__(n, r, dtype, device)
        self.mix = r + 1

    @staticmethod
    def rank(n: int, elements: int) -> int:
        return next(r for r in range(n + 1) if r * (r + 1) + 2 * (n - r) * (r + 1) == elements)

    def reset(self, scale: Any) -> List[Tensor]:
        made = []
        for size in (torch.ones((), dtype=self.dtype, device=self.device), scale):
            m = self.n - self.r
            made.append(torch.diag(filled((self.r,), size, self.dtype, self.device)))
            made.append(torch.zeros((self.r, m), dtype=self.dtype, device=self.device))
            made.append(filled((m,), size, self.dtype, self.device))
        return made

    def _half(self, half: List[Tensor], x: Tensor, transpose: bool, inverse: bool) -> Tensor:
        """H x, H'x, H^-1 x or H^-T x for the rows of x."""
        (T, X, d), r = half, self.r
        top, rest = x[:, :r], x[:, r:]
        if not inverse and not transpose:
            top, rest = top @ T.t(), rest * d + top @ X
        elif not inverse:
            top, rest = top @ T + rest @ X.t(), rest * d
        elif not transpose:
            top = torch.linalg.solve_triangular(T, top.t(), upper=False).t()
            rest = (rest - top @ X) / d
        else:
            rest = rest / d
            top = torch.linalg.solve_triangular(T.t(), (top - rest @ X.t()).t(), upper=True).t()
        return torch.cat([top, rest], 1)

    def apply(self, x: Tensor, transpose: bool, inverse: bool) -> Tensor:
        L, U = self.state[:3], self.state[3:]
        if inverse == transpose:  # Q = L (U')', Q^-T = L^-T (U')^-1
            return self._half(L, self._half(U, x, not transpose, inverse), transpose, inverse)
        return self._half(U, self._half(L, x, transpose, inverse), not transpose, inverse)

    def largest(self) -> Tensor:
        tops = [torch.cat([x.reshape(-1) for x in self.state[at : at + 3]]).abs().amax() for at in (0, 3)]
        return (self.r + 1) * tops[0] * tops[1]

    def scaled(self) -> List[Tensor]:
        return self.state[3:]

    def fit(self, own: Images, fit: Any, index: int, weight: Tensor, step: float, ok: Tensor) -> List[Tensor]:
        a, b = own.A[:, :, 0], own.B[:, :, 0]
        images = [self.apply(x, transpose, inverse) for x in (a, b) for transpose, inverse in ((False, True), (True, False))]
        L = self._moved(self.state[:3], (a, a, b, b), fit, index, 0, weight, step, ok)
        U = self._moved(self.state[3:], tuple(images), fit, index, 1, weight, step, ok)
        if (fit.updates + 1) % 16 == 0:
            L, U = _balance_halves(L, U)
        return L + U

    def _moved(
        self, half: List[Tensor], pair: Any, fit: Any, index: int, part: int, weight: Tensor, step: float, ok: Tensor
    ) -> List[Tensor]:
        """H <- (I - cR) H with R = Pi(x y' - z w') on the pattern of H."""
        (T, X, d), (x, y, z, w), r = half, pair, self.r
        eps = torch.finfo(self.dtype).eps
        corner, side, rest = _pattern(x, y, z, w, r)
        largest = _most(corner, side, rest)
        upper = torch.cat([corner.diagonal(), rest]).amax().clamp_min(0)
        sizes = Sizes(
            lambda: largest, lambda: _bound(corner, side, rest), lambda: _bound(*_pattern(x, y, z, w, r, True))
        )
        c = self.step_of(fit, index, part, sizes, weight, step, ok)
        terms = (_tops(x) * _tops(y) + _tops(z) * _tops(w)).sum()
        moves = ok & (largest > _ROUNDING * eps * terms)
        sane = torch.isfinite(c) & (c * upper < 1) & (c * largest < 1e6)
        fit.skipped = fit.skipped + (moves & ~sane)
        keep = 1 - c * rest
        top, bottom = y[:, :r] @ T, w[:, :r] @ T
        made = [T - c * (corner @ T), X * keep - c * (top.t() @ x[:, r:] - bottom.t() @ z[:, r:]), d * keep]
        return [torch.where(moves & sane, new, old) for new, old in zip(made, half)]


def _tops(x: Tensor) -> Tensor:
    return x.abs().amax(1)


def _pattern(x: Tensor, y: Tensor, z: Tensor, w: Tensor, r: int, sum_of_sizes: bool = False) -> Tuple[Tensor, ...]:
    """R, or the sums of the sizes of its terms: the corner [r, r], what is below it [r, m], and the diagonal [m]."""
    if sum_of_sizes:
        x, y, z, w = x.abs(), y.abs(), -z.abs(), w.abs()
    corner = (x[:, :r].t() @ y[:, :r] - z[:, :r].t() @ w[:, :r]).tril()
    side = y[:, :r].t() @ x[:, r:] - w[:, :r].t() @ z[:, r:]
    return corner, side, (x[:, r:] * y[:, r:] - z[:, r:] * w[:, r:]).sum(0)


def _most(*parts: Tensor) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts]).abs().amax()


def _bound(corner: Tensor, side: Tensor, rest: Tensor) -> Tensor:
    corner, side, rest = corner.abs(), side.abs(), rest.abs()
    rows = torch.cat([corner.sum(1), side.sum(0) + rest])
    columns = torch.cat([corner.sum(0) + side.sum(1), rest])
    return bound(rows, columns, (corner**2).sum() + (side**2).sum() + (rest**2).sum())


def _balance_halves(L: List[Tensor], U: List[Tensor]) -> Tuple[List[Tensor], List[Tensor]]:
    """L <- LD and U <- D^-1 U, D diagonal of powers of two that bring their diagonals to the same size."""

    def shift(l: Tensor, u: Tensor) -> Tensor:
        ratio = u.abs() / l.abs()
        there = (ratio > 0) & torch.isfinite(ratio)
        return torch.round(torch.log2(torch.where(there, ratio, torch.ones_like(ratio))) / 2)

    top, rest = shift(L[0].diagonal(), U[0].diagonal()), shift(L[2], U[2])
    made = []
    for half, sign in ((L, 1), (U, -1)):
        c, e = torch.exp2(sign * top), torch.exp2(sign * rest)
        made.append([half[0] * c, half[1] * c[:, None], half[2] * e])
    return made[0], made[1]


FAMILIES.update(lra=Lra, splu=Splu)
