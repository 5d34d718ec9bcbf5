"""Contexts: what specs know beyond the built-in groups."""
from __future__ import annotations

import ctypes
from typing import Any, List, Optional

from ._lib import c_text, check, lib
from .user_group import Table, UserGroup, tables


class Context:
    """Holds the groups that a program has added. Objects made with a context keep it alive."""

    _handle: Optional[int] = None

    def __init__(self) -> None:
        self._tables: List[Table] = []
        self._failures: List[BaseException] = []
        handle = ctypes.c_void_p()
        check(lib.psgd_context_create(None, ctypes.byref(handle)))
        self._handle = handle.value

    def add_group(self, name: str, group: UserGroup) -> None:
        """Makes a group known under a name: lower case letters, digits and _, not yet taken."""
        own = context_handle(self)
        chars = c_text(name, "name")
        if not isinstance(group, UserGroup):
            raise TypeError(f"group must be an instance of a subclass of psgd.UserGroup, not {group!r}")
        made = tables(group, self._failures)
        self._tables += made
        check(lib.psgd_context_add_group(own, chars, ctypes.byref(made[0]), ctypes.byref(made[1])))

    def __del__(self) -> None:
        handle, self._handle = self._handle, None
        if handle and lib is not None:
            lib.psgd_context_free(handle)


def context_handle(context: Any) -> Optional[int]:
    if context is None:
        return None
    if not isinstance(context, Context):
        raise TypeError(f"context must be a psgd.Context, not {type(context).__name__}")
    if context._handle is None:
        raise ValueError("this context was never initialised")
    return context._handle


def finish(context: Optional[Context], status: int) -> None:
    """After a call into C: raises what a Python group raised in it, else what the status means."""
    if context is not None and context._failures:
        why = context._failures[0]
        context._failures.clear()
        raise why
    check(status)
