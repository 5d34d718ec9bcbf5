"""From what a torch program hands over to units: a parameter, or a weight and its bias, with a preconditioner each."""
from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from ._arrays import dtype_code
from ._errors import SpecError
from ._lib import check, lib
from .context import Context
from .group import Group
from .precond import Preconditioner

GroupChoice = Union[None, str, Mapping[str, str], Callable[[str, Tuple[int, ...]], str]]

_TRIANGLE = 1024  # the longest side that gets a triangular factor unless the caller says so


def standard_spec(shape: Tuple[int, ...]) -> str:
    """The group of a tensor for which none is given: triangular factors on short sides, diagonal ones on long sides."""
    if len(shape) == 1:
        return "diag"
    sides = ["tri" if size <= _TRIANGLE else "diag" for size in shape]
    return f"kron({','.join(sides)})"


class Unit:
    """One parameter, or a weight and its bias, with a preconditioner. ``out`` has the unit's shape; ``parts`` are views
    of it in the shapes of the parameters."""

    def __init__(self, params: Sequence[Tensor], shape: Tuple[int, ...], precond: Preconditioner, index: int) -> None:
        self.params, self.shape, self.precond, self.index = list(params), shape, precond, index
        self.handle, self.code, self.size = precond._own(), precond._code, precond.size
        self.out = torch.empty(shape, dtype=params[0].dtype)
        self.parts = self.split(self.out)
        self.v: Optional[Tensor] = None
        self.v_parts: List[Tensor] = []
        self.h: Optional[Tensor] = None
        self.sparse: Any = None  # the SparseRows of a parameter whose gradients have turned out to be sparse

    def split(self, whole: Tensor) -> List[Tensor]:
        if len(self.params) == 1:
            return [whole.view(self.params[0].shape)]
        weight, bias = self.params
        return [whole[:, :-1].view(weight.shape), whole[:, -1].view(bias.shape)]

    def gather(self, tensors: Sequence[Optional[Tensor]], to: Tensor, parts: Sequence[Tensor]) -> Tensor:
        """The tensors as one contiguous array: the tensor itself where it is one, else a copy in ``to``."""
        first = tensors[0]
        if len(tensors) == 1 and first is not None and first.is_contiguous() and first.dtype is to.dtype:
            return first
        for part, tensor in zip(parts, tensors):
            if tensor is None:
                part.zero_()
            else:
                part.copy_(tensor)
        return to

    def draw(self, seed: int, step: int) -> List[Tensor]:
        """v of this step, as views in the shapes of the parameters."""
        if self.v is None:
            self.v = torch.empty_like(self.out)
            self.v_parts = self.split(self.v)
        check(lib.psgd_normal_fill(self.code, seed, self.index, step, 0, self.size, self.v.data_ptr()))
        return self.v_parts

    def leave_out(self, grads: Sequence[Optional[Tensor]], v: Optional[int]) -> None:
        """What a missing gradient asks of v (its address, None where it is integrated out) before the fit."""

    def moves(self, grads: Sequence[Optional[Tensor]]) -> Tuple[List[Tensor], List[Tensor]]:
        """The parameters that these gradients move, and their parts of ``out``."""
        return self.params, self.parts


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
        return listed
    return [{"params": listed}]


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
    def number(name: str, least: float, below: float = math.inf) -> None:
        value = group[name]
        if isinstance(value, bool) or not isinstance(value, (int, float, Tensor)):
            raise TypeError(f"{name} must be a number, not {type(value).__name__}")
        if not least <= float(value) < below:
            raise ValueError(f"{name} must be at least {least:g} and below {below:g}, not {float(value):g}")

    number("lr", 0)
    number("momentum", 0, 1)
    number("weight_decay", 0)
    if group["clip"] is not None:
        number("clip", 0)
    every = group["update_every"]
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise ValueError(f"update_every must be an int of at least 1, not {every!r}")
    seed = group["seed"]
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
        raise ValueError(f"seed must be an int from 0 to 2**64 - 1, not {seed!r}")
    choices = {
        "criterion": ("fisher", "newton"), "hv": ("auto", "exact", "difference"), "operator": ("P", "P2", "Q"),
    }  # fmt: skip
    for name, words in choices.items():
        if group[name] not in words:
            raise ValueError(f"{name} must be one of {', '.join(words)}, not {group[name]!r}")
    if not isinstance(group.setdefault("joint", False), bool):
        raise TypeError(f"joint must be a bool, not {type(group['joint']).__name__}")
    if isinstance(group["group"], Mapping) and not group.get("param_names"):
        raise ValueError("patterns for groups need names: pass the model, or its named_parameters()")


def check_param(params: Sequence[Tensor], where: str) -> int:
    for param in params:
        if param.device.type != "cpu" or param.layout != torch.strided:
            raise TypeError(f"{where} is on {param.device}; only dense CPU tensors can be optimized")
        if param.dtype not in (torch.float32, torch.float64) or param.dtype != params[0].dtype:
            raise TypeError(f"{where} is of {param.dtype}; only float32 and float64 can be optimized")
    return dtype_code(params[0].dtype)


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


def choose_spec(choice: GroupChoice, name: str, shape: Tuple[int, ...], context: Optional[Context]) -> str:
    if choice is None:
        return standard_spec(shape)
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
        return standard_spec(shape)
    if callable(choice):
        return choice(name, shape)
    raise TypeError(f"group must be a spec, a dict of patterns, a function or None, not {type(choice).__name__}")
