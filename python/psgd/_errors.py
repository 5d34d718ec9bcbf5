"""The exceptions: one per status of the C library, each also what Python programmers catch for its kind."""
from __future__ import annotations

from typing import Any, Dict, Type

BY_STATUS: Dict[int, Type["Error"]] = {}


class Error(Exception):
    """A call of the C library failed. ``status`` is its number there; the text is its sentence."""

    status: int = 0

    def __init_subclass__(cls, status: "int | None" = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if status is not None:
            cls.status = status
            BY_STATUS[status] = cls

    def __init__(self, message: str = "", status: "int | None" = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status


class ArgumentError(Error, ValueError, status=1):
    """A value that the call does not take."""


class SpecError(Error, ValueError, status=2):
    """A group spec that does not parse, or does not fit its shape."""


class NoMemoryError(Error, MemoryError, status=3):
    """An allocation failed."""


class NotFiniteError(Error, ValueError, status=4):
    """A NaN or an infinity in the input; the state is as before."""


class FileError(Error, OSError, status=5):
    """A file that cannot be opened, read or written."""


class FormatError(Error, ValueError, status=6):
    """Bytes that are not what they should be."""


class CallbackError(Error, RuntimeError, status=7):
    """A function of the caller reported a failure. Python exceptions raised in it are passed on as they are."""


class UnsupportedError(Error, NotImplementedError, status=8):
    """Valid, but not possible for this object."""
