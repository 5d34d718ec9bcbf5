"""Every public function with wrong types, shapes, dtypes, strides, read-only arrays and NaN: an exception or a result,
never a crash, and what was there before still works."""
import inspect
import math
import random

import numpy as np
import pytest

import psgd

try:
    import torch
    import psgd.torch
    from psgd._tensor_list import KEYWORDS
except ImportError:
    torch = None


class Hostile:
    """Breaks promises where it can."""

    shape = (3, 4)
    dtype = "float64"

    def __index__(self):
        raise RuntimeError("index")

    def __float__(self):
        raise RuntimeError("float")

    def __len__(self):
        return -1

    def __iter__(self):
        raise RuntimeError("iter")


def arrays():
    base = np.arange(12.0).reshape(3, 4)
    frozen = base.copy()
    frozen.flags.writeable = False
    packed = np.zeros(1 + 12 * 8, np.uint8)
    yield from (base, base.T, base[::-1], base[:, ::2], np.broadcast_to(base[0], (3, 4)), frozen, base.astype("f4"))
    yield from (base.astype(">f8"), base.astype(complex), base.astype(int), base.astype(object), base > 3, base.ravel())
    yield from (np.full((3, 4), np.nan), np.full((3, 4), np.inf), np.full((3, 4), 1e308), np.full((3, 4), 1e-320))
    yield from (np.empty((0, 4)), np.empty(()), np.empty((3, 4, 1)), np.ma.masked_array(base), np.matrix(base))
    yield packed[1:].view(np.float64).reshape(3, 4)  # not aligned
    yield np.zeros((3, 4), [("a", "f8")])
    if torch is not None:
        tensor = torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
        yield from (tensor, tensor.t(), tensor.float(), tensor.half(), tensor.to_sparse(), tensor.to("meta"))
        yield from (tensor.clone().requires_grad_(), tensor[:, :1].expand(3, 4), torch.quantize_per_tensor(
            tensor.float(), 1.0, 0, torch.qint8), torch._neg_view(tensor), tensor.bool())  # fmt: skip
        yield torch.nn.Parameter(tensor)


def values():
    yield from (None, True, 0, 1, -1, 3, 2**63, 2**64, 10**400, 0.5, -0.0, math.nan, math.inf, 1e308, 1j)
    yield from ("", "diag", "tri", "kron(tri,diag)", "t(" * 2000, "kron(" * 50, "diag\0", "\ud800", "é", "sum(diag:99999999999)")
    yield from ("lra(10)", "lra(-1)", "lra(99999999999999999999)", "identity", "P", "float64", "newton", "%s%n" * 9, "x" * 100000)
    yield from (b"diag", [], [3, 4], (3, 4), (3, -4), (2**40, 2**40), (2**62, 2), (0,), (3, 4.0), [[3], [4]], {}, {"a": 1})
    yield from ((1,) * 70, range(3), np.float64(3), np.int64(4), np.dtype("f4"), float, int, object(), Hostile(), Hostile)
    yield from (iter([3, 4]), lambda *a: 1, psgd, psgd.Context(), psgd.Context.__new__(psgd.Context))
    yield from (psgd.Group("diag", 3), psgd.Group.__new__(psgd.Group), psgd.Run("x"))
    yield from (psgd.Preconditioner("diag", 3), psgd.Preconditioner.__new__(psgd.Preconditioner), psgd.UserGroup())
    if torch is not None:
        yield from (torch.float32, torch.Size([3, 4]), torch.nn.Linear(2, 2), torch.device("cpu"))


def targets(tmp_path):
    """name, a function that makes a callable afresh, names of keyword arguments to try."""
    options = ["step", "norm", "criterion", "pairs", "damping", "init_scale", "integrate", "unbiased", "batch", "nonsense"]

    def precond():
        made = psgd.Preconditioner("kron(tri,diag)", (3, 4), "float64", pairs=2)
        made.update(np.ones((3, 4)), np.ones((3, 4)))
        return made

    def joint():
        made = psgd.JointPreconditioner("lra(2)", [(3, 4), (3, 4)], "float64")
        made.update([np.ones((3, 4))] * 2, [np.ones((3, 4))] * 2)
        return made

    def in_lists(function):
        return lambda *a, **k: function(*([x, np.ones((3, 4))] for x in a), **k)

    yield "Group", lambda: psgd.Group, ["dtype", "context"]
    yield "groups", lambda: psgd.groups, []
    yield "Preconditioner", lambda: psgd.Preconditioner, ["dtype", "context", *options]
    for name in ("update", "apply", "criterion", "set_step", "load_state", "check", "state", "__setstate__"):
        yield f"Preconditioner.{name}", lambda name=name: getattr(precond(), name), ["out", "what"] if name == "apply" else []
    for name in ("condition", "factors", "Q", "P", "size", "updates", "skipped", "group"):
        yield f"property {name}", lambda name=name: lambda p, name=name: getattr(psgd.Preconditioner, name).fget(p), []
    yield "JointPreconditioner", lambda: psgd.JointPreconditioner, ["dtype", "context", *options]
    for name in ("update", "apply", "criterion", "load_state", "__setstate__"):
        keywords = ["out", "what"] if name == "apply" else []
        yield f"JointPreconditioner.{name}", lambda name=name: getattr(joint(), name), keywords
        if name in ("update", "apply", "criterion"):
            yield f"JointPreconditioner.{name} of lists", lambda name=name: in_lists(getattr(joint(), name)), keywords
    yield "Group.check", lambda: psgd.Group("tri", 3).check, ["seed"]
    yield "Group.preconditioner", lambda: psgd.Group("tri", 3).preconditioner, options
    yield "normal", lambda: psgd.normal, ["dtype", "seed", "tensor", "step"]
    yield "normal_", lambda: psgd.normal_, ["seed", "tensor", "step"]
    yield "set_threads", lambda: psgd.set_threads, []
    yield "Context.add_group", lambda: psgd.Context().add_group, []
    yield "read_run", lambda: psgd.read_run, []
    yield "plot_runs", lambda: psgd.plot_runs, ["metric", "split", "x", "ax"]
    yield "Run.curve", lambda: psgd.Run("x", points=[{"split": "train", "step": 1, "loss": "x"}]).curve, ["metric"]
    if hasattr(psgd, "minimize"):
        names = ["jac", "hessp", "method", "group", "callback", "options", "args", "tol", "bounds"]
        yield "minimize", lambda: psgd.minimize, names
        yield "minimize a sum of squares", lambda: lambda *a, **k: psgd.minimize(
            lambda x, *rest: float(x @ x), np.ones(2), *a, **k), names  # fmt: skip
        yield "scipy_method", lambda: psgd.scipy_method, names
        yield "minimize_options", lambda: psgd.minimize_options, []
        yield "check_gradient", lambda: psgd.check_gradient, ["jac", "hessp", "hess", "args", "x0"]
    if torch is not None:
        names = [n for n in inspect.signature(psgd.torch.PSGD.__init__).parameters if n not in ("self", "params", "options")]
        names += list(KEYWORDS)

        def optimizer(**kwargs):
            made = psgd.torch.PSGD([torch.nn.Parameter(torch.ones(3, 4))], **kwargs)
            made.param_groups[0]["params"][0].grad = torch.ones(3, 4)
            made.step()
            return made

        yield "PSGD", lambda: psgd.torch.PSGD, names
        yield "PSGD of one tensor", lambda: lambda *a, **k: optimizer(**k), names
        for name in ("step", "add_param_group", "load_state_dict", "preconditioner", "zero_grad", "__setstate__"):
            yield f"PSGD.{name}", lambda name=name: getattr(optimizer(), name), []


def too_large(function_name, arguments):
    """Allocations that the machine might grant are not what this test is about."""
    for value in arguments:
        sizes = value if isinstance(value, (tuple, list)) else (value,)
        if any(isinstance(size, (int, np.integer)) and not isinstance(size, bool) and 10**5 < size < 2**62 for size in sizes):
            return True
    return False


def test_every_public_function(tmp_path, recwarn, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(11)
    plain = list(values()) + list(arrays())
    calls = raised = 0
    for name, make, keywords in targets(tmp_path):
        for trial in range(150):
            count = rng.choice((0, 1, 1, 2, 2, 2, 3))
            arguments = [rng.choice(plain) for _ in range(count)]
            if rng.random() < 0.5 and arguments and name in ("Group", "Preconditioner", "JointPreconditioner"):
                arguments[0] = rng.choice(["diag", "tri", "kron(tri,diag)", "dense"])
            chosen = {key: rng.choice(plain) for key in rng.sample(keywords, min(len(keywords), rng.choice((0, 1, 1, 2))))}
            if too_large(name, [*arguments, *chosen.values()]):
                continue
            calls += 1
            try:
                make()(*arguments, **chosen)
            except Exception:  # any exception will do; a crash ends the process
                raised += 1
    psgd.set_threads(0)
    assert calls > 2000 and raised > calls / 2
    precond = psgd.Preconditioner("diag", 2, "float64", norm="max", step=0.5)
    precond.update(np.ones(2), np.array([2.0, 0.5]))
    assert np.allclose(np.diag(precond.Q), [0.5, 1.125])


def test_everything_public_is_fuzzed():
    tried = {name.split(".")[0].split()[-1] for name, _, _ in targets(None)} | {"UserGroup", "GroupName", "Laws"}
    public = {name for name in psgd.__all__ if not (isinstance(getattr(psgd, name), type) and issubclass(
        getattr(psgd, name), Exception))}  # fmt: skip
    assert public <= tried, public - tried


def test_damaged_states_are_refused_or_harmless():
    rng = random.Random(5)
    for spec in ("diag", "tri", "dense", "xmat", "scan", "kron(tri,norm)"):
        precond = psgd.Preconditioner(spec, (3, 4), "float64", norm="second")
        precond.update(np.ones((3, 4)), np.full((3, 4), 2.0))
        good = precond.state()
        for _ in range(100):
            bad = bytearray(good)
            for _ in range(rng.choice((1, 3, 20))):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            try:
                precond.load_state(bytes(bad[: rng.choice((len(bad), len(bad), rng.randrange(len(bad))))]))
                precond.update(np.ones((3, 4)), np.full((3, 4), 2.0))
                precond.apply(np.ones((3, 4)))
            except psgd.Error:
                pass
