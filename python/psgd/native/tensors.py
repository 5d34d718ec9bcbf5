"""The tensors of one dtype and device in a torch param group, moved by torch ops: for CUDA, ROCm, MPS and XPU, and for
CPU tensors on request.

A step does what ``src/optim/step`` does: it is skipped where something is not finite, fits the preconditioners that are
due, clips and moves. All of that is decided on the device; counters are read on request, and every READ_EVERY
steps for the warning about skipped steps and the error after too many of them."""
from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from .._arrays import dtype_code
from .._errors import FormatError, UnsupportedError
from .._lib import check, lib
from .._sharded import own_part
from .._units import Unit
from .clipping import Clipping
from .fit import NativeFit, NativeView
from .flat import Averages, Flat, Rooms
from .leaves import Diag, all_finite, norms, surely
from .options import Options
from .philox import PROBE, SHUFFLE, Stream
from .rounding import HALVES, round_stochastically
from .state import pack, unpack
from .updates import ALONE, Updates

READ_EVERY = 64
LOTS = 64  # that are drawn together


class NativeList(Options):
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
        super().__init__(group, keywords, parameters, units[0].params[0].device)
        self.units, self.first, self.streams, self.dtype = list(units), first, len(units), units[0].dtype
        self.elements = sum(math.prod(unit.shape) for unit in units)
        self.steps, self.taken = [0] * len(units), torch.zeros(len(units), dtype=torch.float32, device=self.device)
        self.step_count = 0
        self.lot = -1, False  # a step, and whether a fit is due then
        self.draws: Any = -1, ()  # which LOTS steps, and a number in (0, 1) of each
        self.skips = torch.zeros(2, dtype=torch.int64, device=self.device)  # all of them; the latest in a row
        self.clipping = Clipping(self.dtype, self.device)
        self.averages = Averages()
        self.updates, self.rooms = Updates(), Rooms()
        self.v: Dict[int, Tensor] = {}
        self.loaded: Flat = Flat.none(self.clipping.recent)
        self.products: Optional[Flat] = None
        self.fits: Dict[int, NativeFit] = {}
        self.follow_options()
        self._make_fits(choose(units))

    def _make_fits(self, specs: Sequence[str]) -> None:
        for i, (spec, unit) in enumerate(zip(specs, self.units)):
            self.fits[i] = NativeFit(spec, unit.shape, self.dtype, self.device, self.settings)

    def _numbers(self) -> None:
        super()._numbers()
        self.clipping.follow(self.settings)
        self.unbiased = False  # whether the averages are known to have forgotten that they began with 0
        for fit in self.fits.values():
            fit.step = float(self.settings["step"])

    # --- when to fit

    def _due(self, index: int) -> bool:
        """Whether a tensor is fitted at its present step; the same for all tensors that have made as many."""
        step = self.steps[index]
        if self.lot[0] != step:
            self.lot = step, self._drawn_lot(step)
        return self.lot[1]

    def _surprised(self) -> bool:
        """Whether the last direction was longer than clip-recent lets it be, so that a fit is due. Read on the CPU only:
        other devices would have to be waited for."""
        asked = self.clipping.of_recent > 0 and self.probability > 0 and int(self.settings["delay"]) == 0
        return asked and self.device.type == "cpu" and bool(self.clipping.recent[1] > 0)

    def _drawn_lot(self, step: int) -> bool:
        if self._surprised():
            return True
        chance = 0.0 if step % self.every else self._chance(step)
        if not 0 < chance < 1:
            return chance >= 1
        if self.draws[0] != step // LOTS:
            steps = np.arange(step - step % LOTS, step - step % LOTS + LOTS, dtype=np.uint64)
            self.draws = step // LOTS, Stream.of(self.seed, SHUFFLE, 0xFFFFFFFF, steps).uniform()
        return bool(self.draws[1][step % LOTS] < chance)

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
        return bool(Stream.of(self.seed, SHUFFLE, 0xFFFFFFFF, self.step_count).uniform(1) < 0.5)

    def draw(self, index: int) -> List[List[Tensor]]:
        unit, v = self.units[index], self._normal(index, self.pairs)
        if self._probes_p():
            v = torch.stack([self.fits[index].apply(each, "qt") for each in v])
        if unit.params[0].dtype in HALVES:
            v = v.to(unit.params[0].dtype).to(self.dtype)
        self.v[index] = v
        return [[part.to(p.dtype) for part, p in zip(unit.split(whole), unit.params)] for whole in v]

    def load(self, products: Sequence[Mapping[int, Optional[Tensor]]]) -> bool:
        gs, hs, sign = {}, {}, -1 if self.group.get("maximize") else 1
        for i, unit in enumerate(self.units):
            grads = [p.grad for p in unit.params]
            there = [grad for grad in grads if grad is not None]
            if not there:
                continue
            if any(grad.layout is not torch.strided for grad in there):
                raise UnsupportedError(f"{unit.name} has a sparse gradient, which takes parameters on the CPU")
            gs[i] = self._joined(unit, grads)
            if products and self._due(i):
                given = [[by_id.get(id(p)) for p in unit.params] for by_id in products[: self.pairs]]
                if any(h is not None for each in given for h in each):
                    hs[i] = torch.stack([self._joined(unit, each) for each in given])
        if gs:
            self.loaded = Flat.of(gs, self.rooms, "g")
            self.products = Flat.of(hs, self.rooms, "h") if hs else None
            if sign < 0:
                self.loaded.flat.neg_()
        return bool(gs)

    def _joined(self, unit: Unit, tensors: Sequence[Optional[Tensor]]) -> Tensor:
        """Tensors in the shapes of a unit's parameters as one."""
        return unit.join(tensors)

    def _all_finite(self, tensors: Sequence[Tensor]) -> Tensor:
        return all_finite(tensors)

    def _norms(self, tensors: Sequence[Tensor]) -> Tensor:
        """The norm of each."""
        return norms(tensors)

    def sound(self) -> Tensor:
        """A flag on the device: everything that was loaded is finite. What is not becomes 0, so that a step that is
        masked by factors of 0 makes no NaN of it."""
        both = [each.flat for each in (self.loaded, self.products) if each is not None]
        fine = self._all_finite(both)
        if not surely(fine):
            for each in both:
                each.nan_to_num_(0, 0, 0)
        return fine

    def step(self, ok: Tensor) -> None:
        rate, g = self._rate(), self.loaded
        with torch.no_grad():
            thetas = [self._joined(self.units[i], self.units[i].params) for i in g.keys]
            if self.clip_gradient > 0:
                g = g.like(g.flat * (self.clip_gradient / self._norms([g.flat])[0]).clamp_max(1))
            if self.l2 > 0:
                g = g.like(g.flat + self.l2 * self.rooms.cat("theta", thetas))
            directions = self._directions(g, ok)
            scales, sizes, of_thetas = self._clip(g.keys, directions, thetas)
            self.clipping.keep(ok)
            scales = rate * scales
            # norms bound entries: whether a direction is not finite, or a sum overflows, is known before the sum is made
            fine = ok & ((of_thetas + scales * sizes).amax() < torch.finfo(self.dtype).max)
            if not surely(fine):
                scales = (scales * fine).nan_to_num_(0, 0, 0)
                for d in directions:
                    d.nan_to_num_(0, 0, 0)
            if self.decay:
                torch._foreach_mul_(thetas, [1 - rate * self.decay * fine.to(self.dtype)] * len(thetas))
            torch._foreach_addcmul_(thetas, directions, scales.unbind(), -1)
            self._store(dict(zip(g.keys, thetas)))
            if len(g.keys) == len(self.units):
                self.taken.add_(fine)
            for i in g.keys:
                self.steps[i] += 1
                if len(g.keys) < len(self.units):
                    self.taken[i] += fine
            bad = ~fine
            self.skips.add_(bad)
            self.skips[1].mul_(bad)
        self.step_count += 1

    def look(self) -> None:
        """What is read from the device now and then: what is known to be over need not be masked any more."""
        self.clipping.look()
        self.unbiased = bool((self._corrections() == 1).all())
        for fit in self.fits.values():
            if fit.starting:
                fit.look()

    def _directions(self, g: Flat, ok: Tensor) -> List[Tensor]:
        """P m of each tensor that was loaded, after the fit where that is due, in memory of its own; m is not divided by
        its share yet."""
        m = self._averaged(g, ok)
        due = [self._due(i) for i in g.keys]
        if any(due):
            parts = zip(g.keys, due, g.parts(), m.parts())
            pairs = {i: self._pair(i, own, average) for i, is_due, own, average in parts if is_due}
            self._fit({i: pair for i, pair in pairs.items() if pair is not None}, ok)
        return self._applied(m)

    def _fit(self, pairs: Mapping[int, Tuple[Any, Tensor]], ok: Tensor, over: Any = ALONE) -> None:
        rates = {i: self._fit_rate(i) for i in pairs}
        for rate in sorted(set(rates.values())):
            some = [i for i in pairs if rates[i] == rate]
            self.updates.run([self.fits[i] for i in some], [pairs[i] for i in some], ok, rate, over)

    def _drawn(self, index: int) -> Optional[Tensor]:
        """v of a fit that needs no product."""
        return self._normal(index, 1)

    def _pair(self, index: int, g: Tensor, m: Tensor) -> Optional[Tuple[Any, Tensor]]:
        """v and h of a fit that is due."""
        if not self.newton:
            return self._drawn(index), m / self._corrections()[index] if self.settings["whiten"] == "momentum" else g
        if self.products is None or index not in self.products.keys:
            return None
        h, v = self.products.part(index), self.v[index]
        return v, h + self.l2 * v if self.l2 > 0 else h

    def _fit_rate(self, index: int) -> float:
        return float(self.settings["step"]) * self._schedule("step", self.steps[index])

    def _applied(self, m: Flat) -> List[Tensor]:
        what = self.settings["apply"].lower()
        ms, fits = m.parts(), [self.fits[i] for i in m.keys]
        made: List[Any] = [None] * len(ms)
        alone = [k for k, fit in enumerate(fits) if what == "p" and isinstance(fit.root, Diag)]
        if alone:  # in one call
            shaped = [fits[k].root.squared().view(ms[k].shape) for k in alone]
            for k, d in zip(alone, torch._foreach_mul([ms[k] for k in alone], shaped)):
                made[k] = d
        reuse = self._reuse()
        for k, fit in enumerate(fits):
            if not fit.units:
                made[k] = ms[k].clone()
            elif made[k] is None:
                made[k] = fit.apply(ms[k], what, reuse)
        return made

    def _reuse(self) -> float:
        """How often a Q is applied before the next fit, on average."""
        chance = self._chance(self.step_count)
        return self.every / chance if chance > 0 else math.inf

    def _corrections(self) -> Tensor:
        """1 - momentum^t of each tensor: what the gradients so far have of its average."""
        if self.momentum == 0 or self.unbiased:
            return torch.ones_like(self.taken, dtype=self.dtype)
        log = math.log(self.momentum)
        return (self.taken.to(self.dtype) * log + log).expm1_().neg_()

    def _averaged(self, g: Flat, ok: Tensor) -> Flat:
        """The moving averages of the gradients. They are to be divided by the tensors' shares: then they start without
        bias."""
        if self.momentum == 0:
            return g
        new = self.averages.take(g, (1 - self.momentum) * ok.to(self.dtype))
        if self.settings["nesterov"] in (True, "yes"):
            return g.like(self.momentum * new.flat + (1 - self.momentum) * g.flat)
        return new

    def _clip(self, keys: Sequence[int], directions: List[Tensor], thetas: List[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
        """What Clipping.scales gives."""
        shares = self._corrections()
        if len(keys) < len(self.units):
            shares = torch.stack([shares[i] for i in keys])
        counts = [math.prod(self.units[i].shape) for i in keys]

        def rms(like: Tensor) -> Tensor:
            return self.updates.constant(like, [self.clipping.rms * math.sqrt(count) for count in counts])

        return self.clipping.scales(directions, thetas, shares, self._norms, rms, counts, self.elements)

    def _store(self, thetas: Mapping[int, Tensor]) -> None:
        """Into the parameters, where theta is not the parameter itself."""
        for i, theta in thetas.items():
            unit = self.units[i]
            if unit.is_joined_in_place():
                continue
            half = unit.params[0].dtype
            if half in HALVES:
                theta = round_stochastically(theta, half, self.seed, self.first + i, self.step_count)
            for part, p in zip(unit.split(theta), unit.params):
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
            own = [torch.tensor([self.steps[i], self.step_count]), self.taken[i : i + 1], self.skips, *self.clipping.state()]
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
            steps, taken, skips, first_rms, recent, *average = own
            self.steps[i], self.step_count = (int(x) for x in steps)
            self.taken[i] = taken[0]
            self.skips, self.unbiased, self.lot = skips, False, (-1, False)
            self.clipping.load(first_rms, recent)
            if average:
                self.averages[i] = average[0].to(self.dtype)

    def _own_parts(self, index: int, count: int, read: List[Tensor]) -> List[Tensor]:
        """Those of a state that are no fit's: counters, and the average of the gradient where there is one."""
        shapes = [(2,), (1,), (2,), (1,), (2,), tuple(self.units[index].shape)][:count]
        if count not in (5, 6) or [tuple(x.shape) for x in read[:count]] != shapes:
            raise ValueError("its parts have other shapes")
        if any(x.is_floating_point() or (x < 0).any() for x in (read[0], read[2])):
            raise ValueError("its counters are those of no run")
        return [x.to(self.device) for x in read[:count]]
