"""Row-sparse gradients (``nn.Embedding(sparse=True)``) with kron(diag,G): only the rows present take part.

kron(diag(q), G) never mixes rows, so a row without a gradient keeps its parameters, and in the lazy fit its q as well.
On the rows present the fit of G is that of a preconditioner on pairs (v_i / q_i, q_i h_i), which the C library does; q has
the update of ``diag`` itself. The cost is that of the rows present."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from ._errors import UnsupportedError
from ._lib import check, lib
from .precond import Preconditioner

_LARGEST = 1e15  # of q: squares stay within float32


def row_group(spec: str) -> str:
    """G of kron(diag,G)."""
    plain = "".join(spec.split())
    if plain in ("scan", "scaw"):
        return {"scan": "norm", "scaw": "tri"}[plain]
    if plain.startswith("kron(diag,") and plain.endswith(")"):
        return plain[len("kron(diag,") : -1]
    raise UnsupportedError(f"row-sparse gradients need a group kron(diag,G), scan or scaw; {spec!r} mixes rows")


class SparseRows:
    """The preconditioner of one matrix with row-sparse gradients. ``state`` is the optimizer's for the parameter; q and
    the running maximum of the normaliser ``second`` live in it."""

    def __init__(self, param: Tensor, spec: str, group: Dict[str, Any], code: int, state: Dict[str, Any]) -> None:
        self.spec, self.code, self.state = row_group(spec), code, state
        self.norm, self.step = group["norm"] or "auto", float(group["precond_step"])
        self.damping = float(group["damping"] or 0)
        if "rows" not in state:
            scale = float(group["init_scale"] or 1) ** 0.5
            state["rows"] = torch.full((param.shape[0],), scale, dtype=param.dtype)
        self.scale = float(group["init_scale"] or 1) ** 0.5
        self.width = param.numel() // param.shape[0]
        self.room = 64  # at least: groups store themselves in another way where there are few pairs
        self.precond = self._make(self.room)

    def _make(self, pairs: int) -> Preconditioner:
        return Preconditioner(
            self.spec, self.width, ("float32", "float64")[self.code], step=self.step, norm=self.norm,
            init_scale=self.scale, pairs=pairs,
        )  # fmt: skip

    def _grow(self, rows: int) -> None:
        """Room for an update from this many rows; the state stays."""
        if rows > self.room:
            larger = self._make(rows)
            larger.load_state(self.precond.state())
            self.precond, self.room = larger, rows

    def update(self, rows: Tensor, g: Tensor, key: Tuple[int, int, int]) -> int:
        """One update from the gradients g of these rows. Returns the status."""
        self._grow(len(rows))
        v = torch.empty_like(g)
        check(lib.psgd_normal_fill(self.code, *key, 0, v.numel(), v.data_ptr()))
        h = g.add(v, alpha=self.damping) if self.damping else g
        q = self.state["rows"][rows]
        h, v = (h * q[:, None]).contiguous(), (v / q[:, None]).contiguous()
        G = torch.from_numpy(self.precond.factors[0])
        A, B = h @ G.t(), torch.linalg.solve(G.t(), v.t()).t()
        status = lib.psgd_precond_update_pairs(self.precond._own(), len(rows), v.data_ptr(), h.data_ptr())
        if not status:
            self.state["rows"][rows] = self._moved(q, (A * A).sum(1), (B * B).sum(1))
        return status

    def _moved(self, q: Tensor, a: Tensor, b: Tensor) -> Tensor:
        R = a - b
        largest = float(R.abs().max())
        if largest == 0:
            return q
        if self.norm == "none":
            c = 2 * self.step / len(q)
        elif self.norm == "second":
            now = float((a + b).max())
            running = max(0.9 * float(self.state.get("running", 0.0)) + 0.1 * now, now)
            self.state["running"] = running
            c = self.step / running
        else:
            c = self.step / largest
        return (q * (1 - c * R)).clamp_(1 / _LARGEST, _LARGEST)

    def apply(self, rows: Tensor, g: Tensor) -> Tensor:
        """Q'Q g on these rows."""
        G = torch.from_numpy(self.precond.factors[0])
        q = self.state["rows"][rows][:, None]
        return (g @ G.t()) @ G * (q * q)


def rows_of(grad: Tensor, width: int) -> Optional[Tuple[Tensor, Tensor]]:
    """The rows that a sparse gradient has, and their values as a matrix. None where there are none."""
    grad = grad.coalesce()
    if grad.sparse_dim() != 1:
        raise UnsupportedError("a sparse gradient must be sparse in its rows only, as that of nn.Embedding is")
    rows = grad.indices()[0]
    return (rows, grad.values().reshape(len(rows), width).contiguous()) if len(rows) else None
