#!/usr/bin/python3
"""psgd.torch.PSGD compared with the PSGD author's own PyTorch code, which is not part of this repository:

    git clone https://github.com/lixilinx/psgd_torch PEER
    bench/compare_author.py speed PEER
    bench/compare_author.py decomposition PEER --out DIR
    bench/compare_author.py lenet5 PEER --mnist DIR --epochs 10 --out DIR

Both sides run in this process on the same tensors with the same number of threads. The curves go to DIR as CSV and, where
matplotlib is installed, SVG. Needs torch, and opt_einsum for the author's code."""
import argparse
import csv
import gzip
import importlib.util
import math
import statistics
import time
from pathlib import Path

import numpy as np
import torch

import psgd
import psgd.torch
from psgd._lib import lib

F = torch.nn.functional
ALEXNET = [(96, 364), (256, 2401), (384, 2305), (384, 3457), (256, 3457), (4096, 9217), (4096, 4097), (1000, 4097)]


def load_peer(folder: str, name: str):
    """A module of the author's folder under a name of its own: one of them is called psgd, too."""
    spec = importlib.util.spec_from_file_location(f"peer_{name}", Path(folder) / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def timed(action, repeats: int):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return times


# --- speed


def speed(arguments) -> None:
    peer = load_peer(arguments.peer, "preconditioned_stochastic_gradient_descent")
    torch.manual_seed(0)
    grads = [torch.randn(shape) for shape in ALEXNET]
    numbers = sum(g.numel() for g in grads)
    print(f"AlexNet's eight matrices, {numbers / 1e6:.1f} M numbers, {torch.get_num_threads()} threads, Fisher SCAN")

    params = [torch.nn.Parameter(torch.zeros(shape)) for shape in ALEXNET]
    opt = psgd.torch.PSGD(params, lr=1e-3, group="scan", damping=1e-3)
    free = psgd.torch.PSGD(params, lr=1e-3, group="scan", damping=1e-3, integrate=True)
    for p, g in zip(params, grads):
        p.grad = g

    left = [torch.ones(1, shape[0]) for shape in ALEXNET]
    right = [torch.stack([torch.ones(shape[1]), torch.zeros(shape[1])]) for shape in ALEXNET]
    state = [[l, r] for l, r in zip(left, right)]

    def theirs():
        for i, g in enumerate(grads):
            v, h = peer.damped_pair_vg(g)
            state[i] = list(peer.update_precond_kron(*state[i], v, h))
            peer.precond_grad_kron(*state[i], g)

    sides = {"author": theirs, "psgd.torch": opt.step, "psgd.torch, v integrated out": free.step}
    times = {name: [] for name in sides}
    for action in sides.values():
        action()
    for _ in range(arguments.repeats):  # in turn, so that a noisy minute hits all of them
        for name, action in sides.items():
            times[name] += timed(action, 1)
    base = statistics.median(times["author"])
    print("median and range of a step: draw v, update, apply; psgd.torch also moves the parameters")
    for name, found in times.items():
        middle = statistics.median(found)
        print(f"{name:30s} {middle * 1e3:9.1f} ms  ({min(found) * 1e3:.1f} to {max(found) * 1e3:.1f})  {base / middle:6.1f} x")
    overhead()


def overhead() -> None:
    """What Python adds to a step on many tiny tensors: the step less the C call that it makes."""
    count = 200
    params = [torch.nn.Parameter(torch.zeros(2, 3)) for _ in range(count)]
    for p in params:
        p.grad = torch.randn(2, 3)
    opt = psgd.torch.PSGD(params, lr=1e-3, group="scan")
    (tensors,) = opt._lists
    at, handle = tensors.pointers, tensors.handle.value
    opt.step()

    def bare():
        lib.psgd_optimizer_step_rows(handle, at.theta, at.rows, at.gradient, at.v, at.h)

    whole, calls = (min(timed(action, 50)) / count * 1e6 for action in (opt.step, bare))
    print(f"{count} tensors of 2 x 3: a step {whole:.2f} us a tensor, of which {whole - calls:.2f} us are Python and ctypes")


# --- curves


# Colours where the reader's pages are dark; matplotlib writes its own as styles of elements.
DARK = """<style>@media (prefers-color-scheme: dark) {
#patch_1 path, #patch_2 path { fill: #0d1117 !important } text { fill: #e6edf3 }
#axes_1 > [id^=patch] path { stroke: #8b949e !important } #patch_2 path { stroke: none !important }
path[id^=m] { stroke: #8b949e !important }
}</style>
"""


def write_curves(out, name: str, curves: dict, ylabel: str) -> None:
    if not out:
        return
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["run", "x", "value"])
        for run, (xs, ys) in curves.items():
            writer.writerows([run, f"{x:g}", f"{y:.6g}"] for x, y in zip(xs, ys))
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.fonttype"] = "none"  # text, which a style sheet can colour
    plt.rcParams["svg.hashsalt"] = name
    figure, axes = plt.subplots(figsize=(8.4, 4))
    for run, (xs, ys) in curves.items():
        axes.semilogy(xs, ys, label=run)
    axes.set_xlim(0, max(xs[-1] for xs, _ in curves.values()))
    axes.set_xlabel("iterations")
    axes.set_ylabel(ylabel)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    drawn = (folder / f"{name}.svg").read_text()
    (folder / f"{name}.svg").write_text(drawn.replace("<defs>", DARK + "<defs>", 1))


def decomposition(arguments) -> None:
    """min over x, y, z of || T - sum_r x_r o y_r o z_r ||^2, T of rank 10 and 20 x 50 x 100, from a random start."""
    peer = load_peer(arguments.peer, "psgd")
    rank, sizes, steps = 10, (20, 50, 100), arguments.steps

    def run(seed: int, make):
        torch.manual_seed(seed)
        truth = [torch.randn(rank, size) for size in sizes]
        target = torch.einsum("ri,rj,rk->ijk", *truth)
        factors = [torch.randn(rank, size).requires_grad_() for size in sizes]
        step = make(factors)
        values = []
        start = time.perf_counter()
        for _ in range(steps):
            values.append(float(step(lambda: ((target - torch.einsum("ri,rj,rk->ijk", *factors)) ** 2).sum())))
        return values, (time.perf_counter() - start) / steps

    def author(dQ):
        return lambda factors: peer.KronNewton(
            factors, preconditioner_max_skew=float("inf"), lr_params=0.2, lr_preconditioner=0.1, dQ=dQ
        ).step

    def ours(factors):
        return psgd.torch.PSGD(
            factors, lr=0.2, group="kron(tri,tri)", criterion="newton", precond_step=0.1, norm="second", init="first"
        ).step

    sides = {"psgd_torch (Li), its demo": author("Q0.5EQ1.5"), "psgd_torch (Li), triangular": author("EQ"),
             "psgd.torch": ours}
    curves = {}
    marks = [m for m in (0, 100, 200, 500, 1000, 1500, 2000) if m < steps] + [steps - 1]
    print("iteration".ljust(28), *(f"{m:>10d}" for m in marks), "   ms a step")
    for name, make in sides.items():
        found = [run(seed, make) for seed in range(arguments.seeds)]
        median = np.median([values for values, _ in found], axis=0)
        curves[name] = (range(0, steps, 10), median[::10])
        pace = statistics.median(pace for _, pace in found) * 1e3
        print(name.ljust(28), *(f"{median[m]:10.3g}" for m in marks), f"{pace:10.2f}")
    write_curves(arguments.out, "decomposition", curves, "fitting loss")


def read_idx(path: Path) -> np.ndarray:
    with gzip.open(path) as file:
        raw = file.read()
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


class LeNet5(torch.nn.Module):
    """As in the author's demo, with every layer a matrix [out, in + 1]."""

    def __init__(self):
        super().__init__()
        shapes = [(6, 26), (16, 151), (120, 257), (84, 121), (10, 85)]
        self.W = torch.nn.ParameterList([torch.nn.Parameter(0.1 * torch.randn(*shape)) for shape in shapes])

    def forward(self, x):
        a, b, c, d, e = self.W
        x = F.relu(F.max_pool2d(F.conv2d(x, a[:, :-1].reshape(6, 1, 5, 5), a[:, -1]), 2))
        x = F.relu(F.max_pool2d(F.conv2d(x, b[:, :-1].reshape(16, 6, 5, 5), b[:, -1]), 2))
        x = F.relu(F.linear(x.flatten(1), c[:, :-1], c[:, -1]))
        x = F.relu(F.linear(x, d[:, :-1], d[:, -1]))
        return F.linear(x, e[:, :-1], e[:, -1])


def lenet5(arguments) -> None:
    """MNIST, Newton type with triangular factors, the settings of the author's demo."""
    peer = load_peer(arguments.peer, "preconditioned_stochastic_gradient_descent")
    folder = Path(arguments.mnist)
    images, labels, test_images, test_labels = (
        torch.from_numpy(read_idx(folder / f"{name}.gz").copy())
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    )
    images, test_images = (x[:, None].float() / 255 for x in (images, test_images))
    labels, test_labels = labels.long(), test_labels.long()
    epochs = arguments.epochs
    decay = 0.01 ** (1 / max(1, epochs - 1))

    def author(net):
        Qs = [[torch.eye(size) for size in W.shape] for W in net.W]
        clip = 0.1 * math.sqrt(sum(W.numel() for W in net.W))

        def step(loss_of, lr):
            loss = loss_of()
            grads = torch.autograd.grad(loss, list(net.W), create_graph=True)
            vs = [torch.randn_like(W) for W in net.W]
            Hvs = torch.autograd.grad(grads, list(net.W), vs)
            with torch.no_grad():
                for i, (v, Hv) in enumerate(zip(vs, Hvs)):
                    Qs[i] = peer.update_precond_kron(*Qs[i], v, Hv)
                moves = [peer.precond_grad_kron(*Q, g) for Q, g in zip(Qs, grads)]
                length = math.sqrt(sum(float((m * m).sum()) for m in moves))
                for W, move in zip(net.W, moves):
                    W.sub_(move, alpha=lr * min(clip / length, 1.0))
            return float(loss)

        return step

    def ours(net):
        clip = 0.1 * math.sqrt(sum(W.numel() for W in net.W))
        opt = psgd.torch.PSGD(net, lr=0.1, group="kron(tri,tri)", criterion="newton", precond_step=0.01, clip=clip)

        def step(loss_of, lr):
            opt.param_groups[0]["lr"] = lr
            return float(opt.step(loss_of))

        return step

    curves = {}
    for name, make in {"psgd_torch (Li)": author, "psgd.torch": ours}.items():
        torch.manual_seed(arguments.seed)
        net = LeNet5()
        step = make(net)
        losses, lr, spent = [], 0.1, 0.0
        for epoch in range(epochs):
            order = torch.from_numpy(np.random.default_rng(epoch).permutation(len(images)))
            start = time.perf_counter()
            for batch in order.split(64):
                x, y = images[batch], labels[batch]
                loss = step(lambda: F.cross_entropy(net(x), y) + 1e-6 * sum((W * W).sum() for W in net.W), lr)
                losses.append(loss)
            spent += time.perf_counter() - start
            lr *= decay
            with torch.no_grad():
                wrong = sum(int((net(x).argmax(1) != y).sum()) for x, y in zip(test_images.split(1000), test_labels.split(1000)))
            mean = statistics.fmean(losses[-938:])
            pace = spent / len(losses) * 1e3
            print(f"{name:15s} epoch {epoch + 1:2d}: train {mean:.4f}, test error {wrong / 100:.2f} %, {pace:.1f} ms a step", flush=True)
        smooth = [statistics.fmean(losses[i : i + 100]) for i in range(0, len(losses), 100)]
        curves[name] = (range(0, len(losses), 100), smooth)
    write_curves(arguments.out, "lenet5", curves, "training loss, mean of 100 steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "decomposition", "lenet5"])
    parser.add_argument("peer", help="folder with the author's code")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--mnist", default="../shared/data/mnist")
    parser.add_argument("--out", help="folder for the curves")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    {"speed": speed, "decomposition": decomposition, "lenet5": lenet5}[arguments.what](arguments)


if __name__ == "__main__":
    main()
