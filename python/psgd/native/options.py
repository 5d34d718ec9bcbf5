"""The options of a list of tensors: those of a torch param group over the C core's defaults, followed as they change, and
the schedules that come of them."""
from __future__ import annotations

import math
from functools import partial
from typing import Any, Dict, Mapping, Set

import torch
from torch import Tensor

from .._errors import UnsupportedError
from .._lib import lib
from .._options import options_of
from .._tensor_list import of_few, refuse_values

_SCHEDULE = {"update-every", "update-probability", "update-anneal", "update-floor"}
_NEVER = {
    "integrate": "v is always drawn", "unbiased": "use the C core on a CPU", "joint": "use the C core on a CPU",
}  # fmt: skip
_DELAYED = {"delay", "delay-free", "workers", "worker-threads"}


class Options:
    step_count: int
    settings: Dict[str, Any]

    def __init__(self, group: Dict[str, Any], keywords: Mapping[str, str], parameters: int, device: torch.device) -> None:
        """keywords: the C name of each option; parameters: of all lists together."""
        self.group, self.keywords, self.parameters, self.device = group, keywords, parameters, device

    def follow_options(self) -> None:
        """Takes over what the program, or a scheduler, has changed in the param group."""
        values = list(map(self.group.get, self.keywords))
        if values == getattr(self, "seen", None):
            return
        given = dict(zip(self.keywords, values))
        made = _defaults(str(self.group["method"]), self.group["criterion"], given.get("defaults"))
        self._refuse_values(given, not hasattr(self, "settings"))
        for keyword, value in given.items():
            if value is not None:
                made[self.keywords[keyword]] = _plain(value)
        named = {self.keywords[keyword] for keyword, value in given.items() if value is not None}
        self._follow_few(made, named)
        self._follow_delay(made, named)
        for option, instead in _NEVER.items():
            if made.get(option) in (True, "yes") or self.group.get(option) is True:
                raise UnsupportedError(f"the option {option} is not for parameters on {self.device}: {instead}")
        if "plateau" in (made["lr-schedule"], made["step-schedule"]):
            raise UnsupportedError("the schedule plateau has no validation loss here; torch has ReduceLROnPlateau")
        before = getattr(self, "settings", None)
        if before is not None:
            self._refuse_change(before, made)
        self.seen, self.settings = values, made
        self._numbers()

    def _refuse_values(self, given: Mapping[str, Any], new: bool) -> None:
        """Those that the C core refuses. It starts threads for a delay, which only a new list has to look at."""
        named = {self.keywords[keyword]: _plain(value) for keyword, value in given.items() if value is not None}
        named["apply"] = str(named.get("apply", "p")).lower()
        refuse_values(str(self.group["method"]), {k: v for k, v in named.items() if new or k not in _DELAYED})

    def _follow_few(self, made: Dict[str, Any], named: Set[str]) -> None:
        if made["defaults"] == "paper":
            return
        for option, value in of_few(made["criterion"], self.parameters).items():
            if option not in named and not (option in _SCHEDULE and _SCHEDULE & named):
                made[option] = value

    def _follow_delay(self, made: Dict[str, Any], named: Set[str]) -> None:
        if int(made["delay"]) > 0:
            raise UnsupportedError('the option delay takes backend="offload", and parameters that are not sharded')

    def _refuse_change(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Of what the fits are built from."""
        for option in ("criterion", "rule", "norm", "init", "init-scale", "norm-decay", "damping", "pairs", "seed"):
            if before[option] != now[option]:
                raise UnsupportedError(f"the option {option} cannot change once there are steps on {self.device}")

    def _numbers(self) -> None:
        get = self.settings.__getitem__
        self.momentum, self.decay, self.l2 = float(get("momentum")), float(get("decay")), float(get("l2"))
        self.clip_gradient = float(get("clip-gradient"))
        self.seed, self.pairs, self.newton = int(get("seed")), int(get("pairs")), get("criterion") == "newton"
        self.every, self.anneal, self.floor = int(get("update-every")), int(get("update-anneal")), float(get("update-floor"))
        self.probability = float(get("update-probability"))

    def _schedule(self, name: str, step: int) -> float:
        get, kind = self.settings.__getitem__, self.settings[f"{name}-schedule"]
        if kind == "step":
            return float(get(f"{name}-factor")) ** (step // int(get(f"{name}-every")))
        if kind == "cosine":
            floor, total = float(get(f"{name}-floor")), int(get("total"))
            return floor if step >= total else floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * step / total))
        return 1.0

    def _rate(self) -> float:
        warmup = int(self.settings["warmup"])
        rise = (self.step_count + 1) / warmup if self.step_count < warmup else 1.0
        return float(self.settings["lr"]) * rise * self._schedule("lr", self.step_count)

    def _chance(self, step: int) -> float:
        """Of a fit at a step that one may happen at."""
        if self.anneal:
            return float(self.probability * self.floor ** min(1.0, (step // self.every) / self.anneal))
        return self.probability


def _defaults(method: str, criterion: str, which: Any) -> Dict[str, Any]:
    """Of every option. Those of the paper depend on no method, as those of sgd do not."""
    if not method.startswith("psgd"):
        raise UnsupportedError(f"the method {method} needs parameters on the CPU")
    name = "sgd" if which == "paper" else f"psgd-{criterion}" if method == "psgd" else method
    rows = options_of(partial(lib.psgd_optimizer_option, name.encode()))
    made: Dict[str, Any] = {info.name.decode(): info.default_value.decode() for info in rows}
    made["criterion"] = criterion
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return float(value)
    return value
