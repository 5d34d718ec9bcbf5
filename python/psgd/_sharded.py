"""Parameters that are sharded over processes (DTensor, as FSDP2 makes them).

Where their rows are spread over one dimension of the mesh, ``native.sharded`` moves them where they are. Any other
placement, and what only the C core does, is seen whole: every process gathers the gradient, takes the step of the whole
tensor and keeps its own part."""
from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

try:  # torch.distributed.tensor is public from 2.5 on
    from torch.distributed.tensor import DTensor, Replicate, Shard
except Exception:  # older ones lack it, or cannot import it
    DTensor = None  # type: ignore[assignment, misc]


class Shards(NamedTuple):
    """How rows are spread: over one dimension of a mesh, with copies along the others."""

    mesh: Any
    placements: Tuple[Any, ...]

    @property
    def group(self) -> Any:
        """The processes that hold the rows of one copy."""
        return self.mesh.get_group(next(i for i, each in enumerate(self.placements) if each.is_shard()))

    def cut_alike(self, x: Tensor, p: Tensor) -> Tensor:
        """x, of the shape of p, spread as p is."""
        if not is_sharded(x) or x.placements == p.placements:  # type: ignore[attr-defined]
            return x
        made: Tensor = x.redistribute(self.mesh, self.placements)  # type: ignore[attr-defined]
        return made

    def rows(self, x: Tensor, rows: Any) -> Tensor:
        """The rows of x that are here."""
        if not is_sharded(x):
            return x[rows.start : rows.stop]
        made: Tensor = x.redistribute(self.mesh, self.placements).to_local()  # type: ignore[attr-defined]
        return made


def is_sharded(x: Any) -> bool:
    return DTensor is not None and isinstance(x, DTensor)


def shards_of(x: Tensor) -> Optional[Shards]:
    """How the rows of x are spread; None where they are not, or in another way."""
    if not is_sharded(x) or x.dim() == 0:
        return None
    placements = tuple(x.placements)  # type: ignore[attr-defined]
    cut = [each for each in placements if type(each) is Shard and each.dim == 0]
    same = [each for each in placements if isinstance(each, Replicate)]
    if len(cut) != 1 or len(cut) + len(same) != len(placements):
        return None
    return Shards(x.device_mesh, placements)  # type: ignore[attr-defined]


def as_shards(local: Tensor, count: int, shards: Shards) -> Tensor:
    """The rows that are here as part of a tensor of count rows. Nothing is sent."""
    shape = torch.Size((count, *local.shape[1:]))
    stride = (local.shape[1], 1) if local.dim() == 2 else (1,)
    return DTensor.from_local(
        local.contiguous(), shards.mesh, shards.placements, run_check=False, shape=shape, stride=stride
    )


def whole(x: Tensor) -> Tensor:
    """All of a tensor, in every process."""
    return x.full_tensor() if is_sharded(x) else x  # type: ignore[attr-defined]


def own_part(full: Tensor, like: Tensor) -> Tensor:
    """The part of a whole tensor that this process holds of another one. Nothing is sent."""
    if not is_sharded(like):
        return full
    mesh, placements = like.device_mesh, like.placements  # type: ignore[attr-defined]
    return DTensor.from_local(full, mesh, [Replicate()] * mesh.ndim, run_check=False).redistribute(mesh, placements)


def local_of(x: Tensor) -> Tensor:
    return x.to_local() if is_sharded(x) else x  # type: ignore[attr-defined]
