"""The thread that fits preconditioners of device parameters on the CPU, and what goes to and from it."""
from __future__ import annotations

import os
import threading
import weakref
from collections import defaultdict
from functools import partial
from queue import SimpleQueue
from typing import Any, Callable, DefaultDict, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .._arrays import dtype_code
from .._errors import NotFiniteError, UnsupportedError
from .._lib import check, lib
from ..precond import Preconditioner
from .link import Arrival, Link

Job = Callable[[], None]


class Pair(NamedTuple):
    """Of one tensor, on the host."""

    tensor: int
    v: Optional[Tensor]  # None: the worker draws it
    h: Tensor
    steps: int  # the tensor's, which v is drawn from
    rate: float


class Made(NamedTuple):
    """Q after a pair."""

    arrival: Arrival
    updates: int
    skipped: int


class HostRooms:
    """Memory on the host, which is reused: pinning takes long."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._free: DefaultDict[Tuple[int, torch.dtype], List[Tensor]] = defaultdict(list)

    def take(self, count: int, dtype: torch.dtype) -> Tensor:
        try:
            return self._free[count, dtype].pop()
        except IndexError:
            return self._link.room(count, dtype)

    def give(self, room: Tensor) -> None:
        self._free[room.numel(), room.dtype].append(room)


class HostFit:
    """The preconditioner of one tensor in the C core. Only the worker touches it while requests are under way."""

    def __init__(self, core: Preconditioner, link: Link, seed: int, tensor: int) -> None:
        self.core, self._link, self._stream = core, link, (seed, tensor)
        self.count = int(lib.psgd_precond_element_count(core._own()))
        self._elements: Optional[Tensor] = None
        self._sent: Any = None  # the mark of the last copy from elements

    def fit(self, pair: Pair, rooms: HostRooms) -> Optional[Made]:
        """Q after the pair; None where it cannot take it and stays."""
        core, h = self.core, pair.h
        v = rooms.take(h.numel(), h.dtype) if pair.v is None else pair.v
        try:
            if pair.v is None:
                check(lib.psgd_normal_fill(dtype_code(h.dtype), *self._stream, pair.steps, 0, v.numel(), v.data_ptr()))
            core.set_step(pair.rate)
            core._call(lib.psgd_precond_update_pairs, h.numel() // core.size, v.data_ptr(), h.data_ptr())
        except NotFiniteError:
            return None
        finally:
            if pair.v is None:
                rooms.give(v)
        if self._elements is None:
            self._elements = self._link.room(self.count, h.dtype)
        self._link.wait(self._sent)
        core._call(lib.psgd_precond_elements, self._elements.data_ptr())
        arrival = self._link.to_device(self._elements)
        self._sent = arrival.mark
        return Made(arrival, core.updates, core.skipped)


class Request:
    """The pairs of one step, and what comes of them."""

    def __init__(
        self, step: int, due: int, pairs: Sequence[Pair] = (), flag: Optional[Tensor] = None, mark: Any = None,
        copies: Any = None,
    ) -> None:  # fmt: skip
        """flag: whether the step was finite; mark: when all of this is on the host; copies: what must stay until then."""
        self.step, self.due, self._pairs, self._flag, self._mark, self._copies = step, due, pairs, flag, mark, copies
        self.done = threading.Event()
        self.made: Dict[int, Made] = {}
        self.error: Optional[BaseException] = None

    def __lt__(self, other: "Request") -> bool:
        return (self.step, self.due) < (other.step, other.due)

    def check(self) -> None:
        """Raises what the worker has met, once this is done."""
        if self.error is not None:
            raise self.error

    def job(self, fits: Mapping[int, HostFit], link: Link, rooms: HostRooms) -> Job:
        return partial(self._run, fits, link, rooms)

    def _run(self, fits: Mapping[int, HostFit], link: Link, rooms: HostRooms) -> None:
        try:
            self._fit(fits, link, rooms)
        except BaseException as why:  # it is raised in the caller's thread
            self.error = why
        finally:
            self.done.set()

    def _fit(self, fits: Mapping[int, HostFit], link: Link, rooms: HostRooms) -> None:
        link.wait(self._mark)
        self._copies = None
        pairs, flag = self._pairs, self._flag
        self._pairs, self._flag = (), None
        try:
            for pair in pairs if flag is None or bool(flag) else ():
                made = fits[pair.tensor].fit(pair, rooms)
                if made is not None:
                    self.made[pair.tensor] = made
        finally:
            for room in [flag, *(x for pair in pairs for x in (pair.v, pair.h))]:
                if room is not None:
                    rooms.give(room)


class Worker:
    """A thread that runs jobs one after the other. It ends with this object."""

    def __init__(self) -> None:
        self._jobs: "SimpleQueue[Optional[Job]]" = SimpleQueue()
        self._process = 0

    def post(self, job: Job) -> None:
        if self._process == 0:
            threading.Thread(target=_run, args=(self._jobs,), name="psgd-offload", daemon=True).start()
            self._process = os.getpid()
            weakref.finalize(self, self._jobs.put, None)
        self._refuse_fork()
        self._jobs.put(job)

    def wait(self, request: Request) -> None:
        """Until it is done."""
        if not request.done.is_set():
            self._refuse_fork()
            request.done.wait()

    def _refuse_fork(self) -> None:
        if self._process != os.getpid():
            raise UnsupportedError("the child of a fork has no worker: make the optimizer in the process that uses it")


def _run(jobs: "SimpleQueue[Optional[Job]]") -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job()
        del job  # and with it what the request holds
