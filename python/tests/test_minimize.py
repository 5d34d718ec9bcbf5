"""psgd.minimize and psgd.scipy_method in the manner of scipy.optimize.minimize."""
import numpy as np
import pytest

import psgd


def rosenbrock(x):
    return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)


def gradient(x):
    return np.array([-400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 200 * (x[1] - x[0] ** 2)])


def hessian(x):
    return np.array([[1200 * x[0] ** 2 - 400 * x[1] + 2, -400 * x[0]], [-400 * x[0], 200.0]])


START = [-1.2, 1.0]


@pytest.mark.parametrize(
    "ways",
    [
        dict(jac=gradient, hessp=lambda x, p: hessian(x) @ p),
        dict(jac=gradient, hess=hessian),
        dict(jac=gradient),
        dict(),
        dict(jac="2-point"),
        dict(jac=gradient, hessp=lambda x, p: hessian(x) @ p, group="diag"),
        dict(jac=gradient, group="dense"),
    ],
)
def test_rosenbrock(ways):
    result = psgd.minimize(rosenbrock, START, tol=1e-5 if ways.get("jac") != gradient else None, **ways)
    assert result.success, result
    assert np.allclose(result.x, 1, atol=1e-3) and result.fun < 1e-6
    assert result.nit > 0 and result.nfev >= result.nit and result.message
    assert (result.nhev > 0) == ("hess" in ways or "hessp" in ways) or result.nhev >= 0


def test_value_and_gradient_in_one_with_arguments():
    def shifted(x, center, scale):
        return scale * float((x - center) @ (x - center)), 2 * scale * (x - center)

    result = psgd.minimize(shifted, np.zeros((3, 1)), args=(np.arange(3.0), 2.0), jac=True)
    assert result.success and np.allclose(result.x, [0, 1, 2], atol=1e-6)
    assert psgd.minimize(lambda x, a: float((x[0] - a) ** 2), 0.0, args=3.0).x == pytest.approx([3.0], abs=1e-4)


def test_result_is_scipys():
    optimize = pytest.importorskip("scipy.optimize", reason="SciPy is not installed (Debian: python3-scipy)")
    result = psgd.minimize(rosenbrock, START, jac=gradient)
    assert isinstance(result, optimize.OptimizeResult)
    for more in (dict(), dict(tol=1e-6), dict(options={"maxiter": 500, "group": "tri"}), dict(hess=hessian)):
        result = optimize.minimize(rosenbrock, START, jac=gradient, method=psgd.scipy_method, **more)
        assert result.success and np.allclose(result.x, 1, atol=1e-3)
    result = optimize.minimize(lambda x: (rosenbrock(x), gradient(x)), START, jac=True, method=psgd.scipy_method)
    assert result.success
    result = optimize.minimize(rosenbrock, START, jac=gradient, method=psgd.scipy_method, bounds=[(0, 0.5), (0, 1)])
    assert result.success and np.allclose(result.x, [0.5, 0.25], atol=1e-6)
    with pytest.raises(ValueError, match="constraints"):
        optimize.minimize(rosenbrock, START, jac=gradient, method=psgd.scipy_method, constraints=[{}])


def test_callbacks_see_and_stop():
    seen = []
    result = psgd.minimize(rosenbrock, START, jac=gradient, callback=seen.append)
    assert len(seen) == result.nit and np.array_equal(seen[-1], result.x)

    def stop(intermediate_result):
        assert intermediate_result.fun == pytest.approx(rosenbrock(intermediate_result.x))
        if intermediate_result.nit >= 3:
            raise StopIteration

    result = psgd.minimize(rosenbrock, START, jac=gradient, callback=stop)
    assert result.nit == 3 and not result.success and "stop" in result.message
    # tqdm's update returns True when it has drawn: that must not stop anything.
    assert psgd.minimize(rosenbrock, START, jac=gradient, callback=lambda x: True).success


def test_callbacks_with_tqdm():
    tqdm = pytest.importorskip("tqdm", reason="tqdm is not installed (Debian: python3-tqdm)").tqdm
    with open("/dev/null", "w") as sink, tqdm(file=sink, mininterval=0) as bar:
        result = psgd.minimize(rosenbrock, START, jac=gradient, callback=lambda x: bar.update())
    assert result.success and bar.n == result.nit


def test_limits():
    result = psgd.minimize(rosenbrock, START, jac=gradient, options={"maxiter": 2})
    assert result.nit == 2 and not result.success and result.status != 0
    assert "  max_iterations N " in psgd.minimize_options() and "--" not in psgd.minimize_options()
    for name in ("maxiter", "gtol"):
        assert f"``{name}``" in psgd.minimize.__doc__


def test_mistakes_are_told_with_what_would_do():
    with pytest.raises(psgd.ArgumentError, match="no method 'BFGS'; psgd.minimize has psgd-newton, scipy"):
        psgd.minimize(rosenbrock, START, method="BFGS")
    with pytest.raises(TypeError, match="fun returned two values: pass jac=True"):
        psgd.minimize(lambda x: (rosenbrock(x), gradient(x)), START)


@pytest.mark.parametrize("jac", [gradient, None])
def test_bounds(jac):
    """x <= 1/2: the minimum is (1/2, 1/4)."""
    inside = []

    def watched(x):
        inside.append(x[0] <= 0.5)
        return rosenbrock(x)

    for bounds in ([(None, 0.5), (None, None)], [(-np.inf, 0.5), (-3, 3)]):
        result = psgd.minimize(watched, START, jac=jac, bounds=bounds, tol=1e-6, hess=None if jac is None else hessian)
        assert result.success and result.x[0] == 0.5 and result.x[1] == pytest.approx(0.25, abs=1e-4)
    assert jac is None or all(inside)
    with pytest.raises(ValueError, match="2 pairs"):
        psgd.minimize(rosenbrock, START, jac=jac, bounds=[(0, 1)])
    with pytest.raises(psgd.ArgumentError, match="bounds of unknown 1"):
        psgd.minimize(rosenbrock, START, jac=jac, bounds=[(0, 1), (2, 1)])


def test_bounds_of_scipy():
    optimize = pytest.importorskip("scipy.optimize", reason="SciPy is not installed (Debian: python3-scipy)")
    result = psgd.minimize(rosenbrock, START, jac=gradient, bounds=optimize.Bounds([-2, -2], [0.5, 2]))
    assert result.success and np.allclose(result.x, [0.5, 0.25], atol=1e-6)
    assert psgd.minimize(rosenbrock, START, jac=gradient, bounds=optimize.Bounds(ub=0.5)).x[0] == 0.5


@pytest.mark.parametrize("given", ["both", "jac", "none"])
def test_counts_are_those_of_calls(given):
    calls = {"fun": 0, "jac": 0, "hessp": 0}

    def counted(name, function):
        def call(*arguments):
            calls[name] += 1
            return function(*arguments)

        return call

    ways = {} if given == "none" else {"jac": counted("jac", gradient)}
    if given == "both":
        ways["hessp"] = counted("hessp", lambda x, p: hessian(x) @ p)
    result = psgd.minimize(counted("fun", rosenbrock), START, tol=1e-5, **ways)
    assert result.success and result.nfev == calls["fun"] and result.nhev == calls["hessp"]
    assert given == "none" or result.njev == calls["jac"]
    assert np.allclose(result.jac, gradient(result.x), atol=1e-4 if given == "none" else 0)


def test_the_gradient_belongs_to_x_however_it_ends():
    wrong = psgd.minimize(rosenbrock, START, jac=lambda x: gradient(x) * [1, -1])
    assert not wrong.success and "disagrees with differences" in wrong.message
    assert wrong.message.endswith("; psgd.check_gradient names the worst entry")
    assert np.array_equal(wrong.jac, gradient(wrong.x) * [1, -1])
    stopped = psgd.minimize(rosenbrock, START, jac=gradient, options={"maxiter": 3})
    assert np.array_equal(stopped.jac, gradient(stopped.x))


def test_disp_prints_the_ending(capsys):
    psgd.minimize(rosenbrock, START, jac=gradient, options={"disp": True})
    shown = capsys.readouterr().out
    assert shown.startswith("converged") and "iterations" in shown
    psgd.minimize(rosenbrock, START, jac=gradient, options={"disp": False})
    assert capsys.readouterr().out == ""


def test_check_gradient_names_the_entry():
    right = psgd.check_gradient(rosenbrock, START, gradient, hessp=lambda x, p: hessian(x) @ p)
    assert right.success and right.wrong == 0 and right.product.wrong == 0
    wrong = psgd.check_gradient(rosenbrock, START, lambda x: gradient(x) + [0, 5])
    assert not wrong.success and wrong.entry == 1 and wrong.wrong == 1 and wrong.product is None
    assert wrong.given - wrong.difference == pytest.approx(5, rel=1e-6)
    with pytest.raises(psgd.ArgumentError, match="jac"):
        psgd.check_gradient(rosenbrock, START, None)


def test_failures_reach_the_caller():
    def broken(x):
        raise ZeroDivisionError("in fun")

    for given, kind, words in (
        (dict(fun=broken), ZeroDivisionError, "in fun"),
        (dict(jac=gradient, callback=broken), ZeroDivisionError, "in fun"),
        (dict(jac=lambda x: np.ones(3)), ValueError, "jac returned 3 elements instead of 2"),
        (dict(fun=lambda x: x, jac=gradient), TypeError, "one real number"),
        (dict(method="bfgs"), ValueError, "method"),
        (dict(options={"max-iteration": 3}), psgd.ArgumentError, "max-iterations"),
        (dict(x0=[]), ValueError, "empty"), (dict(jac=gradient, group="tri("), psgd.SpecError, "tri"),
    ):  # fmt: skip
        with pytest.raises(kind, match=words):
            psgd.minimize(**{"fun": rosenbrock, "x0": START, **given})
