"""``psgd.torch.PSGD``: preconditioned SGD on matrix Lie groups as a ``torch.optim.Optimizer``, on CPU tensors.

    opt = psgd.torch.PSGD(model, lr=0.01, group={"*.weight": "scaw"}, fold_bias=True)
    loss_function(model(x), y).backward()
    opt.step()

Each parameter (or weight and bias together) is a unit with a preconditioner of its own; tensors with more than two
dimensions are seen as matrices [first dimension, the rest]."""
from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from ._errors import NotFiniteError, SpecError, UnsupportedError
from ._joint_unit import joint_units
from ._lib import error, lib
from ._products import Products
from ._saved import StateWithBytes
from ._sparse import SparseRows, rows_of
from ._units import (
    GroupChoice,
    Unit,
    check_group,
    check_param,
    choose_spec,
    fold_params,
    names_and_tensors,
    param_groups_of,
    standard_spec,
    unit_shape,
)
from .context import Context, finish
from .precond import OPERATORS, Preconditioner

__all__ = ["PSGD", "standard_spec"]

_NOT_FINITE = NotFiniteError.status
_PRECOND_OPTIONS = ("damping", "norm", "init_scale", "init", "integrate", "unbiased", "batch", "average")


class PSGD(torch.optim.Optimizer):
    """Preconditioned SGD: theta <- theta - lr P g, P = Q'Q fitted on a matrix Lie group as training goes.

    Args:
        params: a ``torch.nn.Module``, its ``named_parameters()`` or ``parameters()``, or param groups. Patterns need
            names, so a module or ``named_parameters()``.
        lr: the step size.
        group: a spec for all tensors (vectors take ``diag`` where the spec is for matrices); a dict from patterns of
            names to specs, the first that matches counts; a function of name and shape; None: ``standard_spec``.
        criterion: ``"fisher"`` fits P to gradients and needs nothing but ``backward()``; ``"newton"`` fits it to
            Hessian-vector products and needs ``step(closure)``, or ``backward(create_graph=True)`` before ``step()``.
            The closure may return the loss and leave the rest to the optimizer (best: Hv is then exact, by torch's
            double backward), or call ``zero_grad`` and ``backward`` itself (Hv is then a difference of gradients).
        precond_step: step size of the fit.
        damping, norm, init_scale, init, integrate, unbiased, batch, average: see ``psgd.Preconditioner.options()``.
        momentum: factor of the moving average of the gradient, corrected for its start.
        weight_decay: decoupled, theta <- (1 - lr weight_decay) theta.
        clip: largest norm of P g over all tensors of a param group; None: any.
        (Row-sparse gradients of ``nn.Embedding(sparse=True)`` stay sparse: fisher, a group kron(diag,G), scan or scaw.)
        update_every: fit at every k-th step.
        hv: ``"auto"`` (exact, or by difference where an op has no second derivative), ``"exact"``, ``"difference"``.
        fold_bias: a weight and its bias become one matrix [out, in + 1].
        joint: one preconditioner over all tensors of a param group as one vector, on one spec for vectors (``lra(10)``,
            ``xmat``, ``diag``; None: ``diag``). A tensor without a gradient takes no part in that step and stays.
        operator: what multiplies the gradient: P, P2 or Q.
        seed: of v.

    A step whose gradient or Hv is not finite changes no parameter; ``skipped`` counts them and ``note`` says why.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 0.01,
        *,
        group: GroupChoice = None,
        criterion: str = "fisher",
        precond_step: float = 0.01,
        damping: Optional[float] = None,
        norm: Optional[str] = None,
        init_scale: Optional[float] = None,
        init: Optional[str] = None,
        integrate: Optional[bool] = None,
        unbiased: Optional[bool] = None,
        batch: Optional[int] = None,
        average: Optional[float] = None,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        clip: Optional[float] = None,
        update_every: int = 1,
        hv: str = "auto",
        fold_bias: bool = False,
        joint: bool = False,
        operator: str = "P",
        seed: int = 0,
        context: Optional[Context] = None,
    ) -> None:
        defaults = dict(
            lr=lr, group=group, criterion=criterion, precond_step=precond_step, damping=damping, norm=norm,
            init_scale=init_scale, init=init, integrate=integrate, unbiased=unbiased, batch=batch, average=average,
            momentum=momentum, weight_decay=weight_decay, clip=clip, update_every=update_every, hv=hv,
            fold_bias=fold_bias, joint=joint, operator=operator, seed=seed,
        )  # fmt: skip
        self._start(context)
        super().__init__(param_groups_of(params), defaults)

    def _start(self, context: Optional[Context]) -> None:
        self._context = context
        self._units: List[List[Unit]] = []
        self._scratch: Dict[Any, Tensor] = {}
        self._products = Products()
        self.skipped, self.note = 0, ""

    # --- param groups and state

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Adds parameters, as tensors or as (name, tensor) pairs."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, not {type(param_group).__name__}")
        param_group = dict(param_group)
        if "params" not in param_group:
            raise ValueError("a param group needs params")
        names, tensors = names_and_tensors(param_group["params"])
        param_group["params"] = tensors
        if names is not None:
            param_group["param_names"] = names
        super().add_param_group(param_group)
        try:
            self._units.append(self._make_units(self.param_groups[-1]))
        except BaseException:
            self.param_groups.pop()
            raise

    def _make_units(self, group: Dict[str, Any]) -> List[Unit]:
        check_group(group)
        names = group.get("param_names") or [""] * len(group["params"])
        first = sum(len(units) for units in self._units)
        options = {option: group.get(option) for option in _PRECOND_OPTIONS}
        options.update(context=self._context, criterion=group["criterion"], step=group["precond_step"])
        if group["joint"]:
            return joint_units(group, names, first, options)
        units: List[Unit] = []
        for params, name in fold_params(group["params"], names, bool(group["fold_bias"])):
            shape = unit_shape(params)
            where = f"parameter {name}" if name else f"a parameter of shape {tuple(params[0].shape)}"
            code = check_param(params, where)
            spec = choose_spec(group["group"], name, shape, self._context)
            try:
                precond = Preconditioner(spec, shape, ("float32", "float64")[code], **options)
            except SpecError as why:
                raise SpecError(f"{where}: {why}") from None
            units.append(Unit(params, shape, precond, first + len(units)))
        return units

    def preconditioner(self, param: Tensor) -> Preconditioner:
        """The preconditioner of a parameter, to look at."""
        for units in self._units:
            for unit in units:
                if any(own is param for own in unit.params):
                    return unit.precond if unit.sparse is None else unit.sparse.precond
        raise ValueError("this optimizer has no such parameter")

    def state_dict(self) -> Dict[str, Any]:
        """As every optimizer's; the preconditioners are in it as bytes."""
        with StateWithBytes(self):
            return super().state_dict()

    def __getstate__(self) -> Dict[str, Any]:
        if self._context is not None:
            raise TypeError("an optimizer on groups of a context cannot be pickled; use its state_dict")
        kept = {
            "defaults": self.defaults, "param_groups": self.param_groups, "skipped": self.skipped, "note": self.note,
        }  # fmt: skip
        with StateWithBytes(self):
            kept["state"] = {param: dict(state) for param, state in self.state.items()}
        return kept

    def __setstate__(self, state: Dict[str, Any]) -> None:
        if "_units" not in self.__dict__:
            self._start(None)
        super().__setstate__(state)
        old, self._units = self._units, []
        try:
            for group in self.param_groups:
                self._units.append(self._make_units(group))
        except BaseException:
            self._units = old
            raise
        for units in self._units:
            for unit in units:
                state = self.state[unit.params[0]] if unit.params[0] in self.state else {}
                saved = state.pop("precond", None)
                if "rows" in state:
                    unit.sparse = self._sparse_rows(self._group_of(unit), unit, state)
                if saved is not None:
                    precond = unit.precond if unit.sparse is None else unit.sparse.precond
                    precond.load_state(saved.detach().to(torch.uint8).cpu().numpy().tobytes())

    def _group_of(self, unit: Unit) -> Dict[str, Any]:
        return next(group for group, units in zip(self.param_groups, self._units) if unit in units)

    # --- the step

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:  # type: ignore[override]
        """One step. See the class for what a closure may do. Returns what the closure returned."""
        wanted = [self._wants_products(group) for group in self.param_groups]
        loss, products = self._evaluate(closure, wanted)
        with torch.no_grad():
            ready = []
            for index, group in enumerate(self.param_groups):
                ready.append(self._prepare(index, group, products, wanted[index]))
                if ready[-1] is None:
                    self.skipped += 1
                    return loss
            for index, group in enumerate(self.param_groups):
                self._move(group, *ready[index])
        return loss

    def _count(self, unit: Unit) -> int:
        return int(self.state[unit.params[0]].get("step", 0))

    def _updates_now(self, group: Dict[str, Any], unit: Unit) -> bool:
        return self._count(unit) % group["update_every"] == 0

    def _wants_products(self, group: Dict[str, Any]) -> bool:
        index = next(i for i, other in enumerate(self.param_groups) if other is group)
        live = [unit for unit in self._units[index] if any(p.requires_grad for p in unit.params)]
        return group["criterion"] == "newton" and any(self._updates_now(group, unit) for unit in live)

    def _evaluate(self, closure: Any, wanted: List[bool]) -> Tuple[Any, Dict[int, Optional[Tensor]]]:
        """The loss, after which every parameter has its gradient, and Hv of the parameters that want it, by id."""
        if closure is None and not any(wanted):
            return None, {}
        params = [p for group in self.param_groups for p in group["params"]]
        if not any(wanted):
            return self._products.call(closure, params, False), {}
        hv = self.param_groups[wanted.index(True)]["hv"]
        return self._products.evaluate(closure, params, hv, lambda: self._directions(wanted))

    def _directions(self, wanted: List[bool]) -> Tuple[List[Tensor], List[Tensor]]:
        """The parameters that want Hv, and v of each."""
        params, vs = [], []
        for group, units, wants in zip(self.param_groups, self._units, wanted):
            for unit in units if wants else ():
                for param, v in zip(unit.params, unit.draw(group["seed"], self._count(unit))):
                    if param.requires_grad:
                        params.append(param)
                        vs.append(v)
        return params, vs

    def _prepare(self, index: int, group: Dict[str, Any], products, wants: bool):
        """Fits where it is time to, and leaves P g in each unit's ``out``. None where something is not finite."""
        newton, beta = group["criterion"] == "newton", group["momentum"]
        what = OPERATORS[group["operator"]]
        update, apply, fill = lib.psgd_precond_update_pairs, lib.psgd_precond_apply, lib.psgd_normal_fill
        seed, integrate, every = group["seed"], bool(group["integrate"]), group["update_every"]
        params: List[Tensor] = []
        parts: List[Tensor] = []
        moved: List[Unit] = []
        sparse: List[Tuple[Tensor, Tensor, Tensor]] = []
        for unit in self._units[index]:
            grads = [p.grad for p in unit.params]
            if all(grad is None for grad in grads):
                continue
            if any(grad is not None and grad.layout is not torch.strided for grad in grads):
                found = self._prepare_rows(group, unit, grads[0])
                if found is None:
                    return None
                sparse += found
                continue
            g = unit.gather(grads, unit.out, unit.parts)
            state = self.state[unit.params[0]]
            count = state.get("step", 0)
            status = 0
            if count % every == 0:
                if newton:
                    hs = [products.get(id(p)) for p in unit.params]
                    if any(h is not None for h in hs):
                        if len(hs) > 1 or not hs[0].is_contiguous():
                            unit.h = torch.empty_like(unit.out) if unit.h is None else unit.h
                            h = unit.gather(hs, unit.h, unit.split(unit.h))
                        else:
                            h = hs[0]
                        unit.leave_out(grads, None if integrate else unit.v.data_ptr())
                        status = update(unit.handle, 1, unit.v.data_ptr(), h.data_ptr())
                    status = status or self._finite(g)
                elif integrate:
                    unit.leave_out(grads, None)
                    status = update(unit.handle, 1, None, g.data_ptr())
                else:
                    v = self._v(unit)
                    status = fill(unit.code, seed, unit.index, count, 0, unit.size, v)
                    unit.leave_out(grads, v)
                    status = status or update(unit.handle, 1, v, g.data_ptr())
            else:
                status = self._finite(g)
            if status == _NOT_FINITE:
                self.note = str(error(status)) if newton or count % every == 0 else "a gradient is not finite"
                return None
            finish(self._context, status)
            if beta:
                average = state.get("momentum_buffer")
                if average is None:
                    average = state["momentum_buffer"] = torch.zeros_like(unit.out)
                average.mul_(beta).add_(g.view(unit.shape), alpha=1 - beta)
                g = average
            finish(self._context, apply(unit.handle, what, g.data_ptr(), unit.out.data_ptr()))
            live, moves = unit.moves(grads)
            params += live
            parts += moves
            moved.append(unit)
        return params, parts, moved, sparse

    def _prepare_rows(self, group: Dict[str, Any], unit: Unit, grad: Optional[Tensor]):
        """The move of the rows of a row-sparse gradient: a list of (parameter, rows, P g). None: not finite."""
        if group["joint"]:
            raise UnsupportedError("a joint param group takes dense gradients only; sparse ones need one without joint")
        if grad is None or len(unit.params) > 1 or grad.layout is not torch.sparse_coo:
            raise UnsupportedError("only a parameter of its own can have a sparse gradient, and in COO layout")
        if group["criterion"] != "fisher" or group["momentum"] or group["weight_decay"] or group["integrate"]:
            raise UnsupportedError("sparse gradients take the fisher criterion, without momentum, weight_decay, integrate")
        state = self.state[unit.params[0]]
        if unit.sparse is None:
            unit.sparse = self._sparse_rows(group, unit, state)
        found = rows_of(grad, unit.shape[1])
        count = state.get("step", 0)
        state["step"] = count + 1
        if found is None:
            return []
        rows, g = found
        status = self._finite(g)
        if not status and count % group["update_every"] == 0:
            status = unit.sparse.update(rows, g, (group["seed"], unit.index, count))
        if status == _NOT_FINITE:
            self.note = "a sparse gradient is not finite"
            return None
        finish(self._context, status)
        return [(unit.params[0], rows, unit.sparse.apply(rows, g))]

    def _sparse_rows(self, group: Dict[str, Any], unit: Unit, state: Dict[str, Any]) -> SparseRows:
        if len(unit.shape) != 2:
            raise UnsupportedError("sparse gradients are for matrices")
        spec = unit.precond.spec
        if group["group"] is None:
            spec = "kron(diag," + standard_spec((1, unit.shape[1]))[len("kron(tri,") :]
        return SparseRows(unit.params[0], spec, group, unit.code, state)

    def _v(self, unit: Unit) -> int:
        """The address of room for the v of a unit, shared by all units of a number type."""
        dtype = unit.out.dtype
        room = self._scratch.get(dtype)
        if room is None or room.numel() < unit.size:
            most = max(u.size for units in self._units for u in units if u.out.dtype is dtype)
            room = self._scratch[dtype] = torch.empty(most, dtype=dtype)
        return room.data_ptr()

    @staticmethod
    def _finite(g: Tensor) -> int:
        total = float(g.sum())
        return 0 if math.isfinite(total) or bool(torch.isfinite(g).all()) else _NOT_FINITE

    def _move(self, group, params: List[Tensor], parts: List[Tensor], moved: List[Unit], sparse) -> None:
        """theta <- (1 - lr weight_decay) theta - lr P g, clipped."""
        if not params and not sparse:
            return
        lr = float(group["lr"])
        scales = self._count_steps(moved, group["momentum"])
        shrink = 1.0
        if group["clip"] is not None:
            norms = torch._foreach_norm([unit.out for unit in moved]) if moved else []
            lengths = [float(norm) * scale for norm, scale in zip(norms, scales)]
            length = math.hypot(*lengths, *(float(move.norm()) for _, _, move in sparse))
            if not math.isfinite(length):
                self.skipped, self.note = self.skipped + 1, "the preconditioned gradient is not finite"
                return
            shrink = group["clip"] / length if length > group["clip"] else 1.0
        for param, rows, move in sparse:
            param.index_add_(0, rows, move.view(-1, *param.shape[1:]), alpha=-lr * shrink)
        if not params:
            return
        if group["weight_decay"]:
            torch._foreach_mul_(params, 1 - lr * group["weight_decay"])
        if all(scale == scales[0] for scale in scales):
            torch._foreach_add_(params, parts, alpha=-lr * shrink * scales[0])
            return
        for unit, scale in zip(moved, scales):
            torch._foreach_add_(unit.params, unit.parts, alpha=-lr * shrink * scale)

    def _count_steps(self, moved: List[Unit], beta: float) -> List[float]:
        """Counts this step; the factors that correct the moving averages for their start."""
        scales = []
        for unit in moved:
            state = self.state[unit.params[0]]
            count = state["step"] = state.get("step", 0) + 1
            scales.append(1 / (1 - beta**count) if beta else 1.0)
        return scales
