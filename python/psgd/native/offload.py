"""Parameters on a device whose preconditioners the C core fits on the CPU meanwhile (``backend="offload"``, option delay).

The pair (v, h) of step t is copied to the host, a worker thread fits Q with the C core, and the Q that comes of it is
copied back and takes effect at step t + delay, as with the C core itself. In between the device works with the Q
before: moments, directions and steps are those of ``NativeList``. Neither the device nor the caller's thread waits,
unless a Q is due and late; the first pair of a tensor is waited for, so that no step is made without curvature.

Which Q is in force at which step does not depend on timing. A step that is not finite is masked on the device, where
alone that is known; a flag goes to the worker with the pair, and Q stays as it was."""
from __future__ import annotations

from bisect import insort
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np
import torch
from torch import Tensor

from .._errors import UnsupportedError
from .._lib import lib
from .._options import options_of
from ..precond import Preconditioner
from .link import link_to
from .offload_worker import HostFit, HostRooms, Made, Pair, Request, Worker
from .tensors import NativeList

DELAYED_EVERY = 4  # update-every of Newton with a delay, unless set: as src/optim/defaults.c
_MAX_DELAY = 1000


class OffloadList(NativeList):
    key = "offload"

    def __init__(self, group: Dict[str, Any], units: Sequence[Any], *rest: Any) -> None:
        self.link = link_to(units[0].params[0].device)
        self.host, self.worker = HostRooms(self.link), Worker()
        self.flying: List[Request] = []  # in the order of their steps
        self.in_force: Dict[int, Tensor] = {}  # elements of Q; none: no pair yet
        super().__init__(group, units, *rest)

    def _make_fits(self, specs: Sequence[str]) -> None:
        super()._make_fits(specs)
        names = [info.name.decode() for info in options_of(lib.psgd_precond_option)]
        options = {name.replace("-", "_"): self.settings[name] for name in names if name != "rows"}
        dtype = str(self.dtype).split(".")[-1]
        self.cores = {
            i: HostFit(Preconditioner(fit.spec, fit.shape, dtype, **options), self.link, self.seed, self.first + i)
            for i, fit in self.fits.items()
        }

    def _follow_delay(self, made: Dict[str, Any], named: Set[str]) -> None:
        if int(made["delay"]) > 0 and made["criterion"] == "newton" and "update-every" not in named:
            made["update-every"] = DELAYED_EVERY

    def _refuse_change(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        super()._refuse_change(before, now)
        if int(before["delay"]) != int(now["delay"]):  # pairs in flight are due in the order of their steps
            raise UnsupportedError(f"the option delay cannot change once there are steps on {self.device}")

    def _numbers(self) -> None:
        super()._numbers()
        self.delay, self.free = int(self.settings["delay"]), self.settings["delay-free"] in (True, "yes")

    # --- one step

    def sound(self) -> Tensor:
        self._publish()  # what the worker has met is raised before any tensor moves, those of other lists included
        return super().sound()

    def step(self, ok: Tensor) -> None:
        at_once = self.delay == 0 or any(fit.updates == 0 for fit in self.fits.values())
        averages = self.averages.copy() if at_once else self.averages
        try:
            super().step(ok)
        except BaseException:  # a first pair that the worker has failed on
            self.averages = averages
            raise

    def _publish(self) -> None:
        """Puts into effect what is due, and raises what the worker has met."""
        while self.flying:
            request = self.flying[0]
            if request.due > self.step_count and not (self.free and request.done.is_set()):
                return
            self.worker.wait(request)  # it is still listed if this is interrupted
            del self.flying[0]
            self._bring(request)

    def _bring(self, request: Request) -> None:
        request.check()
        for i, made in request.made.items():
            fit = self.fits[i]
            self.in_force[i] = self.link.use(made.arrival)
            fit.take(self.in_force[i])
            fit.updates, fit.skipped = made.updates, torch.tensor(made.skipped)

    def draw(self, index: int) -> List[List[Tensor]]:
        if self._probes_p():
            self._publish()  # v takes the Q of the coming step, as in C
        return super().draw(index)

    def _drawn(self, index: int) -> Optional[Tensor]:
        return None  # the worker draws v where no product needs it

    def _fit(self, pairs: Mapping[int, Tuple[Optional[Tensor], Tensor]], ok: Tensor, over: Any = None) -> None:
        at_once = {i: pair for i, pair in pairs.items() if self.delay == 0 or self.fits[i].updates == 0}
        later = {i: pair for i, pair in pairs.items() if i not in at_once}
        if at_once:  # of tensors without pairs in flight
            self.flying.insert(0, self._post(at_once, ok, self.step_count))
            self._publish()
        if later:
            self.flying.append(self._post(later, ok, self.step_count + self.delay))

    def _post(self, pairs: Mapping[int, Tuple[Optional[Tensor], Tensor]], ok: Tensor, due: int) -> Request:
        """Sends pairs to the worker."""
        flag = self.host.take(1, torch.bool)
        copies, listed = [(flag, ok)], []
        for i, (v, h) in pairs.items():
            h = h.detach().clone()  # the program may overwrite its gradient before the copy is complete
            to = self.host.take(h.numel(), self.dtype)
            copies.append((to, h))
            drawn = None if v is None else self.host.take(v.numel(), self.dtype)
            if v is not None and drawn is not None:
                copies.append((drawn, v))
            listed.append(Pair(i, drawn, to, self.steps[i], self._fit_rate(i)))
        request = Request(self.step_count, due, listed, flag, self.link.to_host(copies), copies)
        self.worker.post(request.job(self.cores, self.link, self.host))
        return request

    # --- state

    def states(self) -> Dict[int, bytearray]:
        """With the pairs in flight, as the Q that each of them gives: the worker is done with all of them before."""
        for request in self.flying:
            self.worker.wait(request)
            request.check()
        return super().states()

    def _fit_tensors(self, index: int) -> List[Tensor]:
        fit, state = self.fits[index], self.cores[index].core.state()
        flying = [(each, each.made[index]) for each in self.flying if index in each.made]
        words = np.frombuffer(state + bytes(-len(state) % 8), np.int64)
        made = [torch.tensor([fit.updates, int(fit.skipped), len(state)])]
        made.append(self.in_force.get(index, torch.empty(0, dtype=self.dtype)))
        for request, each in flying:
            made.append(torch.tensor([request.step, request.due, each.updates, each.skipped]))
            made.append(self.link.use(each.arrival))
        return [*made, torch.from_numpy(words.copy())]

    def _load_fit(self, index: int, read: Sequence[Tensor], step_count: int) -> None:
        head, in_force, *flying, words = read
        core, fit = self.cores[index], self.fits[index]
        expected = [(head, torch.int64, 3), *((x, torch.int64, 4) for x in flying[::2])]
        expected += [(x, self.dtype, core.count) for x in flying[1::2]]
        expected.append((in_force, self.dtype, core.count if int(head[0]) else 0))
        expected.append((words, torch.int64, -(-int(head[2]) // 8)))
        if len(flying) % 2 or any(x.dtype != dtype or tuple(x.shape) != (n,) for x, dtype, n in expected):
            raise ValueError("its parts have other shapes")
        if any((x < 0).any() for x in [head, *flying[::2]]):
            raise ValueError("its counters are those of no run")
        core.core.load_state(words.numpy().tobytes()[: int(head[2])])
        fit.updates, fit.skipped = int(head[0]), head[1]
        if in_force.numel():
            self.in_force[index] = in_force.to(self.device)
            fit.take(self.in_force[index])
        for times, elements in zip(flying[::2], flying[1::2]):
            step, due, updates, skipped = (int(x) for x in times)
            if not (step <= step_count and step <= due <= step + _MAX_DELAY):
                raise ValueError("it has pairs in flight that no run has")
            arrival = self.link.to_device(elements)
            self.link.wait(arrival.mark)  # elements go when this returns
            self._flight(step, due).made[index] = Made(arrival, updates, skipped)

    def _flight(self, step: int, due: int) -> Request:
        """That of a state that is loaded tensor by tensor."""
        for request in self.flying:
            if (request.step, request.due) == (step, due):
                return request
        request = Request(step, due)
        request.done.set()
        insort(self.flying, request)
        return request
