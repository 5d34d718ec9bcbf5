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
    with pytest.raises(ValueError, match="bounds"):
        optimize.minimize(rosenbrock, START, jac=gradient, method=psgd.scipy_method, bounds=[(0, 1), (0, 1)])


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
    assert "max-iterations" in psgd.minimize_options()


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
