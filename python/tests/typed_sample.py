"""What a user of the package writes, for mypy --strict."""
from typing import Dict, List

import numpy as np
import torch

import psgd
import psgd.torch

net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
x = torch.randn(64, 2)


def closure() -> torch.Tensor:
    loss: torch.Tensor = (net(x) ** 2).mean()
    return loss


opt = psgd.torch.PSGD(net, lr=0.1, criterion="newton", group={"*.weight": "scaw"}, fold_bias=True)
loss: torch.Tensor = opt.step(closure)
rows: List[Dict[str, object]] = opt.health()
skipped: int = opt.skipped
precond = psgd.Preconditioner("tri", 3, "float64", step=0.1)
precond.update(np.ones(3), np.ones(3))
direction: np.ndarray = precond.apply(np.ones(3))
joint = psgd.JointPreconditioner("diag", [(2, 3), 4])
names: List[str] = [entry.name for entry in psgd.groups()]
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)
result = psgd.minimize(lambda p: float((p**2).sum()), np.ones(2))
