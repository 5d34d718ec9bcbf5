"""Contexts: what specs know beyond the built-in groups."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

from ._lib import check, lib


class Context:
    """Holds the groups that a program has registered. Objects made with a context keep it alive."""

    _handle: Optional[int] = None

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        check(lib.psgd_context_create(None, ctypes.byref(handle)))
        self._handle = handle.value

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
