"""From NumPy arrays and torch CPU tensors to addresses, without a copy, and from shapes and types to C."""
from __future__ import annotations

import ctypes
import operator
import sys
from typing import Any, Dict, Sequence, Tuple

import numpy as np

from ._lib import F32, F64

DTYPES: "Dict[int, np.dtype[Any]]" = {F32: np.dtype(np.float32), F64: np.dtype(np.float64)}
SIZES = {F32: 4, F64: 8}
_NAMES = {
    "f32": F32, "float32": F32, "single": F32, "torch.float32": F32,
    "f64": F64, "float64": F64, "double": F64, "torch.float64": F64,
}  # fmt: skip
_LONGEST = 2**62


def dtype_code(dtype: Any) -> int:
    """F32 or F64 from a name, a NumPy dtype or a torch dtype."""
    code = _NAMES.get(dtype if isinstance(dtype, str) else str(dtype)) if not isinstance(dtype, type) else None
    if code is None and dtype is not None:
        try:
            resolved = np.dtype(dtype)
        except Exception:  # np.dtype raises exceptions of many types for what it does not know
            resolved = None
        for known, numpy_dtype in DTYPES.items():
            if resolved is not None and resolved == numpy_dtype:
                code = known
    if code is None:
        raise TypeError(f"dtype must be float32 or float64, not {dtype!r}")
    return code


def shape_tuple(shape: Any) -> Tuple[int, ...]:
    """A shape as a tuple of ints; a single int is a vector."""
    try:
        sizes: Tuple[int, ...] = (operator.index(shape),)
    except TypeError:
        if isinstance(shape, (str, bytes)):
            raise TypeError(f"shape must be an int or a sequence of ints, not {type(shape).__name__}") from None
        try:
            sizes = tuple(operator.index(size) for size in shape)
        except TypeError:
            raise TypeError(f"shape must be an int or a sequence of ints, not {shape!r}") from None
    for size in sizes:
        if not 1 <= size <= _LONGEST:
            raise ValueError(f"every size of a shape must be at least 1, not {size}")
    if not sizes:
        raise ValueError("a shape needs at least one size")
    return sizes


def c_shape(shape: Sequence[int]) -> "ctypes.Array[ctypes.c_int64]":
    return (ctypes.c_int64 * len(shape))(*shape)


def torch_module() -> Any:
    """torch where the program has imported it, else None: only then can an argument be a tensor."""
    return sys.modules.get("torch")


def is_tensor(x: Any) -> bool:
    torch = torch_module()
    return torch is not None and hasattr(torch, "Tensor") and isinstance(x, torch.Tensor)


def _shape_error(name: str, shape: Tuple[int, ...], expected: Tuple[int, ...]) -> ValueError:
    return ValueError(f"{name} has the shape {tuple(shape)}, but the preconditioner is for {expected}")


def address(x: Any, name: str, code: int, shape: Tuple[int, ...], write: bool = False) -> int:
    """The address of the first element of x, after making sure that C may use it as an array of this type and shape."""
    if isinstance(x, np.ndarray):
        return _numpy_address(x, name, code, shape, write)
    if is_tensor(x):
        return _torch_address(x, name, code, shape)
    raise TypeError(f"{name} must be a NumPy array or a torch CPU tensor, not {type(x).__name__}")


def _numpy_address(x: np.ndarray, name: str, code: int, shape: Tuple[int, ...], write: bool) -> int:
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; pass the values as a plain array")
    if x.dtype != DTYPES[code]:
        raise TypeError(f"{name} is an array of {x.dtype}, but {DTYPES[code].name} is needed")
    if x.shape != shape:
        raise _shape_error(name, x.shape, shape)
    flags = x.flags
    if not flags.c_contiguous or not flags.aligned:
        raise ValueError(f"{name} is not contiguous in C order; use numpy.ascontiguousarray")
    if write and not flags.writeable:
        raise ValueError(f"{name} is read-only")
    return x.ctypes.data


def _torch_address(x: Any, name: str, code: int, shape: Tuple[int, ...]) -> int:
    torch = torch_module()
    if x.layout != torch.strided:
        raise TypeError(f"{name} is a tensor of layout {x.layout}; only dense tensors are taken")
    if x.device.type != "cpu":
        raise TypeError(f"{name} is on {x.device}; only CPU tensors are taken")
    if str(x.dtype) != ("torch.float32" if code == F32 else "torch.float64"):
        raise TypeError(f"{name} is a tensor of {x.dtype}, but {DTYPES[code].name} is needed")
    if tuple(x.shape) != shape:
        raise _shape_error(name, tuple(x.shape), shape)
    if not x.is_contiguous():
        raise ValueError(f"{name} is not contiguous; use its method contiguous()")
    if x.is_neg():
        raise ValueError(f"{name} is a lazy negation; use its method resolve_neg()")
    try:
        return int(x.data_ptr())
    except RuntimeError as why:
        raise TypeError(f"{name} is a tensor without memory of its own") from why


def empty_like(x: Any, shape: Tuple[int, ...]) -> Any:
    """A new array of the same kind and type as x."""
    if isinstance(x, np.ndarray):
        return np.empty(shape, x.dtype)
    return torch_module().empty(shape, dtype=x.dtype)


def refuse_partial_overlap(first: int, second: int, count: int) -> None:
    """Two arrays of count bytes may be the same one or apart."""
    if first != second and abs(first - second) < count:
        raise ValueError("the output overlaps the input without being the same array")
