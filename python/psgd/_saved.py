"""The preconditioners of a torch optimizer inside its state, as bytes."""
from __future__ import annotations

from typing import Any

import torch


class StateWithBytes:
    """For the time of a with block the optimizer's state has the preconditioners in it."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def __enter__(self) -> None:
        for units in self.optimizer._units:
            for unit in units:
                precond = unit.precond if unit.sparse is None else unit.sparse.precond
                saved = torch.frombuffer(bytearray(precond.state()), dtype=torch.uint8)
                self.optimizer.state[unit.params[0]]["precond"] = saved

    def __exit__(self, *why: Any) -> None:
        # A new dict for each parameter: those that were handed out keep the bytes.
        for param, state in list(self.optimizer.state.items()):
            self.optimizer.state[param] = {key: value for key, value in state.items() if key != "precond"}
        for units in self.optimizer._units:
            for unit in units:
                if unit.sparse is not None:
                    unit.sparse.state = self.optimizer.state[unit.params[0]]
