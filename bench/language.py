#!/usr/bin/python3
"""The paper's language model compared with PyTorch (Debian's python3-torch) and the PSGD author's code in one run: 33,278
words, two LSTM layers of 200 units, batch 20, 35 time steps, dropout 0.2, float32.

    git clone https://github.com/lixilinx/psgd_torch PEER
    cmake --build build --target bench_language && bench/language.py build PEER [rounds [processor]]

The sides take turns, twice; the table has the smallest time of each, which other load on the machine affects least.
PyTorch runs as installed and tuned (huge pages, memory is not returned; the BLAS is the OpenMP build in both), and the
ratio is to the better of the two. Its LSTM is nn.LSTM, its Hessian-vector product double backward; a Newton
step is that with the author's update_precond_kron and precond_grad_kron on (scaling, normalization) factors, clipping and
the update of the parameters. With the word processor at the end each side uses one thread and its processor time is
measured, for a machine in use. bench_language by itself, with the words ROUNDS rows, prints the table for an untied
embedding with row-sparse gradients.
"""
import importlib.util
import os
import subprocess
import sys
import time

TUNED = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184"
WORDS, HIDDEN, TIMES, BATCH, DROPOUT = 33278, 200, 35, 20, 0.2
ROWS = (("gradient", "gradient"), ("hessian", "gradient + Hv"), ("newton-scan", "Newton `scan` step"))


def peer(rounds, folder, clock):
    import torch
    import torch.nn.functional as F

    # By itself PyTorch may take every second core for a hyperthread and leave it idle.
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))

    spec = importlib.util.spec_from_file_location("author", os.path.join(folder, "preconditioned_stochastic_gradient_descent.py"))
    author = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(author)

    torch.manual_seed(1)
    cell = torch.nn.LSTM(HIDDEN, HIDDEN, 2, dropout=DROPOUT)
    weight = torch.empty(WORDS, HIDDEN).uniform_(-0.1, 0.1).requires_grad_()
    bias = torch.zeros(WORDS).requires_grad_()
    for name, p in cell.named_parameters():
        torch.nn.init.uniform_(p, -0.1, 0.1) if "weight" in name else torch.nn.init.zeros_(p)
        p.requires_grad_("bias_hh" not in name)  # one bias, as in the paper
    W = [weight, bias] + [p for p in cell.parameters() if p.requires_grad]
    x, y = torch.randint(WORDS, (TIMES, BATCH)), torch.randint(WORDS, (TIMES * BATCH,))

    def loss():
        h, _ = cell(F.embedding(x, weight))
        return F.cross_entropy(F.linear(F.dropout(h, DROPOUT).reshape(-1, HIDDEN), weight, bias), y)

    def matrices(parts):
        """The list in the shapes of the paper: [words, 201] and, for each layer, [800, 401]."""
        E, b, *layers = parts
        return [torch.cat((E, b[:, None]), 1)] + [torch.cat((*layers[i : i + 2], layers[i + 2][:, None]), 1) for i in (0, 3)]

    def split(M):
        parts = [M[0][:, :-1], M[0][:, -1]]
        for L in M[1:]:
            parts += [L[:, :HIDDEN], L[:, HIDDEN:-1], L[:, -1]]
        return parts

    Q = [[torch.ones(1, m.shape[0]), torch.stack((torch.ones(m.shape[1]), torch.zeros(m.shape[1])))] for m in matrices(W)]

    def newton():
        g = torch.autograd.grad(loss(), W, create_graph=True)
        v = [torch.randn_like(w) for w in W]
        hv = torch.autograd.grad(g, W, v)
        with torch.no_grad():
            G, V, H = matrices(g), matrices(v), matrices(hv)
            d = []
            for i, q in enumerate(Q):
                Q[i] = q = author.update_precond_kron(*q, V[i], H[i])
                d.append(author.precond_grad_kron(*q, G[i]))
            norm = torch.sqrt(sum((x * x).sum() for x in d))
            rate = -1e-6 * min(100 / norm, 1.0)
            for w, x in zip(W, split(d)):
                w.add_(x * rate)

    def gradient():
        torch.autograd.grad(loss(), W)

    v = [torch.randn_like(w) for w in W]

    def hessian():
        g = torch.autograd.grad(loss(), W, create_graph=True)
        torch.autograd.grad(g, W, v)

    least = {}
    for r in range(-1, rounds):
        for name, action in (("gradient", gradient), ("hessian", hessian), ("newton-scan", newton)):
            start = clock()
            action()
            took = 1e3 * (clock() - start)
            if r >= 0:
                least[name] = min(took, least.get(name, took))
    for name, took in least.items():
        print(name, f"{took:.3f}", flush=True)


def run(words, **environment):
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=dict(os.environ, **environment))
    return {line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines()}


def smaller(a, b):
    return {name: min(a[name], b.get(name, a[name])) for name in a}


def main():
    build, folder, rounds = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "5"
    more = sys.argv[4:5]
    threads = {"OMP_NUM_THREADS": "1"} if more else {}
    own, tuned = None, None
    for _ in range(2):
        here = run([os.path.join(build, "bench_language"), rounds, *more], **threads)
        own = smaller(here, own or here)
        here = run([sys.executable, __file__, "--peer", rounds, folder, *more], GLIBC_TUNABLES=TUNED, **threads)
        tuned = smaller(here, tuned or here)
    plain = run([sys.executable, __file__, "--peer", "1", folder, *more], **threads)
    print("| what | PyTorch, ms | tuned, ms | psgd, ms | ratio |\n|---|---:|---:|---:|---:|")
    for key, what in ROWS:
        a, b = plain[key], tuned[key]
        print(f"| {what} | {a:.0f} | {b:.0f} | {own[key]:.0f} | {min(a, b) / own[key]:.2f} |")
    print("\n| step | ms | relative to SGD |\n|---|---:|---:|")
    for name, took in own.items():
        if name not in ("gradient", "hessian"):
            print(f"| `{name}` | {took:.1f} | {took / own['sgd']:.3f} |")


if sys.argv[1] == "--peer":
    peer(int(sys.argv[2]), sys.argv[3], time.process_time if len(sys.argv) > 4 else time.perf_counter)
else:
    main()
