#!/usr/bin/python3
"""AlexNet, full size, compared with PyTorch (Debian's python3-torch) and the author's code, which is not part of this
repository, in one run: a gradient, a gradient with Hv, and a complete Newton SCAN step, float32.

    cmake --build build --target bench_alexnet && bench/alexnet.py build FOLDER [--batch 128] [--rounds 2] [--what gradient]

FOLDER has the author's preconditioned_stochastic_gradient_descent.py; without it that Newton step is omitted.
The sides take turns; the table has the smallest time of each. PyTorch runs as installed and tuned (huge pages, memory
is not returned), and the ratio is to the better of the two. The author's code needs opt_einsum.
"""
import argparse
import os
import subprocess
import sys
import time

TUNED = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184"
SHAPES = ((96, 364), (256, 2401), (384, 2305), (384, 3457), (256, 3457), (4096, 9217), (4096, 4097), (1000, 4097))


def peer(folder, batch, rounds, what):
    import torch
    import torch.nn.functional as F

    # By itself PyTorch may take every second core for a hyperthread and leave it idle.
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))

    # The order of columns is PyTorch's own, so that nothing is permuted on the way.
    def convolve(x, W, k, stride=1, padding=0):
        return F.relu(F.conv2d(x, W[:, :-1].reshape(W.shape[0], -1, k, k), W[:, -1], stride=stride, padding=padding))

    def respond(x):
        return x / (2 + 1e-4 * (5 / x.shape[1]) * (x * x).sum(1, keepdim=True)) ** 0.75

    def affine(x, W):
        return F.dropout(x, 0.5) @ W[:, :-1].T + W[:, -1]

    def network(W, x, y):
        x = F.max_pool2d(respond(convolve(x, W[0], 11, stride=4)), 3, 2)
        x = F.max_pool2d(respond(convolve(x, W[1], 5, padding=2)), 3, 2)
        x = convolve(convolve(x, W[2], 3, padding=1), W[3], 3, padding=1)
        x = F.max_pool2d(convolve(x, W[4], 3, padding=1), 3, 2).flatten(1)
        x = F.relu(affine(F.relu(affine(x, W[5])), W[6]))
        return F.cross_entropy(affine(x, W[7]), y) + 5e-4 / 2 * sum((w * w).sum() for w in W)

    W = [(0.01 * torch.randn(s)).requires_grad_() for s in SHAPES]
    x, y = 60 * torch.randn(batch, 3, 227, 227), torch.randint(1000, (batch,))

    def gradient():
        torch.autograd.grad(network(W, x, y), W)

    def hessian():
        v = [torch.randn_like(w) for w in W]
        g = torch.autograd.grad(network(W, x, y), W, create_graph=True)
        return v, g, torch.autograd.grad(g, W, v)

    actions = {"gradient": gradient, "hessian": hessian}
    if folder:
        sys.path.insert(0, folder)
        import preconditioned_stochastic_gradient_descent as author
        Q = [[0.3 * torch.ones(1, s[0]), torch.stack([0.3 * torch.ones(s[1]), torch.zeros(s[1])])] for s in SHAPES]

        def newton():
            v, g, h = hessian()
            with torch.no_grad():
                Q[:] = [author.update_precond_kron(*q, a, b) for q, a, b in zip(Q, v, h)]
                for w, q, a in zip(W, Q, g):
                    w.subtract_(1e-7 * author.precond_grad_kron(*q, a))

        actions["newton-scan"] = newton
    for name, action in actions.items():
        if what not in ("all", name) and (what, name) != ("steps", "newton-scan"):
            continue
        times = []
        for r in range(-1, rounds):
            start = time.perf_counter()
            action()
            if r >= 0:
                times.append(time.perf_counter() - start)
        print(name, f"{min(times):.4f}", flush=True)


def run(words, **environment):
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=dict(os.environ, **environment))
    return {name: float(number) for name, number in (line.split() for line in done.stdout.splitlines())}


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("build")
    parse.add_argument("folder", nargs="?", default="")
    parse.add_argument("--batch", default="128")
    parse.add_argument("--rounds", default="2")
    parse.add_argument("--what", default="all", choices=("all", "gradient", "hessian", "steps"))
    parse.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    a = parse.parse_args()
    if a.peer:
        peer(a.folder, int(a.batch), int(a.rounds), a.what)
        return
    own = run([os.path.join(a.build, "bench_alexnet"), a.batch, a.rounds, a.what])
    words = [sys.executable, __file__, "--peer", a.build, a.folder, "--batch", a.batch, "--rounds", a.rounds, "--what",
             a.what]
    tuned = run(words, GLIBC_TUNABLES=TUNED)
    plain = run(words)
    print(f"batch {a.batch}\n| what | PyTorch, s | tuned, s | psgd, s | ratio | as installed |\n|---|---|---|---|---|---|")
    for name, theirs in plain.items():
        best = min(theirs, tuned[name])
        print(f"| {name} | {theirs:.2f} | {tuned[name]:.2f} | {own[name]:.2f} | {best / own[name]:.2f} | "
              f"{theirs / own[name]:.2f} |")
    for name in own.keys() - plain.keys():
        print(f"{name} {own[name]:.3f}")


main()
