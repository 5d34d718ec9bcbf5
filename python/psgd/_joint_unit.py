"""All tensors of a torch param group as one unit with a joint preconditioner: ``PSGD(..., joint=True)``."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple

from torch import Tensor

from ._arrays import SIZES
from ._errors import UnsupportedError
from ._units import Unit, check_param
from .joint import JointPreconditioner


class JointUnit(Unit):
    """The parameters one after the other in a vector.

    One without a gradient takes no part in the step: the gradient, v and h are zero there, so that the fit sees nothing
    of it, and it does not move."""

    def __init__(self, params: List[Tensor], names: List[str], precond: JointPreconditioner, index: int) -> None:
        super().__init__(params, precond.shape, precond, index)
        self.names = names

    def split(self, whole: Tensor) -> List[Tensor]:
        sizes = [param.numel() for param in self.params]
        return [part.view(param.shape) for part, param in zip(whole.split(sizes), self.params)]

    def leave_out(self, grads: Sequence[Optional[Tensor]], v: Optional[int]) -> None:
        at = 0
        for param, name, grad in zip(self.params, self.names, grads):
            if grad is None and v is None:
                raise UnsupportedError(f"{name} has no gradient; a joint fit with integrate needs all of them")
            count = param.numel() * SIZES[self.code]
            if grad is None and v is not None:
                ctypes.memset(v + at, 0, count)
            at += count

    def moves(self, grads: Sequence[Optional[Tensor]]) -> Tuple[List[Tensor], List[Tensor]]:
        params, parts = [], []
        for param, part, grad in zip(self.params, self.parts, grads):
            if grad is None:
                part.zero_()  # for the norm that clip looks at
            else:
                params.append(param)
                parts.append(part)
        return params, parts


def joint_units(group: Dict[str, Any], names: Sequence[str], index: int, options: Dict[str, Any]) -> List[Unit]:
    """The one unit of a param group; none where it has no numbers."""
    spec = "diag" if group["group"] is None else group["group"]
    if not isinstance(spec, str):
        raise TypeError(f"joint=True takes one spec for all tensors of the param group, not {type(spec).__name__}")
    params, labels = [], []
    for param, name in zip(group["params"], names):
        if param.numel() > 0:
            params.append(param)
            labels.append(f"parameter {name}" if name else f"a parameter of shape {tuple(param.shape)}")
            check_param([param], labels[-1])
    if not params:
        return []
    for param, label in zip(params, labels):
        if param.dtype != params[0].dtype:
            raise TypeError(
                f"{label} is of {param.dtype} and {labels[0]} of {params[0].dtype}: a joint param group has one type; "
                "make a param group for each"
            )
    shapes = [tuple(param.shape) or (1,) for param in params]
    precond = JointPreconditioner(spec, shapes, params[0].dtype, **options)
    return [JointUnit(params, labels, precond, index)]
