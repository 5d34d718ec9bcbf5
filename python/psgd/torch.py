"""``psgd.torch.PSGD``: preconditioned SGD on matrix Lie groups as a ``torch.optim.Optimizer``.

    opt = psgd.torch.PSGD(model, lr=0.01, group={"*.weight": "scaw"}, fold_bias=True)
    loss_function(model(x), y).backward()
    opt.step()

On CPU tensors the optimizer itself is the C library's, one for each dtype in each param group; tensors elsewhere are
moved by torch ops that do the same (``psgd.native``). Here parameters become its tensors
(tensors with more than two dimensions are seen as matrices [first dimension, the rest]), and closures become gradients
and Hessian-vector products."""
from __future__ import annotations

import warnings
from difflib import get_close_matches
from functools import partial
from typing import Any, Callable, DefaultDict, Dict, Iterator, List, Optional, Tuple

import torch
from torch import Tensor

from ._adam_keywords import translate
from ._errors import FormatError, NotFiniteError, UnsupportedError
from ._lib import error, lib
from ._options import help_text
from ._products import Products
from ._replicas import Replicas
from ._sharded import is_sharded
from ._tensor_list import KEYWORDS, SHARED, TensorList, choose_specs, default_lr, keyword_of
from ._units import GroupChoice, Unit, check_patterns, count_parameters, is_native, is_offloaded, make_units, names_and_tensors, param_groups_of, shards_for
from .context import Context, finish
from .native.offload import OffloadList
from .native.sharded import ShardedList
from .native.tensors import READ_EVERY, NativeList
from .precond import Preconditioner

__all__ = ["PSGD"]
_FOLDED = {"folded": torch.zeros(1, dtype=torch.uint8)}  # of a bias that is part of its weight's tensor
MAX_ROWS = 1 << 15  # that a state asks room for: load_state_dict casts them to the dtype of the parameter, such as float16
_KEYS = {"tensor", "shared", "rows", "native", "offload", "folded", "row_bytes", "shared_bytes", "owner_bytes"}
_SYNONYMS = {
    "learning_rate": "lr", "step_size": "lr", "step": "precond_step", "precond_lr": "precond_step", "decay": "weight_decay",
    "apply": "operator", "clip_norm": "clip", "max_norm": "clip",
}  # fmt: skip


class _State(DefaultDict[Any, Any]):
    """The state, which lives elsewhere and is filled in only while it is read. Never false:
    torch.distributed.checkpoint would take a step with gradients of zero to fill it."""

    def __init__(self, state: Any = ()) -> None:
        super().__init__(dict, state)

    def __bool__(self) -> bool:
        return True


class PSGD(torch.optim.Optimizer):
    """Preconditioned SGD: theta <- theta - lr P g, P = Q'Q fitted on a matrix Lie group as training proceeds.

    Args:
        params: a ``torch.nn.Module``, its ``named_parameters()`` or ``parameters()``, or param groups. Patterns need
            names, so a module or ``named_parameters()``.
        lr: the learning rate, which torch's schedulers may change. None: the default of the method and criterion.
        group: a spec for all tensors (vectors take ``diag`` where the spec is for matrices); a dict from patterns of
            names to specs, the first match wins; a function of name and shape; None: by its shape (``psgd group --plan`` shows how).
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
            ``xmat``, ``diag``; None: by its size).
        operator: what multiplies the gradient: P, P2, Q or inverse-fisher.
        seed: of v.
        maximize: go up the gradient.
        process_group: the processes that hold replicas of the parameters. None: all of them, where
            ``torch.distributed`` is initialised; False: none. Gradients and products become their means over these
            processes, unless DistributedDataParallel has seen to that, so all replicas take the same step.
        backend: ``"c"``, the C core, for CPU tensors; ``"native"``, torch ops, for any device; ``"offload"``, torch ops
            that take their steps with preconditioners which the C core fits on the CPU meanwhile (``delay=k``: a fit
            takes effect k steps later). None: the C core where it can, else with a ``delay`` offload, else native.
        method: ``"psgd"``, or another method of the C library: sgd, adam, adamw, rmsprop, esgd, kfac, ...
        options: every other option of the C library, with underscores: ``norm``, ``damping``, ``nesterov``,
            ``lr_schedule``, ``warmup``, ``clip_rms``, ``max_skipped``, ...; ``PSGD.options()`` describes them. The
            options ``step-...`` are called ``precond_step_...`` here. None: the default.

    A parameter without a gradient is left as it is, and the step does not count for it. Row-sparse gradients, those of
    ``nn.Embedding(sparse=True)``, stay sparse: criterion fisher, a group kron(diag,G), scan or scaw; ``rows`` is lazy
    unless set.

    A step whose gradient or Hv is not finite changes no parameter; ``skipped`` counts such steps and ``note`` says why.
    The first is a warning; more than ``max_skipped`` (20) in a row raise NotFiniteError.
    """

    def __init__(
        self,
        params: Any,
        lr: Optional[float] = None,
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
        process_group: Any = None,
        backend: Optional[str] = None,
        context: Optional[Context] = None,
        **options: Any,
    ) -> None:
        options = translate(method, options)
        for name in options:
            if name == "maximize":
                continue
            if name not in KEYWORDS:
                near = [_SYNONYMS[name]] if name in _SYNONYMS else get_close_matches(name, KEYWORDS, 1)
                raise TypeError(f"PSGD has no option {name}" + (f"; did you mean {near[0]}?" if near else ""))
        self._lr_by_default = lr is None
        defaults = dict(
            lr=default_lr(method, criterion) if lr is None else lr, group=group, criterion=criterion, precond_step=precond_step, momentum=momentum,
            weight_decay=weight_decay, clip=clip, update_every=update_every, hv=hv, fold_bias=fold_bias, joint=joint,
            operator=operator, seed=seed, method=method, backend=backend, **options,
        )  # fmt: skip
        self._start(context, Replicas(process_group))
        groups = param_groups_of(params)
        self._parameters = count_parameters(groups)  # which defaults depend on; those of groups that are added later do not
        super().__init__(groups, defaults)
        check_patterns(self.param_groups)
        self.state = _State()

    def _start(self, context: Optional[Context], replicas: Replicas) -> None:
        self._context, self._replicas = context, replicas
        self._lists: List[Any] = []  # TensorList, NativeList
        self._products = Products()
        self._skipped, self.note, self._skipped_in_row, self._steps = 0, "", 0, 0

    @property
    def skipped(self) -> int:
        """Steps that changed no parameter because something was not finite."""
        return self._skipped + max([each.skipped() for each in self._lists if each.native], default=0)

    @skipped.setter
    def skipped(self, count: int) -> None:
        self._skipped = count

    @staticmethod
    def options() -> str:
        """What each keyword does, a line each."""
        return help_text(partial(lib.psgd_optimizer_option, None), keyword_of)

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
        # torch wants names in all param groups or in none
        given = param_group.get("param_names")
        param_group["param_names"] = names if names is not None else given or [""] * len(tensors)
        if self._lr_by_default and "lr" not in param_group:
            set_to = {**self.defaults, **param_group}
            paper = set_to.get("defaults") == "paper"
            param_group["lr"] = default_lr(set_to["method"], set_to["criterion"], self._parameters, paper)
        super().add_param_group(param_group)
        try:
            self._lists += self._lists_of(self.param_groups[-1], self._lists)
        except BaseException:
            self.param_groups.pop()
            raise

    def _lists_of(self, group: Dict[str, Any], before: List[Any]) -> List[Any]:
        by_dtype: Dict[Any, List[Unit]] = {}
        for unit in make_units(group, self._context):
            rows = self.state[unit.params[0]].get("rows") if unit.params[0] in self.state else None
            if rows is not None:
                unit.take_rows(int(rows), group)
            p = unit.params[0]
            shards = shards_for(group, unit.params)
            key = unit.array_dtype, p.device, is_native(group, p) or shards is not None, shards
            by_dtype.setdefault(key, []).append(unit)
        lists: List[Any] = []
        for (_, _, native, shards), units in by_dtype.items():
            first = sum(other.streams for other in [*before, *lists])
            if native and self._context is not None:
                raise UnsupportedError("groups of a context are for parameters on the CPU and the C core")
            offloaded = is_offloaded(group, units[0].params[0])
            if offloaded and shards is not None:
                raise UnsupportedError('backend="offload" is for parameters that are not sharded')
            if shards is not None:
                lists.append(ShardedList(group, units, shards, first, self._parameters, KEYWORDS, partial(choose_specs, group)))
            elif native:
                kind = OffloadList if offloaded else NativeList
                lists.append(kind(group, units, first, self._parameters, KEYWORDS, partial(choose_specs, group)))
            else:
                lists.append(TensorList(group, units, first, self._parameters, self._context))
        return lists

    def preconditioner(self, param: Tensor) -> Preconditioner:
        """The preconditioner of a parameter, to look at."""
        for each in self._lists:
            for index, unit in enumerate(each.units):
                if any(own is param for own in unit.params):
                    found: Preconditioner = each.preconditioner(index)
                    return found
        raise ValueError("this optimizer has no such parameter")

    def health(self) -> List[Dict[str, Any]]:
        """The state of the fits, one dict for each tensor that has a preconditioner (with ``joint``, for each param
        group): ``name``, ``shape``, ``group`` (the spec), ``updates``, ``skipped`` (parts of updates that would have
        left the group), ``condition`` (of Q) and ``criterion``, h'Ph + v'P^-1 v of the last pair per element, which the
        fit makes small; None where there has been no pair."""
        return [row for each in self._lists for row in each.health()]

    def _saved_state(self) -> Dict[Tensor, Dict[str, Tensor]]:
        """The state by parameter. It lives in C, so ``self.state`` is filled only while it is read."""
        saved: Dict[Tensor, Dict[str, Tensor]] = {}
        for each in self._lists:
            if each.sharded:
                for index, entries in each.entries().items():
                    saved[each.units[index].params[0]] = entries
                    saved.update({bias: dict(_FOLDED) for bias in each.units[index].params[1:]})
                continue
            for index, state in each.states().items():
                unit = each.units[max(index, 0)]
                entry = saved.setdefault(unit.params[0], {})
                key = "shared" if index == SHARED else each.key
                entry[key] = torch.frombuffer(state, dtype=torch.uint8)
                for bias in unit.params[1:]:  # torch.distributed.checkpoint wants an entry for every parameter
                    saved[bias] = dict(_FOLDED)
                if unit.rows:
                    entry["rows"] = torch.tensor(min(unit.rows, MAX_ROWS))
        return saved

    def state_dict(self) -> Dict[str, Any]:
        """As every optimizer's. The state of a parameter is bytes of the C library."""
        self.state = _State(self._saved_state())
        try:
            return super().state_dict()
        finally:
            self.state = _State()

    def __getstate__(self) -> Dict[str, Any]:
        if self._context is not None:
            raise TypeError("an optimizer on groups of a context cannot be pickled; use its state_dict")
        return {
            "defaults": self.defaults, "param_groups": self.param_groups, "_skipped": self._skipped, "note": self.note,
            "state": self._saved_state(), "_lr_by_default": self._lr_by_default, "_parameters": self._parameters,
        }  # fmt: skip

    def __setstate__(self, state: Dict[str, Any]) -> None:
        if "_lists" not in self.__dict__:
            self._start(None, Replicas(None))
        old: Tuple[Any, List[Any]] = (self.__dict__.get("param_groups"), self._lists)
        super().__setstate__(state)
        self.__dict__.setdefault("_lr_by_default", False)  # an older pickle lacks these
        self.__dict__.setdefault("_parameters", count_parameters(self.param_groups))
        try:
            self._refuse_other_state()
            lists: List[Any] = []
            for group in self.param_groups:
                lists += self._lists_of(group, lists)
            for each in lists:
                if each.sharded:
                    each.load_entries({i: self.state[unit.params[0]] for i, unit in enumerate(each.units)
                                       if unit.params[0] in self.state})  # fmt: skip
                else:
                    self._refuse_other_backend(each)
                    each.load_states(dict(self._saved_for(each)))
            self._lists = lists
        except BaseException:
            self.param_groups, self._lists = old
            raise
        finally:
            self.state = _State()

    def _refuse_other_state(self) -> None:
        """What another optimizer has saved has other keys; its param groups lack ours."""
        found = set()
        for entry in self.state.values():
            found |= set(entry if isinstance(entry, dict) else ["a state"]) - _KEYS
        missing = [name for group in self.param_groups for name in ("group", "criterion", "hv") if name not in group]
        if found or missing:
            what = f"has {', '.join(sorted(map(str, found)))}" if found else f"lacks {missing[0]}"
            raise FormatError(
                f"this is the state of another optimizer: it {what}. PSGD cannot resume from it; start it without "
                "load_state_dict, from the parameters alone"
            )

    def _refuse_other_backend(self, each: Any) -> None:
        """Its state would be dropped silently."""
        for unit in each.units:
            found = set(self.state.get(unit.params[0], {})) - {each.key, "shared", "rows"}
            if found:
                own = "c" if each.key == "tensor" else each.key
                raise FormatError(
                    f"the state of {unit.name} is not one of the {own} backend: it has {', '.join(sorted(found))}; "
                    "name the backend that it was saved with"
                )

    def _saved_for(self, each: TensorList) -> Iterator[Tuple[int, bytes]]:
        for index, unit in enumerate(each.units):
            for key, saved in self.state.get(unit.params[0], {}).items():
                if key in (each.key, "shared"):  # load_state_dict casts to the dtype of the parameter: bytes survive that
                    chars = saved.detach().to(torch.uint8).cpu().numpy().tobytes()
                    yield (SHARED if key == "shared" else index), chars

    # --- the step

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step. See the class for what a closure may do. Returns what the closure returned."""
        for each in self._lists:
            each.follow_options()
        loss, products = self._evaluate(closure)
        with torch.inference_mode(False), torch.no_grad():  # state that is made here must take later steps
            ready = [each for each in self._lists if each.load(products)]
            native = [each for each in ready if each.native]
            ready = [each for each in ready if not each.native]
            if native and not self._step_native(native, ready):
                return loss
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

    def _step_native(self, lists: List[NativeList], others: List[TensorList]) -> bool:
        """Tensors that torch ops move. All of them move or none, which is decided on the device; only where there are
        tensors of the C core as well is it read at once: False where these must not move either."""
        flags, fine = [each.sound() for each in lists], True
        if others:
            fine = all(bool(flag) for flag in flags) and all(x.check() != NotFiniteError.status for x in others)
            flags = [flag & fine for flag in flags]
        for each in lists:
            ok = flags[0].to(each.device)
            for flag in flags[1:]:
                ok = ok & flag.to(each.device)
            each.step(ok)
        self._steps += 1
        if self._steps % READ_EVERY == 0:
            self._read_late(lists)
        return fine

    def _read_late(self, lists: List[NativeList]) -> None:
        """Says what has been skipped since the last look."""
        limits = [group.get("max_skipped") for group in self.param_groups]
        limit = min(20 if given is None else int(given) for given in limits)
        for each in lists:
            each.look()
        in_row = max(each.skipped_in_row() for each in lists)
        if in_row > limit:
            raise NotFiniteError(f"{in_row} steps in a row were skipped (option max-skipped is {limit})")
        count = max(each.skipped() for each in lists)
        if count and not self.note:
            self.note = "a gradient, a Hessian-vector product or a direction was not finite"
            what = f"{count} steps were skipped: {self.note}; more than {limit} in a row (max_skipped) are an error"
            warnings.warn(what, RuntimeWarning, stacklevel=4)

    def _skip(self, why: str) -> None:
        """Counts a step that was skipped: the first is a warning, too many in a row are an error."""
        self._skipped, self.note, self._skipped_in_row = self._skipped + 1, why, self._skipped_in_row + 1
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
            self._products.own_gradients = False
            loss = None if closure is None else self._products.call(closure, params, False)
            self._replicas.average(params, [], self._products.own_gradients, True)
            return loss, []

        if any(map(is_sharded, params)):
            raise UnsupportedError("sharded parameters take criterion=\"fisher\": FSDP has no second derivative")

        def directions() -> List[Tuple[List[Tensor], List[Tensor]]]:
            found: List[Tuple[List[Tensor], List[Tensor]]] = [([], []) for _ in range(max(x.pairs for x in lists))]
            for each, indices in wanted:
                for index in indices:
                    for (ps, vs), views in zip(found, each.draw(index)):
                        live = [(p, v) for p, v in zip(each.units[index].params, views) if p.requires_grad]
                        ps += [p for p, _ in live]
                        vs += [v for _, v in live]
            return found

        loss, found = self._products.evaluate(closure, params, lists[0].group["hv"], directions)
        self._replicas.average(params, found, self._products.own_gradients, self._products.own_products)
        return loss, found
