"""Groups written in Python: subclass ``UserGroup``, add it to a ``Context`` under a name, use the name in any spec."""
from __future__ import annotations

import ctypes
import math
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Callable, Dict, List, Optional

import numpy as np

_MOST = 2**40


class UserGroup:
    """A matrix Lie group of your own. Only ``algebra`` must be given::

        class Toeplitz(psgd.UserGroup):              # upper triangular Toeplitz matrices
            def algebra(self, S):
                means = [np.trace(S, k) / (len(S) - k) for k in range(len(S))]
                return sum(mean * np.eye(len(S), k=k) for k, mean in enumerate(means))

        context = psgd.Context()
        context.add_group("toeplitz", Toeplitz())
        psgd.Group("kron(tri,toeplitz)", (3, 4), context=context).check()

    All else then works on dense n x n matrices. A group with structure overrides what it can do better: q and R are
    vectors of ``size(n)`` and ``r_size(n)`` elements, laid out as the group likes; X is an array [outer, n, inner]
    whose fibres X[o, :, i] the matrices multiply. Functions return their results and keep their arguments as they are.
    The matrices I - cR, R in the algebra and c small, must be in the group. ``Group.check`` tests the laws."""

    summary: str = "a group of the caller's own"
    formula: str = "n^2"

    def algebra(self, S: np.ndarray) -> np.ndarray:
        """The orthogonal projection of the symmetric n x n matrix S onto the Lie algebra, as a dense matrix."""
        raise NotImplementedError("a UserGroup needs algebra, or else all of its other functions")

    def size(self, n: int) -> int:
        """The length of q for size n."""
        return n * n

    def r_size(self, n: int) -> int:
        """The length of R, an element of the Lie algebra."""
        return n * n

    def identity(self, n: int, scale: float) -> np.ndarray:
        """q of scale I; what the group fixes stays fixed."""
        return scale * np.eye(n)

    def mul(self, q: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Q X"""
        return np.asarray(_square(q) @ X)

    def mul_t(self, q: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Q' X"""
        return np.asarray(_square(q).T @ X)

    def solve(self, q: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Q^-1 X"""
        return np.linalg.solve(_square(q), X)

    def solve_t(self, q: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Q^-T X"""
        return np.linalg.solve(_square(q).T, X)

    def project(self, q: np.ndarray, A: np.ndarray, B: np.ndarray, sign: int) -> np.ndarray:
        """R, the projection of the sum of aa' + sign bb' over all fibres a of A and b of B (either may have none)."""
        S = np.einsum("oni,omi->nm", A, A) + sign * np.einsum("oni,omi->nm", B, B)
        return np.asarray(self.algebra(S))

    def r_max(self, R: np.ndarray) -> float:
        """The largest |entry| of R as a matrix."""
        return float(np.abs(R).max(initial=0))

    def r_mul(self, R: np.ndarray, X: np.ndarray) -> np.ndarray:
        """R X"""
        return np.asarray(_square(R) @ X)

    def r_mul_t(self, R: np.ndarray, X: np.ndarray) -> np.ndarray:
        """R' X"""
        return np.asarray(_square(R).T @ X)

    def inside(self, q: np.ndarray, c: float, R: np.ndarray) -> bool:
        """Whether I - cR is in the group."""
        matrix = _square(R)
        return bool(np.linalg.slogdet(np.eye(len(matrix)) - c * matrix)[0] > 0)

    def retract(self, q: np.ndarray, c: float, R: np.ndarray) -> np.ndarray:
        """q of (I - cR) Q"""
        return np.asarray(_square(q) - c * (_square(R) @ _square(q)))

    def retract_right(self, q: np.ndarray, c: float, R: np.ndarray) -> np.ndarray:
        """q of Q (I - cR), for transposes"""
        return np.asarray(_square(q) - c * (_square(q) @ _square(R)))

    #: q of c Q, c > 0, as a function of (q, c); None where that leaves the group.
    rescale: Optional[Callable[..., np.ndarray]] = None


def _square(x: np.ndarray) -> np.ndarray:
    n = math.isqrt(x.size)
    return x.reshape(n, n)


class _Fibres(Structure):
    _fields_ = [("x", c_void_p), ("n", c_int64), ("inner", c_int64), ("outer", c_int64), ("ld", c_int64)]


class _Element(Structure):
    _fields_ = [("n", c_int64), ("q", c_void_p), ("scratch", c_void_p), ("data", c_void_p)]


_E = POINTER(_Element)
_FIELDS: Dict[str, Any] = {
    "size": CFUNCTYPE(c_int64, c_int64, c_void_p),
    "r_size": CFUNCTYPE(c_int64, c_int64, c_void_p),
    "reset": CFUNCTYPE(None, _E, c_double),
    "mul": CFUNCTYPE(None, _E, _Fibres),
    "mul_t": CFUNCTYPE(None, _E, _Fibres),
    "solve": CFUNCTYPE(None, _E, _Fibres),
    "solve_t": CFUNCTYPE(None, _E, _Fibres),
    "project": CFUNCTYPE(None, _E, _Fibres, _Fibres, c_int, c_int, c_void_p),
    "r_max": CFUNCTYPE(c_double, _E, c_void_p),
    "r_mul": CFUNCTYPE(None, _E, c_void_p, _Fibres),
    "r_mul_t": CFUNCTYPE(None, _E, c_void_p, _Fibres),
    "inside": CFUNCTYPE(c_int, _E, c_double, c_void_p),
    "retract": CFUNCTYPE(None, _E, c_double, c_void_p),
    "summary": c_char_p,
    "formula": c_char_p,
    "scratch_size": CFUNCTYPE(c_int64, c_int64, c_void_p),
    "rescale": CFUNCTYPE(None, _E, c_double),
    "retract_right": CFUNCTYPE(None, _E, c_double, c_void_p),
    "r_spectral": CFUNCTYPE(c_double, _E, c_void_p),
    "flops": CFUNCTYPE(c_double, c_int64, c_void_p),
}


class Table(Structure):
    """struct psgd_user_group."""

    _fields_ = [("bytes", c_size_t), ("data", c_void_p), *_FIELDS.items()]


class _Bridge:
    """Calls a UserGroup from C for one dtype. Python exceptions cannot pass through C: the first is kept in
    ``failures`` and raised when the call into C is over; until then the functions do nothing."""

    def __init__(self, group: UserGroup, dtype: np.dtype, failures: List[BaseException]) -> None:
        self.group, self.dtype, self.failures = group, np.dtype(dtype), failures
        self.counts: Dict[int, Any] = {}

    def guarded(self, function: Callable[..., Any], failed: Any) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self.failures:
                return failed
            try:
                return function(*arguments)
            except BaseException as why:
                self.failures.append(why)
                return failed

        return call

    def table(self) -> Table:
        functions: Dict[str, Any] = {
            "size": self.guarded(lambda n, data: self.count(n)[0], -1),
            "r_size": self.guarded(lambda n, data: self.count(n)[1], -1),
            "reset": self.guarded(self.reset, None),
            "project": self.guarded(self.project, None),
            "r_max": self.guarded(lambda e, R: float(self.group.r_max(self.r(e, R))), 0.0),
            "inside": self.guarded(lambda e, c, R: int(bool(self.group.inside(self.q(e), c, self.r(e, R)))), 0),
            "retract": self.guarded(self.moves(self.group.retract), None),
            "retract_right": self.guarded(self.moves(self.group.retract_right), None),
        }
        for name in ("mul", "mul_t", "solve", "solve_t", "r_mul", "r_mul_t"):
            functions[name] = self.guarded(self.acts(getattr(self.group, name)), None)
        if self.group.rescale is not None:
            functions["rescale"] = self.guarded(self.rescale, None)
        made = Table(bytes=ctypes.sizeof(Table), summary=_line(self.group.summary), formula=_line(self.group.formula))
        for name, function in functions.items():
            setattr(made, name, _FIELDS[name](function))
        return made

    def count(self, n: int) -> Any:
        if n not in self.counts:
            pair = int(self.group.size(n)), int(self.group.r_size(n))
            if max(pair) > _MOST:
                raise ValueError(f"a group of {max(pair)} elements is too large")
            self.counts[n] = pair
        return self.counts[n]

    def view(self, at: Any, shape: Any, strides: Any = None) -> np.ndarray:
        size = self.dtype.itemsize
        count = 1 + sum((length - 1) * stride // size for length, stride in zip(shape, strides or (size,)))
        raw = (ctypes.c_char * (count * size)).from_address(at)
        return np.ndarray(shape, self.dtype, raw, strides=strides)

    def q_view(self, element: Any) -> np.ndarray:
        e = element.contents
        return self.view(e.q, (self.count(e.n)[0],))

    def q(self, element: Any) -> np.ndarray:
        return self.q_view(element).copy()

    def r(self, element: Any, R: int) -> np.ndarray:
        return self.view(R, (self.count(element.contents.n)[1],)).copy()

    def fibres(self, X: _Fibres) -> np.ndarray:
        if not X.x or X.outer < 1 or X.inner < 1:
            return np.empty((0, X.n, 1), self.dtype)
        size = self.dtype.itemsize
        return self.view(X.x, (X.outer, X.n, X.inner), (X.ld * size, X.inner * size, size))

    def store(self, to: np.ndarray, result: Any) -> None:
        result = np.asarray(result)
        if result.size != to.size:
            raise ValueError(f"a function of a UserGroup returned {result.size} elements instead of {to.size}")
        to[...] = result.reshape(to.shape)

    def reset(self, element: Any, scale: float) -> None:
        self.store(self.q_view(element), self.group.identity(element.contents.n, scale))

    def project(self, element: Any, A: _Fibres, B: _Fibres, sign: int, accumulate: int, R: int) -> None:
        to = self.view(R, (self.count(element.contents.n)[1],))
        found = np.asarray(self.group.project(self.q(element), self.fibres(A).copy(), self.fibres(B).copy(), sign))
        self.store(to, found.ravel() + to if accumulate else found)

    def moves(self, function: Callable[..., Any]) -> Callable[..., None]:
        def call(element: Any, c: float, R: int) -> None:
            self.store(self.q_view(element), function(self.q(element), c, self.r(element, R)))

        return call

    def acts(self, function: Callable[..., Any]) -> Callable[..., None]:
        """Of Q on X, or of R on X."""

        def call(element: Any, *arguments: Any) -> None:
            *R, X = arguments
            view = self.fibres(X)
            self.store(view, function(self.r(element, R[0]) if R else self.q(element), view.copy()))

        return call

    def rescale(self, element: Any, c: float) -> None:
        assert self.group.rescale is not None
        self.store(self.q_view(element), self.group.rescale(self.q(element), c))


def _line(value: Any) -> bytes:
    return str(value).encode("utf-8", "replace").replace(b"\0", b" ")


def tables(group: UserGroup, failures: List[BaseException]) -> List[Table]:
    """The tables of a group for float32 and float64."""
    return [_Bridge(group, np.dtype(name), failures).table() for name in ("float32", "float64")]
