"""Contexts: what specs know beyond the built-in groups."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, List, Optional

from ._lib import c_text, check, lib
from .user_group import Table, UserGroup, tables


class _Core:
    """The C context and the number of objects that use it: it is freed with the last of them, in whatever order the
    garbage collector finalises them."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        check(lib.psgd_context_create(None, ctypes.byref(handle)))
        self.handle = handle.value
        self.users = 1
        self.tables: List[Table] = []
        self.failures: List[BaseException] = []

    def release(self) -> None:
        self.users -= 1
        if self.users == 0 and lib is not None:
            lib.psgd_context_free(self.handle)


class Context:
    """Holds the groups that a program has added. Objects made with a context keep it alive."""

    _core: Optional[_Core] = None

    def __init__(self) -> None:
        if self._core is not None:
            raise TypeError("this context is initialised already")
        self._core = _Core()

    def add_group(self, name: str, group: UserGroup) -> None:
        """Makes a group known under a name: lower case letters, digits and _, not yet taken."""
        core = core_of(self)
        chars = c_text(name, "name")
        if not isinstance(group, UserGroup):
            raise TypeError(f"group must be an instance of a subclass of psgd.UserGroup, not {group!r}")
        made = tables(group, core.failures)
        core.tables += made
        check(lib.psgd_context_add_group(core.handle, chars, ctypes.byref(made[0]), ctypes.byref(made[1])))

    def __copy__(self) -> "Context":
        return self

    def __deepcopy__(self, memo: Any) -> "Context":
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a psgd.Context cannot be pickled")

    def __del__(self) -> None:
        core, self._core = self._core, None
        if core is not None:
            core.release()


def core_of(context: Any) -> _Core:
    if not isinstance(context, Context):
        raise TypeError(f"context must be a psgd.Context, not {type(context).__name__}")
    if context._core is None:
        raise ValueError("this context was never initialised")
    return context._core


def context_handle(context: Any) -> Optional[int]:
    return None if context is None else core_of(context).handle


class Handle:
    """An object of the C library, freed with the last reference to it, and before its context."""

    def __init__(self, made: ctypes.c_void_p, context: Optional[Context], free: Callable[[int], None]) -> None:
        self.value, self._core, self._free = made.value, core_of(context) if context is not None else None, free
        if self._core is not None:
            self._core.users += 1

    def __del__(self) -> None:
        if self.value:
            self._free(self.value)
        if self._core is not None:
            self._core.release()


def finish(context: Optional[Context], status: int) -> None:
    """After a call into C: raises what a Python group raised in it, else what the status means."""
    if context is not None:
        failures = core_of(context).failures
        if failures:
            why = failures[0]
            failures.clear()
            raise why
    check(status)
