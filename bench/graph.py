#!/usr/bin/python3
"""Gradient, gradient + Hv and a complete Newton step compared with PyTorch (Debian's python3-torch) in one run: LeNet5
with batch 64, an LSTM of 30 units over 50 time steps with batch 128, both in float32. The step, kron(tri,tri) on LeNet5,
is that of the PSGD author's own code, which is not part of this repository:

    git clone https://github.com/lixilinx/psgd_torch PEER
    cmake --build build --target bench_graph && bench/graph.py build PEER [rounds]

The sides take turns, several times; the table has the smallest time of each, which other load on the machine affects
least. PyTorch runs as installed and tuned (huge pages, memory is not returned; libblas.so.3 should be an OpenMP build of
OpenBLAS for both), and the ratio is to the better of the two. The author's code needs opt_einsum.
"""
import os
import subprocess
import sys
import time

TUNED = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184"
WHAT = ("gradient", "gradient + Hv", "Newton step")


def peer(folder, rounds):
    import torch
    import torch.nn.functional as F

    # By itself PyTorch may take every second core for a hyperthread and leave it idle.
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))

    sys.path.insert(0, folder)
    import preconditioned_stochastic_gradient_descent as author

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

    def gradient(network, W, x, y):
        torch.autograd.grad(network(W, x, y), W)

    def hessian(network, W, x, y):
        v = [torch.randn_like(w) for w in W]
        g = torch.autograd.grad(network(W, x, y), W, create_graph=True)
        return v, g, torch.autograd.grad(g, W, v)

    def newton(network, W, x, y, Q, limit):
        v, g, h = hessian(network, W, x, y)
        with torch.no_grad():
            Q[:] = [author.update_precond_kron(*q, a, b) for q, a, b in zip(Q, v, h)]
            d = [author.precond_grad_kron(*q, a) for q, a in zip(Q, g)]
            norm = torch.sqrt(sum(torch.sum(a * a) for a in d))
            for w, a in zip(W, d):
                w.subtract_(0.001 * min(limit / norm, 1.0) * a)

    shapes = ((6, 26), (16, 151), (120, 257), (84, 121), (10, 85))
    weights = [(0.1 * torch.randn(s)).requires_grad_() for s in shapes]
    sequence = list(cell.parameters()) + [(0.1 * torch.randn(1, 31)).requires_grad_()]
    Q = [[torch.eye(s[0]), torch.eye(s[1])] for s in shapes]
    limit = 0.1 * sum(w.numel() for w in weights) ** 0.5
    images = (lenet5, weights, torch.rand(64, 1, 28, 28), torch.randint(10, (64,)))
    sequences = (lstm, sequence, torch.rand(50, 128, 2), torch.randint(2, (128, 1)).float())
    cases = (("lenet5", (lambda: gradient(*images), lambda: hessian(*images),
                         lambda: newton(*images, Q, limit))),
             ("lstm", (lambda: gradient(*sequences), lambda: hessian(*sequences))))
    for name, actions in cases:
        times = [[] for _ in actions]
        for r in range(-5, rounds):
            for action, to in zip(actions, times):
                start = time.perf_counter()
                action()
                if r >= 0:
                    to.append(time.perf_counter() - start)
        print(name, *(f"{1e3 * min(t):.4f}" for t in times), flush=True)


def run(words, **environment):
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ, **environment))
    return {line.split()[0]: tuple(map(float, line.split()[1:])) for line in done.stdout.splitlines()}


def best(results, name):
    return tuple(map(min, zip(*(r[name] for r in results))))


def main():
    build, folder, rounds = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "50"
    ours, plain, tuned = [], [], []
    for _ in range(3):
        ours.append(run([os.path.join(build, "bench_graph"), rounds]))
        plain.append(run([sys.executable, __file__, "--peer", folder, rounds]))
        tuned.append(run([sys.executable, __file__, "--peer", folder, rounds], GLIBC_TUNABLES=TUNED))
    print("| network | what | PyTorch, ms | tuned, ms | psgd, ms | ratio |\n|---|---|---|---|---|---|")
    for name in ("lenet5", "lstm"):
        for what, a, b, own in zip(WHAT, best(plain, name), best(tuned, name), best(ours, name)):
            print(f"| {name} | {what} | {a:.2f} | {b:.2f} | {own:.2f} | {min(a, b) / own:.1f} |")
        print(f"| {name} | Hv over gradient | | | {best(ours, name)[1] / best(ours, name)[0]:.2f} | |")


if sys.argv[1] == "--peer":
    peer(sys.argv[2], int(sys.argv[3]))
else:
    main()
