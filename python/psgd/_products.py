"""The loss of a torch program, its gradients and its Hessian-vector products, exact or by finite differences."""
from __future__ import annotations

import math
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from ._errors import UnsupportedError

Directions = Callable[[], List[Tuple[List[Tensor], List[Tensor]]]]
Found = List[Dict[int, Optional[Tensor]]]
Wanted = List[Tuple[List[Tensor], List[Tensor]]]


def once_differentiable_op(loss: Tensor) -> str:
    """The name of a custom function under this loss that is marked once_differentiable, or "".

    Through such a function torch's double backward silently gives zeros, so they must be looked for."""
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        function = getattr(node, "_forward_cls", None)
        if function is not None and hasattr(getattr(function, "backward", None), "__wrapped__"):
            return str(function.__name__)
        waiting += [parent for parent, _ in node.next_functions]
    return ""


_COMPILED = "a model that torch.compile has compiled has no second derivative"


def _is_from_compiler(why: BaseException) -> bool:
    """Whether torch refuses a second derivative because of torch.compile."""
    return any(word in str(why) for word in ("torch.compile", "donated buffer", "compiled", "aot_autograd"))


def _short(why: BaseException) -> str:
    return str(why).split("\n")[0].rstrip(".")[:200]


class Products:
    """Calls closures, and remembers what it has found out about second derivatives."""

    def __init__(self) -> None:
        self._no_double_backward = False
        self._blind: Optional[str] = None  # an op without a second derivative, "" for none; not yet looked for
        self.own_gradients = False  # the last call: p.grad is from here, not from the program's backward
        self.own_products = False  # the last evaluation: of this process alone, whatever backward has summed up

    def evaluate(self, closure: Any, everything: List[Tensor], hv: str, directions: Directions) -> Tuple[Any, Found]:
        """The loss, after which every parameter has its gradient, and Hv by id for each (params, vs) of directions."""
        random = torch.get_rng_state()
        hv = "difference" if self._no_double_backward and hv == "auto" else hv
        loss = self._first(closure, everything, hv, random)
        wanted = directions()
        if hv != "difference" and not (self._no_double_backward and hv == "auto"):
            found = self._exact(everything, wanted, hv == "exact", closure is not None)
            if found is not None:
                self.own_products = True
                return loss, found
        if closure is None:
            raise UnsupportedError("a Newton step by finite differences needs step(closure)")
        products = [self._difference(closure, everything, params, vs, random) for params, vs in wanted]
        self.own_products = self.own_gradients
        return loss, products

    def _first(self, closure: Any, everything: List[Tensor], hv: str, random: Tensor) -> Any:
        """The first call of the closure. A compiled model may refuse a gradient that can be differentiated once more:
        the closure is then called again, without."""
        if closure is None:
            self.own_gradients = False
            return None
        if hv == "difference":
            return self.call(closure, everything, False)
        try:
            return self.call(closure, everything, True)
        except RuntimeError as why:
            if not _is_from_compiler(why):
                raise
            if hv == "exact":
                raise UnsupportedError(f"{_COMPILED}; hv=\"auto\" or \"difference\" takes finite differences") from why
            self._give_up(_COMPILED)
        torch.set_rng_state(random)
        return self.call(closure, everything, False)

    def _give_up(self, why: str) -> None:
        """From now on Hv is a finite difference."""
        self._no_double_backward = True
        sentence = f"{why}, so Hv is a finite difference of gradients from now on, at two calls of the closure each"
        warnings.warn(sentence, RuntimeWarning, stacklevel=6)

    def call(self, closure: Callable[[], Any], params: List[Tensor], create_graph: bool) -> Any:
        """Calls the closure; where it did not call backward, takes the gradient of the loss that it returned."""
        before = [None if p.grad is None else (id(p.grad), p.grad._version) for p in params]
        with torch.enable_grad():
            loss = closure()
        after = [None if p.grad is None else (id(p.grad), p.grad._version) for p in params]
        self.own_gradients = before == after
        if not self.own_gradients:
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

    def _exact(self, everything: List[Tensor], wanted: Wanted, must: bool, again: bool) -> Optional[Found]:
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
            self._give_up(_COMPILED if _is_from_compiler(why) else f"there is no second derivative ({_short(why)})")
            return None
        finally:
            for p in everything:
                if p.grad is not None and p.grad.requires_grad:
                    p.grad = p.grad.detach()

    def _difference(
        self, closure: Any, everything: List[Tensor], params: List[Tensor], vs: List[Tensor], random: Tensor
    ) -> Dict[int, Optional[Tensor]]:
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
