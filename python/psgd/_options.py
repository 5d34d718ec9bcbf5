"""Keyword arguments as an option list of the C library, which knows the names and checks the values."""
from __future__ import annotations

import ctypes
from contextlib import contextmanager
from itertools import count, takewhile
from typing import Any, Callable, Iterator, Mapping

from ._lib import c_text, check, lib

_VALUES = {0: "X", 1: "N", 2: "yes|no", 4: "TEXT"}  # by psgd_option_type; choices show their words


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


class OptionInfo(ctypes.Structure):
    """psgd_option_info."""

    _fields_ = [
        ("name", ctypes.c_char_p), ("type", ctypes.c_int), ("default_value", ctypes.c_char * 32),
        ("min", ctypes.c_double), ("max", ctypes.c_double), ("min_excluded", ctypes.c_int),
        ("max_excluded", ctypes.c_int), ("choices", ctypes.POINTER(ctypes.c_char_p)), ("help", ctypes.c_char_p),
    ]  # fmt: skip


def options_of(describe: Callable[[int, Any], int]) -> Iterator[OptionInfo]:
    """The options that a psgd_*_option describes."""
    for index in count():
        info = OptionInfo()
        if not describe(index, ctypes.byref(info)):
            return
        yield info


def underscored(option: str) -> str:
    return option.replace("-", "_")


def help_text(describe: Callable[[int, Any], int], keyword: Callable[[str], str] = underscored) -> str:
    """What these options do and their defaults, a line each, under their names as keywords."""
    lines = []
    for info in options_of(describe):
        value = _VALUES.get(info.type) or b"|".join(takewhile(bool, map(info.choices.__getitem__, count()))).decode()
        left = f"{keyword(info.name.decode())} {value}"
        gap = "\n" + " " * 37 if len(left) > 34 else ""
        default = f" [{info.default_value.decode()}]" if info.default_value else ""
        lines.append(f"  {left:34} {gap}{info.help.decode()}{default}\n")
    return "".join(lines)


@contextmanager
def option_list(context: "int | None", options: Mapping[str, Any]) -> Iterator[ctypes.c_void_p]:
    """The options, for the time of one create call. Underscores stand for the hyphens of the C names; None for the
    default."""
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
