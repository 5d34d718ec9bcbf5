"""The tensors of one dtype and device in a torch param group, moved by torch ops: for CUDA, ROCm, MPS and XPU, and for
CPU tensors on request.

A step does what ``src/optim/step`` does: it is skipped where something is not finite, fits the preconditioners that are
due, clips and moves. All of that is decided on the device; counters are read when somebody asks, and every READ_EVERY
steps for the warning and the error that too many skipped steps are."""
from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import torch
from torch import Tensor

from .._arrays import dtype_code
from .._errors import FormatError, UnsupportedError
from .._lib import check, lib
from .._options import options_of
from .._sharded import own_part
from .._tensor_list import FEW, OF_FEW, refuse_values
from .._units import Unit
from .fit import NativeFit
from .leaves import peak
from .philox import PROBE, SHUFFLE, Stream
from .rounding import HALVES, round_stochastically
from .state import pack, unpack

READ_EVERY = 64
_SCHEDULE = {"update-every", "update-probability", "update-anneal", "update-floor"}
_NEVER = {
    "integrate": "v is always drawn", "unbiased": "use the C core on a CPU", "joint": "use the C core on a CPU",
}  # fmt: skip
_DELAYED = {"delay", "delay-free", "workers", "worker-threads"}


class NativeView:
    """A preconditioner of the native path, to look at."""

    def __init__(self, fit: NativeFit) -> None:
        self.fit, self.spec, self.shape = fit, fit.spec, fit.shape

    @property
    def updates(self) -> int:
        return self.fit.updates

    @property
    def skipped(self) -> int:
        return int(self.fit.skipped)

    @property
    def Q(self) -> Any:
        return self.fit.Q().cpu().numpy()

    @property
    def P(self) -> Any:
        return self.Q.T @ self.Q

    def apply(self, g: Tensor) -> Tensor:
        """P g."""
        return self.fit.apply(g)


class NativeList:
    native, sharded = True, False
    key = "native"  # of the bytes in a state_dict

    def __init__(
        self,
        group: Dict[str, Any],
        units: Sequence[Unit],
        first: int,
        parameters: int,
        keywords: Mapping[str, str],
        choose: Callable[[Sequence[Unit]], List[str]],
    ) -> None:
        """parameters: of all lists together; keywords: the C name of each option; choose: gives every unit a spec, as
        the C core does."""
        self.group, self.units, self.first, self.keywords = group, list(units), first, keywords
        self.parameters = parameters
        self.streams = len(units)
        self.device, self.dtype = units[0].params[0].device, units[0].dtype
        self.steps, self.taken = [0] * len(units), torch.zeros(len(units), device=self.device)
        self.step_count = 0
        self.lot = -1, 0.0  # a step, and its number that decides whether a fit is due
        self.skips = torch.zeros(2, dtype=torch.int64, device=self.device)  # all of them; the latest in a row
        self.first_rms = torch.full((), -1.0, dtype=self.dtype, device=self.device)
        self.averages: Dict[int, Tensor] = {}
        self.v: Dict[int, Tensor] = {}
        self.loaded: Dict[int, Dict[str, Tensor]] = {}
        self.fits: Dict[int, NativeFit] = {}
        self.follow_options()
        self._make_fits(choose(units))

    def _make_fits(self, specs: Sequence[str]) -> None:
        for i, (spec, unit) in enumerate(zip(specs, self.units)):
            self.fits[i] = NativeFit(spec, unit.shape, self.dtype, self.device, self.settings)

    # --- options

    def follow_options(self) -> None:
        """Takes over what the program, or a scheduler, has changed in the param group."""
        given = {keyword: self.group.get(keyword) for keyword in self.keywords}
        if given == getattr(self, "seen", None):
            return
        made = _defaults(str(self.group["method"]), self.group["criterion"], given.get("defaults"))
        self._refuse_values(given, not hasattr(self, "settings"))
        for keyword, value in given.items():
            if value is not None:
                made[self.keywords[keyword]] = _plain(value)
        named = {self.keywords[keyword] for keyword, value in given.items() if value is not None}
        if self.parameters <= FEW:
            self._follow_few(made, named)
        self._follow_delay(made, named)
        for option, instead in _NEVER.items():
            if made.get(option) in (True, "yes") or self.group.get(option) is True:
                raise UnsupportedError(f"the option {option} is not for parameters on {self.device}: {instead}")
        if "plateau" in (made["lr-schedule"], made["step-schedule"]):
            raise UnsupportedError("the schedule plateau is for parameters on the CPU; torch has ReduceLROnPlateau")
        before = getattr(self, "settings", None)
        if before is not None:
            self._refuse_change(before, made)
        self.seen, self.settings = given, made
        self.pairs = int(made["pairs"])
        for fit in self.fits.values():
            fit.step = float(made["step"])
        self._numbers()

    def _refuse_values(self, given: Mapping[str, Any], new: bool) -> None:
        """Those that the C core refuses. It starts threads for a delay, which only a new list has to look at."""
        named = {self.keywords[keyword]: _plain(value) for keyword, value in given.items() if value is not None}
        named["apply"] = str(named.get("apply", "p")).lower()
        refuse_values(str(self.group["method"]), {k: v for k, v in named.items() if new or k not in _DELAYED})

    def _follow_few(self, made: Dict[str, Any], named: Set[str]) -> None:
        if made["defaults"] == "paper":
            return
        for option, value in OF_FEW[made["criterion"]].items():
            if option not in named and not (option in _SCHEDULE and _SCHEDULE & named):
                made[option] = value

    def _follow_delay(self, made: Dict[str, Any], named: Set[str]) -> None:
        if int(made["delay"]) > 0:
            raise UnsupportedError('the option delay takes backend="offload", and parameters that are not sharded')

    def _numbers(self) -> None:
        get = self.settings.__getitem__
        self.momentum, self.decay, self.l2 = float(get("momentum")), float(get("decay")), float(get("l2"))
        self.clip, self.clip_element = float(get("clip")), float(get("clip-element"))
        self.clip_relative, self.clip_rms = float(get("clip-relative")), float(get("clip-rms"))
        self.clip_gradient = float(get("clip-gradient"))
        self.seed, self.every = int(get("seed")), int(get("update-every"))
        self.newton = get("criterion") == "newton"

    def _refuse_change(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Of what the fits are built from."""
        for option in ("criterion", "rule", "norm", "init", "init-scale", "norm-decay", "damping", "pairs", "seed"):
            if before[option] != now[option]:
                raise UnsupportedError(f"the option {option} cannot change once there are steps on {self.device}")

    def _schedule(self, name: str, step: int) -> float:
        get, kind = self.settings.__getitem__, self.settings[f"{name}-schedule"]
        if kind == "step":
            return float(get(f"{name}-factor")) ** (step // int(get(f"{name}-every")))
        if kind == "cosine":
            floor, total = float(get(f"{name}-floor")), int(get("total"))
            return floor if step >= total else floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * step / total))
        return 1.0

    def _rate(self) -> float:
        warmup = int(self.settings["warmup"])
        rise = (self.step_count + 1) / warmup if self.step_count < warmup else 1.0
        return float(self.settings["lr"]) * rise * self._schedule("lr", self.step_count)

    def _due(self, index: int) -> bool:
        step = self.steps[index]
        if step % self.every:
            return False
        anneal, chance = int(self.settings["update-anneal"]), float(self.settings["update-probability"])
        if anneal:
            chance *= float(self.settings["update-floor"]) ** min(1.0, (step // self.every) / anneal)
        return chance >= 1 or self._lot(step) < chance

    def _lot(self, step: int) -> float:
        """The number that decides whether a fit is due, the same for all tensors."""
        if self.lot[0] != step:
            self.lot = step, Stream.of(self.seed, SHUFFLE, 0xFFFFFFFF, step).uniform()
        return self.lot[1]

    # --- one step

    def wanted(self) -> List[int]:
        if not self.newton:
            return []
        live = [i for i, unit in enumerate(self.units) if any(p.requires_grad for p in unit.params)]
        return live if any(self._due(i) for i in live) else []

    def _normal(self, index: int, count: int) -> Tensor:
        unit = self.units[index]
        return self._probe(index, count * math.prod(unit.shape)).view(count, *unit.shape)

    def _probe(self, index: int, count: int, start: int = 0) -> Tensor:
        """So many entries of a tensor's v, from start on. On the CPU the C core draws them, the same and much faster."""
        which, step = self.first + index, self.steps[index]
        if self.device.type != "cpu":
            return Stream.of(self.seed, PROBE, which, step).normal(count, self.dtype, self.device, start)
        v = torch.empty(count, dtype=self.dtype)
        if count:
            check(lib.psgd_normal_fill(dtype_code(self.dtype), self.seed, which, step, start, count, v.data_ptr()))
        return v

    def _probes_p(self) -> bool:
        """Whether v of this step has covariance P rather than I."""
        probe = self.settings["probe"]
        if probe != "mixed":
            return bool(probe == "preconditioned")
        return Stream.of(self.seed, SHUFFLE, 0xFFFFFFFF, self.step_count).uniform(1) < 0.5

    def draw(self, index: int) -> List[List[Tensor]]:
        unit, v = self.units[index], self._normal(index, self.pairs)
        if self._probes_p():
            v = torch.stack([self.fits[index].apply(each, "qt") for each in v])
        if unit.params[0].dtype in HALVES:
            v = v.to(unit.params[0].dtype).to(self.dtype)
        self.v[index] = v
        return [[part.to(p.dtype) for part, p in zip(unit.split(whole), unit.params)] for whole in v]

    def load(self, products: Sequence[Mapping[int, Optional[Tensor]]]) -> bool:
        self.loaded = {}
        sign = -1 if self.group.get("maximize") else 1
        for i, unit in enumerate(self.units):
            grads = [p.grad for p in unit.params]
            if all(grad is None for grad in grads):
                continue
            if any(grad is not None and grad.layout is not torch.strided for grad in grads):
                raise UnsupportedError(f"{unit.name} has a sparse gradient, which takes parameters on the CPU")
            entry = {"g": self._joined(unit, grads)}
            if sign < 0:
                entry["g"] = -entry["g"]
            hs = [[by_id.get(id(p)) for p in unit.params] for by_id in products[: self.pairs]]
            if self._due(i) and any(h is not None for each in hs for h in each):
                entry["h"] = torch.stack([self._joined(unit, each) for each in hs])
            self.loaded[i] = entry
        return bool(self.loaded)

    def _joined(self, unit: Unit, tensors: Sequence[Optional[Tensor]]) -> Tensor:
        """Tensors in the shapes of a unit's parameters as one."""
        return unit.join(tensors)

    def _peaks(self, tensors: Sequence[Tensor]) -> Tensor:
        """max |entry| of each."""
        return torch.stack([peak(x) for x in tensors])

    def _norms(self, tensors: Sequence[Tensor]) -> Tensor:
        """The norm of each."""
        return torch.stack([x.norm() for x in tensors])

    def sound(self) -> Tensor:
        """A flag on the device: everything that was loaded is finite."""
        return torch.isfinite(self._peaks([x for entry in self.loaded.values() for x in entry.values()])).all()

    def step(self, ok: Tensor) -> None:
        rate = self._rate()
        self._clip_gradients()
        with torch.no_grad():
            thetas = {i: self._joined(self.units[i], [p.detach() for p in self.units[i].params]) for i in self.loaded}
            directions = self._directions(thetas, ok)
            fine = ok & torch.isfinite(self._peaks(list(directions.values()))).all()
            factor, own = self._clip(directions, thetas)
            kept = {i: (1 - rate * self.decay) * thetas[i] if self.decay else thetas[i] for i in directions}
            made = {i: torch.addcmul(kept[i], d, rate * factor * own[i], value=-1) for i, d in directions.items()}
            fits = fine & torch.isfinite(self._peaks(list(made.values())))
            for place, i in enumerate(made):
                self._store(i, torch.where(fits[place], made[i], thetas[i]))
                self.steps[i] += 1
        taken = fine.to(self.taken.dtype)
        if len(self.loaded) == len(self.units):
            self.taken = self.taken + taken
        else:
            for i in self.loaded:
                self.taken[i] += taken
        bad = (~fine).to(torch.int64)
        self.skips = torch.stack([self.skips[0] + bad, (self.skips[1] + bad) * bad])
        self.step_count += 1
        self.loaded = {}

    def _clip_gradients(self) -> None:
        if self.clip_gradient > 0:
            norm = self._norms([entry["g"] for entry in self.loaded.values()]).norm()
            factor = (self.clip_gradient / norm).clamp_max(1)
            for entry in self.loaded.values():
                entry["g"] = entry["g"] * factor

    def _directions(self, thetas: Mapping[int, Tensor], ok: Tensor) -> Dict[int, Tensor]:
        """P m of each tensor that was loaded, after the fit where that is due."""
        averages, pairs, shares = {}, {}, self._shares()
        for i, entry in self.loaded.items():
            g = self._regularised(entry["g"], thetas[i])
            averages[i] = self._averaged(i, g, ok, shares[i])
            pair = self._pair(i, g, averages[i], entry.get("h"))
            if pair is not None:
                pairs[i] = pair
        self._fit(pairs, ok)
        return {i: self._applied(i, m) for i, m in averages.items()}

    def _fit(self, pairs: Mapping[int, Tuple[Any, Tensor]], ok: Tensor) -> None:
        for i, pair in pairs.items():
            self.fits[i].update(*pair, ok, self._fit_rate(i))

    def _regularised(self, g: Tensor, theta: Tensor) -> Tensor:
        return g + self.l2 * theta if self.l2 > 0 else g

    def _drawn(self, index: int) -> Optional[Tensor]:
        """v of a fit that needs no product."""
        return self._normal(index, 1)

    def _pair(self, index: int, g: Tensor, m: Tensor, h: Optional[Tensor]) -> Optional[Tuple[Any, Tensor]]:
        """v and h of a fit that is due."""
        if not self._due(index):
            return None
        if not self.newton:
            return self._drawn(index), m if self.settings["whiten"] == "momentum" else g
        return None if h is None else (self.v[index], self._regularised(h, self.v[index]))

    def _fit_rate(self, index: int) -> float:
        return float(self.settings["step"]) * self._schedule("step", self.steps[index])

    def _applied(self, index: int, m: Tensor) -> Tensor:
        what = self.settings["apply"].lower()
        d = self.fits[index].apply(m, "p2" if what == "inverse-fisher" else what)
        return d / float(self.settings["batch"]) if what == "inverse-fisher" else d

    def _shares(self) -> Tensor:
        """1 - momentum^t of each tensor: what the gradients so far have of its average."""
        made: Tensor = 1 - self.momentum ** (self.taken.to(self.dtype) + 1)
        return made

    def _averaged(self, index: int, g: Tensor, ok: Tensor, share: Tensor) -> Tensor:
        """The moving average of the gradient, divided by its share so that it starts without bias."""
        beta = self.momentum
        if beta == 0:
            return g
        old = self.averages.get(index)
        old = torch.zeros_like(g) if old is None else old
        new = torch.lerp(old, g, 1 - beta)
        self.averages[index] = torch.where(ok, new, old)
        if self.settings["nesterov"] in (True, "yes"):
            new = beta * new + (1 - beta) * g
        return new / share

    def _clip(self, directions: Dict[int, Tensor], thetas: Mapping[int, Tensor]) -> Tuple[Tensor, Dict[int, Tensor]]:
        """Clips the elements of the directions; returns the factor that the limits over all tensors ask for, and the one
        that the limit of each tensor does."""
        one = self.first_rms.new_ones(())
        own = {i: one for i in directions}
        if not (self.clip or self.clip_element or self.clip_rms or self.clip_relative):
            return one, own
        if self.clip_element > 0:
            for i, d in directions.items():
                directions[i] = d.clamp(-self.clip_element, self.clip_element)
        norms, counts = self._norms(list(directions.values())), [math.prod(self.units[i].shape) for i in directions]
        if self.clip_rms > 0:
            factors = _factor(self.clip_rms, norms / norms.new_tensor(counts).sqrt())
            own = dict(zip(directions, factors))
            norms = norms * factors
        norm = norms.norm()
        factor = torch.ones_like(norm)
        if self.clip > 0:
            total = sum(math.prod(unit.shape) for unit in self.units)
            factor = _factor(self.clip * (math.sqrt(total) if self.settings["clip-by"] == "sqrt" else 1), norm)
        if self.clip_relative > 0:
            root = math.sqrt(sum(counts))
            rms = self._norms(list(thetas.values())).norm() / root
            start = torch.where(rms > 0, rms, norm * factor / root)
            self.first_rms = torch.where((self.first_rms < 0) & (norm > 0), start, self.first_rms)
            limit = self.clip_relative * root * (self.first_rms * torch.maximum(rms, self.first_rms)).sqrt()
            factor = factor * _factor(limit, norm * factor)
        return factor, own

    def _store(self, index: int, whole: Tensor) -> None:
        unit = self.units[index]
        half = unit.params[0].dtype
        if half in HALVES:
            whole = round_stochastically(whole, half, self.seed, self.first + index, self.step_count)
        for part, p in zip(unit.split(whole), unit.params):
            p.copy_(own_part(part, p))

    # --- what people look at, and state

    def skipped(self) -> int:
        return int(self.skips[0])

    def skipped_in_row(self) -> int:
        return int(self.skips[1])

    def preconditioner(self, index: int) -> NativeView:
        return NativeView(self.fits[index])

    def health(self) -> List[Dict[str, Any]]:
        rows = []
        for i, fit in self.fits.items():
            unit = self.units[i]
            name = unit.name[len("parameter ") :] if unit.name.startswith("parameter ") else unit.name
            rows.append({
                "name": name, "shape": fit.shape, "group": fit.spec, "updates": fit.updates,
                "skipped": int(fit.skipped), "condition": self._condition(i), "criterion": None,
            })  # fmt: skip
        return rows

    def _condition(self, index: int) -> Optional[float]:
        fit = self.fits[index]
        return float(torch.linalg.cond(fit.Q().double().cpu())) if fit.n <= 512 else None

    def states(self) -> Dict[int, bytearray]:
        """Of each tensor, as bytes: torch would cast anything else to the dtype of the parameter."""
        made = {}
        for i in self.fits:
            own = [torch.tensor([self.steps[i], self.step_count]), self.taken[i : i + 1], self.skips, self.first_rms[None]]
            own += [self.averages[i]] if i in self.averages else []
            made[i] = pack([torch.tensor([len(own)]), *own, *self._fit_tensors(i)])
        return made

    def _fit_tensors(self, index: int) -> List[Tensor]:
        return self.fits[index].state_tensors()

    def _load_fit(self, index: int, read: Sequence[Tensor], step_count: int) -> None:
        self.fits[index].load_tensors(list(read))

    def load_states(self, saved: Mapping[int, bytes]) -> None:
        for i, chars in saved.items():
            try:
                count, *read = unpack(bytes(chars))
                own = self._own_parts(i, int(count), read)
                self._load_fit(i, read[int(count) :], int(own[0][1]))
            except Exception as why:
                name = self.units[i].name
                raise FormatError(f"the state of {name} is not one of the {self.key} backend: {why}") from why
            steps, taken, skips, first_rms, *average = own
            self.steps[i], self.step_count = (int(x) for x in steps)
            self.taken[i] = taken[0]
            self.skips, self.first_rms = skips, first_rms[0].to(self.dtype)
            if average:
                self.averages[i] = average[0].to(self.dtype)

    def _own_parts(self, index: int, count: int, read: List[Tensor]) -> List[Tensor]:
        """Those of a state that are no fit's: counters, and the average of the gradient where there is one."""
        shapes = [(2,), (1,), (2,), (1,), tuple(self.units[index].shape)][:count]
        if count not in (4, 5) or [tuple(x.shape) for x in read[:count]] != shapes:
            raise ValueError("its parts have other shapes")
        if any(x.is_floating_point() or (x < 0).any() for x in (read[0], read[2])):
            raise ValueError("its counters are those of no run")
        return [x.to(self.device) for x in read[:count]]


def _factor(limit: Any, size: Tensor) -> Tensor:
    """What brings a size down to a limit."""
    return torch.where(size > limit, limit / size, torch.ones_like(size))


def _defaults(method: str, criterion: str, which: Any) -> Dict[str, Any]:
    """Of every option. Those of the paper depend on no method, as those of sgd do not."""
    if not method.startswith("psgd"):
        raise UnsupportedError(f"the method {method} needs parameters on the CPU")
    name = "sgd" if which == "paper" else f"psgd-{criterion}" if method == "psgd" else method
    rows = options_of(partial(lib.psgd_optimizer_option, name.encode()))
    made: Dict[str, Any] = {info.name.decode(): info.default_value.decode() for info in rows}
    made["criterion"] = criterion
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return float(value)
    return value
