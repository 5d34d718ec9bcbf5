"""Groups written in Python work anywhere in a spec, keep the laws, and fail with the exception that they raised."""
import numpy as np
import pytest

import psgd


class Toeplitz(psgd.UserGroup):
    """Upper triangular Toeplitz matrices: dense all the way but for the algebra."""

    summary = "upper triangular Toeplitz"

    def algebra(self, S):
        means = [np.trace(S, k) / (len(S) - k) for k in range(len(S))]
        return sum(mean * np.eye(len(S), k=k) for k, mean in enumerate(means))


class Diagonal(psgd.UserGroup):
    """The built-in diag again, with n entries."""

    formula = "n"

    def size(self, n):
        return n

    r_size = size

    def identity(self, n, scale):
        return np.full(n, scale)

    def mul(self, q, X):
        return q[:, None] * X

    mul_t = r_mul = r_mul_t = mul

    def solve(self, q, X):
        return X / q[:, None]

    solve_t = solve

    def project(self, q, A, B, sign):
        return (A * A).sum((0, 2)) + sign * (B * B).sum((0, 2))

    def inside(self, q, c, R):
        return bool((c * R < 1).all())

    def retract(self, q, c, R):
        return q * (1 - c * R)

    retract_right = retract

    def rescale(self, q, c):
        return c * q


@pytest.fixture
def context():
    made = psgd.Context()
    made.add_group("toeplitz", Toeplitz())
    made.add_group("mydiag", Diagonal())
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spec", ["toeplitz", "kron(tri,toeplitz)", "t(toeplitz)", "mydiag", "sum(toeplitz:5,mydiag)",
                                  "kron(mydiag,mydiag)", "block(toeplitz:4,diag)"])  # fmt: skip
def test_laws_hold(context, spec, dtype):
    laws = psgd.Group(spec, (3, 4), dtype, context=context).check()
    assert laws, laws.report
    assert laws.broken == 0 and repr(laws).count("\n") > 3


def test_it_is_the_built_in_group_again(context):
    rng = np.random.default_rng(0)
    options = dict(norm="max", step=0.1)
    one = psgd.Preconditioner("kron(diag,tri)", (3, 4), "float64", **options)
    two = psgd.Preconditioner("kron(mydiag,tri)", (3, 4), "float64", context=context, **options)
    for _ in range(20):
        v, h = rng.standard_normal((2, 3, 4))
        one.update(v, h)
        two.update(v, h)
    assert np.allclose(one.Q, two.Q, rtol=1e-12)
    assert two.check()


def test_it_is_listed(context):
    assert psgd.groups(context)[-2:] == [
        psgd.GroupName("toeplitz", "upper triangular Toeplitz", "n^2"),
        psgd.GroupName("mydiag", "a group of the caller's own", "n"),
    ]
    assert "toeplitz" not in [entry.name for entry in psgd.groups()]


class Wrong(Diagonal):
    def solve_t(self, q, X):
        return q[:, None] * X


class Raises(Diagonal):
    def project(self, q, A, B, sign):
        raise ZeroDivisionError("in project")


class WrongSize(Diagonal):
    def mul(self, q, X):
        return X[:, :1]


def test_what_is_wrong_is_found():
    context = psgd.Context()
    context.add_group("wrong", Wrong())
    laws = psgd.Group("wrong", 4, "float64", context=context).check()
    assert not laws and laws.broken > 0


def test_exceptions_pass_through():
    context = psgd.Context()
    context.add_group("raises", Raises())
    context.add_group("size", WrongSize())
    precond = psgd.Preconditioner("raises", 4, "float64", context=context)
    with pytest.raises(ZeroDivisionError, match="in project"):
        precond.update(np.ones(4), 2 * np.ones(4))
    assert np.array_equal(precond.Q, np.eye(4))
    assert np.array_equal(precond.apply(np.ones(4)), np.ones(4))
    with pytest.raises(ValueError, match="1 elements instead of 4"):
        psgd.Preconditioner("size", 4, "float64", context=context).apply(np.ones(4))
    context.add_group("empty", psgd.UserGroup())
    with pytest.raises(NotImplementedError):
        psgd.Preconditioner("empty", 4, context=context).update(np.ones(4, "f"), 2 * np.ones(4, "f"))


def test_names(context):
    with pytest.raises(ValueError):
        context.add_group("toeplitz", Toeplitz())
    with pytest.raises(ValueError):
        context.add_group("Big Name", Toeplitz())
    with pytest.raises(TypeError):
        context.add_group("name", Toeplitz)
    with pytest.raises(psgd.SpecError):
        psgd.Group("toeplitz", 4)


def test_torch_steps_on_it(context, torch):
    import psgd.torch

    weight = torch.nn.Parameter(torch.full((4,), 2.0))
    opt = psgd.torch.PSGD([weight], 0.1, group="toeplitz", context=context, defaults="paper")
    for _ in range(30):
        opt.step(lambda: (weight**2).sum())
    assert weight.abs().max() < 1
