"""One preconditioner over several tensors together, as if they were one long vector."""
from __future__ import annotations

import ctypes
import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ._arrays import SIZES, address, c_shape, empty_like, is_tensor, shape_tuple
from ._errors import SpecError
from ._lib import lib
from .context import Context
from .group import Shape
from .precond import Preconditioner, _bump_version


class JointPreconditioner(Preconditioner):
    """Fits P = Q'Q to pairs of a list of tensors, and multiplies with it::

        precond = psgd.JointPreconditioner("lra(10)", [(20, 30), 20], step=0.1)
        precond.update([v_weight, v_bias], [h_weight, h_bias])
        to_weight, to_bias = precond.apply([g_weight, g_bias])

    It is the Preconditioner of the one vector that holds the tensors one after the other, each in C order; ``shape``,
    Q, P, ``factors`` and ``group`` are that vector's. So the spec must be one for vectors: diag, tri, dense, xmat,
    lra(r), splu(r), sums of them. Lists have one array for each tensor, of its shape and of the one type of all.
    Options, states, pickles and copies are those of ``psgd.Preconditioner``; an update is from one pair."""

    _name = "psgd.JointPreconditioner"
    shapes: Tuple[Tuple[int, ...], ...] = ()

    def __init__(
        self,
        spec: str,
        shapes: Sequence[Shape],
        dtype: Any = "float32",
        *,
        context: Optional[Context] = None,
        **options: Any,
    ) -> None:
        listed = tuple(shape_tuple(shape) for shape in _list_of(shapes, "shapes", "shape"))
        if not listed:
            raise ValueError("a joint preconditioner needs at least one shape")
        if self._handle is None:
            self.shapes = listed
        size = sum(map(math.prod, listed))
        try:
            super().__init__(spec, size, dtype, context=context, **options)
        except SpecError as why:
            raise SpecError(f"a joint preconditioner is over one vector, here of {size} elements: {why}") from None

    def _create(self, owner: Any, name: bytes, sizes: Any, code: int, options: Any, handle: Any) -> int:
        segments = c_shape([math.prod(shape) for shape in self.shapes])
        return int(lib.psgd_precond_create_joint(owner, name, len(segments), segments, code, options, handle))

    def update(self, v: Optional[Sequence[Any]], h: Sequence[Any]) -> None:
        """One update of Q from a pair that comes as a list of arrays each: see ``Preconditioner.update``."""
        self._own()
        self._call(lib.psgd_precond_update_segments, *self._pair(v, h, self.shapes))

    def apply(self, g: Sequence[Any], out: Optional[Sequence[Any]] = None, what: str = "P") -> List[Any]:
        """P g as a list, or another operator: see ``Preconditioner.apply``. ``out`` may have arrays of ``g`` in it."""
        self._own()
        operator = self._operator(what)
        gs = self._arrays(g, "g")
        outs = [empty_like(x, x.shape) for x, _ in gs] if out is None else out
        to = self._arrays(outs, "out", write=True)
        self._refuse_overlap([at for _, at in to])
        self._call(lib.psgd_precond_apply_segments, operator, _pointers(gs), _pointers(to))
        written = [x for x, _ in to]
        for x in filter(is_tensor, written):
            _bump_version(x)
        return written

    def criterion(self, v: Optional[Sequence[Any]], h: Sequence[Any]) -> float:
        """h'Ph + v'P^-1 v for this pair: see ``Preconditioner.criterion``."""
        self._own()
        value = ctypes.c_double()
        self._call(lib.psgd_precond_criterion_segments, *self._pair(v, h, self.shapes), ctypes.byref(value))
        return value.value

    def _at(self, x: Any, name: str, shape: Any) -> Any:
        return _pointers(self._arrays(x, name))

    def _arrays(self, arrays: Any, name: str, write: bool = False) -> List[Tuple[Any, int]]:
        """Each array with its address, after making sure that it is what C expects."""
        listed = _list_of(arrays, name, "array")
        if len(listed) != len(self.shapes):
            count = len(self.shapes)
            raise ValueError(f"{name} has {len(listed)} arrays, but the preconditioner is over {count} tensors")
        return [
            (x, address(x, f"{name}[{i}]", self._code, shape, write))
            for i, (x, shape) in enumerate(zip(listed, self.shapes))
        ]

    def _refuse_overlap(self, starts: Sequence[int]) -> None:
        """Inputs are read whole before anything is written, so only outputs can be in each other's way."""
        bytes_of = [math.prod(shape) * SIZES[self._code] for shape in self.shapes]
        spans = sorted(zip(starts, bytes_of))
        for (first, count), (second, _) in zip(spans, spans[1:]):
            if first + count > second:
                raise ValueError("two arrays of out overlap")

    def _shown(self) -> Any:
        return [shape if len(shape) > 1 else shape[0] for shape in self.shapes]

    def __getstate__(self) -> Dict[str, Any]:
        return {**super().__getstate__(), "shape": self.shapes}


def _list_of(values: Any, name: str, entry: str) -> List[Any]:
    """A list of what any iterable but an array or a text yields."""
    if isinstance(values, (str, bytes, dict, np.ndarray)) or is_tensor(values) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name} must be a list with one {entry} for each tensor, not {type(values).__name__}")
    return list(values)


def _pointers(arrays: Sequence[Tuple[Any, int]]) -> Any:
    made: Any = (ctypes.c_void_p * len(arrays))(*(at for _, at in arrays))
    made.arrays = arrays  # they must live as long as it
    return made
