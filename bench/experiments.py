#!/usr/bin/python3
"""The experiments of docs/benchmarks/experiments.md, and CIFAR-10 of docs/benchmarks/imagenet.md, each as one table:

    bench/experiments.py mnist --data MNIST_FOLDER --out FOLDER   # LeNet5, 5 methods x 3 seeds, 10 epochs each
    bench/experiments.py xor --out FOLDER                         # LSTM and simple RNN, 3 methods x 5 seeds each
    bench/experiments.py cifar --data FOLDER --out FOLDER         # small AlexNet, 7 methods x 3 seeds, 8 epochs; FOLDER has train/CLASS
                                                                  # and test/CLASS; hours: --jobs 2

Every run has its own folder in FOLDER. A finished run is read and not repeated, one that was stopped is resumed. One
thread each, so that results do not depend on the number of cores; --jobs runs several concurrently."""
import argparse
import concurrent.futures
import json
import math
import os
import statistics
import subprocess
from pathlib import Path

PAPER = ["--defaults", "paper"]
KRON = ["--group", "kron(tri,tri)", *PAPER]

# LeNet5: the settings of the author's examples (psgd_torch, mnist_with_lenet5.py and LeNet5/ of its history). His momentum
# averages gradients, m <- 0.9 m + 0.1 g, hence a tenth of his step size here; his Adam has its 1e-8 below the root.
MNIST = {
    "Newton, `kron(tri,tri)`": ["--optimizer", "psgd-newton", *KRON, "--lr", "0.1", "--lr-end", "0.001",
                                "--clip", "0.1", "--clip-by", "sqrt"],
    "Fisher, `kron(tri,tri)`": ["--optimizer", "psgd-fisher", *KRON, "--lr", "0.002", "--lr-end", "0.00002",
                                "--damping", "5e-4"],
    "Fisher, with Newton's clip": ["--optimizer", "psgd-fisher", *KRON, "--lr", "0.002", "--lr-end", "0.00002",
                                   "--damping", "5e-4", "--clip", "0.1", "--clip-by", "sqrt"],
    "Newton, `diag`": ["--optimizer", "psgd-newton", "--group", "diag", *PAPER, "--lr", "0.1", "--lr-end", "0.001",
                       "--clip", "0.1", "--clip-by", "sqrt"],
    "Fisher, `diag`": ["--optimizer", "psgd-fisher", "--group", "diag", *PAPER, "--lr", "0.002", "--lr-end", "0.00002",
                       "--damping", "5e-4"],
    "Fisher, `kron(tri,tri)`, P²": ["--optimizer", "psgd-fisher", *KRON, "--apply", "p2", "--lr", "0.03", "--lr-end",
                                    "0.0003", "--damping", "5e-4", "--clip", "0.1", "--clip-by", "sqrt"],
    "Newton with our defaults": ["--optimizer", "psgd-newton"],
    "Fisher with our defaults": ["--optimizer", "psgd-fisher"],
    "KFAC": ["--optimizer", "kfac", "--lr", "0.01", "--lr-end", "0.0001", "--damping", "0.001"],
    "Adam": ["--optimizer", "adam", "--lr", "0.01", "--lr-end", "0.0001", "--epsilon", "1e-4"],
    "momentum": ["--optimizer", "momentum", "--lr", "0.05", "--lr-end", "0.0005"],
}
AUTHOR = {"Newton, `kron(tri,tri)`": "0.74 %", "Fisher, `kron(tri,tri)`": "0.86 %", "KFAC": "0.84 %", "Adam": "0.88 %",
          "momentum": "0.96 %"}

# Delayed XOR: Newton on the LSTM as in the author's example; the other step sizes are the best on seeds 100 and 101 within
# 3,000 steps, all at a constant learning rate (Newton of 0.02 and 0.05; Adam of 0.001 to 0.01; momentum learns nothing with 0.02 to 1, or 0.003 to 0.1 in the RNN).
XOR_STEPS = 6000


def xor_methods(newton, adam):
    return {"Newton, `kron(tri,tri)`": ["--optimizer", "psgd-newton", *KRON, "--lr", newton, "--clip", "1"],
            "momentum": ["--optimizer", "momentum", "--lr", "0.1", "--clip", "1"],
            "Adam": ["--optimizer", "adam", "--lr", adam, "--clip", "1"]}


NETWORKS = {
    "LSTM, 30 units, length 50": (["lstm", "--data", "xor:50"], xor_methods(newton="0.02", adam="0.003")),
    "simple RNN, 30 units, length 30": (["rnn", "--data", "xor:30"], xor_methods(newton="0.05", adam="0.01")),
}


# CIFAR-10: the methods of psgd paper imagenet and the paper's step sizes. The best of five, these times FACTORS, is the
# one with the least error on a tenth of the training images after CHOICE_EPOCHS, seed 100.
CIFAR = {"momentum": 0.002, "newton-scan": 0.01, "newton-diag": 0.01, "fisher-scan": 5e-5, "fisher-diag": 5e-5, "adam": 5e-5,
         "batch-norm": 0.002}
FACTORS = (0.3, 1, 3, 10, 30)
CHOICE_EPOCHS = 4


def records(folder):
    file = folder / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def diverged(folder):
    log = Path(f"{folder}.log")
    return log.exists() and "diverged" in log.read_text(encoding="utf-8")


def finished(folder):
    return diverged(folder) or any(r["kind"] == "final" for r in records(folder))


def run(psgd, folder, words):
    """Trains into the folder unless that is done, and returns its records. The paper's runs resume by themselves."""
    if not finished(folder):
        started = (folder / "checkpoint.psgd").exists()
        if words[0] == "paper":
            words = [psgd, *words, "--out", str(folder.parent)]
        else:
            words = [psgd, "resume", str(folder)] if started else [psgd, "train", *words, "--out", str(folder)]
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{folder}.log", "a", encoding="utf-8") as log:
            done = subprocess.run(words, stdout=log, stderr=log, env=dict(os.environ, OMP_NUM_THREADS="1"))
        if done.returncode and not diverged(folder):
            raise SystemExit(f"experiments.py: {folder}.log tells why a run failed")
    return records(folder)


def short(words):
    """The settings as a person would write them, without what the method's name says already."""
    pairs = dict(zip(words[::2], words[1::2]))
    return ", ".join(f"{name[2:]} {value}" for name, value in pairs.items() if name not in ("--optimizer", "--group", "--defaults"))


def all_runs(args, plan):
    """plan: a name for each run and its words. Runs side by side, in order."""
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        futures = {name: pool.submit(run, args.psgd, Path(args.out) / name, words) for name, words in plan.items()}
        return {name: future.result() for name, future in futures.items()}


def folder_name(*parts):
    return "-".join("".join(c for c in str(p).lower().replace(" ", "_") if c.isalnum() or c in "_.") for p in parts)


def mnist(args):
    methods = {name: words for name, words in MNIST.items() if not args.methods or name in args.methods}
    plan = {folder_name(method, seed): ["lenet5", "--data", f"idx:{args.data}", *words, "--epochs", "10", "--batch", "64",
                                        "--l2", "2e-6", "--log-every", "100", "--seed", str(seed)]
            for seed in range(args.seeds or 3) for method, words in methods.items()}
    done = all_runs(args, plan)
    seeds = range(args.seeds or 3)
    print(f"| method | settings | seeds {', '.join(map(str, seeds))} | mean | the author's |\n|---|---|---|---|---|")
    for method, words in methods.items():
        errors = [100 * done[folder_name(method, s)][-1]["test_error"] for s in seeds]
        listed = ", ".join(f"{e:.2f} %" for e in errors)
        print(f"| {method} | {short(words)} | {listed} | {statistics.mean(errors):.2f} % | {AUTHOR.get(method, '')} |")


def solved_at(run_records):
    """The first step by which the mean loss of 50 batches, none of them seen before, was below 0.1."""
    return next((r["step"] for r in run_records if r.get("split") == "train" and r["loss"] < 0.1), None)


def xor(args):
    seeds = range(args.seeds or 5)
    plan = {folder_name(network, method, seed): [*model, *words, "--batch", "128", "--samples", str(128 * XOR_STEPS),
                                                 "--epochs", "1", "--lr-schedule", "constant", "--log-every", "50", "--seed",
                                                 str(seed)]
            for seed in seeds for network, (model, methods) in NETWORKS.items() for method, words in methods.items()}
    done = all_runs(args, plan)
    print("| network | method | settings | solved | loss first below 0.1, steps | test loss at the end |\n"
          "|---|---|---|---|---|---|")
    for network, (_, methods) in NETWORKS.items():
        for method, words in methods.items():
            runs = [done[folder_name(network, method, s)] for s in seeds]
            first = [solved_at(r) for r in runs]
            last = [r[-1]["test_loss"] for r in runs]
            steps = ", ".join(f"{s:,}" if s else "never" for s in first)
            print(f"| {network} | {method} | {short(words)} | {sum(l < 0.1 for l in last)} of {len(runs)} | {steps} | "
                  f"{', '.join(f'{l:.3f}' for l in last)} |")


def final(found, name):
    """1 where the run has diverged."""
    return next((r[name] for r in found if r["kind"] == "final" and name in r), 1.0)


def cifar(args):
    def words(method, rate, seed, epochs, *more):
        return ["paper", "imagenet", "--data", args.data, "--size", "small", "--methods", method, "--lr", f"{rate:g}", "--seed",
                str(seed), "--epochs", str(epochs), "--cache", str(Path(args.out) / "images"), "--decode-threads", "1", *more]

    methods = {m: CIFAR[m] for m in args.methods or CIFAR}
    Path(args.out).mkdir(parents=True, exist_ok=True)
    rates = {(m, round(mu * f, 9)): words(m, mu * f, 100, CHOICE_EPOCHS, "--validation", "0.1") for m, mu in methods.items()
             for f in FACTORS}
    tried = all_runs(args, {f"choice-{rate:g}/{m}": w for (m, rate), w in rates.items()})
    errors = {(m, rate): final(tried[f"choice-{rate:g}/{m}"], "valid_error") for m, rate in rates}
    best = {m: min((rate for own, rate in rates if own == m), key=lambda rate: errors[m, rate]) for m in methods}
    plan = {f"seed{seed}-{rate:g}/{m}": words(m, rate, seed, 8) for m, mu in methods.items() for rate in sorted({mu, best[m]})
            for seed in range(1, 1 + (args.seeds or 3))}
    done = all_runs(args, plan)
    print("| method | step size | test accuracy, seeds | mean | training loss of the last epoch |\n|---|---|---|---|---|")
    for m, mu in methods.items():
        for rate in sorted({mu, best[m]}):
            own = [found for name, found in done.items() if name.endswith(f"-{rate:g}/{m}")]
            scores = [100 * (1 - final(found, "test_error")) for found in own if any("test_error" in r for r in found)]
            losses = [([r["loss"] for r in found if r.get("split") == "train"] or [math.nan])[-1] for found in own]
            said = "the paper's" if rate == mu else "the best of five"
            told = f"{len(own) - len(scores)} diverged " if len(scores) < len(own) else ""
            told += ", ".join(f"{s:.1f}" for s in scores) + " | "
            told += f"{statistics.mean(scores):.1f} ± {(max(scores) - min(scores)) / 2:.1f}" if scores else ""
            print(f"| {m} | {rate:g}, {said}{' and the best of five' if mu == best[m] else ''} | {told} | "
                  f"{statistics.mean(losses):.2f} |")
    print("\nError on the validation split, %: " + "; ".join(
        f"{m} " + ", ".join(f"{rate:g}: {100 * errors[m, rate]:.1f}" for own, rate in rates if own == m) for m in methods))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=("mnist", "xor", "cifar"))
    parser.add_argument("--psgd", default="build/psgd", help="the command [build/psgd]")
    parser.add_argument("--data", default="../shared/data/mnist", help="folder of MNIST's IDX files, or of CIFAR-10's images")
    parser.add_argument("--out", required=True, help="folder for the runs")
    parser.add_argument("--seeds", type=int, default=0, help="how many [3 for mnist and cifar, 5 for xor]")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="mnist, cifar: these rows only")
    parser.add_argument("--jobs", type=int, default=1, help="concurrent runs [1]")
    args = parser.parse_args()
    known = {"mnist": MNIST, "cifar": CIFAR, "xor": ()}[args.experiment]
    for name in args.methods or []:
        if name not in known:
            parser.error(f"there is no row {name}; rows are {', '.join(known) or 'all of xor'}")
    {"mnist": mnist, "xor": xor, "cifar": cifar}[args.experiment](args)


if __name__ == "__main__":
    main()
