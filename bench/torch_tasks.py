#!/usr/bin/env python3
"""PSGD at its defaults compared with torch's optimizers on small tasks: a table for docs/benchmarks/torch.md.

    bench/torch_tasks.py [--author AUTHOR.py] [--mnist FOLDER] [--steps N] [--seeds 3] [--tasks poisson,mnist]

poisson: a physics-informed network for -lap u = f on the unit square, u = sin(pi x) sin(2 pi y), f64, all points at
every step; the score is the relative L2 error. mnist: an MLP 784-128-10, batches of 128; the score is the test error.
AdamW has the best of five learning rates on the first seed; PSGD and the others have their defaults. Seconds are CPU
time of one thread, of the whole step with gradients and products."""
import argparse
import functools
import gzip
import importlib.util
import math
import statistics
import time
from pathlib import Path

import torch

import psgd
import psgd.torch

nn, F = torch.nn, torch.nn.functional


class Poisson:
    score_name = "relative L2 error"

    def __init__(self, seed, _):
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)).double()
        self.inside = torch.rand(256, 2, dtype=torch.float64)
        side = torch.rand(64, dtype=torch.float64)
        edges = [(side, 0 * side), (side, 0 * side + 1), (0 * side, side), (0 * side + 1, side)]
        self.border = torch.cat([torch.stack(edge, 1) for edge in edges])

    def exact(self, p):
        return torch.sin(math.pi * p[:, 0]) * torch.sin(2 * math.pi * p[:, 1])

    def batch(self, step):
        pass

    def loss(self):
        p = self.inside.clone().requires_grad_()
        (slope,) = torch.autograd.grad(self.net(p).sum(), p, create_graph=True)
        bends = [torch.autograd.grad(slope[:, i].sum(), p, create_graph=True)[0][:, i] for i in (0, 1)]
        residual = sum(bends) + 5 * math.pi**2 * self.exact(self.inside)
        return (residual**2).mean() / (5 * math.pi**2) ** 2 + 10 * (self.net(self.border) ** 2).mean()

    def score(self):
        line = torch.linspace(0, 1, 41, dtype=torch.float64)
        grid = torch.cartesian_prod(line, line)
        with torch.no_grad():
            return float((self.net(grid)[:, 0] - self.exact(grid)).norm() / self.exact(grid).norm())


class Mnist:
    score_name = "test error"

    def __init__(self, seed, folder):
        torch.manual_seed(seed)
        self.x, self.y = read(folder, "train")
        self.test = read(folder, "t10k")
        self.net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
        self.seed = seed

    def batch(self, step):
        draw = torch.Generator().manual_seed(1000003 * self.seed + step)
        self.at = torch.randint(len(self.x), (128,), generator=draw)

    def loss(self):
        return F.cross_entropy(self.net(self.x[self.at]), self.y[self.at])

    def score(self):
        with torch.no_grad():
            return float((self.net(self.test[0]).argmax(1) != self.test[1]).float().mean())


@functools.lru_cache(maxsize=None)
def read(folder, part):
    def raw(kind, skip):
        path = next(Path(folder).glob(f"{part}-{kind}*"))
        data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        return torch.frombuffer(bytearray(data[skip:]), dtype=torch.uint8)

    return raw("images", 16).view(-1, 784).float() / 255, raw("labels", 8).long()


def adamw(lr):
    def make(task):
        opt = torch.optim.AdamW(task.net.parameters(), lr, foreach=True)

        def step():
            opt.zero_grad()
            loss = task.loss()
            loss.backward()
            opt.step()
            return loss

        return step

    return make


def lbfgs(task):
    opt = torch.optim.LBFGS(task.net.parameters(), max_iter=1, history_size=20, line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        loss = task.loss()
        loss.backward()
        return loss

    return lambda: opt.step(closure)


def ours(criterion):
    def make(task):
        opt = psgd.torch.PSGD(task.net, criterion=criterion, fold_bias=True)
        return lambda: opt.step(task.loss)

    return make


def authors(module, name):
    def make(task):
        opt = getattr(module, name)(list(task.net.parameters()), preconditioner_init_scale=None)
        return lambda: opt.step(task.loss)

    return make


def run(kind, folder, make, seed, steps):
    task = kind(seed, folder)
    step, start, losses = make(task), time.process_time(), []
    for k in range(steps):
        task.batch(k)
        losses.append(float(step().detach()))
    tail = losses[-max(1, steps // 20) :]
    return statistics.fmean(tail), task.score(), time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--author")
    parser.add_argument("--mnist")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", default="poisson,mnist")
    given = parser.parse_args()
    torch.set_num_threads(1)
    psgd.set_threads(1)
    print(f"torch {torch.__version__}, {given.steps} steps, {given.seeds} seeds, median (range)\n")
    for name in given.tasks.split(","):
        kind = {"poisson": Poisson, "mnist": Mnist}[name]
        if kind is Mnist and not given.mnist:
            print("mnist is left out: --mnist FOLDER names the data\n")
            continue
        rates = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
        best = min(rates, key=lambda lr: run(kind, given.mnist, adamw(lr), 0, given.steps)[0])
        rows = {f"AdamW, lr {best:g}": adamw(best), "PSGD, newton": ours("newton"), "PSGD, fisher": ours("fisher")}
        if kind is Poisson:
            rows["L-BFGS"] = lbfgs
        if given.author:
            spec = importlib.util.spec_from_file_location("author", given.author)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            rows.update({f"author, {which}": authors(module, which) for which in ("KronNewton", "KronWhiten")})
        print(f"| {name} | final loss | {kind.score_name} | CPU seconds |\n|---|---|---|---|")
        for title, make in rows.items():
            found = list(zip(*(run(kind, given.mnist, make, seed, given.steps) for seed in range(given.seeds))))
            cells = [f"{statistics.median(v):.3g} ({min(v):.2g} to {max(v):.2g})" for v in found]
            print(f"| {title} | {' | '.join(cells)} |", flush=True)
        print()


if __name__ == "__main__":
    main()
