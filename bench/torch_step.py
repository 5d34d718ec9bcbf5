"""Time of an optimizer's step alone, for bench/pytorch: PSGD, by the C core and by torch ops (with groups by shape, and
with scan and diag), AdamW(foreach) and the PSGD author's KronWhiten.

The gradients are random and the same for all. Steps of the optimizers are taken in turn; the figure is the mean of the
faster three quarters of blocks of 10 steps, in processor time."""
import statistics
import time

import psgd.torch
import torch
from torch_methods import load

nn = torch.nn


def mlp():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.Flatten(), nn.Linear(512, 128), nn.ReLU(),
        nn.Linear(128, 10),
    )  # fmt: skip


def transformer():
    layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True)
    return nn.Sequential(nn.Embedding(65, 128), nn.TransformerEncoder(layer, 4), nn.Linear(128, 65))


def contestants(make, author, late):
    """(name, model, step) for each optimizer; all models are copies. late: as after the schedule's first 500 steps."""
    torch.manual_seed(0)
    first = make()
    gradients = [torch.randn_like(p) * 0.01 for p in first.parameters()]
    made = []
    for name in ["AdamW", "psgd", "native", "scan"] + (["author"] if author else []):
        net = make()
        net.load_state_dict(first.state_dict())
        for p, g in zip(net.parameters(), gradients):
            p.grad = g.clone()
        params = list(net.parameters())
        if name == "AdamW":
            step = torch.optim.AdamW(params, 1e-4, foreach=True).step
        elif name in ("psgd", "native", "scan"):
            options = dict(update_anneal=0, update_probability=0.1 if late else 1.0, backend="c" if name == "psgd" else "native")
            if name == "scan":
                options["group"] = lambda _, shape: "scan" if len(shape) == 2 else "diag"
            step = psgd.torch.PSGD(net.named_parameters(), 1e-4, **options).step
        else:
            opt = author.KronWhiten(params, preconditioner_init_scale=1.0, lr_params=1e-4,
                                    preconditioner_update_probability=0.1 if late else 1.0)
            loss = lambda: sum((p * g).sum() for p, g in zip(params, gradients))  # noqa: E731
            step = lambda: opt.step(loss)  # noqa: E731
            made.append(("(its closure)", net, lambda: torch.autograd.grad(loss(), params)))
        made.append((name, net, step))
    return made


def measure(author_file, steps=300):
    """Model and how often it fits -> optimizer -> ms of a step."""
    author, found = load(author_file) if author_file else None, {}
    for name, make in (("MLP 784-256-256-10", mlp), ("small CNN", cnn), ("transformer of 4 layers", transformer)):
        for late in (False, True):
            times, entries = {}, contestants(make, author, late)
            for block in range(max(3, steps // 10)):
                for who, _, step in entries:
                    start = time.process_time()
                    for _ in range(10):
                        step()
                    if block:
                        times.setdefault(who, []).append((time.process_time() - start) * 100)
            mean = {who: statistics.fmean(sorted(each)[: max(1, len(each) * 3 // 4)]) for who, each in times.items()}
            if "author" in mean:
                mean["author"] -= mean.pop("(its closure)")
            found[f"{name}, {'1 in 10' if late else 'every step'}"] = mean
            print(f"{name}, {'1 in 10' if late else 'every step'}: {mean}", flush=True)
    return found
