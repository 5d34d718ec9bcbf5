"""Parameters that are sharded over processes (DTensor, as FSDP2 makes them), seen whole.

Every process gathers the gradient, takes the step of the whole tensor and keeps its own part: the result does not
depend on the mesh, at the price of an all-gather of gradients and parameters and of state that every process has."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:  # torch.distributed.tensor is public from 2.5 on
    from torch.distributed.tensor import DTensor, Replicate
except Exception:  # older ones lack it, or cannot import it
    DTensor = None  # type: ignore[assignment, misc]


def is_sharded(x: Any) -> bool:
    return DTensor is not None and isinstance(x, DTensor)


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
