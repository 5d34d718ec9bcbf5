"""Copies between a device and the memory of the host, so that neither waits for the other.

``StreamLink`` is for devices with streams (CUDA, ROCm, XPU): the host's memory is pinned, copies run on streams of
their own, in chunks, and an event tells when one is complete. ``Link`` is for devices without, the CPU among them: a
copy is complete when the call returns. Nothing else in ``offload`` knows which of the two it has."""
from __future__ import annotations

from typing import Any, Iterable, NamedTuple, Tuple

import torch
from torch import Tensor

CHUNK = 1 << 20  # elements of one copy: a short one that comes later need not wait for all of a long one


class Arrival(NamedTuple):
    """What has been sent to the device."""

    data: Any
    mark: Any


class Link:
    def __init__(self, device: Any) -> None:
        self.device = device

    def room(self, count: int, dtype: torch.dtype) -> Tensor:
        """On the host, for count elements."""
        return torch.empty(count, dtype=dtype, device="cpu")  # whatever the default device is

    def to_host(self, copies: Iterable[Tuple[Tensor, Tensor]]) -> Any:
        """Begins to copy each (to, from). Returns a mark; ``from`` must neither change nor go before that is reached."""
        for to, x in copies:
            to.copy_(x.reshape(-1))
        return None

    def wait(self, mark: Any) -> None:
        """Until a copy is complete. Called by the worker's thread."""

    def to_device(self, x: Tensor) -> Arrival:
        """Begins to copy to new memory on the device; x must not change before its mark. Called by the worker's thread."""
        return Arrival(x.to(self.device, copy=True), None)

    def use(self, arrival: Arrival) -> Tensor:
        """What has arrived, for work that the caller's thread gives the device from now on."""
        made: Tensor = arrival.data
        return made


class StreamLink(Link):
    def __init__(self, device: Any, module: Any = None) -> None:
        """module: torch.cuda, torch.xpu, .., which have the same names for streams and events."""
        super().__init__(device)
        self.module = getattr(torch, device.type) if module is None else module
        self.down, self.up = self.module.Stream(device), self.module.Stream(device)

    def room(self, count: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(count, dtype=dtype, device="cpu", pin_memory=True)

    def to_host(self, copies: Iterable[Tuple[Tensor, Tensor]]) -> Any:
        self.down.wait_stream(self.module.current_stream(self.device))
        with self.module.stream(self.down):
            for to, x in copies:
                self.copy(to, x.reshape(-1))
        return self._mark(self.down)

    def wait(self, mark: Any) -> None:
        if mark is not None:
            mark.synchronize()

    def to_device(self, x: Tensor) -> Arrival:
        with self.module.stream(self.up):
            made = self.empty_like(x)
            self.copy(made, x)
        return Arrival(made, self._mark(self.up))

    def use(self, arrival: Arrival) -> Tensor:
        made: Tensor = arrival.data
        stream = self.module.current_stream(self.device)
        if arrival.mark is not None:
            stream.wait_event(arrival.mark)  # the device waits where it must, the caller does not
            self.lend(made, stream)
        return made

    def lend(self, made: Tensor, stream: Any) -> None:
        """Memory of the other stream is used by this one."""
        made.record_stream(stream)

    def _mark(self, stream: Any) -> Any:
        mark = self.module.Event()
        mark.record(stream)
        return mark

    def empty_like(self, x: Tensor) -> Tensor:
        return torch.empty(x.shape, dtype=x.dtype, device=self.device)

    def copy(self, to: Tensor, x: Tensor) -> None:
        for at in range(0, x.numel(), CHUNK):
            to[at : at + CHUNK].copy_(x[at : at + CHUNK], non_blocking=True)


def link_to(device: Any) -> Link:
    module = getattr(torch, device.type, None)
    streams = device.type != "cpu" and all(hasattr(module, name) for name in ("Stream", "Event", "current_stream"))
    return StreamLink(device) if streams else Link(device)
