"""The exceptions: one per status of the C library, each also what Python programmers catch for its kind."""
from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """A call of the C library failed. ``status`` is its number there; the text is its sentence."""

    status: int = 0

    def __init__(self, message: str = "", status: "int | None" = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status


class ArgumentError(Error, ValueError):
    """A value that the call does not take."""

    status = 1


class SpecError(Error, ValueError):
    """A group spec that does not parse, or does not fit its shape."""

    status = 2


class NoMemoryError(Error, MemoryError):
    """An allocation failed."""

    status = 3


class NotFiniteError(Error, ValueError):
    """A NaN or an infinity in the input; the state is as before."""

    status = 4


class FileError(Error, OSError):
    """A file that cannot be opened, read or written."""

    status = 5


class FormatError(Error, ValueError):
    """Bytes that are not what they should be."""

    status = 6


class CallbackError(Error, RuntimeError):
    """A function of the caller reported a failure. Python exceptions raised in it are passed on as they are."""

    status = 7


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not possible for this object."""

    status = 8


BY_STATUS: Dict[int, Type[Error]] = {cls.status: cls for cls in Error.__subclasses__()}
