"""Group and Preconditioner against hand calculation and dense NumPy."""
import copy
import pickle

import numpy as np
import pytest

import psgd


def fitted(spec, shape, dtype="float64", updates=30, **options):
    rng = np.random.default_rng(5)
    precond = psgd.Preconditioner(spec, shape, dtype, **options)
    for _ in range(updates):
        v = rng.standard_normal(precond.shape).astype(precond.dtype)
        precond.update(v, (2 + np.arange(precond.size).reshape(precond.shape)).astype(precond.dtype) * v)
    return precond


def test_update_matches_hand_calculation():
    precond = psgd.Preconditioner("diag", 2, "float64", norm="max", step=0.5)
    precond.update(np.array([1.0, 1.0]), np.array([2.0, 0.5]))  # R = (3, -0.75), q = 1 - 0.5 R / 3
    assert np.allclose(precond.Q, np.diag([0.5, 1.125]), atol=1e-15)
    assert precond.updates == 1 and precond.skipped == 0


@pytest.mark.parametrize("spec", ["diag", "tri", "tril", "dense", "xmat", "scan", "scaw", "kron(tri,dense)"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_apply_is_what_the_dense_matrices_say(spec, dtype):
    precond = fitted(spec, (3, 4), dtype)
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(dtype)
    Q, P, eps = precond.Q, precond.P, np.finfo(dtype).eps
    assert Q.shape == P.shape == (12, 12)
    expected = {
        "P": P, "P2": P @ P, "Q": Q, "QT": Q.T, "P_inverse": np.linalg.inv(P), "Q_inverse": np.linalg.inv(Q),
        "QT_inverse": np.linalg.inv(Q.T), "P2_inverse": np.linalg.inv(P @ P),
    }  # fmt: skip
    for what, matrix in expected.items():
        y = (matrix @ x.ravel()).reshape(3, 4)
        assert np.allclose(precond.apply(x, what=what), y, rtol=1e4 * eps, atol=1e4 * eps * np.abs(y).max()), what


def test_apply_writes_where_it_is_told():
    precond = fitted("tri", 5)
    g, out = np.ones(5), np.empty(5)
    expected = precond.apply(g)
    assert precond.apply(g, out=out) is out and np.array_equal(out, expected)
    precond.apply(g, out=g)
    assert np.array_equal(g, expected)


def test_factors_of_a_kron():
    precond = fitted("kron(tri,diag)", (3, 4))
    first, second = precond.factors
    assert np.allclose(np.kron(first, second), precond.Q)
    assert np.allclose(first, np.triu(first)) and np.allclose(second, np.diag(np.diag(second)))


def test_several_pairs():
    rng = np.random.default_rng(0)
    v, h = rng.standard_normal((2, 3, 4))
    precond = psgd.Preconditioner("tri", 4, "float64", pairs=3)
    precond.update(v, h)
    precond.update(v[0], h[0])
    with pytest.raises(ValueError, match="1 to 3 pairs"):
        precond.update(np.ones((4, 4)), np.ones((4, 4)))
    with pytest.raises(ValueError, match="shape"):
        psgd.Preconditioner("tri", 4, "float64").update(v, h)


def test_tensors_are_used_in_place(torch):
    precond, twin = fitted("scaw", (3, 4), "float32"), fitted("scaw", (3, 4), "float32")
    v, h = torch.randn(3, 4), torch.randn(3, 4)
    precond.update(v, h)
    twin.update(v.numpy(), h.numpy())
    y = precond.apply(h)
    assert isinstance(y, torch.Tensor) and np.array_equal(y.numpy(), twin.apply(h.numpy()))
    precond.apply(h, out=h)
    assert torch.equal(h, y)


def test_copies_go_on_to_the_bit():
    precond = fitted("kron(tri,norm)", (3, 4), step=0.1, norm="second")
    for twin in (copy.deepcopy(precond), copy.copy(precond), pickle.loads(pickle.dumps(precond))):
        assert twin.updates == precond.updates and twin.state() == precond.state()
        twin.update(np.ones((3, 4)), np.ones((3, 4)))
        assert twin.state() != precond.state()
    with pytest.raises(psgd.FormatError, match="another group"):
        psgd.Preconditioner("diag", (3, 4), "float64").load_state(precond.state())


def test_repr_of_a_group_is_its_tree():
    group = psgd.Group("kron(diag,tri)", (20, 30))
    lines = repr(group).splitlines()
    assert [line.split()[0] for line in lines] == ["kron:600", "diag:20", "tri:30"]
    assert group.size == 20 + 30 * 31 // 2 and group.bytes >= 4 * group.size
    assert group == psgd.Group("kron(diag,tri)", [20, 30]) and len({group}) == 1
    assert repr(group) in repr(group.preconditioner(step=0.1))


def test_every_name_is_listed():
    names = {entry.name for entry in psgd.groups()}
    assert {"identity", "diag", "tri", "dense", "norm", "kron", "scan", "scaw", "xmat"} <= names
    assert all(entry.summary for entry in psgd.groups())


def test_errors_have_status_sentence_and_kind():
    with pytest.raises(psgd.SpecError) as caught:
        psgd.Group("kron(tri,", 3)
    assert isinstance(caught.value, psgd.Error) and isinstance(caught.value, ValueError)
    assert caught.value.status == 2 and str(caught.value)
    with pytest.raises(psgd.ArgumentError, match="damping"):
        psgd.Preconditioner("diag", 3, dampnig=1)
    precond = fitted("diag", 2)
    before = precond.state()
    with pytest.raises(psgd.NotFiniteError, match="not a number at entry 1"):
        precond.update(np.ones(2), np.array([1, np.nan]))
    assert precond.state() == before
    with pytest.raises(MemoryError):
        psgd.Preconditioner("dense", 2**24)


def test_refused_arrays():
    precond = psgd.Preconditioner("diag", (4, 4), "float64")
    good = np.ones((4, 4))
    frozen = good.copy()
    frozen.flags.writeable = False
    precond.update(frozen, frozen)  # inputs may be read-only
    with pytest.raises(ValueError, match="read-only"):
        precond.apply(good, out=frozen)
    for wrong, kind, words in (
        (np.ones((4, 8))[:, ::2], ValueError, "not contiguous"),
        (np.asfortranarray(np.arange(16.0).reshape(4, 4)), ValueError, "not contiguous"),
        (good.astype("float32"), TypeError, "float32"), (good.astype(">f8"), TypeError, "array of >f8"),
        (good.tolist(), TypeError, "list"), (np.ones(16), ValueError, "shape"),
        (np.ma.masked_array(good), TypeError, "masked"),
    ):  # fmt: skip
        with pytest.raises(kind, match=words):
            precond.apply(wrong)
    buffer = np.ones(20)
    with pytest.raises(ValueError, match="overlaps"):
        precond.apply(buffer[:16].reshape(4, 4), out=buffer[2:18].reshape(4, 4))


def test_refused_tensors(torch):
    precond = psgd.Preconditioner("diag", (4, 4), "float32")
    ones = torch.ones(4, 4)
    for wrong, kind, words in (
        (torch.randn(4, 4).t(), ValueError, "contiguous"), (ones.to_sparse(), TypeError, "layout"),
        (ones.to("meta"), TypeError, "meta"), (ones.double(), TypeError, "float64"),
    ):  # fmt: skip
        with pytest.raises(kind, match=words):
            precond.apply(wrong)


def test_normal_deviates():
    x = psgd.normal((100, 100), "float64", seed=3, tensor=1, step=2)
    assert abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.05
    y = np.empty((100, 100))
    assert psgd.normal_(y, seed=3, tensor=1, step=2) is y and np.array_equal(x, y)
    assert not np.array_equal(x, psgd.normal((100, 100), "float64", seed=3, tensor=1, step=3))


def test_linear_operator_preconditions_conjugate_gradients():
    """M= of scipy.sparse.linalg.cg: fitted on products of a badly scaled matrix, it takes fewer iterations than without."""
    linalg = pytest.importorskip("scipy.sparse.linalg", reason="SciPy is not installed (Debian: python3-scipy)")
    rng = np.random.default_rng(0)
    scale = np.logspace(-2, 2, 60)
    A = np.diag(scale) + 0.001 * np.outer(np.sqrt(scale), np.sqrt(scale))
    precond = psgd.Preconditioner("diag", 60, "float64", step=0.1)
    for _ in range(400):
        v = rng.standard_normal(60)
        precond.update(v, A @ v)
    M, b, counts = precond.as_linear_operator(), rng.standard_normal(60), []
    assert np.allclose(M @ b, precond.apply(b)) and np.allclose(M.T @ b, precond.apply(b))
    Q = precond.as_linear_operator("Q")
    assert np.allclose(Q.T @ (Q @ b), M @ b)
    for how in (None, M):
        steps = []
        x, code = linalg.cg(A, b, M=how, maxiter=1000, callback=steps.append)
        assert code == 0 and np.linalg.norm(A @ x - b) < 1e-4 * np.linalg.norm(b)
        counts.append(len(steps))
    assert 2 * counts[1] < counts[0]
    with pytest.raises(ValueError):
        precond.as_linear_operator("R")
    matrix = psgd.Preconditioner("kron(tri,tri)", (3, 4), "float32").as_linear_operator()
    assert matrix.shape == (12, 12) and matrix.dtype == np.float32 and np.allclose(matrix @ np.ones(12), 1)
