"""Keyword arguments as an option list of the C library, which knows the names and checks the values."""
from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import Any, Iterator, Mapping

from ._lib import c_text, check, lib


def option_text(name: str, value: Any) -> bytes:
    if isinstance(value, bool):
        return b"yes" if value else b"no"
    if isinstance(value, str):
        return c_text(value, f"option {name}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"option {name} is too large") from None
    except Exception:
        raise TypeError(f"option {name} must be a number, a text or a bool, not {type(value).__name__}") from None
    if number == int(number) if abs(number) < 2**53 else False:
        return str(int(number)).encode()
    return repr(number).encode()


@contextmanager
def option_list(context: "int | None", options: Mapping[str, Any]) -> Iterator[ctypes.c_void_p]:
    """The options, for the time of one create call. Underscores stand for the hyphens of the C names; None for the
    standard."""
    handle = ctypes.c_void_p()
    check(lib.psgd_options_create(context, ctypes.byref(handle)))
    try:
        for name, value in options.items():
            if value is None:
                continue
            key = c_text(name, "an option's name").replace(b"_", b"-")
            check(lib.psgd_options_set(handle, key, option_text(name, value)))
        yield handle
    finally:
        lib.psgd_options_free(handle)
