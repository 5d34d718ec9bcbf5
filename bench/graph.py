#!/usr/bin/python3
"""Gradient and gradient + Hv beside PyTorch (Debian's python3-torch) in one run: LeNet5 on batch 64, an LSTM of 30 units
over 50 times on batch 128, both in float32.

    cmake --build build --target bench_graph && bench/graph.py build [rounds]

Each side runs in turn, several times; the table has the smallest time of each, which other work on the machine disturbs
least. PyTorch runs as installed and tuned (memory from huge pages that is not given back), and the better of the two is the other side.
"""
import os
import subprocess
import sys
import time

TUNED = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184"


def peer(rounds):
    import torch
    import torch.nn.functional as F

    def lenet5(W, x, y):
        def matrix(i, x):
            return x @ W[i][:, :-1].T + W[i][:, -1]
        x = F.conv2d(x, W[0][:, :-1].reshape(6, 1, 5, 5), W[0][:, -1])
        x = F.relu(F.max_pool2d(x, 2))
        x = F.relu(F.max_pool2d(F.conv2d(x, W[1][:, :-1].reshape(16, 6, 5, 5), W[1][:, -1]), 2))
        x = F.relu(matrix(2, x.reshape(-1, 256)))
        return F.cross_entropy(matrix(4, F.relu(matrix(3, x))), y)

    cell = torch.nn.LSTM(2, 30)

    def lstm(W, x, y):
        h, _ = cell(x)
        return F.binary_cross_entropy_with_logits(h[-1] @ W[-1][:, :-1].T + W[-1][:, -1], y)

    shapes = ((6, 26), (16, 151), (120, 257), (84, 121), (10, 85))
    pictures = [(0.1 * torch.randn(s)).requires_grad_() for s in shapes]
    sequence = list(cell.parameters()) + [(0.1 * torch.randn(1, 31)).requires_grad_()]
    cases = (("lenet5", lenet5, pictures, torch.rand(64, 1, 28, 28), torch.randint(10, (64,))),
             ("lstm", lstm, sequence, torch.rand(50, 128, 2), torch.randint(2, (128, 1)).float()))
    for name, network, W, x, y in cases:
        v = [torch.randn_like(w) for w in W]
        times = [[], []]
        for r in range(-5, rounds):
            start = time.perf_counter()
            torch.autograd.grad(network(W, x, y), W)
            middle = time.perf_counter()
            g = torch.autograd.grad(network(W, x, y), W, create_graph=True)
            torch.autograd.grad(g, W, v)
            if r >= 0:
                times[0].append(middle - start)
                times[1].append(time.perf_counter() - middle)
        print(name, *(f"{1e3 * min(t):.4f}" for t in times), flush=True)


def run(words, **environment):
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ, **environment))
    return {line.split()[0]: tuple(map(float, line.split()[1:])) for line in done.stdout.splitlines()}


def best(results, name):
    return tuple(min(r[name][k] for r in results) for k in range(2))


def main():
    build, rounds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "50"
    ours, plain, tuned = [], [], []
    for _ in range(3):
        ours.append(run([os.path.join(build, "bench_graph"), rounds]))
        plain.append(run([sys.executable, __file__, "--peer", rounds]))
        tuned.append(run([sys.executable, __file__, "--peer", rounds], GLIBC_TUNABLES=TUNED))
    print("| network | what | PyTorch, ms | tuned, ms | psgd, ms | ratio |\n|---|---|---|---|---|---|")
    for name in ("lenet5", "lstm"):
        a, b, own = best(plain, name), best(tuned, name), best(ours, name)
        for k, what in enumerate(("gradient", "gradient + Hv")):
            ratio = min(a[k], b[k]) / own[k]
            print(f"| {name} | {what} | {a[k]:.2f} | {b[k]:.2f} | {own[k]:.2f} | {ratio:.1f} |")
        print(f"| {name} | Hv over gradient | | | {own[1] / own[0]:.2f} | |")


if sys.argv[1] == "--peer":
    peer(int(sys.argv[2]))
else:
    main()
