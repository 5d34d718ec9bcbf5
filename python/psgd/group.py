"""Group specs: what there is, and what a spec stores and costs on a tensor."""
from __future__ import annotations

import ctypes
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._arrays import DTYPES, c_shape, dtype_code, shape_tuple
from ._lib import c_text, lib, text
from .context import Context, context_handle, finish
from .random import counter

Shape = Union[int, Sequence[int]]


class GroupName(NamedTuple):
    """A name that specs may use."""

    name: str
    summary: str
    formula: str


def groups(context: Optional[Context] = None) -> List[GroupName]:
    """The names that a spec may use, with a one-line summary and what each stores for size n."""
    handle = context_handle(context)
    found: List[GroupName] = []
    asked = lib.psgd_group_name, lib.psgd_group_summary, lib.psgd_group_formula
    while lib.psgd_group_name(handle, len(found)) is not None:
        found.append(GroupName(*((ask(handle, len(found)) or b"").decode() for ask in asked)))
    return found


class Laws(NamedTuple):
    """What ``check`` found. True where every law holds; its repr is the report."""

    broken: int
    report: str

    def __bool__(self) -> bool:
        return self.broken == 0

    def __repr__(self) -> str:
        return self.report


class Group:
    """A group spec fitted to a tensor's shape: ``Group("kron(tri,diag)", (20, 30))``.

    Its ``repr`` is the tree of the spec with the size of each part. Nothing of the group's size is allocated.

    Attributes: ``spec``, ``shape``, ``dtype``, ``size`` (stored by definition), ``bytes`` (as stored),
    ``update_flops``, ``update_bytes``, ``apply_flops``, ``apply_bytes`` (of one update of Q, of one P g).
    """

    spec: str
    shape: Tuple[int, ...]
    size: int
    bytes: int
    update_flops: float
    update_bytes: float
    apply_flops: float
    apply_bytes: float
    _tree = ""

    def __init__(self, spec: str, shape: Shape, dtype: Any = "float32", context: Optional[Context] = None) -> None:
        handle = context_handle(context)
        name, sizes, code = c_text(spec, "spec"), shape_tuple(shape), dtype_code(dtype)
        counts = (ctypes.c_int64 * 2)()
        costs = (ctypes.c_double * 4)()
        given = handle, name, len(sizes), c_shape(sizes), code
        to = [ctypes.byref(counts, 8 * i) for i in range(2)] + [ctypes.byref(costs, 8 * i) for i in range(4)]
        finish(context, lib.psgd_group_cost(*given, *to))
        tree = ctypes.c_void_p()
        finish(context, lib.psgd_group_tree(*given, ctypes.byref(tree)))
        self._tree = text(handle, tree).rstrip("\n")
        self.spec, self.shape, self.dtype, self.context = spec, sizes, DTYPES[code], context
        self.size, self.bytes = counts[0], counts[1]
        self.update_flops, self.update_bytes, self.apply_flops, self.apply_bytes = costs

    def __repr__(self) -> str:
        return self._tree

    def _repr_html_(self) -> str:
        escaped = self._tree.replace("&", "&amp;").replace("<", "&lt;")
        return f"<pre>{escaped}</pre>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Tuple[Any, ...]:
        return getattr(self, "spec", None), getattr(self, "shape", None), str(getattr(self, "dtype", None))

    def check(self, seed: int = 0) -> Laws:
        """Tests the laws that a group must satisfy on random elements, with what was measured and what is allowed."""
        if not self._tree:
            raise ValueError("this group was never initialised")
        broken, report = ctypes.c_int(), ctypes.c_void_p()
        handle, sizes = context_handle(self.context), self.shape
        status = lib.psgd_group_check(
            handle, self.spec.encode(), len(sizes), c_shape(sizes), dtype_code(self.dtype), counter(seed, "seed"),
            ctypes.byref(broken), ctypes.byref(report),
        )  # fmt: skip
        finish(self.context, status)
        return Laws(broken.value, text(handle, report))

    def preconditioner(self, **options: Any) -> "Any":
        """A Preconditioner on this group."""
        from .precond import Preconditioner

        return Preconditioner(self.spec, self.shape, self.dtype, context=self.context, **options)
