#!/usr/bin/python3
"""How fast each update rule fits: cond(PH) of Kronecker problems after 100, 300 and 1000 updates, as a table.

    bench/rules.py build/psgd [--sides 64 96] [--conditions 1e4 1e7]

H = H1 (x) H2 with random eigenvectors and eigenvalues of even logarithmic spacing, each factor with the square root of the
condition; `indefinite` gives them random signs. The group is kron(dense,dense) in f32. Newton sees h = Hv; whitening sees
gradients g = H1 X H2 with X normal, v integrated out, for which P tends to |H|^-1 as well. P starts at the scale of the
first pair. Needs NumPy."""
import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

RULES = [("eq", "0.01", ["--norm", "max"]), ("eq", "0.1", ["--norm", "max"]), ("qeq", "0.1", []), ("pro", "0.1", []),
         ("quad", "0.1", []), ("qep", "0.1", [])]
UPDATES = (100, 300, 1000)


def symmetric(rng, side: int, condition: float, indefinite: bool):
    vectors, _ = np.linalg.qr(rng.standard_normal((side, side)))
    values = np.logspace(-0.5, 0.5, side, base=condition)
    if indefinite:
        values *= np.sign(rng.standard_normal(side))
    return (vectors * values) @ vectors.T


def spread(Q, H) -> float:
    values = np.linalg.svd(Q @ H @ Q.T, compute_uv=False)
    return values[0] / values[-1]


def fit(psgd: str, folder: Path, rule, kind: str, updates: int, problem) -> float:
    name, step, more = rule
    H, V, X = problem
    whitens = kind == "whitening"
    np.save(folder / "h.npy", (H[0] @ (X if whitens else V)[:updates] @ H[1]).astype(np.float32))
    np.save(folder / "v.npy", V[:updates].astype(np.float32))
    pairs = ["--criterion", "fisher", "--integrate", "yes"] if whitens else ["--v", folder / "v.npy"]
    side = len(H[0])
    subprocess.run([psgd, "fit", "--group", "kron(dense,dense)", "--shape", f"{side}x{side}", "--h", folder / "h.npy",
                    "--out", folder / "out", "--rule", name, "--step", step, "--init", "first", *more, *pairs],
                   check=True, stdout=subprocess.DEVNULL)
    return spread(np.load(folder / "out/Q1.npy").astype(float), H[0]) * spread(np.load(folder / "out/Q2.npy").astype(float), H[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("psgd", help="the command")
    parser.add_argument("--sides", type=int, nargs="+", default=[64, 96])
    parser.add_argument("--conditions", type=float, nargs="+", default=[1e4, 1e7])
    arguments = parser.parse_args()
    print("| problem | " + " | ".join(f"`{name}`, {step}" for name, step, _ in RULES) + " |")
    print("|---" * (1 + len(RULES)) + "|")
    with tempfile.TemporaryDirectory() as name:
        for side in arguments.sides:
            for condition in arguments.conditions:
                for kind in ("definite", "indefinite", "whitening"):
                    rng = np.random.default_rng(1)
                    H = [symmetric(rng, side, condition ** 0.5, kind == "indefinite") for _ in range(2)]
                    problem = H, *rng.standard_normal((2, max(UPDATES), side, side))
                    cells = [" / ".join(f"{fit(arguments.psgd, Path(name), rule, kind, updates, problem):.3g}"
                                        for updates in UPDATES) for rule in RULES]
                    print(f"| {side}×{side}, {kind}, {condition:.0e} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
