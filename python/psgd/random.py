"""Normal deviates by counter: the v of a fit."""
from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ._arrays import DTYPES, address, dtype_code, is_tensor, shape_tuple
from ._lib import check, lib


def counter(value: Any, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None
    if not 0 <= number < 2**64:
        raise ValueError(f"{name} must be from 0 to 2**64 - 1, not {number}")
    return number


def normal(shape: Any, dtype: Any = "float32", *, seed: int = 0, tensor: int = 0, step: int = 0) -> np.ndarray:
    """Standard normal deviates, a function of (seed, tensor, step) alone, whatever the thread count."""
    x: np.ndarray = np.empty(shape_tuple(shape), DTYPES[dtype_code(dtype)])
    normal_(x, seed=seed, tensor=tensor, step=step)
    return x


def normal_(x: Any, *, seed: int = 0, tensor: int = 0, step: int = 0) -> Any:
    """Fills an array or a torch CPU tensor with what ``normal`` gives, and returns it."""
    if not isinstance(x, np.ndarray) and not is_tensor(x):
        raise TypeError(f"x must be a NumPy array or a torch CPU tensor, not {type(x).__name__}")
    code = dtype_code(x.dtype)
    key = counter(seed, "seed"), counter(tensor, "tensor"), counter(step, "step")
    shape = tuple(x.shape)
    at, count = address(x, "x", code, shape, write=True), math.prod(shape)
    if count:
        check(lib.psgd_normal_fill(code, *key, 0, count, at))
    return x
