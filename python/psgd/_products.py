"""The loss of a torch program, its gradients and its Hessian-vector products, exact or by finite differences."""
from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from ._errors import UnsupportedError

Directions = Callable[[], List[Tuple[List[Tensor], List[Tensor]]]]
Found = List[Dict[int, Optional[Tensor]]]


def once_differentiable_op(loss: Tensor) -> str:
    """The name of a custom function under this loss that is marked once_differentiable, or "".

    Through such a function torch's double backward gives zeros without a word, so they must be looked for."""
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        function = getattr(node, "_forward_cls", None)
        if function is not None and hasattr(getattr(function, "backward", None), "__wrapped__"):
            return function.__name__
        waiting += [parent for parent, _ in node.next_functions]
    return ""


class Products:
    """Calls closures, and remembers what it has found out about second derivatives."""

    def __init__(self) -> None:
        self._no_double_backward = False
        self._blind: Optional[str] = None  # an op without a second derivative, "" for none; not yet looked for

    def evaluate(self, closure: Any, everything: List[Tensor], hv: str, directions: Directions) -> Tuple[Any, Found]:
        """The loss, after which every parameter has its gradient, and Hv by id for each (params, vs) of directions."""
        random = torch.get_rng_state()
        hv = "difference" if self._no_double_backward and hv == "auto" else hv
        loss = self.call(closure, everything, hv != "difference") if closure is not None else None
        wanted = directions()
        if hv != "difference":
            found = self._exact(everything, wanted, hv == "exact", closure is not None)
            if found is not None:
                return loss, found
        if closure is None:
            raise UnsupportedError("a Newton step by finite differences needs step(closure)")
        return loss, [self._difference(closure, everything, params, vs, random) for params, vs in wanted]

    def call(self, closure: Callable[[], Any], params: List[Tensor], create_graph: bool) -> Any:
        """Calls the closure; where it did not call backward, takes the gradient of the loss that it returned."""
        before = [None if p.grad is None else (id(p.grad), p.grad._version) for p in params]
        with torch.enable_grad():
            loss = closure()
        after = [None if p.grad is None else (id(p.grad), p.grad._version) for p in params]
        if before != after:
            return loss
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            raise TypeError("the closure must call backward, or return a loss that depends on the parameters")
        live = [p for p in params if p.requires_grad]
        if create_graph and self._blind is None:
            self._blind = once_differentiable_op(loss)
        with torch.enable_grad():
            grads = torch.autograd.grad(loss, live, create_graph=create_graph, allow_unused=True)
        for p, grad in zip(live, grads):
            p.grad = grad
        return loss.detach()

    def _exact(self, everything, wanted, must: bool, again: bool) -> Optional[Found]:
        """Hv by double backward through the gradients, which are then detached. None where that is not possible."""
        try:
            if not any(p.grad is not None and p.grad.requires_grad for p in wanted[0][0]):
                if must or not again:
                    raise UnsupportedError(
                        "an exact Newton step needs a closure that returns the loss without calling backward, "
                        "or backward(create_graph=True) before step()"
                    )
                return None
            if self._blind:
                raise RuntimeError(f"{self._blind} has no second derivative")
            found: Found = []
            for params, vs in wanted:
                pairs = [(p.grad, v) for p, v in zip(params, vs) if p.grad is not None and p.grad.requires_grad]
                grads, directions = [g for g, _ in pairs], [v for _, v in pairs]
                keep = len(found) + 1 < len(wanted)
                with torch.enable_grad():
                    hs = torch.autograd.grad(grads, params, directions, retain_graph=keep, allow_unused=True)
                found.append(dict(zip(map(id, params), hs)))
            return found
        except UnsupportedError:
            raise
        except RuntimeError as why:
            if must:
                raise
            if not again:
                raise UnsupportedError(f"no second derivative: {why}; step(closure) can take differences") from why
            self._no_double_backward = True
            return None
        finally:
            for p in everything:
                if p.grad is not None and p.grad.requires_grad:
                    p.grad = p.grad.detach()

    def _difference(self, closure, everything, params, vs, random: Tensor) -> Dict[int, Optional[Tensor]]:
        """(g(theta + eps v) - g(theta)) / eps, with the random numbers that the first call drew."""
        first = [p.grad for p in everything]
        kept = [None if g is None else g.clone() for g in first]
        old = [p.detach().clone() for p in params]
        size = math.sqrt(sum(float((p * p).sum()) for p in old) / max(1, sum(p.numel() for p in old)))
        step = math.sqrt(torch.finfo(params[0].dtype).eps) * max(size, 0.01) if math.isfinite(size) else 0.01
        current = torch.get_rng_state()
        try:
            with torch.no_grad():
                torch._foreach_add_(list(params), list(vs), alpha=step)
            torch.set_rng_state(random)
            self.call(closure, everything, False)
            second = {id(p): p.grad for p in everything}
        finally:
            torch.set_rng_state(current)
            with torch.no_grad():
                for p, before in zip(params, old):
                    p.copy_(before)
            for p, grad in zip(everything, kept):
                p.grad = grad
        found: Dict[int, Optional[Tensor]] = {}
        for p in params:
            one, two = p.grad, second[id(p)]
            found[id(p)] = None if two is None else (two - one if one is not None else two) / step
        return found
