#!/usr/bin/python3
"""Microseconds per iteration outside the caller's functions on the 2-D Rosenbrock function: psgd.minimize and SciPy's BFGS,
in turn, in one process. The functions time themselves; what is left is the method's own."""
import statistics
import time

import numpy as np
import scipy.optimize

import psgd

START = np.array([-1.2, 1.0])
spent = 0.0


def counted(function):
    def call(*arguments):
        global spent
        begin = time.perf_counter()
        result = function(*arguments)
        spent += time.perf_counter() - begin
        return result

    return call


@counted
def value(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


@counted
def gradient(x):
    return np.array([-400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 200 * (x[1] - x[0] ** 2)])


@counted
def product(x, p):
    a, b = 1200 * x[0] ** 2 - 400 * x[1] + 2, -400 * x[0]
    return np.array([a * p[0] + b * p[1], b * p[0] + 200 * p[1]])


def once(run):
    global spent
    spent = 0.0
    begin = time.perf_counter()
    result = run()
    whole = time.perf_counter() - begin
    assert result.fun < 1e-8, result
    return (whole - spent) / result.nit * 1e6, (whole - spent) * 1e6, result


def main():
    sides = {
        "SciPy BFGS": lambda: scipy.optimize.minimize(value, START, jac=gradient, method="BFGS"),
        "psgd.minimize, hessp": lambda: psgd.minimize(value, START, jac=gradient, hessp=product),
        "psgd.minimize, no hessp": lambda: psgd.minimize(value, START, jac=gradient),
        "psgd through SciPy": lambda: scipy.optimize.minimize(
            value, START, jac=gradient, hessp=product, method=psgd.scipy_method
        ),
    }
    found = {name: [] for name in sides}
    for _ in range(60):
        for name, run in sides.items():
            found[name].append(once(run))
    print("outside the functions:      us/iteration   us in all   iterations  values  gradients  products")
    for name, results in found.items():
        last = results[-1][2]
        each, whole = (statistics.median(r[i] for r in results) for i in (0, 1))
        counts = [last.nit, last.nfev, last.njev, last.get("nhev", 0)]
        print(f"{name:26s} {each:12.1f} {whole:12.0f} {counts[0]:11d} {counts[1]:8d} {counts[2]:9d} {counts[3]:9d}")


if __name__ == "__main__":
    main()
