"""backend="native": the same fits and steps as the C core, as torch ops that stay on their device."""
import copy
import io
import math
import os
import warnings
import pathlib
import pickle
import struct
import zlib
from functools import partial

import numpy as np
import pytest

import psgd

torch = pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
import psgd.torch  # noqa: E402
from psgd._lib import lib  # noqa: E402
from psgd._options import options_of  # noqa: E402
from psgd._tensor_list import KEYWORDS  # noqa: E402
from psgd.native.composites import FAMILIES, LEAVES  # noqa: E402
from psgd.native.fit import RULES, NativeFit  # noqa: E402
from psgd.native.philox import PROBE, Stream  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors are small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


DEFAULTS = {info.name.decode(): info.default_value.decode() for info in options_of(lib.psgd_precond_option)}

# As in tests/specs.c: one fibre, a few and many.
SPECS = [
    ("identity", (3,)), ("kron(identity,diag)", (3, 4)), ("scale", (5,)), ("kron(scale,tri)", (3, 4)), ("diag", (7,)),
    ("diag", (2, 3, 2)), ("kron(diag,diag)", (5, 3)), ("tri", (1,)), ("tri", (9,)), ("kron(tri,tri)", (6, 5)),
    ("kron(tri,tri)", (20, 2)), ("tril", (9,)), ("kron(tril,tril)", (5, 7)), ("dense", (1,)), ("dense", (6,)),
    ("kron(dense,dense)", (5, 4)), ("kron(dense,dense)", (5, 9)), ("kron(dense,identity)", (3, 2)), ("norm", (6,)),
    ("kron(norm,t(norm))", (4, 5)), ("bnorm", (6,)), ("kron(bnorm,t(bnorm))", (4, 5)), ("xmat", (6,)), ("xmat", (7,)),
    ("kron(xmat,xmat)", (4, 5)), ("t(tri)", (5,)), ("t(norm)", (5,)), ("t(t(bnorm))", (5,)),
    ("t(block(tri:3,norm))", (7,)), ("block(tri:4,identity:1)", (5,)), ("block(dense:2,block(diag:3,scale))", (7,)),
    ("kron(block(tri:3,scale:2),t(block(sum(diag:1,dense:2),tril)))", (5, 6)), ("sum(diag:2,tri:3,scale:2)", (7,)),
    ("sum(dense:3,sum(norm:2,xmat:3),bnorm)", (2, 5)), ("kron(tri,dense,diag)", (3, 2, 4)),
    ("kron(diag,scale,tri,norm)", (2, 1, 3, 2)), ("kron(tri)", (4,)), ("sum(kron(tri:3,tri:4),diag:5)", (17,)),
    ("kron(sum(kron(tri:2,diag:3),norm:2),tril)", (8, 3)), ("kron(t(block(diag:2,tri)),sum(bnorm:3,scale:4))", (5, 7)),
    ("scan", (4, 6)), ("t(scan)", (4, 6)), ("scaw", (6, 4)), ("auto", (6, 40)), ("lra(2)", (9,)), ("lra(0)", (4,)),
    ("lra(3)", (3, 4)), ("splu(2)", (9,)), ("splu(4)", (4,)), ("splu(1)", (3, 4)),
    ("sum(lra(2):6,splu(2):5,tri:3)", (14,)),
]  # fmt: skip
SELF_ADJOINT = [
    entry for entry in SPECS
    if not any(name in entry[0] for name in ("tri", "norm", "block", "scan", "scaw", "lra", "splu", "auto"))
]  # fmt: skip


def a_fit(spec, shape, dtype=torch.float64, **options):
    settings = dict(DEFAULTS, **{name.replace("_", "-"): str(value) for name, value in options.items()})
    return NativeFit(spec, shape, dtype, torch.device("cpu"), settings)


def compare(spec, shape, pairs=1, updates=20, **options):
    """The largest relative difference of P g over updates of both; pairs of a random well-conditioned matrix."""
    rng = np.random.default_rng(len(spec) + sum(shape))
    n = int(np.prod(shape))
    core = psgd.Preconditioner(spec, shape, "float64", pairs=pairs, **options)
    native = a_fit(spec, shape, pairs=pairs, **options)
    H = rng.standard_normal((n, n))
    H = (H @ H.T / n + 0.1 * np.eye(n)) * rng.uniform(0.3, 3, (n, 1))
    worst = 0.0
    for _ in range(updates):
        v = rng.standard_normal((pairs, n))
        h, g = v @ H, rng.standard_normal(shape)
        given = (pairs, *shape) if pairs > 1 else shape
        core.update(v.reshape(given), h.reshape(given))
        native.update(torch.from_numpy(v), torch.from_numpy(h), torch.tensor(True))
        want, got = core.apply(g), native.apply(torch.from_numpy(g)).numpy()
        worst = max(worst, np.abs(want - got).max() / np.abs(want).max())
    assert core.skipped == int(native.skipped)
    return worst


def test_the_list_of_specs_has_every_group_of_the_registry():
    names = {entry.name for entry in psgd.groups()} - {"tiles"}
    with pytest.raises(psgd.UnsupportedError, match="tiles"):
        a_fit("tiles(kron(tri,tri),2,2)", (4, 6))
    assert all(any(name in spec for spec, _ in SPECS) for name in names)
    assert names == {*LEAVES, *FAMILIES, "t", "block", "sum", "kron", "scan", "scaw", "auto"} & names


OPTIONS = [
    dict(step=0.1), dict(step=0.1, norm="second", pairs=3), dict(step=0.1, criterion="fisher", damping=0.3),
    dict(step=1e-4, norm="none"), dict(step=0.1, norm="spectral"), dict(step=0.1, norm="max"),
    dict(step=0.1, init_scale=0.2, pairs=3),
]  # fmt: skip


@pytest.mark.parametrize("spec, shape", SPECS)
def test_fits_are_those_of_the_core(spec, shape):
    for options in OPTIONS if os.environ.get("PSGD_LONG_TESTS") else OPTIONS[:3]:
        assert compare(spec, shape, **options) < 1e-12, options


@pytest.mark.parametrize("spec, shape", SELF_ADJOINT)
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "eq"])
def test_update_rules_are_those_of_the_core(spec, shape, rule):
    assert compare(spec, shape, rule=rule, step=0.1, init="first") < 1e-12
    assert compare(spec, shape, pairs=3, rule=rule, step=0.1) < 1e-12


@pytest.mark.parametrize("spec, shape", [("lra(2)", (9,)), ("splu(2)", (9,)), ("kron(tri,norm)", (4, 5)), ("sum(diag:4,tri)", (9,))])
def test_a_fit_that_starts_from_its_first_pairs_is_that_of_the_core(spec, shape):
    assert compare(spec, shape, step=0.1, init="first") < 1e-12


@pytest.mark.parametrize("spec, shape", [
    ("kron(tri,diag)", (4, 5)), ("kron(dense,scale)", (3, 2)), ("splu(2)", (9,)), ("kron(bnorm,t(bnorm))", (4, 5)),
])  # fmt: skip
def test_long_fits_are_balanced_as_the_core_does(spec, shape):
    assert compare(spec, shape, updates=300, step=0.05) < 1e-7  # rounding grows along the way


def test_random_numbers_are_those_of_the_core():
    for dtype, name, tolerance in ((torch.float64, "float64", 4e-15), (torch.float32, "float32", 2e-6)):
        made = Stream.of(7, PROBE, 3, 11).normal(1000, dtype, "cpu").numpy()
        assert np.abs(made - psgd.normal(1000, name, seed=7, tensor=3, step=11)).max() < tolerance


def test_what_is_not_finite_or_extreme():
    for dtype, big in ((torch.float64, 1e100), (torch.float32, 1e15)):
        for spec in ("diag", "kron(tri,diag)", "dense"):
            fit = a_fit(spec, (3, 4) if "kron" in spec else (12,), dtype, step=0.1)
            for scale in (1.0, big, 1 / big, 0.0, float("nan"), float("inf")):
                before = fit.Q()
                fit.update(torch.randn(12, dtype=dtype), torch.randn(12, dtype=dtype) * scale, torch.tensor(True))
                assert torch.isfinite(fit.Q()).all()
                assert np.isfinite(scale) or torch.equal(fit.Q(), before)


NO_LIMITS = dict(momentum=0, clip=0, clip_relative=0, clip_rms=0)


@pytest.mark.parametrize("theta, gradients, options", [
    ([1.0, 2, 3], [[0.0, 0, 0]] * 3 + [[1.0, 1, 1]], {}),  # zeros at first are steps too
    ([1.0, 2, 3], [[0.0, 0, 0]] * 70, dict(NO_LIMITS, clip_relative=0.1)),
    ([1.0, 2, 3], [[1e-25, 1e-25, 0]] * 3 + [[1.0, 1, 1]], {}),
    ([0.0, 0, 0], [[1e20, -1e20, 3e20]], dict(NO_LIMITS)),  # squares overflow
    ([1e20, 1.0, 0], [[1.0, 1, 1]] * 2, dict(NO_LIMITS)),
    ([0.0, 0, 0], [[3e38, 3e38, 1]], dict(NO_LIMITS, lr=1e-10)),
    ([0.0, 0, 0], [[1e25, 1.0, 1]] * 2, dict(NO_LIMITS, clip=0.1)),
    ([0.0, 0, 0], [[1e25, 1.0, 1]] * 2, dict(NO_LIMITS, clip_relative=0.1)),
    ([1.0, 2, 3], [[0.1, 0.2, -0.1]] * 5 + [[1e30, 1, 1]] + [[0.1, 0.2, -0.1]] * 5, {}),
    ([1.0, 2, 3], [[3e38, -3e38, 0]] * 30 + [[-3e38, 3e38, 0]] * 2, dict(NO_LIMITS, momentum=0.9, lr=1e-30)),
    ([0.0, 0, 0], [[1.0, 2e37, 0]], dict(NO_LIMITS, init="scale", init_scale=100.0, clip_element=1.0, precond_step=1e-6)),
])  # fmt: skip
def test_extreme_gradients_give_the_steps_of_the_core(theta, gradients, options):
    ends = []
    for backend in ("c", "native"):
        p = torch.nn.Parameter(torch.tensor(theta))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            opt = psgd.torch.PSGD([p], **{"lr": 0.1, "group": "diag", "criterion": "fisher", "backend": backend, **options})
            for g in gradients:
                p.grad = torch.tensor(g)
                opt.step()
        ends.append((p.detach(), opt.skipped))
    assert torch.allclose(ends[0][0], ends[1][0], rtol=2e-5, atol=1e-7 * float(ends[0][0].abs().max()))
    assert ends[0][1] == ends[1][1]


def test_a_step_in_inference_mode_can_be_followed_by_any_other():
    for backend in ("c", "native"):
        p = torch.nn.Parameter(torch.ones(3))
        opt = psgd.torch.PSGD([p], 0.1, criterion="fisher", backend=backend)
        p.grad = torch.ones(3)
        with torch.inference_mode():
            opt.step()
        before = p.detach().clone()
        opt.step()
        assert (p < before).all() and (before < 1).all()


def test_float16_parameters_stay_in_their_range():
    for backend in ("c", "native"):
        p = torch.nn.Parameter(torch.tensor([60000.0, 1.0], dtype=torch.float16))
        opt = psgd.torch.PSGD([p], 10.0, group="identity", criterion="fisher", backend=backend, **NO_LIMITS)
        for _ in range(3):
            p.grad = torch.tensor([-1000.0, 0.0], dtype=torch.float16)
            opt.step()
        assert p.tolist() == [65504.0, 1.0] and opt.skipped == 0


def small_net(dtype=torch.float64):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(27, 4))
    return net.to(dtype)


def train(opt, net, steps=12, dtype=torch.float64, spoil=None):
    torch.manual_seed(1)
    x, y = torch.randn(16, 1, 5, 5, dtype=dtype), torch.randint(0, 4, (16,))
    for step in range(steps):
        opt.step(lambda: F.cross_entropy(net(x), y) * (float("nan") if step == spoil else 1))
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
@pytest.mark.parametrize("options", [
    dict(), dict(momentum=0.9, nesterov=True), dict(momentum=0.9, whiten="momentum"), dict(clip=0.1), dict(clip_rms=0.1),
    dict(clip_element=0.05, weight_decay=0.1), dict(clip_relative=0.02), dict(l2=0.1, clip_gradient=0.1),
    dict(update_every=2, update_anneal=5, update_floor=0.3), dict(update_probability=0.5, seed=3),
    dict(lr_schedule="cosine", total=10, warmup=3, precond_step_schedule="step", precond_step_every=4),
    dict(operator="Q"), dict(operator="P2", init="first"), dict(pairs=2), dict(fold_bias=True, maximize=True),
    dict(group="scan", norm="second"), dict(group="kron(dense,diag)", rule="pro"), dict(clip=0.1, clip_by="sqrt"),
    dict(clip_recent=1.02, update_every=3), dict(clip_recent=1.05, clip_relative=0.02, clip_rms=0.1, update_floor=0.05),
])  # fmt: skip
def test_steps_are_those_of_the_core(criterion, options):
    if criterion == "fisher" and "pairs" in options:
        pytest.skip("pairs are of products")
    ends = []
    for backend in ("c", "native"):
        net = small_net()
        given = {"criterion": criterion, "precond_step": 0.1, "damping": 0.1 if criterion == "fisher" else None, **options}
        opt = psgd.torch.PSGD(net, 0.02, backend=backend, **given)
        ends.append(train(opt, net))
    assert torch.allclose(*ends, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("inputs", [3, 4, 31, 32])  # 16, 20, 128 and 132 parameters with 4 outputs
@pytest.mark.parametrize("criterion", ["fisher", "newton"])
def test_defaults_for_few_parameters_are_those_of_the_core(criterion, inputs):
    ends = []
    for backend in ("c", "native"):
        torch.manual_seed(0)
        x, net = torch.randn(64, inputs, dtype=torch.float64), torch.nn.Linear(inputs, 4).double()
        opt = psgd.torch.PSGD(net, backend=backend, criterion=criterion)
        for _ in range(30):
            opt.step(lambda: net(x).square().square().mean() + net(x).sum(1).mean())
        ends.append(torch.cat([p.detach().reshape(-1) for p in net.parameters()]))
    assert torch.allclose(*ends, rtol=1e-10, atol=1e-12)


def test_averages_that_are_known_to_be_unbiased_are_those_of_the_core():
    ends = []
    for backend in ("c", "native"):
        net = small_net()
        opt = psgd.torch.PSGD(net, 0.002, backend=backend, criterion="fisher", momentum=0.5, update_probability=0.3)
        ends.append(train(opt, net, 70))
    assert opt._lists[0].unbiased  # 0.5^64 is nothing to 1
    assert torch.allclose(*ends, rtol=1e-10, atol=1e-12)
    opt.load_state_dict(opt.state_dict())
    assert not opt._lists[0].unbiased


def test_a_step_that_is_not_finite_is_masked_and_counted_late():
    ends = []
    for backend in ("c", "native"):
        net = small_net()
        opt = psgd.torch.PSGD(net, 0.02, backend=backend, momentum=0.9, criterion="fisher")
        ends.append(train(opt, net, spoil=4))
        assert opt.skipped == 1
    assert torch.allclose(*ends, rtol=1e-10, atol=1e-12)
    weight = torch.nn.Parameter(torch.ones(3))
    opt = psgd.torch.PSGD([weight], 0.1, backend="native", criterion="fisher", max_skipped=5)
    weight.grad = torch.full((3,), float("nan"))
    with pytest.raises(psgd.NotFiniteError, match="max-skipped is 5"):
        for _ in range(64):
            opt.step()
    assert torch.equal(weight.detach(), torch.ones(3))


def test_it_resumes_bit_for_bit():
    net = small_net()
    opt = psgd.torch.PSGD(net, 0.02, backend="native", momentum=0.9, norm="second", criterion="newton")
    train(opt, net, 5)
    twin_net = copy.deepcopy(net)
    twin = psgd.torch.PSGD(twin_net, 0.5, backend="native", momentum=0.9, norm="second", criterion="newton")
    twin.load_state_dict(copy.deepcopy(opt.state_dict()))
    assert torch.equal(train(opt, net, 5), train(twin, twin_net, 5))
    core = psgd.torch.PSGD(small_net(), 0.02, momentum=0.9)
    broken = opt.state_dict()
    broken["state"][0]["native"] = broken["state"][0]["native"][:-9]
    with pytest.raises(psgd.FormatError, match="native"):
        twin.load_state_dict(broken)
    assert core.state_dict()["state"][0].keys() == {"shared", "tensor"}
    for one, other, backend in ((opt, core, "native"), (core, opt, None)):  # as after a move to or from a device
        state = other.state_dict()
        state["param_groups"][0]["backend"] = backend
        with pytest.raises(psgd.FormatError, match="name the backend"):
            one.load_state_dict(state)


class Harm:
    """Runs a command while it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


def test_a_state_is_never_evaluated(tmp_path):
    net = small_net()
    opt = psgd.torch.PSGD(net, 0.02, backend="native", momentum=0.9)
    train(opt, net, 2)
    for protocol in range(2, 5):
        for evil in (pickle.dumps(Harm(tmp_path / "harm"), protocol), saved_by_torch(Harm(tmp_path / "harm"))):
            state = copy.deepcopy(opt.state_dict())
            state["state"][0]["native"] = torch.tensor(list(evil), dtype=torch.uint8)
            with pytest.raises(psgd.FormatError, match="not one of the native backend"):
                opt.load_state_dict(state)
    assert not (tmp_path / "harm").exists()


def saved_by_torch(what):
    to = io.BytesIO()
    torch.save({"own": what, "fit": []}, to)
    return to.getvalue()


def test_damaged_states_are_refused_and_change_nothing():
    net = small_net()
    opt = psgd.torch.PSGD(net, 0.02, backend="native", momentum=0.9)
    train(opt, net, 2)
    good = copy.deepcopy(opt.state_dict())
    last = max(good["state"])
    whole = bytes(good["state"][last]["native"].tolist())

    def repaired(body):
        return body + struct.pack("<q", zlib.crc32(body))

    bad = [whole[:cut] for cut in range(0, len(whole), 7)] + [whole[:9] + b"\x07" + whole[10:], whole + bytes(8), b""]
    for at in range(8, len(whole) - 8, 8):  # with a right checksum: sizes, codes, counters and values
        for evil in (-1, 2**62, 0x7FF8000000000000):
            bad.append(repaired(whole[:at] + struct.pack("<q", evil) + whole[at + 8 : -8]))
    refused = 0
    for chars in bad:
        state = copy.deepcopy(good)
        state["state"][last]["native"] = torch.tensor(list(chars), dtype=torch.uint8)
        try:
            opt.load_state_dict(state)
        except psgd.FormatError:
            refused += 1
            now = opt.state_dict()["state"]
            assert all(torch.equal(now[i]["native"], good["state"][i]["native"]) for i in now)
            continue
        assert all(torch.isfinite(x).all() for fit in opt._lists[0].fits.values() for x in fit.state_tensors())
        opt.load_state_dict(good)
    assert refused > len(whole) // 7


def test_native_and_core_side_by_side_move_together_or_not_at_all():
    first, second = (torch.nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in range(2))
    groups = [{"params": [first], "backend": "native"}, {"params": [second]}]
    opt = psgd.torch.PSGD(groups, 0.1, criterion="fisher")
    opt.step(lambda: (first**2).sum() + (second**2).sum())
    before = first.detach().clone(), second.detach().clone()
    opt.step(lambda: (first**2).sum() + (second**2).sum() * float("nan"))
    assert torch.equal(first.detach(), before[0]) and torch.equal(second.detach(), before[1]) and opt.skipped == 1


def test_refused():
    weight = torch.nn.Parameter(torch.ones(3, 4))
    for wrong in (dict(joint=True), dict(integrate=True), dict(method="adam"), dict(lr_schedule="plateau")):
        with pytest.raises(psgd.UnsupportedError):
            psgd.torch.PSGD([weight], 0.1, backend="native", **wrong)
    with pytest.raises(ValueError, match="backend"):
        psgd.torch.PSGD([weight], 0.1, backend="cuda")


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
@pytest.mark.parametrize("options", [
    dict(group="kron(tri,tri)"), dict(group="kron(dense,dense)", rule="pro"), dict(group="scan"), dict(group="diag"),
    dict(group="kron(dense,diag)", rule="quad", momentum=0.9, clip_rms=1.0, clip=1.0), dict(group="lra(3)"),
    dict(group="splu(2)"),
])  # fmt: skip
def test_nothing_leaves_the_device(criterion, options):
    """Under FakeTensorMode tensors have a device but no memory: an op that mixes devices, or one that reads a value
    back, raises."""
    fake = pytest.importorskip("torch._subclasses.fake_tensor", reason="this PyTorch has no FakeTensorMode")
    if not hasattr(torch, "compile"):
        pytest.skip("FakeTensorMode of PyTorch 1 makes no CUDA tensors without CUDA")
    with fake.FakeTensorMode(allow_non_fake_inputs=False):
        weight = torch.nn.Parameter(torch.empty(6, 5, device="cuda"))
        bias = torch.nn.Parameter(torch.empty(6, device="cuda", dtype=torch.bfloat16))
        opt = psgd.torch.PSGD([weight, bias], 0.1, criterion=criterion, **{"group": None, **options})
        opt._products.evaluate = lambda closure, params, hv, directions: (
            None, [{id(p): torch.empty_like(p) for p in of} for of, _ in directions()]
        )  # fmt: skip  autograd itself wants a CUDA driver
        for _ in range(3):
            weight.grad, bias.grad = torch.empty_like(weight), torch.empty_like(bias)
            opt.step()
        assert opt.preconditioner(weight).fit.Q().device.type == "cuda"


def what_is_said(backend, **options):
    try:
        psgd.torch.PSGD([torch.nn.Parameter(torch.ones(3))], 0.1, backend=backend, **options)
    except Exception as why:
        return type(why), str(why)
    return None


@pytest.mark.parametrize("backend", ["native", "offload"])
def test_values_that_the_core_refuses_are_refused(backend):
    tried = 0
    for info in options_of(partial(lib.psgd_optimizer_option, b"psgd-fisher")):
        keywords = [keyword for keyword, option in KEYWORDS.items() if option == info.name.decode() and keyword != "lr"]
        wrong = ["no such word", info.min - 1, info.max + 1] if info.type in (0, 1) else ["no such word"]
        for value in wrong if keywords and info.type != 4 else ():
            if isinstance(value, str) or math.isfinite(value):
                want = what_is_said("c", **{keywords[0]: value})
                assert want is not None and what_is_said(backend, **{keywords[0]: value}) == want, (keywords, value)
                tried += 1
    assert tried > 60


def test_a_value_that_is_refused_later_changes_nothing():
    ends = []
    for evil in (None, 1.5):
        net = small_net()
        opt = psgd.torch.PSGD(net, 0.02, backend="native", momentum=0.5)
        train(opt, net, 2)
        if evil is not None:
            opt.param_groups[0]["momentum"] = evil
            with pytest.raises(psgd.ArgumentError, match="option momentum must be at least 0 and below 1, not 1.5"):
                train(opt, net, 1)
            opt.param_groups[0]["momentum"] = 0.5
        ends.append(train(opt, net, 2))
    assert torch.equal(*ends)


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
@pytest.mark.parametrize("size", [128, 129, 10000, 10001])
def test_defaults_are_those_of_the_core(criterion, size):
    """Those for few parameters and those for more, the learning rate among them."""
    ends = []
    for backend in ("c", "native"):
        weight = torch.nn.Parameter(torch.linspace(0.1, 2, size, dtype=torch.float64))
        opt = psgd.torch.PSGD([weight], group="diag", criterion=criterion, backend=backend)
        for _ in range(40):
            opt.step(lambda: (weight**4).sum())
        ends.append((weight.detach(), opt.param_groups[0]["lr"]))
    assert torch.allclose(ends[0][0], ends[1][0], rtol=1e-9)
    expected = {"newton": 0.08, "fisher": 0.03 if size == 128 else 0.008}[criterion]
    assert ends[0][1] == ends[1][1] == expected


@pytest.mark.parametrize("backend", ["c", "native"])
def test_defaults_depend_on_the_parameters_of_all_groups(backend):
    """A small param group of a large model takes its defaults from the model."""
    ends = []
    for others in (0, 1280):
        torch.manual_seed(0)
        weight, more = torch.nn.Parameter(torch.ones(10)), torch.nn.Parameter(torch.ones(others))
        groups = [{"params": iter([weight])}] + ([{"params": more, "lr": 0.5}] if others else [])
        opt = psgd.torch.PSGD(groups, backend=backend)
        for _ in range(2):
            weight.grad, more.grad = torch.ones(10), torch.ones(others)
            opt.step()
        ends.append((opt.param_groups[0]["lr"], float((1 - weight.detach()).norm())))
    assert [rate for rate, _ in ends] == [0.03, 0.008]
    assert ends[1][1] < ends[0][1] / 20  # its first steps are those of a warm-up
