"""``psgd.torch.PSGD``: preconditioned SGD on matrix Lie groups as a ``torch.optim.Optimizer``, on CPU tensors.

    opt = psgd.torch.PSGD(model, lr=0.01, group={"*.weight": "scaw"}, fold_bias=True)
    loss_function(model(x), y).backward()
    opt.step()

The optimizer itself is the C library's, one for each dtype in each param group. Here parameters become its tensors
(tensors with more than two dimensions are seen as matrices [first dimension, the rest]), and closures become gradients
and Hessian-vector products."""
from __future__ import annotations

import warnings
from collections import defaultdict
from difflib import get_close_matches
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch import Tensor

from ._errors import NotFiniteError
from ._lib import error, lib
from ._options import help_text
from ._products import Products
from ._tensor_list import KEYWORDS, SHARED, TensorList
from ._units import GroupChoice, Unit, make_units, names_and_tensors, param_groups_of, standard_spec
from .context import Context, finish
from .precond import Preconditioner

__all__ = ["PSGD", "standard_spec"]


class PSGD(torch.optim.Optimizer):
    """Preconditioned SGD: theta <- theta - lr P g, P = Q'Q fitted on a matrix Lie group as training proceeds.

    Args:
        params: a ``torch.nn.Module``, its ``named_parameters()`` or ``parameters()``, or param groups. Patterns need
            names, so a module or ``named_parameters()``.
        lr: the learning rate, which torch's schedulers may change.
        group: a spec for all tensors (vectors take ``diag`` where the spec is for matrices); a dict from patterns of
            names to specs, the first match wins; a function of name and shape; None: ``standard_spec``.
        criterion: ``"fisher"`` fits P to gradients and needs nothing but ``backward()``; ``"newton"`` fits it to
            Hessian-vector products and needs ``step(closure)``, or ``backward(create_graph=True)`` before ``step()``.
            The closure may return the loss and leave the rest to the optimizer (best: Hv is then exact, by torch's
            double backward), or call ``zero_grad`` and ``backward`` itself (Hv is then a finite difference).
        precond_step: learning rate of the preconditioner.
        momentum: factor of the moving average of the gradient, corrected for its start.
        weight_decay: decoupled, theta <- (1 - lr weight_decay) theta.
        clip: largest norm of P g over all tensors of a param group (that have the same dtype); None or 0: any.
        update_every: fit at every k-th step of a tensor.
        hv: ``"auto"`` (exact, or by differences where an op has no second derivative), ``"exact"``, ``"difference"``.
        fold_bias: a weight and its bias become one matrix [out, in + 1].
        joint: one preconditioner over all tensors of a param group as one vector, on one spec for vectors (``lra(10)``,
            ``xmat``, ``diag``; None: ``diag``).
        operator: what multiplies the gradient: P, P2, Q or inverse-fisher.
        seed: of v.
        method: ``"psgd"``, or another method of the C library: sgd, adam, adamw, rmsprop, esgd, kfac, ...
        options: every other option of the C library, with underscores: ``norm``, ``damping``, ``nesterov``,
            ``lr_schedule``, ``warmup``, ``clip_rms``, ``max_skipped``, ...; ``PSGD.options()`` tells what they do. The
            options ``step-...`` are called ``precond_step_...`` here. None: the default.

    A parameter without a gradient sits the step out, and its count of steps stays. Row-sparse gradients, those of
    ``nn.Embedding(sparse=True)``, stay sparse: criterion fisher, a group kron(diag,G), scan or scaw; ``rows`` is lazy
    unless set.

    A step whose gradient or Hv is not finite changes no parameter; ``skipped`` counts them and ``note`` says why. The
    first is a warning; more than ``max_skipped`` (20) in a row raise NotFiniteError.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 0.01,
        *,
        group: GroupChoice = None,
        criterion: str = "fisher",
        precond_step: Optional[float] = None,
        momentum: Optional[float] = None,
        weight_decay: Optional[float] = None,
        clip: Optional[float] = None,
        update_every: Optional[int] = None,
        hv: str = "auto",
        fold_bias: bool = False,
        joint: bool = False,
        operator: str = "P",
        seed: int = 0,
        method: str = "psgd",
        context: Optional[Context] = None,
        **options: Any,
    ) -> None:
        for name in options:
            if name not in KEYWORDS:
                near = get_close_matches(name, KEYWORDS, 1)
                raise TypeError(f"PSGD has no option {name}" + (f"; did you mean {near[0]}?" if near else ""))
        defaults = dict(
            lr=lr, group=group, criterion=criterion, precond_step=precond_step, momentum=momentum,
            weight_decay=weight_decay, clip=clip, update_every=update_every, hv=hv, fold_bias=fold_bias, joint=joint,
            operator=operator, seed=seed, method=method, **options,
        )  # fmt: skip
        self._start(context)
        super().__init__(param_groups_of(params), defaults)

    def _start(self, context: Optional[Context]) -> None:
        self._context = context
        self._lists: List[TensorList] = []
        self._products = Products()
        self.skipped, self.note, self._skipped_in_row = 0, "", 0

    @staticmethod
    def options() -> str:
        """What each option does, a line each, under its name in C."""
        return help_text(partial(lib.psgd_optimizer_option, None))

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
            self._lists += self._lists_of(self.param_groups[-1], self._lists)
        except BaseException:
            self.param_groups.pop()
            raise

    def _lists_of(self, group: Dict[str, Any], before: List[TensorList]) -> List[TensorList]:
        by_dtype: Dict[Any, List[Unit]] = {}
        for unit in make_units(group, self._context):
            rows = self.state[unit.params[0]].get("rows") if unit.params[0] in self.state else None
            if rows is not None:
                unit.take_rows(int(rows), group)
            by_dtype.setdefault(unit.params[0].dtype, []).append(unit)
        lists: List[TensorList] = []
        for units in by_dtype.values():
            first = sum(other.streams for other in before + lists)
            lists.append(TensorList(group, units, first, self._context))
        return lists

    def preconditioner(self, param: Tensor) -> Preconditioner:
        """The preconditioner of a parameter, to look at."""
        for each in self._lists:
            for index, unit in enumerate(each.units):
                if any(own is param for own in unit.params):
                    return each.preconditioner(index)
        raise ValueError("this optimizer has no such parameter")

    def _saved_state(self) -> Dict[Tensor, Dict[str, Tensor]]:
        """The state by parameter. It lives in C, so ``self.state`` is filled only while somebody asks for it."""
        saved: Dict[Tensor, Dict[str, Tensor]] = {}
        for each in self._lists:
            for index, state in each.states().items():
                unit = each.units[max(index, 0)]
                entry = saved.setdefault(unit.params[0], {})
                entry["shared" if index == SHARED else "tensor"] = torch.frombuffer(state, dtype=torch.uint8)
                if unit.rows:
                    entry["rows"] = torch.tensor(unit.rows)
        return saved

    def state_dict(self) -> Dict[str, Any]:
        """As every optimizer's. The state of a parameter is bytes of the C library."""
        self.state = defaultdict(dict, self._saved_state())
        try:
            return super().state_dict()
        finally:
            self.state = defaultdict(dict)

    def __getstate__(self) -> Dict[str, Any]:
        if self._context is not None:
            raise TypeError("an optimizer on groups of a context cannot be pickled; use its state_dict")
        return {
            "defaults": self.defaults, "param_groups": self.param_groups, "skipped": self.skipped, "note": self.note,
            "state": self._saved_state(),
        }  # fmt: skip

    def __setstate__(self, state: Dict[str, Any]) -> None:
        if "_lists" not in self.__dict__:
            self._start(None)
        old = self.__dict__.get("param_groups"), self._lists
        super().__setstate__(state)
        try:
            lists: List[TensorList] = []
            for group in self.param_groups:
                lists += self._lists_of(group, lists)
            for each in lists:
                each.load_states(dict(self._saved_for(each)))
            self._lists = lists
        except BaseException:
            self.param_groups, self._lists = old
            raise
        finally:
            self.state = defaultdict(dict)

    def _saved_for(self, each: TensorList) -> Iterator[Tuple[int, bytes]]:
        for index, unit in enumerate(each.units):
            for key, saved in self.state.get(unit.params[0], {}).items():
                if key != "rows":  # load_state_dict casts to the dtype of the parameter: bytes survive that
                    chars = saved.detach().to(torch.uint8).cpu().numpy().tobytes()
                    yield (SHARED if key == "shared" else index), chars

    # --- the step

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:  # type: ignore[override]
        """One step. See the class for what a closure may do. Returns what the closure returned."""
        for each in self._lists:
            each.follow_options()
        loss, products = self._evaluate(closure)
        with torch.no_grad():
            ready = [each for each in self._lists if each.load(products)]
            for each in ready if len(ready) > 1 else ():  # all of them move, or none
                status = each.check()
                if status == NotFiniteError.status:
                    self._skip(str(error(status)))
                    return loss
                finish(self._context, status)
            reasons = [why for why in [each.step() for each in ready] if why]
        if reasons:
            self._skip(reasons[0])
        else:
            self._skipped_in_row = 0
        return loss

    def _skip(self, why: str) -> None:
        """Counts a step that was skipped: the first is a warning, too many in a row are an error."""
        self.skipped, self.note, self._skipped_in_row = self.skipped + 1, why, self._skipped_in_row + 1
        limits = [group.get("max_skipped") for group in self.param_groups]
        limit = min(20 if given is None else int(given) for given in limits)
        if self._skipped_in_row > limit:
            count = self._skipped_in_row
            raise NotFiniteError(f"{count} steps in a row were skipped (option max-skipped is {limit}): {why}")
        if self.skipped == 1:
            what = f"a step was skipped: {why}; more than {limit} in a row (max_skipped) are an error, skipped counts all"
            warnings.warn(what, RuntimeWarning, stacklevel=4)

    def _evaluate(self, closure: Any) -> Tuple[Any, List[Dict[int, Optional[Tensor]]]]:
        """The loss, after which every parameter has its gradient, and Hv by id for each pair (v, Hv) that is wanted."""
        wanted = [(each, each.wanted()) for each in self._lists]
        lists = [each for each, indices in wanted if indices]
        params = [p for group in self.param_groups for p in group["params"]]
        if not lists:
            return None if closure is None else self._products.call(closure, params, False), []

        def directions() -> List[Tuple[List[Tensor], List[Tensor]]]:
            found: List[Tuple[List[Tensor], List[Tensor]]] = [([], []) for _ in range(max(x.pairs for x in lists))]
            for each, indices in wanted:
                for index in indices:
                    for (ps, vs), views in zip(found, each.draw(index)):
                        live = [(p, v) for p, v in zip(each.units[index].params, views) if p.requires_grad]
                        ps += [p for p, _ in live]
                        vs += [v for _, v in live]
            return found

        return self._products.evaluate(closure, params, lists[0].group["hv"], directions)
