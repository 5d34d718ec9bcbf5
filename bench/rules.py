#!/usr/bin/python3
"""How fast each update rule fits: cond(PH) of Kronecker problems after 100, 300 and 1000 updates, as a table.

    PYTHONPATH=python PSGD_LIBRARY=build/libpsgd.so bench/rules.py [--author PEER]
    PYTHONPATH=python PSGD_LIBRARY=build/libpsgd.so bench/rules.py --sides 64 --conditions 1e4 --seed 2

H = H1 (x) H2 with random eigenvectors and eigenvalues of even logarithmic spacing, each factor with the square root of the
condition; `indefinite` gives them random signs. The group is kron(dense,dense) in f32. Newton sees h = Hv; whitening sees
gradients g = H1 X H2 with X normal, v integrated out, for which P tends to |H|^-1 as well. P starts at the scale of the
first pairs.

Columns: each rule with a constant step; `pro` with the two falling steps of the optimizers' option step-schedule, which end
with the last update: `step` (a quarter of it from half of the updates on) and `cosine` (to 0). `batch`, for whitening: the
maximum-likelihood Kronecker covariance of the same gradients, all seen at once, by flip-flop iterations in f64; a rule that
sees each gradient once cannot be expected to end below it. Needs NumPy. `--author`, a clone of
github.com/lixilinx/psgd_torch, adds the author's own Q0.5EQ1.5 on the same pairs; needs torch and opt_einsum."""
import argparse
import importlib.util
import math
from pathlib import Path

import numpy as np

import psgd

RULES = [("eq", 0.01, {"norm": "max"}), ("eq", 0.1, {"norm": "max"}), ("qeq", 0.1, {}), ("pro", 0.1, {}), ("quad", 0.1, {}),
         ("qep", 0.1, {})]  # fmt: skip
FALLING = {"step": lambda k, total: 1 if k < total // 2 else 0.25,
           "cosine": lambda k, total: 0.5 * (1 + math.cos(math.pi * k / total))}
UPDATES = (100, 300, 1000)


def symmetric(rng, side: int, condition: float, indefinite: bool):
    vectors, _ = np.linalg.qr(rng.standard_normal((side, side)))
    values = np.logspace(-0.5, 0.5, side, base=condition)
    if indefinite:
        values *= np.sign(rng.standard_normal(side))
    return (vectors * values) @ vectors.T


class Problem:
    def __init__(self, side: int, condition: float, kind: str, seed: int):
        rng = np.random.default_rng(seed)
        self.H = [symmetric(rng, side, condition**0.5, kind == "indefinite") for _ in range(2)]
        V, X = rng.standard_normal((2, max(UPDATES), side, side))
        self.whitens = kind == "whitening"
        self.h = (self.H[0] @ (X if self.whitens else V) @ self.H[1]).astype(np.float32)
        self.v = [None] * max(UPDATES) if self.whitens else V.astype(np.float32)

    def condition(self, factors) -> float:
        """cond(PH) of P = kron of the Q'Q."""
        found = 1.0
        for Q, H in zip(factors, self.H):
            values = np.linalg.svd(Q.astype(float) @ H @ Q.T.astype(float), compute_uv=False)
            found *= values[0] / values[-1]
        return found


def fit(problem: Problem, rule: str, step: float, options: dict, total: int, fall):
    """cond(PH) after each of UPDATES up to this total."""
    if problem.whitens:
        options = {**options, "criterion": "fisher", "integrate": True}
    precond = psgd.Preconditioner("kron(dense,dense)", problem.h.shape[1:], rule=rule, step=step, init="first", **options)
    found = []
    for k in range(total):
        precond.set_step(step * fall(k, total))
        precond.update(problem.v[k], problem.h[k])
        if k + 1 in UPDATES:
            found.append(problem.condition(precond.factors))
    return found


def batch(problem: Problem, total: int, sweeps: int = 5) -> float:
    """cond(PH) of P = (A (x) B)^-1/2, A (x) B the most likely covariance of the gradients. Further sweeps change nothing that
    the table shows."""
    G = problem.h[:total].astype(float)
    count, rows, columns = G.shape
    B = np.eye(columns)
    for _ in range(sweeps):
        A = np.tensordot(G @ np.linalg.inv(B), G, ([0, 2], [0, 2])) / (count * columns)
        B = np.tensordot(np.linalg.inv(A) @ G, G, ([0, 1], [0, 1])) / (count * rows)
    quarter = []
    for C in (A, B):
        values, vectors = np.linalg.eigh(C)
        quarter.append((vectors * values**-0.25) @ vectors.T)
    return problem.condition(quarter)


def author(folder: str):
    """The author's code with its default rule, step 0.1 and starting scale, as a function like fit."""
    import torch

    spec = importlib.util.spec_from_file_location("peer_psgd", Path(folder) / "psgd.py")
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)

    def run(problem: Problem):
        torch.manual_seed(0)
        found, h = [], torch.from_numpy(problem.h)
        first = h[0] if problem.whitens else h[0] / torch.from_numpy(problem.v[0]).square().mean().sqrt()
        state = peer.init_kron(h[0], first.pow(4).mean() ** (-1 / 8), dQ="Q0.5EQ1.5")
        for k in range(max(UPDATES)):
            if problem.whitens:
                peer.update_precond_kron_whiten_q0p5eq1p5(*state, h[k], lr=0.1)
            else:
                peer.update_precond_kron_newton_q0p5eq1p5(*state, torch.from_numpy(problem.v[k]), h[k], lr=0.1)
            if k + 1 in UPDATES:
                found.append(problem.condition([Q.numpy() for Q in state[0][0]]))
        return found

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--author", metavar="PEER", help="folder of the author's code")
    parser.add_argument("--sides", type=int, nargs="+", default=[64, 96])
    parser.add_argument("--conditions", type=float, nargs="+", default=[1e4, 1e7])
    parser.add_argument("--seed", type=int, default=1, help="of the problems")
    arguments = parser.parse_args()
    theirs = author(arguments.author) if arguments.author else None
    heads = [f"`{name}`, {step}" for name, step, _ in RULES] + [f"`pro`, 0.1, {name}" for name in FALLING]
    heads += ["author's, 0.1"] * (theirs is not None) + ["batch"]
    print("| problem | " + " | ".join(heads) + " |")
    print("|---" * (1 + len(heads)) + "|")
    for side in arguments.sides:
        for condition in arguments.conditions:
            for kind in ("definite", "indefinite", "whitening"):
                problem = Problem(side, condition, kind, arguments.seed)
                cells = [fit(problem, *rule, max(UPDATES), lambda k, total: 1) for rule in RULES]
                cells += [[fit(problem, "pro", 0.1, {}, total, fall)[-1] for total in UPDATES] for fall in FALLING.values()]
                cells += [theirs(problem)] if theirs else []
                cells += [[batch(problem, total) for total in UPDATES] if problem.whitens else []]
                cells = [" / ".join(f"{x:.3g}" for x in cell) or "–" for cell in cells]
                print(f"| {side}×{side}, {kind}, {condition:.0e} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
