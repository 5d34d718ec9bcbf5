"""A preconditioner P = Q'Q for one tensor, Q on a matrix Lie group, fitted online."""
from __future__ import annotations

import ctypes
import math
import threading
from typing import Any, Dict, Optional, Tuple

import numpy as np

from ._arrays import (
    DTYPES,
    SIZES,
    address,
    c_shape,
    dtype_code,
    empty_like,
    is_tensor,
    refuse_partial_overlap,
    shape_tuple,
    torch_module,
)
from ._lib import c_text, check, lib
from ._options import help_text, option_list
from .context import Context, Handle, context_handle, finish
from .group import Group, Laws, Shape

OPERATORS = {
    "P": 0, "P2": 1, "Q": 2, "QT": 3, "P_inverse": 4, "P2_inverse": 5, "Q_inverse": 6, "QT_inverse": 7,
}  # fmt: skip

_LARGEST_DENSE = 16384


class Preconditioner:
    """Fits P = Q'Q to pairs (v, h) of a tensor and multiplies with it::

        precond = psgd.Preconditioner("kron(tri,tri)", (20, 30), criterion="newton", step=0.1)
        precond.update(v, h)         # h = H v
        direction = precond.apply(g)

    Arrays are NumPy arrays or torch CPU tensors of the preconditioner's shape and type, contiguous; nothing is copied.
    Options are keywords: criterion, damping, step, rule, norm, norm_decay, init_scale, init, pairs, integrate, unbiased,
    batch, average;
    ``psgd.Preconditioner.options()`` describes them.

    It can be pickled and copied, and resumes bit-for-bit.
    """

    _name = "psgd.Preconditioner"
    _handle: Optional[int] = None
    _owner: Any = None  # a Handle of this preconditioner, or of the optimizer that it belongs to

    def __init__(
        self, spec: str, shape: Shape, dtype: Any = "float32", *, context: Optional[Context] = None, **options: Any
    ) -> None:
        if self._handle is not None:
            raise TypeError("this preconditioner is initialised already")
        self._lock = threading.Lock()
        owner = context_handle(context)
        name, sizes, code = c_text(spec, "spec"), shape_tuple(shape), dtype_code(dtype)
        handle = ctypes.c_void_p()
        with option_list(owner, options) as listed:
            status = self._create(owner, name, sizes, code, listed, ctypes.byref(handle))
        self._owner = Handle(handle, context, lib.psgd_precond_free)
        finish(context, status)
        self._handle = handle.value
        self._context, self._code, self._options = context, code, dict(options)
        self._pairs = int(float(options.get("pairs") or 1))
        self.spec, self.shape, self.dtype = spec, sizes, DTYPES[code]

    @classmethod
    def _of(cls, owner: Any, handle: int, context: Optional[Context], **known: Any) -> "Preconditioner":
        """A view of what an optimizer has fitted."""
        self = cls.__new__(cls)
        self._lock, self._owner, self._handle, self._context, self._pairs = threading.Lock(), owner, handle, context, 1
        self.__dict__.update(known)
        self.dtype = DTYPES[self._code]
        return self

    def _create(self, owner: Any, name: bytes, sizes: Any, code: int, options: Any, handle: Any) -> int:
        return int(lib.psgd_precond_create(owner, name, len(sizes), c_shape(sizes), code, options, handle))

    def _own(self) -> int:
        if self._handle is None:
            raise ValueError("this preconditioner was never initialised")
        return self._handle

    def _call(self, function: Any, *arguments: Any) -> None:
        """A call of the C library on this preconditioner."""
        own = self._own()
        with self._lock:
            finish(self._context, function(own, *arguments))

    def _pair(self, v: Any, h: Any, shape: Any) -> Tuple[Any, Any]:
        """v, which may be None, and h as C takes them."""
        h_at = self._at(h, "h", shape)
        return None if v is None else self._at(v, "v", shape), h_at

    def _at(self, x: Any, name: str, shape: Any) -> Any:
        return address(x, name, self._code, shape)

    @staticmethod
    def _operator(what: Any) -> int:
        if not isinstance(what, str) or what not in OPERATORS:
            raise ValueError(f"what must be one of {', '.join(OPERATORS)}, not {what!r}")
        return OPERATORS[what]

    @staticmethod
    def options() -> str:
        """What each option does, a line each."""
        return help_text(lib.psgd_precond_option)

    def update(self, v: Any, h: Any) -> None:
        """One update of Q from the pair (v, h).

        ``v`` is standard normal; ``h`` is Hv for the Newton criterion (any pair of a change of the parameters and the
        change of the gradient will do as well), the gradient for Fisher's. ``v`` may be None where it is integrated
        out. With the option ``pairs`` both may have one more, leading dimension: the update is then from their mean.
        A NaN or an infinity raises NotFiniteError and leaves Q as it was."""
        self._own()
        shape, count = self.shape, 1
        given = getattr(h, "shape", None)
        if self._pairs > 1 and given is not None and len(given) == len(shape) + 1 and given[0] > 0:
            count = int(given[0])
            shape = (count, *shape)
        self._call(lib.psgd_precond_update_pairs, count, *self._pair(v, h, shape))

    def apply(self, g: Any, out: Any = None, what: str = "P") -> Any:
        """P g, or another operator: ``what`` is one of P, P2, Q, QT, P_inverse, P2_inverse, Q_inverse, QT_inverse.

        ``out`` may be ``g`` itself. Without it the result is a new array of g's kind."""
        self._own()
        operator = self._operator(what)
        g_at = address(g, "g", self._code, self.shape)
        if out is None:
            out = empty_like(g, self.shape)
        out_at = address(out, "out", self._code, self.shape, write=True)
        refuse_partial_overlap(g_at, out_at, self.size * SIZES[self._code])
        self._call(lib.psgd_precond_apply, operator, g_at, out_at)
        if is_tensor(out):
            _bump_version(out)
        return out

    def as_linear_operator(self, what: str = "P") -> Any:
        """P, or what ``apply`` calls otherwise, as SciPy's ``LinearOperator`` on flat vectors: ``M=`` of its solvers."""
        from scipy.sparse.linalg import LinearOperator

        self._operator(what)
        dtype, shape = self.dtype, self.shape

        def multiply(x: Any) -> np.ndarray:
            flat = np.ascontiguousarray(x, dtype).reshape(shape)
            return np.asarray(self.apply(flat, what=what)).ravel()

        transposed = {"Q": "QT", "QT": "Q", "Q_inverse": "QT_inverse", "QT_inverse": "Q_inverse"}.get(what, what)

        def multiply_transposed(x: Any) -> np.ndarray:
            flat = np.ascontiguousarray(x, dtype).reshape(shape)
            return np.asarray(self.apply(flat, what=transposed)).ravel()

        return LinearOperator((self.size, self.size), multiply, multiply_transposed, dtype=dtype)

    def criterion(self, v: Any, h: Any) -> float:
        """h'Ph + v'P^-1 v for this pair: what the fit makes small in the mean. v may be None where it is integrated
        out."""
        self._own()
        value = ctypes.c_double()
        self._call(lib.psgd_precond_criterion, *self._pair(v, h, self.shape), ctypes.byref(value))
        return value.value

    @property
    def condition(self) -> float:
        """The condition number of Q (estimated from below where an exact one would be expensive)."""
        value = ctypes.c_double()
        self._call(lib.psgd_precond_condition, ctypes.byref(value))
        return value.value

    @property
    def factors(self) -> Tuple[np.ndarray, ...]:
        """Q as dense matrices, one for each factor of a ``kron`` at the root, else one."""
        own = self._own()
        with self._lock:
            return tuple(self._factor(own, i) for i in range(lib.psgd_precond_factor_count(own)))

    def _factor(self, own: int, index: int) -> np.ndarray:
        n = lib.psgd_precond_factor_size(own, index)
        if n > _LARGEST_DENSE:
            raise MemoryError(f"a dense matrix of size {n} x {n} is too large to show; use apply")
        Q: np.ndarray = np.empty((n, n), self.dtype)
        finish(self._context, lib.psgd_precond_factor(own, index, Q.ctypes.data))
        return Q

    @property
    def Q(self) -> np.ndarray:
        """Q as one dense matrix that acts on the tensor flattened in C order. See ``factors`` for large ones."""
        self._own()
        if self.size > _LARGEST_DENSE:
            raise MemoryError(f"Q is {self.size} x {self.size}; use factors, or apply with what='Q'")
        Q: np.ndarray = np.ones((1, 1), self.dtype)
        for factor in self.factors:
            Q = np.kron(Q, factor)
        return Q

    @property
    def P(self) -> np.ndarray:
        """P = Q'Q as one dense matrix."""
        Q = self.Q
        return np.asarray(Q.T @ Q)

    @property
    def group(self) -> Group:
        """The group, with its costs; its repr is its tree."""
        self._own()
        return Group(self.spec, self.shape, self.dtype, self._context)

    @property
    def size(self) -> int:
        """The number of elements of the tensor."""
        self._own()
        return math.prod(self.shape)

    @property
    def updates(self) -> int:
        """Updates made so far."""
        return int(lib.psgd_precond_updates(self._own()))

    @property
    def skipped(self) -> int:
        """Parts of updates that were skipped because Q would have left the group."""
        return int(lib.psgd_precond_skipped(self._own()))

    def set_step(self, step: float) -> None:
        """Sets the learning rate of the preconditioner."""
        try:
            number = float(step)
        except Exception:
            raise TypeError(f"step must be a number, not {type(step).__name__}") from None
        self._call(lib.psgd_precond_set_step, number)

    def check(self, seed: int = 0) -> Laws:
        """Tests the laws of its group: see ``Group.check``."""
        return self.group.check(seed)

    def state(self) -> bytes:
        """Everything that has been fitted, as bytes for ``load_state``."""
        own = self._own()
        with self._lock:
            buffer = ctypes.create_string_buffer(lib.psgd_precond_state_bytes(own))
            check(lib.psgd_precond_state_save(own, buffer))
        return buffer.raw

    def load_state(self, state: bytes) -> None:
        """Resumes from what ``state`` returned for the same spec, shape, dtype and options."""
        if not isinstance(state, (bytes, bytearray, memoryview)):
            raise TypeError(f"state must be bytes, not {type(state).__name__}")
        chars = bytes(state)
        self._call(lib.psgd_precond_state_load, len(chars), chars)

    def __repr__(self) -> str:
        if self._handle is None:
            return f"<{self._name}, not initialised>"
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"{self._name}({self.spec!r}, {self._shown()}, {self.dtype.name!r}{options})\n{self.group!r}"

    def _shown(self) -> Any:
        return self.shape if len(self.shape) > 1 else self.shape[0]

    def __getstate__(self) -> Dict[str, Any]:
        if self._context is not None:
            raise TypeError("a preconditioner on groups of a context cannot be pickled; save its state() instead")
        return {
            "spec": self.spec, "shape": self.shape, "dtype": self.dtype.name, "options": self._options,
            "state": self.state(),
        }  # fmt: skip

    def __setstate__(self, saved: Dict[str, Any]) -> None:
        self.__init__(saved["spec"], saved["shape"], saved["dtype"], **saved["options"])  # type: ignore[misc]
        self.load_state(saved["state"])


def _bump_version(tensor: Any) -> None:
    """Lets autograd know that the tensor was written to, where torch has a way to say so."""
    graph = getattr(getattr(torch_module(), "autograd", None), "graph", None)
    increment = getattr(graph, "increment_version", None)
    if increment is not None:
        increment(tensor)
