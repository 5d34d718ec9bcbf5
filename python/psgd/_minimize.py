"""``psgd.minimize``: a smooth function to its minimum in one call, in the manner of ``scipy.optimize.minimize``."""
from __future__ import annotations

import ctypes
import inspect
import sys
import time
from ctypes import CFUNCTYPE, POINTER, Structure, c_double, c_int, c_int64, c_void_p
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import numpy as np

from ._errors import ArgumentError
from ._lib import lib
from ._options import help_text, option_list
from .context import Context, context_handle, finish

try:
    from scipy.optimize import OptimizeResult
except ImportError:

    class OptimizeResult(Dict[str, Any]):  # type: ignore[no-redef]
        """SciPy's, where SciPy is not installed: a dict whose entries are attributes."""

        def __getattr__(self, name: str) -> Any:
            try:
                return self[name]
            except KeyError:
                raise AttributeError(name) from None

        __setattr__ = dict.__setitem__
        __delattr__ = dict.__delitem__

        def __repr__(self) -> str:
            return "\n".join(f"{key:>9}: {value!r}" for key, value in self.items())


_D = POINTER(c_double)
_EVALUATE = CFUNCTYPE(c_int, c_void_p, c_int64, _D, _D, _D)
_PRODUCT = CFUNCTYPE(c_int, c_void_p, c_int64, _D, _D, _D)


class _Function(Structure):
    _fields_ = [
        ("evaluate", _EVALUATE), ("product", _PRODUCT), ("data", c_void_p), ("lower", c_void_p), ("upper", c_void_p),
    ]  # fmt: skip


class _Result(Structure):
    _fields_ = [
        ("outcome", c_int), ("value", c_double), ("gradient_norm", c_double), ("iterations", c_int64),
        ("evaluations", c_int64), ("gradients", c_int64), ("products", c_int64),
    ]  # fmt: skip


class _Check(Structure):
    _fields_ = [
        ("compared", c_int64), ("wrong", c_int64), ("entry", c_int64), ("given", c_double), ("difference", c_double),
        ("error", c_double),
    ]  # fmt: skip


_PROGRESS = CFUNCTYPE(c_int, c_void_p, POINTER(_Result), c_int64, _D)
_CONVERGED = 0
METHODS = ("psgd-newton",)
# What SciPy's methods call these.
_OPTION_NAMES = {"maxiter": "max-iterations", "maxfev": "max-evaluations", "gtol": "tolerance", "tol": "tolerance"}


class _Problem:
    """The caller's functions as C wants them. What they raise is kept, and the minimisation ends."""

    def __init__(
        self, fun: Callable[..., Any], jac: Any, hess: Any, hessp: Any, args: Tuple[Any, ...], n: int,
        bounds: Optional[Tuple[np.ndarray, np.ndarray]] = None,
    ) -> None:  # fmt: skip
        self.fun, self.jac, self.hess, self.hessp, self.args, self.n = fun, jac, hess, hessp, args, n
        self.bounds = bounds
        self.failure: Optional[BaseException] = None
        self.bytes = 8 * n
        self.values = self.gradients = self.products = 0  # calls of fun, of jac, of hessp or hess
        self.last: Optional[np.ndarray] = None  # the gradient that was computed last
        self.kept: Optional[np.ndarray] = None  # the gradient at the point of the last iteration

    def array(self, pointer: Any) -> np.ndarray:
        """A copy: the caller may keep it."""
        return np.frombuffer(ctypes.string_at(pointer, self.bytes), np.float64).copy()

    def store(self, result: Any, to: Any, name: str) -> None:
        values = np.ascontiguousarray(result, np.float64)
        if values.size != self.n:
            raise ValueError(f"{name} returned {values.size} elements instead of {self.n}")
        ctypes.memmove(to, values.ctypes.data, self.bytes)

    def store_gradient(self, result: Any, to: Any, name: str) -> None:
        self.store(result, to, name)
        self.last = np.array(result, np.float64).ravel()
        if self.kept is None:
            self.kept = self.last

    def value(self, x: np.ndarray) -> float:
        self.values += 1
        found = self.fun(x, *self.args)
        if type(found) is float:
            return found
        if isinstance(found, (tuple, list)) and len(found) == 2:
            raise TypeError("fun returned two values: pass jac=True where the second one is the gradient")
        array = np.asarray(found)
        if array.size != 1 or array.dtype.kind not in "fiub":
            raise TypeError(f"fun must return one real number, not {found!r}")
        return float(array.reshape(()))

    def evaluate(self, data: Any, n: int, at: Any, value: Any, gradient: Any) -> int:
        try:
            x = self.array(at)
            if self.jac is True:
                self.values += 1
                self.gradients += 1
                pair = self.fun(x, *self.args)
                if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                    raise TypeError("with jac=True, fun must return its value and its gradient")
                value[0] = float(np.asarray(pair[0]).reshape(()))
                if gradient:
                    self.store_gradient(pair[1], gradient, "fun")
                return 0
            value[0] = self.value(x)
            if gradient:
                self.store_gradient(self.gradient(x), gradient, "jac")
            return 0
        except BaseException as why:
            self.failure = why
            return 1

    def gradient(self, x: np.ndarray) -> Any:
        self.gradients += 1
        if self.jac is not None:
            return self.jac(x.copy(), *self.args)
        # Central differences: 2 n values of fun, within the bounds.
        g = np.empty(self.n)
        for i in range(self.n):
            step = 6e-6 * max(1.0, abs(x[i]))
            above, below = x.copy(), x.copy()
            above[i] += step
            below[i] -= step
            if self.bounds is not None:
                above[i] = min(above[i], self.bounds[1][i])
                below[i] = max(below[i], self.bounds[0][i])
                if above[i] <= below[i]:  # the unknown cannot move
                    g[i] = 0
                    continue
            g[i] = (self.value(above) - self.value(below)) / (above[i] - below[i])
        return g

    def product(self, data: Any, n: int, at: Any, v: Any, h: Any) -> int:
        try:
            x, direction = self.array(at), self.array(v)
            self.products += 1
            if self.hessp is not None:
                self.store(self.hessp(x, direction, *self.args), h, "hessp")
            else:
                self.store(np.asarray(self.hess(x, *self.args), np.float64) @ direction, h, "hess")
            return 0
        except BaseException as why:
            self.failure = why
            return 1


def _progress(problem: _Problem, callback: Optional[Callable[..., Any]], shown: bool) -> Callable[..., int]:
    """The callback takes the point, or, as in newer SciPy, a keyword intermediate_result; StopIteration stops. shown: a
    line on stdout about every second."""
    try:
        by_name = callback is not None and "intermediate_result" in inspect.signature(callback).parameters
    except (TypeError, ValueError):
        by_name = False
    printed = [time.monotonic()]

    def call(data: Any, now: Any, n: int, at: Any) -> int:
        problem.kept = problem.last
        try:
            if shown and time.monotonic() - printed[0] > 1:
                printed[0] = time.monotonic()
                state = now.contents
                print(f"iteration {state.iterations}: {state.value:.8g}, gradient {state.gradient_norm:.2e}", flush=True)
            if callback is None:
                return 0
            x = problem.array(at)
            if by_name:
                callback(intermediate_result=OptimizeResult(x=x, fun=now.contents.value, nit=now.contents.iterations))
            else:
                callback(x)
            return 0
        except StopIteration:
            return 1
        except BaseException as why:
            problem.failure = why
            return 1

    return call


def _bounds(bounds: Any, n: int) -> Optional[Tuple[np.ndarray, np.ndarray]]:
    """SciPy's Bounds, or a pair (low, high) for each unknown, None for no bound, as arrays of n."""
    if bounds is None:
        return None
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = (np.broadcast_to(np.asarray(b, np.float64), (n,)) for b in (bounds.lb, bounds.ub))
    else:
        pairs = [tuple(pair) for pair in bounds]
        if len(pairs) != n or any(len(pair) != 2 for pair in pairs):
            raise ValueError(f"bounds must be a Bounds object or {n} pairs (low, high), one for each variable")
        low = np.array([-np.inf if pair[0] is None else pair[0] for pair in pairs], np.float64)
        high = np.array([np.inf if pair[1] is None else pair[1] for pair in pairs], np.float64)
    return np.array(low, np.float64), np.array(high, np.float64)


def _check_callables(fun: Any, jac: Any, hess: Any, hessp: Any, callback: Any) -> Tuple[Any, Any]:
    if not callable(fun):
        raise TypeError(f"fun must be a function, not {type(fun).__name__}")
    if isinstance(jac, str) or jac is False:  # SciPy's names for ways to take differences
        jac = None
    if isinstance(hess, str):
        hess = None
    for name, value in (("jac", jac), ("hess", hess), ("hessp", hessp), ("callback", callback)):
        if value is not None and not callable(value) and not (name == "jac" and value is True):
            raise TypeError(f"{name} must be a function, not {type(value).__name__}")
    return jac, hess


def _start(x0: Any) -> np.ndarray:
    try:
        x = np.array(x0, np.float64).ravel()
    except (TypeError, ValueError):
        raise TypeError(f"x0 must be an array of real numbers, not {type(x0).__name__}") from None
    if x.size == 0:
        raise ValueError("x0 is empty")
    return np.ascontiguousarray(x)


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "psgd-newton",
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    group: Optional[str] = None,
    callback: Optional[Callable[..., Any]] = None,
    options: Optional[Mapping[str, Any]] = None,
    tol: Optional[float] = None,
    context: Optional[Context] = None,
) -> "OptimizeResult":
    """Minimises a smooth function of several variables.

    Quasi-Newton and truncated Newton steps share one preconditioner P and are chosen by what they gain per evaluation;
    nothing needs tuning.

    Args:
        fun: ``fun(x, *args)``, the value; with ``jac=True`` the value and the gradient.
        x0: the start.
        jac: ``jac(x, *args)``, the gradient; without it differences of values are taken.
        hessp: ``hessp(x, p, *args)``, the Hessian times p; ``hess(x, *args)`` is used where it is missing, and
            differences of gradients where both are.
        bounds: SciPy's ``Bounds``, or a pair (low, high) for each variable, None where there is no bound.
        group: the spec of the base of P; by default a multiple of I or of a diagonal, whichever fits better.
        callback: called with the point after each iteration (with ``intermediate_result`` where it has an argument of
            that name). Raising StopIteration stops.
        options: a dict such as ``{"max_iterations": 500}``; ``psgd.minimize_options()`` lists all. SciPy's
            names are understood: ``maxiter`` (max_iterations), ``maxfev`` (max_evaluations), ``gtol`` (tolerance), and
            ``disp``: True prints how it goes.
        tol: the gradient is small enough at ``tol (1 + |fun|)``.

    Returns SciPy's ``OptimizeResult`` with x, fun, jac, nit, nfev, njev, nhev, status, success and message; nfev, njev
    and nhev count calls of your functions, those for differences included."""
    if method not in METHODS:
        raise ArgumentError(
            f"there is no method {method!r}; psgd.minimize has {', '.join(METHODS)}, scipy.optimize.minimize has others"
        )
    jac, hess = _check_callables(fun, jac, hess, hessp, callback)
    x = _start(x0)
    if not isinstance(args, tuple):
        args = (args,)
    settings = _settings(group, options, tol)
    shown = bool((options or {}).get("disp", False))

    limits = _bounds(bounds, x.size)
    problem = _Problem(fun, jac, hess, hessp, args, x.size, limits)
    function = _c_function(problem, hess is not None or hessp is not None)
    progress = _PROGRESS(_progress(problem, callback, shown))
    result = _Result()
    owner = context_handle(context)
    with option_list(owner, settings) as listed:
        status = lib.psgd_minimize(
            owner, x.size, x.ctypes.data, ctypes.byref(function), listed, progress, None, ctypes.byref(result)
        )
    if problem.failure is not None:
        raise problem.failure
    finish(context, status)
    found = _outcome(x, result, problem)
    if shown:
        print(
            f"{found.message}\n  value {found.fun:.8g}, gradient {found.gradient_norm:.2e}\n  {found.nit} iterations, "
            f"{found.nfev} values, {found.njev} gradients, {found.nhev} products"
        )
        sys.stdout.flush()
    return found


def _c_function(problem: _Problem, products: bool) -> _Function:
    low, high = (None, None) if problem.bounds is None else (b.ctypes.data for b in problem.bounds)
    product = _PRODUCT(problem.product) if products else _PRODUCT()
    return _Function(_EVALUATE(problem.evaluate), product, None, low, high)


def check_gradient(
    fun: Callable[..., Any], x0: Any, jac: Any, hessp: Any = None, args: Any = (), hess: Any = None
) -> "OptimizeResult":
    """Compares jac, and hessp or hess, with central differences at x0, entry by entry.

    Returns success, and for the gradient: entry (the worst one), given, difference, error (relative) and wrong, the
    number of wrong entries; ``product`` has the same for a product with a random vector, None where there is none."""
    jac, hess = _check_callables(fun, jac, hess, hessp, None)
    if jac is None:
        raise ArgumentError("check_gradient needs jac: differences need no check")
    x = _start(x0)
    problem = _Problem(fun, jac, hess, hessp, args if isinstance(args, tuple) else (args,), x.size)
    products = hess is not None or hessp is not None
    function, gradient, product = _c_function(problem, products), _Check(), _Check()
    status = lib.psgd_check_gradient(
        None, x.size, x.ctypes.data, ctypes.byref(function), ctypes.byref(gradient), ctypes.byref(product)
    )
    if problem.failure is not None:
        raise problem.failure
    finish(None, status)

    def described(check: _Check) -> Dict[str, Any]:
        return {field[0]: getattr(check, field[0]) for field in _Check._fields_}

    of_product = OptimizeResult(**described(product)) if products else None
    success = gradient.wrong == 0 and product.wrong == 0
    return OptimizeResult(success=success, product=of_product, **described(gradient))


def _settings(group: Any, options: Any, tol: Any) -> Dict[str, Any]:
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a dict, not {type(options).__name__}")
    settings: Dict[str, Any] = {}
    for name, value in (options or {}).items():
        if name in ("disp", "return_all"):
            continue
        settings[_OPTION_NAMES.get(name, name) if isinstance(name, str) else name] = value
    if group is not None:
        if not isinstance(group, str):
            raise TypeError(f"group must be a spec, not {type(group).__name__}")
        settings["group"] = group
    if tol is not None:
        settings["tolerance"] = tol
    return settings


def _message(outcome: int) -> str:
    text = lib.psgd_outcome_text(outcome).decode()
    return str(text.replace("psgd_check_gradient, or psgd minimize --check, names", "psgd.check_gradient names"))


def _outcome(x: np.ndarray, result: _Result, problem: _Problem) -> "OptimizeResult":
    outcome = result.outcome
    return OptimizeResult(
        x=x, fun=result.value, jac=problem.kept, success=outcome == _CONVERGED, status=outcome,
        message=_message(outcome), nit=result.iterations, nfev=problem.values,
        njev=problem.gradients, nhev=problem.products, gradient_norm=result.gradient_norm,
    )  # fmt: skip


def scipy_method(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    callback: Optional[Callable[..., Any]] = None,
    **options: Any,
) -> "OptimizeResult":
    """For ``scipy.optimize.minimize(..., method=psgd.scipy_method)``."""
    if not (isinstance(constraints, (tuple, list)) and len(constraints) == 0):
        raise ValueError("psgd minimises without constraints other than bounds")
    group = options.pop("group", None)
    tol = options.pop("tol", None)
    return minimize(
        fun, x0, args, jac=jac, hess=hess, hessp=hessp, bounds=bounds, group=group, callback=callback, options=options,
        tol=tol,
    )  # fmt: skip


def minimize_options() -> str:
    """What each option of ``minimize`` does, a line each."""
    return help_text(lib.psgd_minimize_option)
