"""Keywords of torch.optim.AdamW, for programs that change one line: taken where they mean something, else named."""
from __future__ import annotations

from typing import Any, Dict, Mapping

_MOMENTS = ("adam", "adamw", "sparse-adam")
_ROOTS = (*_MOMENTS, "rmsprop", "adagrad", "esgd")


def translate(method: str, options: Mapping[str, Any]) -> Dict[str, Any]:
    """The options with AdamW's keywords in the library's words. ``foreach`` and ``fused`` say how torch should do what
    the library does in its own way, so they are dropped; ``maximize`` stays."""
    made = dict(options)
    made.pop("foreach", None)
    made.pop("fused", None)
    if "betas" in made:
        betas = made.pop("betas")
        if method not in _MOMENTS:
            raise TypeError(
                f"betas are AdamW's; {method} has no moving average of squares: write momentum={_first(betas)} for the "
                "moving average of gradients"
            )
        try:
            made["beta1"], made["beta2"] = betas
        except (TypeError, ValueError):
            raise TypeError(f"betas must be two numbers, not {betas!r}") from None
    if "eps" in made:
        eps = made.pop("eps")
        if method not in _ROOTS:
            raise TypeError(f"eps is AdamW's; {method} divides by nothing: leave it out, or see the option damping")
        made["epsilon"] = eps
    for name, instead in (
        ("amsgrad", "leave it out"),
        ("capturable", "leave it out: nothing of a step is recorded in a CUDA graph"),
        ("differentiable", "leave it out: a step is not differentiable"),
        ("decoupled_weight_decay", "leave it out: weight_decay is decoupled, l2 is not"),
    ):
        if made.pop(name, False):
            raise TypeError(f"PSGD has no {name}; {instead}")
    if not isinstance(made.get("maximize", False), bool):
        raise TypeError(f"maximize must be a bool, not {made['maximize']!r}")
    return made


def _first(betas: Any) -> Any:
    return betas[0] if isinstance(betas, (tuple, list)) and betas else 0.9
