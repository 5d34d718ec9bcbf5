"""Keyword arguments as an option list of the C library, which knows the names and checks the values."""
from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Mapping

from ._lib import c_text, check, lib, text


def option_text(name: str, value: Any) -> bytes:
    if isinstance(value, bool):
        return b"yes" if value else b"no"
    if isinstance(value, str):
        return c_text(value, f"option {name}")
    if isinstance(value, int):
        return str(value).encode()
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"option {name} is too large") from None
    except Exception:
        raise TypeError(f"option {name} must be a number, a text or a bool, not {type(value).__name__}") from None
    if number == int(number) if abs(number) < 2**53 else False:
        return str(int(number)).encode()
    return repr(number).encode()


def help_text(function: Callable[..., int]) -> str:
    """What the options of psgd_*_options_text do, a line each."""
    found = ctypes.c_void_p()
    check(function(None, ctypes.byref(found)))
    return text(None, found)


class OptionInfo(ctypes.Structure):
    """psgd_option_info."""

    _fields_ = [
        ("name", ctypes.c_char_p), ("type", ctypes.c_int), ("default_value", ctypes.c_char * 32),
        ("min", ctypes.c_double), ("max", ctypes.c_double), ("min_excluded", ctypes.c_int),
        ("max_excluded", ctypes.c_int), ("choices", ctypes.POINTER(ctypes.c_char_p)), ("help", ctypes.c_char_p),
    ]  # fmt: skip


def option_names(describe: Callable[[int, Any], int]) -> List[str]:
    """The options that a psgd_*_option describes, as C spells them."""
    info, names = OptionInfo(), []  # type: ignore[var-annotated]
    while describe(len(names), ctypes.byref(info)):
        names.append(info.name.decode())
    return names


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
