"""Many tensors in one piece of memory: what is done to all of them alike is one operation."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor


class Rooms:
    """Memory of steps before, used again on a CPU: fresh pages take longer there than the step itself. Other devices
    have allocators that keep memory, and lend it to others between steps."""

    def __init__(self) -> None:
        self._rooms: Dict[str, Tensor] = {}

    def cat(self, name: str, tensors: Sequence[Tensor]) -> Tensor:
        """All of them as one vector, which is valid until the next call with this name."""
        vectors = [x if x.dim() == 1 else x.reshape(-1) for x in tensors]
        count = sum(map(torch.numel, vectors))
        if vectors[0].device.type != "cpu":
            return torch.cat(vectors)
        room = self._rooms.get(name)
        if room is None or room.dtype != vectors[0].dtype or room.numel() != count:
            self._rooms[name] = room = vectors[0].new_empty(count)
        return torch.cat(vectors, out=room)


class Flat:
    def __init__(self, keys: List[int], shapes: List[Tuple[int, ...]], sizes: List[int], flat: Tensor) -> None:
        self.keys, self.shapes, self.sizes, self.flat = keys, shapes, sizes, flat
        self._parts: Optional[List[Tensor]] = None

    @staticmethod
    def of(tensors: Mapping[int, Tensor], rooms: Rooms, name: str) -> "Flat":
        """A copy, valid until the next of this name."""
        listed = list(tensors.values())
        return Flat(list(tensors), [x.shape for x in listed], [x.numel() for x in listed], rooms.cat(name, listed))

    @staticmethod
    def none(like: Tensor) -> "Flat":
        return Flat([], [], [], like.new_empty(0))

    def like(self, flat: Tensor) -> "Flat":
        return Flat(self.keys, self.shapes, self.sizes, flat)

    def parts(self) -> List[Tensor]:
        """Views of each, made once."""
        if self._parts is None:
            whole = self.flat.split_with_sizes(self.sizes)
            self._parts = [part if len(shape) == 1 else part.view(shape) for part, shape in zip(whole, self.shapes)]
        return self._parts

    def part(self, key: int) -> Tensor:
        return self.parts()[self.keys.index(key)]


class Averages:
    """Moving averages of tensors."""

    def __init__(self) -> None:
        self._last: Any = None  # those that were averaged last, as Flat
        self._others: Dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self._others) + (0 if self._last is None else len(self._last.keys))

    def __contains__(self, key: int) -> bool:
        return key in self._others or (self._last is not None and key in self._last.keys)

    def __getitem__(self, key: int) -> Tensor:
        made: Tensor = self._others[key] if key in self._others else self._last.part(key)
        return made

    def __setitem__(self, key: int, average: Tensor) -> None:
        self._separate()
        self._others[key] = average

    def copy(self) -> "Averages":
        made = Averages()
        made._last = None if self._last is None else self._last.like(self._last.flat.clone())
        made._others = dict(self._others)
        return made

    def _separate(self) -> None:
        if self._last is not None:
            self._others.update(zip(self._last.keys, self._last.parts()))
            self._last = None

    def take(self, gs: Flat, weight: Tensor) -> Flat:
        """The averages after these; valid until the next call."""
        if self._last is None or self._last.keys != gs.keys:
            self._separate()
            zeros = zip(gs.keys, gs.like(torch.zeros_like(gs.flat)).parts())
            self._last = gs.like(torch.cat([self._others.pop(key, zero).reshape(-1) for key, zero in zeros]))
        self._last.flat.mul_(1 - weight).addcmul_(gs.flat, weight)  # lerp would overflow between opposite extremes
        made: Flat = self._last
        return made
