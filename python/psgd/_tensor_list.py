"""The tensors of one dtype in a torch param group, and the C optimizer that moves them."""
from __future__ import annotations

import ctypes
from contextlib import contextmanager
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int64, c_void_p, pointer
from functools import lru_cache, partial
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from ._arrays import c_shape, dtype_code
from ._errors import UnsupportedError
from ._lib import F64, c_text, check, lib
from ._options import option_list, options_of, underscored
from ._sharded import local_of
from ._units import Unit
from .context import Context, Handle, context_handle, finish
from .joint import JointPreconditioner
from .precond import Preconditioner

Bytes = Union[bytes, bytearray]
SHARED = -1  # the index of the state that is no tensor's own: counters, and a joint preconditioner
_KNOWN_AS = {"decay": "weight_decay", "apply": "operator"}
_OWN = ("group", "joint", "first-tensor", "parameters")  # made from what the caller says, not passed on


def keyword_of(option: str) -> str:
    name = _KNOWN_AS.get(option, underscored(option))
    return "precond_" + name if name.split("_")[0] == "step" else name


def _keywords(describe: Any) -> Dict[str, str]:
    names = [info.name.decode() for info in options_of(describe)]
    return {keyword_of(option): option for option in names if option not in _OWN}


KEYWORDS = _keywords(partial(lib.psgd_optimizer_option, None))
_LIVE = ("lr", "momentum", "weight_decay", "precond_step")  # may change from step to step at no cost
_FIT = _keywords(lib.psgd_precond_option)


MANY = 1 << 62  # parameters: more than any default depends on


@lru_cache(maxsize=None)
def _in_force(criterion: str, parameters: int) -> Dict[str, str]:
    """Every option of psgd with its default for so many parameters in all."""
    with _probe("psgd", {"criterion": criterion, "parameters": parameters}) as optimizer:
        settings = options_of(partial(lib.psgd_optimizer_setting, optimizer))
        return {info.name.decode(): info.default_value.decode() for info in settings if info.default_value is not None}


def of_few(criterion: str, parameters: int) -> Dict[str, str]:
    """The defaults of psgd that take the place of others for so many parameters in all."""
    usual = _in_force(criterion, MANY)
    return {k: v for k, v in _in_force(criterion, parameters).items() if k != "parameters" and v != usual.get(k)}


def default_lr(method: str, criterion: str, parameters: int = MANY, paper: bool = False) -> float:
    """The learning rate of a method for which none is given."""
    few = of_few(criterion, parameters) if method == "psgd" and not paper else {}
    if "lr" in few:
        return float(few["lr"])
    name = f"psgd-{criterion}" if method == "psgd" and criterion in ("newton", "fisher") else method
    values = {info.name: info.default_value for info in options_of(partial(lib.psgd_optimizer_option, c_text(name, "method")))}
    return float(values.get(b"lr", b"0.01"))


class CTensor(Structure):
    _fields_ = [
        ("spec", c_char_p), ("ndim", c_int), ("shape", POINTER(c_int64)), ("rows", c_int64), ("name", c_char_p),
    ]  # fmt: skip


class CRows(Structure):
    _fields_ = [("count", c_int64), ("index", c_void_p)]


class Pointers:
    """The lists of arrays that a step takes, one array for each of count tensors."""

    def __init__(self, count: int) -> None:
        self.theta, self.gradient, self.v, self.h = ((c_void_p * count)() for _ in range(4))
        self.rows: Any = (POINTER(CRows) * count)()


def create(method: str, units: Sequence[Unit], options: Mapping[str, Any], context: Optional[Context]) -> Handle:
    """A psgd_optimizer over these units."""
    count, owner, made = len(units), context_handle(context), c_void_p()
    tensors = (CTensor * count)()
    for tensor, unit in zip(tensors, units):
        tensor.spec = None if unit.spec is None else c_text(unit.spec, "group")
        tensor.ndim, tensor.shape, tensor.rows = len(unit.shape), c_shape(unit.shape), unit.rows
        tensor.name = c_text(unit.name, "name")
    code, name = _array_code(units[0].array_dtype), c_text(method, "method")
    with option_list(owner, options) as given:
        status = lib.psgd_optimizer_create(owner, name, count, tensors, code, given, byref(made))
    handle = Handle(made, context, lib.psgd_optimizer_free)
    finish(context, status)
    return handle


@contextmanager
def _probe(method: str, options: Mapping[str, Any]) -> Iterator[Any]:
    """A psgd_optimizer of one element, to read the values that its options resolve to."""
    tensor, made = CTensor(b"diag", 1, c_shape((1,)), 0, b"parameter"), c_void_p()
    with option_list(None, options) as given:
        check(lib.psgd_optimizer_create(None, c_text(method, "method"), 1, byref(tensor), F64, given, byref(made)))
    try:
        yield made
    finally:
        lib.psgd_optimizer_free(made)


def refuse_values(method: str, options: Mapping[str, Any]) -> None:
    """Raises what the C core says of values that options do not take."""
    with _probe(method, options):
        pass


def _array_code(dtype: torch.dtype) -> int:
    """What psgd_dtype calls the type of parameters."""
    return {torch.bfloat16: 2, torch.float16: 3}.get(dtype) or dtype_code(dtype)


def choose_specs(group: Mapping[str, Any], units: Sequence[Unit]) -> List[str]:
    """The spec of every unit, those that name none included: as an optimizer over them has it."""
    if all(unit.spec is not None for unit in units):
        return [str(unit.spec) for unit in units]
    handle = create(group["method"], units, {"criterion": group["criterion"]}, None)
    found = [lib.psgd_optimizer_precond(handle.value, index) for index in range(len(units))]
    return [lib.psgd_precond_spec(each).decode() for each in found]


class TensorList:
    native = sharded = False
    key = "tensor"  # of the bytes in a state_dict

    def __init__(
        self, group: Dict[str, Any], units: Sequence[Unit], first: int, parameters: int, context: Optional[Context]
    ) -> None:
        """first: the index of the first tensor among those of all lists, so that no two of them draw the same v.
        parameters: of all lists together."""
        self.group, self.units, self.first, self.context = group, list(units), first, context
        self.parameters = parameters
        self.streams = 1 if group["joint"] else len(units)  # of random numbers
        self.views: Dict[int, Preconditioner] = {}
        self.pointers = Pointers(len(units))
        self.last: Dict[int, Tensor] = {}  # h of the last pair, by tensor
        self.touched = [local_of(p.detach()).as_strided((0,), (1,)) for unit in units for p in unit.params]
        self._create()

    # --- the C optimizer

    def _create(self) -> None:
        group, joint = self.group, self.group["joint"]
        given = {keyword: group.get(keyword) for keyword in KEYWORDS}
        if "plateau" in (group.get("lr_schedule"), group.get("precond_step_schedule")):
            raise UnsupportedError("the schedule plateau has no validation loss here; torch has ReduceLROnPlateau")
        self.seen = {keyword: float(v) if isinstance(v, Tensor) else v for keyword, v in given.items()}
        options = {KEYWORDS[keyword]: value for keyword, value in self.seen.items()}
        options["apply"] = options["apply"].lower() if isinstance(options["apply"], str) else options["apply"]
        options["rows"] = options["rows"] or "lazy"
        options.update({"joint": joint, "first-tensor": self.first, "parameters": self.parameters})
        if joint:
            options["group"] = group["group"]
        self.handle = create(group["method"], self.units, options, self.context)
        if lib.psgd_optimizer_needs_objective(self.handle.value):
            instead = "torch.optim.LBFGS, and psgd.minimize for functions of arrays, search"
            raise UnsupportedError(f"the method {group['method']} searches along its steps, which PSGD does not; {instead}")
        self.pairs = int(options["pairs"] or 1)
        self.views.clear()

    def _create_again(self, saved: Mapping[int, Bytes]) -> None:
        """With other options or more room for rows, from the state so far."""
        old = self.handle, self.seen, self.pairs
        try:
            self._create()
            self.load_states(saved)
        except BaseException:
            self.handle, self.seen, self.pairs = old
            raise

    def follow_options(self) -> None:
        """Takes over what the program, or a scheduler, has changed in the param group."""
        group, seen = self.group, self.seen
        changed = [keyword for keyword in KEYWORDS if group.get(keyword) != seen[keyword]]
        if all(group.get(keyword) and seen[keyword] and keyword in _LIVE for keyword in changed):
            for keyword in changed:
                option, seen[keyword] = KEYWORDS[keyword].encode(), float(group[keyword])
                check(lib.psgd_optimizer_set_number(self.handle.value, option, seen[keyword]))
        else:
            self._create_again(self.states() if lib.psgd_optimizer_steps(self.handle.value) else {})

    def states(self) -> Dict[int, bytearray]:
        """The state of each tensor, and what they share."""
        saved = {}
        for i in range(SHARED, len(self.units)):
            saved[i] = bytearray(lib.psgd_optimizer_tensor_state_bytes(self.handle.value, i))
            to = (ctypes.c_char * len(saved[i])).from_buffer(saved[i])
            check(lib.psgd_optimizer_tensor_state_save(self.handle.value, i, to))
        return saved

    def load_states(self, saved: Mapping[int, Bytes]) -> None:
        for index in sorted(saved):
            state = bytes(saved[index])
            check(lib.psgd_optimizer_tensor_state_load(self.handle.value, index, len(state), state))

    def preconditioner(self, index: int) -> Preconditioner:
        joint = self.group["joint"]
        index = 0 if joint else index
        found = lib.psgd_optimizer_precond(self.handle.value, index)
        if found is None:
            raise ValueError(f"the method {self.group['method']} has no preconditioner")
        if index not in self.views or self.views[index]._handle != found:  # with a delay another one comes into force
            unit, size = self.units[index], sum(p.numel() for unit in self.units for p in unit.params)
            kind = JointPreconditioner if joint else Preconditioner
            known = dict(
                _code=dtype_code(unit.dtype), spec=lib.psgd_precond_spec(found).decode(),
                shape=(size,) if joint else unit.shape, shapes=tuple(unit.shape for unit in self.units),
                _options={option: self.group[key] for key, option in _FIT.items() if self.group.get(key) is not None},
            )  # fmt: skip
            self.views[index] = kind._of(self.handle, found, self.context, **known)
        return self.views[index]

    def health(self) -> List[Dict[str, Any]]:
        joint = self.group["joint"]
        rows: List[Dict[str, Any]] = []
        if lib.psgd_optimizer_precond(self.handle.value, 0) is None:
            return rows
        for index, unit in enumerate(self.units[:1] if joint else self.units):
            view = self.preconditioner(index)
            name = unit.name[len("parameter ") :] if unit.name.startswith("parameter ") else unit.name
            rows.append({
                "name": "all" if joint else name, "shape": view.shape, "group": view.spec, "updates": view.updates,
                "skipped": view.skipped, "condition": view.condition,
                "criterion": None if joint else self._criterion(index, view),
            })  # fmt: skip
        return rows

    def _criterion(self, index: int, view: Preconditioner) -> Optional[float]:
        """Of the last pair per element: (v, Hv) of the last step with products, or the gradient with a new v."""
        unit, grads = self.units[index], [p.grad for p in self.units[index].params]
        if self.seen["integrate"]:
            return None
        if index in self.last:
            v, h = (x.to(unit.dtype) for x in (unit.array("v", self.pairs)[0], self.last[index]))
            value = view.criterion(v[0].view(view.shape), h.reshape(-1, *view.shape)[0].contiguous())
        elif self.group["criterion"] != "newton" and all(g is None or g.layout is torch.strided for g in grads):
            if all(g is None for g in grads):
                return None
            h = unit.gather([grads], "health").to(unit.dtype).reshape(view.shape).contiguous()
            v = torch.empty(view.shape, dtype=unit.dtype)
            check(lib.psgd_normal_fill(dtype_code(unit.dtype), 1, index, 0, 0, v.numel(), v.data_ptr()))
            value = view.criterion(v, h)
        else:
            return None
        return value / view.size

    # --- one step

    def wanted(self) -> List[int]:
        """The tensors that have a part in v: all that can move, where the coming step wants Hv of one of them."""
        handle = self.handle.value
        if not lib.psgd_optimizer_wants_product(handle):
            return []
        live = [i for i, unit in enumerate(self.units) if any(p.requires_grad for p in unit.params)]
        return live if any(lib.psgd_optimizer_tensor_wants_product(handle, i) for i in live) else []

    def draw(self, index: int) -> List[List[Tensor]]:
        """v of a tensor in the shapes of its parameters, for each pair."""
        unit = self.units[index]
        room, views = unit.array("v", self.pairs)
        check(lib.psgd_optimizer_draw(self.handle.value, index, room.data_ptr()))
        return views

    def load(self, products: Sequence[Mapping[int, Optional[Tensor]]]) -> bool:
        """Fills the pointer lists from the gradients and Hv by id of the parameter, for each pair. False where no
        tensor has a gradient."""
        at, found = self.pointers, False
        self.kept: List[Tensor] = []  # what the pointers of sparse gradients point to
        self.copied: List[int] = []  # units whose parameters are not contiguous in one array
        whole = not products and not self.group.get("maximize")
        for i, unit in enumerate(self.units):
            if whole and len(unit.params) == 1:  # the shortest way for the usual case
                p, grad = unit.params[0], unit.params[0].grad
                if grad is not None and unit.lies_as_needed(grad) and unit.lies_as_needed(p):
                    at.theta[i], at.gradient[i] = p.data_ptr(), grad.data_ptr()
                    at.rows[i] = at.h[i] = None
                    found = True
                    continue
            grads = [p.grad for p in unit.params]
            at.rows[i] = at.gradient[i] = at.h[i] = None
            if all(grad is None for grad in grads):
                continue
            found = True
            if all(grad is None or grad.layout is torch.strided for grad in grads):
                g = unit.gather([grads], "gradient", negate=bool(self.group.get("maximize")))
            else:
                index, g = self._rows_of(grads, unit)
                g = -g if self.group.get("maximize") else g
                if len(index) > unit.rows or unit.rows == 0:
                    self._make_room(i, len(index))
                    return self.load(products)
                self.kept += [index, g]
                at.rows[i] = pointer(CRows(len(index), index.data_ptr()))
            theta = unit.gather([unit.params], "theta")
            if theta is not unit.params[0]:
                self.copied.append(i)
            at.theta[i] = theta.data_ptr()
            at.gradient[i] = g.data_ptr()
            hs = [[by_id.get(id(p)) for p in unit.params] for by_id in products[: self.pairs]]
            if any(h is not None for each in hs for h in each):
                at.v[i] = unit.array("v", self.pairs)[0].data_ptr()
                self.last[i] = unit.gather(hs, "h")
                at.h[i] = self.last[i].data_ptr()
        return found

    def _rows_of(self, grads: Sequence[Optional[Tensor]], unit: Unit) -> Tuple[Tensor, Tensor]:
        """The rows that a sparse gradient has, and their values."""
        grad = grads[0]
        if self.group["criterion"] == "newton":
            raise UnsupportedError("sparse gradients take the fisher criterion")
        if grad is None or len(grads) > 1 or grad.layout is not torch.sparse_coo:
            raise UnsupportedError("only a parameter of its own can have a sparse gradient, and in COO layout")
        unit.check_shape(grad, unit.shapes[0])
        grad = grad.coalesce()
        if grad.sparse_dim() != 1:
            raise UnsupportedError("a sparse gradient must be sparse in its rows only, as that of nn.Embedding is")
        return grad.indices()[0].contiguous(), grad.values().to(unit.array_dtype).contiguous()

    def _make_room(self, index: int, rows: int) -> None:
        """For row-sparse gradients of a tensor."""
        unit, saved = self.units[index], self.states()
        old = unit.rows, unit.spec
        if unit.take_rows(max(64, 2 * rows), self.group):
            del saved[index]
        try:
            self._create_again(saved)
        except BaseException:
            unit.rows, unit.spec = old
            raise

    def check(self) -> int:
        """NotFiniteError.status where the step would be skipped, else 0; nothing changes."""
        at = self.pointers
        return int(lib.psgd_optimizer_check(self.handle.value, at.rows, at.gradient, at.v, at.h))

    def step(self) -> str:
        """One step from what was loaded; why it was skipped, or nothing."""
        at, handle = self.pointers, self.handle.value
        before = lib.psgd_optimizer_skipped(handle)
        status = lib.psgd_optimizer_step_rows(handle, at.theta, at.rows, at.gradient, at.v, at.h)
        finish(self.context, status)
        for index in self.copied:
            self.units[index].scatter("theta")
        torch._foreach_zero_(self.touched)  # empty views: autograd learns that the parameters were written to
        if lib.psgd_optimizer_skipped(handle) == before:
            return ""
        return str(lib.psgd_optimizer_note(handle).decode("utf-8", "replace"))
