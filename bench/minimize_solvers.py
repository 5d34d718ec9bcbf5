"""Solvers for bench/minimize, and the meter that counts what they ask for."""
import ctypes
import time

import numpy as np
import scipy.optimize

TIGHT = 1e-9  # each solver's own tolerance: far below what is judged


class Spent(Exception):
    """The budget is used up."""


class Meter:
    """f, g and Hv of a problem, counted as one each. history is what a judge needs: (cost, f, ||g|| or NaN) after every
    value and gradient, where the lowest value or the smallest projected gradient has changed."""

    def __init__(self, problem, budget, seconds):
        self.problem, self.budget, self.deadline = problem, budget, time.process_time() + seconds
        self.cost, self.own, self.history = 0, 0.0, []
        self.lowest, self.smallest = np.inf, np.inf

    def spend(self, cost=1):
        self.cost += cost
        if self.cost > self.budget or time.process_time() > self.deadline:
            raise Spent

    def timed(self, function, *arguments):
        begin = time.process_time()
        result = function(*arguments)
        self.own += time.process_time() - begin
        return result

    def f(self, x):
        self.spend()
        value = self.timed(self.problem.f, x)
        self.note(value)
        return value

    def g(self, x):
        self.spend()
        value, gradient = self.timed(self.problem.both, x)
        self.note(value, x, gradient)
        return gradient

    def h(self, x, v):
        self.spend()
        return self.timed(self.problem.h, x, v)

    def both(self, x):
        self.spend(2)
        value, gradient = self.timed(self.problem.both, x)
        self.note(value, x, gradient)
        return value, gradient

    def note(self, value, x=None, gradient=None):
        if value < self.lowest:
            self.lowest = value
            self.history.append((self.cost, value, None))
        if gradient is None or not np.isfinite(value):
            return
        step = gradient
        if self.problem.lower is not None:
            step = x - np.clip(x - gradient, self.problem.lower, self.problem.upper)
        with np.errstate(all="ignore"):
            norm = float(np.linalg.norm(step)) / (1 + abs(value))
        if norm < self.smallest:
            self.smallest = norm
            self.history.append((self.cost, value, norm))


def _psgd(meter, **more):
    import psgd

    bounds = {}
    if meter.problem.lower is not None:
        bounds = {"bounds": scipy.optimize.Bounds(meter.problem.lower, meter.problem.upper)}
    psgd.minimize(meter.both, meter.problem.start, jac=True, tol=TIGHT, options={"max-iterations": 10**7}, **bounds, **more)


def psgd_with_products(meter):
    _psgd(meter, hessp=meter.h)


def psgd_differences(meter):
    _psgd(meter)


def l_bfgs_b(meter):
    bounds = None
    if meter.problem.lower is not None:
        bounds = scipy.optimize.Bounds(meter.problem.lower, meter.problem.upper)
    scipy.optimize.minimize(meter.both, meter.problem.start, jac=True, method="L-BFGS-B", bounds=bounds,
                            options={"ftol": 0, "gtol": TIGHT, "maxiter": 10**7, "maxfun": 10**7})  # fmt: skip


def trust_krylov(meter):
    scipy.optimize.minimize(meter.f, meter.problem.start, jac=meter.g, hessp=meter.h, method="trust-krylov",
                            options={"gtol": TIGHT, "maxiter": 10**7})  # fmt: skip


class _Parameters(ctypes.Structure):
    _fields_ = [("m", ctypes.c_int), ("epsilon", ctypes.c_double), ("past", ctypes.c_int), ("delta", ctypes.c_double),
                ("max_iterations", ctypes.c_int), ("linesearch", ctypes.c_int), ("max_linesearch", ctypes.c_int),
                ("min_step", ctypes.c_double), ("max_step", ctypes.c_double), ("ftol", ctypes.c_double),
                ("wolfe", ctypes.c_double), ("gtol", ctypes.c_double), ("xtol", ctypes.c_double),
                ("orthantwise_c", ctypes.c_double), ("start", ctypes.c_int), ("end", ctypes.c_int)]  # fmt: skip


def liblbfgs(meter):
    lib = ctypes.CDLL("liblbfgs.so.0")
    n, pointer = meter.problem.start.size, ctypes.POINTER(ctypes.c_double)
    evaluate_type = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, pointer, pointer, ctypes.c_int, ctypes.c_double)
    lib.lbfgs_malloc.restype = ctypes.c_void_p
    lib.lbfgs_free.argtypes = [ctypes.c_void_p]
    lib.lbfgs.argtypes = [ctypes.c_int, ctypes.c_void_p] + [ctypes.c_void_p] * 5
    parameters = _Parameters()
    lib.lbfgs_parameter_init(ctypes.byref(parameters))
    parameters.epsilon = 1e-12  # relative to ||x||
    failure = []

    def evaluate(data, x, g, n, step):
        try:
            at = np.ctypeslib.as_array(x, (n,)).copy()
            value, gradient = meter.both(at)
            ctypes.memmove(g, np.ascontiguousarray(gradient).ctypes.data, 8 * n)
            return value
        except BaseException as why:
            failure.append(why)
            ctypes.memset(g, 0, 8 * n)  # ends it
            return 0.0

    x = lib.lbfgs_malloc(n)
    ctypes.memmove(x, np.ascontiguousarray(meter.problem.start).ctypes.data, 8 * n)
    call = evaluate_type(evaluate)
    lib.lbfgs(n, x, None, ctypes.cast(call, ctypes.c_void_p), None, None, ctypes.addressof(parameters))
    lib.lbfgs_free(x)
    if failure and not isinstance(failure[0], Spent):
        raise failure[0]


SOLVERS = {"psgd": psgd_with_products, "psgd, differences": psgd_differences, "liblbfgs": liblbfgs,
           "L-BFGS-B": l_bfgs_b, "trust-krylov": trust_krylov}  # fmt: skip
BOUNDED = ("psgd", "psgd, differences", "L-BFGS-B")


def run(solver, problem, budget, seconds):
    """The history of a run, which may end by an error: what it had found by then counts."""
    meter = Meter(problem, budget, seconds)
    begin, note = time.process_time(), ""
    try:
        with np.errstate(all="ignore"):
            SOLVERS[solver](meter)
    except Spent:
        note = "budget"
    except Exception as why:  # a solver's own trouble with NaN, say
        note = f"{type(why).__name__}: {why}"
    return {"history": meter.history, "cost": meter.cost, "own": meter.own,
            "rest": time.process_time() - begin - meter.own, "n": int(problem.start.size), "note": note}  # fmt: skip
