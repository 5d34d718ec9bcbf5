#!/usr/bin/env python3
"""Time of an optimizer's step in PyTorch: PSGD, AdamW(foreach) and, given his psgd.py, the PSGD author's KronWhiten.

    bench/torch_step.py [AUTHOR.py] [--steps 300] [--threads 1]

The gradients are random and the same for all, so that nothing but the optimizers is timed. Steps of the optimizers are
taken in turn; a row has the mean of the faster three quarters of blocks of 10 steps, and the ratio to AdamW's."""
import argparse
import importlib.util
import statistics
import time

import torch

import psgd
import psgd.torch

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


def load(path):
    spec = importlib.util.spec_from_file_location("author", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def contestants(make, author, late):
    """(name, model, step) for each optimizer; all models are copies. late: as after the schedule's first 500 steps."""
    torch.manual_seed(0)
    first = make()
    gradients = [torch.randn_like(p) * 0.01 for p in first.parameters()]
    made = []
    for name in ["AdamW", "psgd"] + (["author"] if author else []):
        net = make()
        net.load_state_dict(first.state_dict())
        for p, g in zip(net.parameters(), gradients):
            p.grad = g.clone()
        params = list(net.parameters())
        if name == "AdamW":
            step = torch.optim.AdamW(params, 1e-4, foreach=True).step
        elif name == "psgd":
            options = dict(update_anneal=0, update_probability=0.1) if late else {}
            step = psgd.torch.PSGD(params, 1e-4, **options).step
        else:
            opt = author.KronWhiten(params, preconditioner_init_scale=1.0, lr_params=1e-4,
                                    preconditioner_update_probability=0.1 if late else 1.0)
            loss = lambda: sum((p * g).sum() for p, g in zip(params, gradients))  # noqa: E731
            step = lambda: opt.step(loss)  # noqa: E731
            made.append(("(its closure)", net, lambda: torch.autograd.grad(loss(), params)))
        made.append((name, net, step))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("author", nargs="?")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    psgd.set_threads(given.threads)
    author = load(given.author) if given.author else None
    print(f"torch {torch.__version__}, {given.threads} thread(s), ms per step, mean of the faster three quarters of blocks of 10")
    for name, make in (("mlp", mlp), ("cnn", cnn), ("transformer", transformer)):
        for late in (False, True):
            times = {}
            entries = contestants(make, author, late)
            for block in range(max(3, given.steps // 10)):
                for who, _, step in entries:
                    start = time.perf_counter()
                    for _ in range(10):
                        step()
                    if block:
                        times.setdefault(who, []).append((time.perf_counter() - start) * 100)
            mean = {who: statistics.fmean(sorted(each)[: max(1, len(each) * 3 // 4)]) for who, each in times.items()}
            if "author" in mean:
                mean["author"] -= mean.pop("(its closure)")
            row = ", ".join(f"{who} {ms:.3f} ({ms / mean['AdamW']:.2f} x)" for who, ms in mean.items())
            print(f"{name}, {'fit at 1 step in 10' if late else 'fit at every step'}: {row}", flush=True)


if __name__ == "__main__":
    main()
