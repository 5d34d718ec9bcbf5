"""From what a torch program hands over to units, the tensors of the C optimizer: a parameter, or a weight and its bias."""
from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from ._errors import SpecError
from ._sharded import Shards, own_part, shards_of, whole
from .context import Context
from .group import Group
from .native.rounding import HALVES

_PLAIN = (Tensor, torch.nn.Parameter)  # no subclass, such as DTensor

GroupChoice = Union[None, str, Mapping[str, str], Callable[[str, Tuple[int, ...]], str]]


class Unit:
    """One tensor of the C optimizer: a parameter, or a weight with its bias as its last column."""

    def __init__(self, params: Sequence[Tensor], shape: Tuple[int, ...], spec: Optional[str], name: str) -> None:
        self.params, self.shape, self.spec, self.name = list(params), shape, spec, name
        self.shapes = [p.shape for p in params]  # parameters may change theirs, which is refused
        self.array_dtype = params[0].dtype  # of what the C optimizer reads and writes; parameters may change theirs
        self.dtype = torch.float32 if self.array_dtype in HALVES else self.array_dtype  # of state and steps
        self.rows = 0  # room for the rows of a row-sparse gradient; 0: all gradients were whole
        self._arrays: Dict[str, Tuple[Tensor, List[List[Tensor]]]] = {}

    def take_rows(self, rows: int, group: Dict[str, Any]) -> bool:
        """Makes room for row-sparse gradients. True where that changes the group, as none was named."""
        first, self.rows = not self.rows, rows
        return first and self.spec is None and not group["joint"]

    def array(self, what: str, count: int = 1) -> Tuple[Tensor, List[List[Tensor]]]:
        """Room for a number of arrays of the unit's shape, and views of each in the shapes of the parameters."""
        if what not in self._arrays or len(self._arrays[what][1]) != count:
            room = torch.empty((count, *self.shape), dtype=self.array_dtype)
            self._arrays[what] = room, [self.split(whole) for whole in room]
        return self._arrays[what]

    def join(self, tensors: Sequence[Optional[Tensor]]) -> Tensor:
        """Tensors in the shapes of the parameters as one of the unit's; None counts as zeros. One that needs nothing else
        is given as it is, or as a view: only that of a parameter may be written to."""
        first = tensors[0]
        if len(tensors) == 1 and type(first) in _PLAIN and first.dtype is self.dtype:  # type: ignore[union-attr]
            made: Tensor = first if first.shape == self.shape else first.reshape(self.shape)  # type: ignore
            return made
        parts = [whole(torch.zeros_like(p) if t is None else t).detach() for t, p in zip(tensors, self.params)]
        if len(parts) == 1:
            return parts[0].reshape(self.shape).to(self.dtype)
        return torch.cat([parts[0].reshape(self.shape[0], -1), parts[1][:, None]], 1).to(self.dtype)

    def is_joined_in_place(self) -> bool:
        """Whether join gives the parameter itself in another shape."""
        p = self.params[0]
        return len(self.params) == 1 and type(p) in _PLAIN and p.dtype is self.dtype and p.is_contiguous()

    def split(self, whole: Tensor) -> List[Tensor]:
        parts = [whole] if len(self.params) == 1 else [whole[:, :-1], whole[:, -1]]
        return [part.reshape(param.shape) for part, param in zip(parts, self.params)]

    def lies_as_needed(self, tensor: Tensor) -> bool:
        """Whether the C optimizer can read and write the tensor where it is."""
        return (
            type(tensor) in _PLAIN and tensor.dtype is self.array_dtype and tensor.is_cpu
            and tensor.layout is torch.strided and tensor.is_contiguous() and tensor.shape == self.shapes[0]
        )  # fmt: skip

    def check_shape(self, tensor: Tensor, shape: torch.Size) -> None:
        if tensor.shape != shape:
            raise ValueError(
                f"{self.name} or its gradient is of shape {tuple(tensor.shape)} now, and was of shape {tuple(shape)} when "
                "the optimizer was made; make another optimizer"
            )

    def gather(self, lists: Sequence[Sequence[Optional[Tensor]]], what: str, negate: bool = False) -> Tensor:
        """Tensors in the shapes of the parameters as contiguous arrays: the tensor itself where it is one already, else
        a copy. None counts as zeros."""
        first = lists[0][0]
        if len(lists) == 1 and len(self.params) == 1 and first is not None and not negate:
            if self.lies_as_needed(first):
                return first
        for tensors in lists:
            for tensor, shape in zip(tensors, self.shapes):
                if tensor is not None:
                    self.check_shape(tensor, shape)
        room, views = self.array(what, len(lists))
        for parts, tensors in zip(views, lists):
            for part, tensor in zip(parts, tensors):
                part.zero_() if tensor is None else part.copy_(whole(tensor))
        return room.neg_() if negate else room

    def scatter(self, what: str) -> None:
        """From what gather copied back into the parameters."""
        for part, param in zip(self.array(what)[1][0], self.params):
            param.copy_(own_part(part, param))


def param_groups_of(params: Any) -> List[Any]:
    if isinstance(params, torch.nn.Module):
        return [{"params": list(params.named_parameters())}]
    if isinstance(params, Tensor):
        raise TypeError("params must be a module, an iterable of tensors or of param groups, not a tensor")
    if not isinstance(params, Iterable) or isinstance(params, (str, bytes)):
        raise TypeError(f"params must be a module, an iterable of tensors or of param groups, not {params!r}")
    listed = list(params)
    if not listed:
        raise ValueError("there are no parameters to optimize")
    if isinstance(listed[0], dict):
        return [_repeatable(each) for each in listed]
    return [{"params": listed}]


def _repeatable(group: Any) -> Any:
    once = isinstance(group, dict) and isinstance(group.get("params"), Iterator)
    return {**group, "params": list(group["params"])} if once else group


def count_parameters(groups: Sequence[Any]) -> int:
    found = [names_and_tensors(each["params"])[1] for each in groups if isinstance(each, dict) and "params" in each]
    return sum(each.numel() for tensors in found for each in tensors if isinstance(each, Tensor))


def names_and_tensors(params: Any) -> Tuple[Optional[List[str]], List[Tensor]]:
    if isinstance(params, Tensor):
        return None, [params]
    if isinstance(params, (set, frozenset)):
        raise TypeError("params must be in an order that stays the same; a set is not")
    if not isinstance(params, Iterable) or isinstance(params, (str, bytes, dict)):
        raise TypeError(f"params must be tensors or (name, tensor) pairs, not {type(params).__name__}")
    listed = list(params)
    named = [isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) for entry in listed]
    if listed and all(named):
        return [name for name, _ in listed], [tensor for _, tensor in listed]
    return None, listed


def check_group(group: Dict[str, Any]) -> None:
    """What C does not see or would not name as Python does; C checks everything else."""
    if isinstance(group["lr"], bool) or not isinstance(group["lr"], (int, float, Tensor)):
        raise TypeError(f"lr must be a number, not {type(group['lr']).__name__}")
    if group.setdefault("backend", None) not in (None, "c", "native", "offload"):
        raise ValueError(f"backend must be c, native, offload or None, not {group['backend']!r}")
    if group["hv"] not in ("auto", "exact", "difference"):
        raise ValueError(f"hv must be one of auto, exact, difference, not {group['hv']!r}")
    if not isinstance(group.setdefault("joint", False), bool):
        raise TypeError(f"joint must be a bool, not {type(group['joint']).__name__}")
    if isinstance(group["group"], Mapping) and not any(group.get("param_names") or ()):
        raise ValueError("patterns for groups need names: pass the model, or its named_parameters()")
    if group["joint"] and not isinstance(group["group"], (str, type(None))):
        kind = type(group["group"]).__name__
        raise TypeError(f"joint=True takes one spec for all tensors of the param group, not {kind}")


def is_native(group: Mapping[str, Any], param: Tensor) -> bool:
    """Whether torch ops move this parameter, not the C core."""
    return group.get("backend") in ("native", "offload") or param.device.type != "cpu"


def is_offloaded(group: Mapping[str, Any], param: Tensor) -> bool:
    """Whether a worker fits its preconditioner on the CPU while torch ops move it where it is."""
    if group.get("backend") is None and param.device.type != "cpu":
        return int(group.get("delay") or 0) > 0
    return group.get("backend") == "offload"


def shards_for(group: Mapping[str, Any], params: Sequence[Tensor]) -> Optional[Shards]:
    """How the rows of a unit are spread over processes that move them where they are; None: it is seen whole."""
    core_only = group["method"] != "psgd" or group["joint"] or group.get("integrate") or group.get("unbiased")
    if group.get("backend") == "c" or (core_only and params[0].device.type == "cpu"):
        return None
    found = [shards_of(p) for p in params]
    return found[0] if all(each == found[0] for each in found) else None


def check_param(params: Sequence[Tensor], name: str, backend: Optional[str]) -> None:
    for param in params:
        if param.layout != torch.strided:
            raise TypeError(f"{name} is a tensor of layout {param.layout}; only dense parameters can be optimized")
        if backend == "c" and param.device.type != "cpu":
            raise TypeError(f"{name} is on {param.device}, and backend=\"c\" is for CPU tensors; leave backend out")
        if param.dtype not in (torch.float32, torch.float64, *HALVES):
            raise TypeError(f"{name} is of {param.dtype}; float32, float64, bfloat16 and float16 can be optimized")


def _bias_name(name: str) -> str:
    head, dot, last = name.rpartition(".")
    return head + dot + last.replace("weight", "bias")


def fold_params(params: Sequence[Tensor], names: Sequence[str], fold: bool) -> Iterable[Tuple[List[Tensor], str]]:
    """The parameters of each unit, with the name of the first."""
    taken = set()
    by_name = {name: i for i, name in enumerate(names) if name}
    for i, (param, name) in enumerate(zip(params, names)):
        if i in taken or param.numel() == 0:
            continue
        unit = [param]
        if fold and param.dim() >= 2:
            j = by_name.get(_bias_name(name), -1) if name else i + 1
            if 0 <= j < len(params) and j != i and j not in taken:
                bias = params[j]
                if bias.dim() == 1 and bias.shape[0] == param.shape[0] and bias.dtype == param.dtype:
                    unit.append(bias)
                    taken.add(j)
        yield unit, name


def unit_shape(params: Sequence[Tensor]) -> Tuple[int, ...]:
    shape = tuple(params[0].shape)
    if len(shape) == 0:
        return (1,)
    if len(shape) == 1:
        return shape
    rest = math.prod(shape[1:])
    return (shape[0], rest + (len(params) > 1))


def _shape_for(
    spec: Optional[str], params: Sequence[Tensor], shape: Tuple[int, ...], context: Optional[Context]
) -> Tuple[int, ...]:
    """The shape that a spec is for: of more than two dimensions the matrix [first, the rest], unless the spec is a kron
    with a factor for each of them."""
    whole = tuple(params[0].shape)
    if len(whole) <= 2 or len(params) > 1 or not isinstance(spec, str):
        return shape
    for tried in (shape, whole):
        try:
            Group(spec, tried, context=context)
            return tried
        except SpecError:
            pass
    return shape


def make_units(group: Dict[str, Any], context: Optional[Context]) -> List[Unit]:
    """The units of a param group. Empty parameters have none."""
    check_group(group)
    names = group.get("param_names") or [""] * len(group["params"])
    joint, units = group["joint"], []
    for params, name in fold_params(group["params"], names, bool(group["fold_bias"]) and not joint):
        label = f"parameter {name}" if name else f"a parameter of shape {tuple(params[0].shape)}"
        check_param(params, label, group.get("backend"))
        if joint:
            units.append(Unit(params, tuple(params[0].shape) or (1,), None, label))
            if params[0].dtype != units[0].params[0].dtype:
                raise TypeError(
                    f"{label} is of {params[0].dtype} and {units[0].name} of {units[0].params[0].dtype}: a joint param "
                    "group has one type; make a param group for each"
                )
            continue
        shape = unit_shape(params)
        spec = choose_spec(group["group"], name, shape, context)
        units.append(Unit(params, _shape_for(spec, params, shape, context), spec, label))
    return units


def check_patterns(param_groups: Sequence[Mapping[str, Any]]) -> None:
    """Refuses a pattern that no name of the param groups with these patterns matches."""
    for group in param_groups:
        patterns = group["group"]
        if not isinstance(patterns, Mapping):
            continue
        names = [name for each in param_groups if each["group"] == patterns for name in each["param_names"]]
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                some = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
                raise ValueError(f"group: the pattern {pattern!r} matches no parameter; their names are {some}")


def choose_spec(choice: GroupChoice, name: str, shape: Tuple[int, ...], context: Optional[Context]) -> Optional[str]:
    """None: by its shape, as C chooses."""
    if choice is None:
        return None
    if isinstance(choice, str):
        if len(shape) > 1:
            return choice
        try:
            Group(choice, shape, context=context)
            return choice
        except SpecError as why:
            try:
                Group(choice, (*shape, 2), context=context)
            except SpecError:
                raise why from None
            return "diag"
    if isinstance(choice, Mapping):
        for pattern, spec in choice.items():
            if fnmatchcase(name, pattern):
                return spec
        return None
    if callable(choice):
        return choice(name, shape)
    raise TypeError(f"group must be a spec, a dict of patterns, a function or None, not {type(choice).__name__}")
