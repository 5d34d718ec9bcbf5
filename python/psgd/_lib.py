"""The C library: finding it, the prototypes of what is called, and its errors."""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path

from . import __path__ as FOLDERS
from ._errors import BY_STATUS, Error

F32, F64 = 0, 1

P = c_void_p
STATUS = c_int

# name: (result, arguments), as in include/psgd/*.h.
PROTOTYPES = {
    "psgd_version": (c_char_p, []),
    "psgd_last_error": (c_char_p, []),
    "psgd_set_threads": (STATUS, [c_int]),
    "psgd_context_create": (STATUS, [P, POINTER(P)]),
    "psgd_context_free": (None, [P]),
    "psgd_options_create": (STATUS, [P, POINTER(P)]),
    "psgd_options_free": (None, [P]),
    "psgd_options_set": (STATUS, [P, c_char_p, c_char_p]),
    "psgd_group_name": (c_char_p, [P, c_int]),
    "psgd_group_summary": (c_char_p, [P, c_int]),
    "psgd_group_formula": (c_char_p, [P, c_int]),
    "psgd_group_cost": (STATUS, [P, c_char_p, c_int, POINTER(c_int64), c_int] + [P] * 6),
    "psgd_group_tree": (STATUS, [P, c_char_p, c_int, POINTER(c_int64), c_int, POINTER(P)]),
    "psgd_group_check": (STATUS, [P, c_char_p, c_int, POINTER(c_int64), c_int, c_uint64, POINTER(c_int), POINTER(P)]),
    "psgd_context_add_group": (STATUS, [P, c_char_p, P, P]),
    "psgd_text_free": (None, [P, P]),
    "psgd_precond_create": (STATUS, [P, c_char_p, c_int, POINTER(c_int64), c_int, P, POINTER(P)]),
    "psgd_precond_create_joint": (STATUS, [P, c_char_p, c_int, POINTER(c_int64), c_int, P, POINTER(P)]),
    "psgd_precond_update_segments": (STATUS, [P, POINTER(P), POINTER(P)]),
    "psgd_precond_apply_segments": (STATUS, [P, c_int, POINTER(P), POINTER(P)]),
    "psgd_precond_criterion_segments": (STATUS, [P, POINTER(P), POINTER(P), POINTER(c_double)]),
    "psgd_precond_free": (None, [P]),
    "psgd_precond_update_pairs": (STATUS, [P, c_int64, P, P]),
    "psgd_precond_apply": (STATUS, [P, c_int, P, P]),
    "psgd_precond_criterion": (STATUS, [P, P, P, POINTER(c_double)]),
    "psgd_precond_condition": (STATUS, [P, POINTER(c_double)]),
    "psgd_precond_factor_count": (c_int, [P]),
    "psgd_precond_factor_size": (c_int64, [P, c_int]),
    "psgd_precond_factor": (STATUS, [P, c_int, P]),
    "psgd_precond_element_count": (c_int64, [P]),
    "psgd_precond_elements": (STATUS, [P, P]),
    "psgd_precond_set_step": (STATUS, [P, c_double]),
    "psgd_precond_size": (c_int64, [P]),
    "psgd_precond_spec": (c_char_p, [P]),
    "psgd_precond_updates": (c_int64, [P]),
    "psgd_precond_skipped": (c_int64, [P]),
    "psgd_precond_state_bytes": (c_int64, [P]),
    "psgd_precond_state_save": (STATUS, [P, P]),
    "psgd_precond_state_load": (STATUS, [P, c_int64, P]),
    "psgd_optimizer_create": (STATUS, [P, c_char_p, c_int, P, c_int, P, POINTER(P)]),
    "psgd_optimizer_free": (None, [P]),
    "psgd_optimizer_option": (c_int, [c_char_p, c_int, P]),
    "psgd_optimizer_setting": (c_int, [P, c_int, P]),
    "psgd_precond_option": (c_int, [c_int, P]),
    "psgd_optimizer_needs_objective": (c_int, [P]),
    "psgd_optimizer_wants_product": (c_int, [P]),
    "psgd_optimizer_tensor_wants_product": (c_int, [P, c_int]),
    "psgd_optimizer_draw": (STATUS, [P, c_int, P]),
    "psgd_optimizer_step_rows": (STATUS, [P, P, P, P, P, P]),
    "psgd_optimizer_check": (STATUS, [P, P, P, P, P]),
    "psgd_optimizer_set_number": (STATUS, [P, c_char_p, c_double]),
    "psgd_optimizer_steps": (c_int64, [P]),
    "psgd_optimizer_skipped": (c_int64, [P]),
    "psgd_optimizer_note": (c_char_p, [P]),
    "psgd_optimizer_precond": (P, [P, c_int]),
    "psgd_optimizer_tensor_state_bytes": (c_int64, [P, c_int]),
    "psgd_optimizer_tensor_state_save": (STATUS, [P, c_int, P]),
    "psgd_optimizer_tensor_state_load": (STATUS, [P, c_int, c_int64, P]),
    "psgd_minimize": (STATUS, [P, c_int64, P, P, P, P, P, P]),
    "psgd_check_gradient": (STATUS, [P, c_int64, P, P, P, P]),
    "psgd_minimize_option": (c_int, [c_int, P]),
    "psgd_outcome_text": (c_char_p, [c_int]),
    "psgd_normal_fill": (STATUS, [c_int, c_uint64, c_uint64, c_uint64, c_int64, c_int64, P]),
}


def _load() -> ctypes.CDLL:
    """The library that the environment variable PSGD_LIBRARY names, the one inside this package, or that of the system."""
    # FOLDERS: that of an editable installation has the library, that of the sources has the modules.
    inside = (Path(folder) / "libpsgd.so" for folder in FOLDERS)
    path = os.environ.get("PSGD_LIBRARY") or next((str(file) for file in inside if file.exists()), "libpsgd.so.0")
    try:
        loaded = ctypes.CDLL(path)
    except OSError as why:
        raise ImportError(
            f"psgd cannot load its C library: {why}. Install the package with pip from the repository's root, "
            "or let PSGD_LIBRARY name a libpsgd.so"
        ) from why
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


lib = _load()


def check(status: int) -> None:
    """Raises what a status of the C library means."""
    if status:
        raise error(status)


def set_threads(count: int) -> None:
    """From now on the library shares out its work to that many threads, the caller's included; 0: the default."""
    check(lib.psgd_set_threads(count))


def error(status: int) -> Error:
    sentence = lib.psgd_last_error().decode("utf-8", "replace")
    return BY_STATUS.get(status, Error)(sentence, status)


def text(context: "int | None", pointer: c_void_p) -> str:
    """The text that the library allocated, which is then freed."""
    try:
        return ctypes.string_at(pointer.value).decode("utf-8", "replace") if pointer.value else ""
    finally:
        lib.psgd_text_free(context, pointer)


def c_text(value: object, name: str) -> bytes:
    """A str as C wants it."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    try:
        chars = value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not a valid text") from None
    if b"\0" in chars:
        raise ValueError(f"{name} must not contain a NUL character")
    return chars
