"""Data parallelism: replicas of a model in several processes, each with samples of its own, take the same step.

A closure's gradients come from ``torch.autograd.grad``, which the hooks of DistributedDataParallel do not see, and
Hessian-vector products are known to the optimizer alone. So it takes their mean over the processes itself.
Gradients that ``backward`` has left in ``p.grad`` may be the mean already: those of DistributedDataParallel have the
same bits in all processes, which a fingerprint detects."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from ._errors import UnsupportedError
from ._sharded import is_sharded

_BUCKET = 1 << 24  # elements of one all-reduce
_MASK = (1 << 62) - 1
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def fingerprint(tensors: Sequence[Optional[Tensor]]) -> Tensor:
    """A number that almost certainly differs where a bit of the tensors, or which of them there are, differs."""
    sums = [torch.zeros((), dtype=torch.int64)]
    for place, tensor in enumerate(tensors):
        if tensor is None or tensor.numel() == 0:
            continue
        if tensor.layout is not torch.strided:
            tensor = tensor.coalesce()
            parts = [tensor.indices().reshape(-1), tensor.values()]
        else:
            parts = [tensor]
        for part in parts:
            words = part.detach().contiguous().view(-1).view(_INTEGERS[part.element_size()]).to(torch.int64)
            odd = torch.arange(1, 2 * words.numel(), 2, device=words.device)
            mixed = (words + 0x2545F491) * (odd * 0x9E3779B1 + 2 * place)
            sums.append((mixed ^ (mixed >> 29)).sum().to(sums[0].device) * (2 * place + 1) + place)
    return torch.stack(sums).sum() & _MASK


class Replicas:
    def __init__(self, chosen: Any) -> None:
        """chosen: a process group, None for the default one where torch.distributed is initialised, False for none."""
        known = getattr(dist, "ProcessGroup", ())
        if chosen is not None and chosen is not False and not isinstance(chosen, known):
            raise TypeError(f"process_group must be a torch.distributed group, None or False, not {chosen!r}")
        self.chosen = chosen
        self._agreed: Optional[Tuple[Any, int]] = None

    def _group(self) -> Tuple[Any, int]:
        """The process group, and how many processes it has."""
        if self.chosen is False or not dist.is_available() or not dist.is_initialized():
            return None, 1
        return self.chosen, dist.get_world_size(self.chosen)

    def average(
        self, params: Sequence[Tensor], products: List[Dict[int, Optional[Tensor]]], ours: bool, theirs: bool
    ) -> None:
        """The mean over the processes of the gradients and of products. ours: that the gradients, theirs: that the
        products are of this process's samples alone; else a fingerprint decides."""
        group, world = self._group()
        if world == 1:
            return
        live = [p for p in params if p.requires_grad and not is_sharded(p)]  # what shards them has summed them already
        if self._agreed != (group, len(live)):
            self._agree(live, group)
            self._agreed = group, len(live)
        self._mean(live, [p.grad for p in live], _set_grad, ours, group, world)
        for by_id in products:
            wanted = [p for p in live if id(p) in by_id]

            def keep(p: Tensor, h: Optional[Tensor]) -> None:
                by_id[id(p)] = h

            self._mean(wanted, [by_id[id(p)] for p in wanted], keep, theirs, group, world)

    def _agree(self, params: Sequence[Tensor], group: Any) -> None:
        """Makes sure, before the first step, that all processes have the same parameters."""
        shapes = [len(params)] + [n for p in params for n in (p.dim(), *p.shape)]
        device = params[0].device if params else torch.device("cpu")
        if not _same(fingerprint([torch.tensor(shapes, dtype=torch.int64)]), device, group):
            raise UnsupportedError(
                "the processes have different lists of parameters, so they are no replicas of one model: pass "
                "process_group, the processes that hold the same parameters, or process_group=False"
            )
        if not _same(fingerprint([p.detach() for p in params]), device, group):
            raise UnsupportedError(
                "the parameters differ between the processes: wrap the model in DistributedDataParallel, or broadcast "
                "its parameters, before the first step"
            )

    def _mean(
        self,
        params: Sequence[Tensor],
        tensors: Sequence[Optional[Tensor]],
        keep: Callable[[Tensor, Optional[Tensor]], None],
        local: bool,
        group: Any,
        world: int,
    ) -> None:
        if not params:
            return
        device = params[0].device
        if not local and _same(fingerprint(tensors), device, group):
            return
        # 0: no gradient, 1: dense, 2: sparse
        kinds = [0 if t is None else 1 if t.layout is torch.strided else 2 for t in tensors]
        everywhere = torch.tensor(kinds, device=device)
        dist.all_reduce(everywhere, dist.ReduceOp.MAX, group=group)
        waiting: Dict[Any, List[Tuple[Tensor, Tensor]]] = {}
        for p, tensor, kind in zip(params, tensors, everywhere.tolist()):
            if kind == 2:
                keep(p, _mean_sparse(p, tensor, group, world))
            elif kind == 1:
                dense = torch.zeros_like(p) if tensor is None else tensor
                waiting.setdefault((p.device, p.dtype), []).append((p, dense.detach()))
        for listed in waiting.values():
            for bucket in _buckets(listed):
                wide = torch.float32 if bucket[0][1].element_size() == 2 else bucket[0][1].dtype
                flat = torch.cat([tensor.reshape(-1).to(wide) for _, tensor in bucket])
                dist.all_reduce(flat, group=group)
                flat.div_(world)
                parts = flat.split_with_sizes([tensor.numel() for _, tensor in bucket])
                for (p, tensor), part in zip(bucket, parts):
                    keep(p, part.view(p.shape).to(tensor.dtype))


def _set_grad(p: Tensor, grad: Optional[Tensor]) -> None:
    p.grad = grad


def _same(number: Tensor, device: torch.device, group: Any) -> bool:
    both = torch.stack([number, -number]).to(device)
    dist.all_reduce(both, dist.ReduceOp.MAX, group=group)
    most, least = both.tolist()
    return bool(most == -least)


def _buckets(listed: List[Tuple[Tensor, Tensor]]) -> List[List[Tuple[Tensor, Tensor]]]:
    made: List[List[Tuple[Tensor, Tensor]]] = []
    room = 0
    for entry in listed:
        if entry[1].numel() > room:
            made.append([])
            room = _BUCKET
        made[-1].append(entry)
        room -= entry[1].numel()
    return made


def _mean_sparse(p: Tensor, grad: Optional[Tensor], group: Any, world: int) -> Tensor:
    """Row-sparse gradients: rows and values of all processes, one after the other in the order of their ranks."""
    if grad is not None and grad.layout is torch.strided:
        grad = grad.to_sparse(1)
    rows = torch.empty(0, dtype=torch.int64, device=p.device)
    values = torch.empty((0, *p.shape[1:]), dtype=p.dtype, device=p.device)
    if grad is not None:
        grad = grad.coalesce()
        if grad.sparse_dim() != 1:
            raise UnsupportedError("a sparse gradient must be sparse in its rows only, as that of nn.Embedding is")
        rows, values = grad.indices()[0], grad.values()
    count = torch.tensor([len(rows)], device=p.device)
    counts = [torch.empty_like(count) for _ in range(world)]
    dist.all_gather(counts, count, group=group)
    sizes = [int(each) for each in counts]
    longest = max(sizes)
    own_rows = torch.zeros(longest, dtype=torch.int64, device=p.device)
    own_values = torch.zeros((longest, *p.shape[1:]), dtype=p.dtype, device=p.device)
    own_rows[: len(rows)], own_values[: len(rows)] = rows, values
    all_rows, all_values = ([torch.empty_like(x) for _ in range(world)] for x in (own_rows, own_values))
    dist.all_gather(all_rows, own_rows, group=group)
    dist.all_gather(all_values, own_values, group=group)
    index = torch.cat([part[:size] for part, size in zip(all_rows, sizes)])
    value = torch.cat([part[:size] for part, size in zip(all_values, sizes)])
    return torch.sparse_coo_tensor(index[None], value / world, p.shape).coalesce()
