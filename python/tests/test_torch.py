"""psgd.torch.PSGD is a torch.optim.Optimizer in every respect, and steps as the formulas say."""
import copy
import io
import pickle
import warnings
from functools import partial

import numpy as np
import pytest

import psgd

torch = pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
import psgd.torch  # noqa: E402
from psgd._lib import lib  # noqa: E402
from psgd._options import options_of  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def PSGD(params, *args, **options):
    """With the paper's defaults: no momentum, limit or schedule but those that a test asks for."""
    return psgd.torch.PSGD(params, *args, **{"defaults": "paper", **options})


def small_net(dtype=torch.float32):
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(27, 4)
    )
    return net.to(dtype)


def batch(dtype=torch.float32):
    return torch.randn(16, 1, 5, 5, dtype=dtype), torch.randint(0, 4, (16,))


def loss_of(net, data):
    return F.cross_entropy(net(data[0]), data[1])


def train(net, opt, data, steps, style="loss"):
    def closure():
        if style == "loss":
            return loss_of(net, data)
        opt.zero_grad()
        loss = loss_of(net, data)
        loss.backward(create_graph=style == "graph")
        return loss

    return [float(opt.step(closure)) for _ in range(steps)]


def params_of(net):
    return torch.cat([p.detach().ravel() for p in net.parameters()])


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
@pytest.mark.parametrize("fold_bias", [False, True])
def test_it_learns(criterion, fold_bias):
    net, data = small_net(), batch()
    opt = PSGD(net, 0.05, criterion=criterion, fold_bias=fold_bias, precond_step=0.1, clip=10.0)
    losses = train(net, opt, data, 80)
    assert losses[-1] < 0.1 * losses[0] and opt.skipped == 0


def test_plain_loop_without_a_closure():
    net, data = small_net(), batch()
    opt = psgd.torch.PSGD(net.parameters())
    losses = []
    for _ in range(200):
        opt.zero_grad()
        loss = loss_of(net, data)
        loss.backward()
        assert opt.step() is None
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_fisher_step_is_what_the_preconditioner_says():
    weight = torch.nn.Parameter(torch.randn(3, 4, dtype=torch.float64))
    opt = PSGD([weight], lr=0.1, group="scaw", seed=7, damping=0.1)
    twin = psgd.Preconditioner("scaw", (3, 4), "float64", criterion="fisher", damping=0.1)
    expected = weight.detach().clone()
    for step in range(3):
        weight.grad = torch.randn(3, 4, dtype=torch.float64)
        twin.update(psgd.normal((3, 4), "float64", seed=7, tensor=0, step=step), weight.grad.numpy())
        expected -= 0.1 * twin.apply(weight.grad)
        opt.step()
        assert torch.equal(opt.preconditioner(weight).apply(weight.grad), twin.apply(weight.grad))
    assert torch.allclose(weight, expected, rtol=1e-14, atol=0)


def test_exact_product_is_the_hessian_times_v():
    theta = torch.nn.Parameter(torch.randn(3, dtype=torch.float64))
    matrix = torch.tensor([[4.0, 1, 0], [1, 3, 0], [0, 0, 1]], dtype=torch.float64)
    opt = PSGD([theta], lr=0.5, group="tri", criterion="newton", seed=3)
    twin = psgd.Preconditioner("tri", 3, "float64")
    expected = theta.detach().clone()
    for step in range(4):
        v = psgd.normal(3, "float64", seed=3, tensor=0, step=step)
        twin.update(v, matrix.numpy() @ v)
        expected -= 0.5 * twin.apply(matrix @ expected)
        opt.step(lambda: theta @ matrix @ theta / 2)
    assert torch.allclose(theta, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("style", ["loss", "graph", "backward"])
def test_closures_of_all_kinds(style):
    runs = []
    for how in ("loss", style):
        torch.manual_seed(0)
        net = small_net(torch.float64)
        data = batch(torch.float64)
        opt = PSGD(net, 0.05, criterion="newton", precond_step=0.1)
        runs.append(train(net, opt, data, 15, how))
    assert np.allclose(*runs, rtol=1e-4)


def test_newton_without_closure():
    net, data = small_net(), batch()
    opt = PSGD(net, 0.05, criterion="newton")
    loss_of(net, data).backward(create_graph=True)
    opt.step()
    assert all(p.grad.grad_fn is None for p in net.parameters())
    opt.zero_grad()
    loss_of(net, data).backward()
    with pytest.raises(psgd.UnsupportedError, match="closure"):
        opt.step()


class OnceDifferentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


def test_differences_where_an_op_has_no_second_derivative():
    theta = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))

    def closure():
        return ((OnceDifferentiable.apply(theta) - torch.tensor([1.0, 10.0])) ** 2).sum()

    with pytest.raises(RuntimeError, match="OnceDifferentiable has no second"):
        PSGD([theta], 0.5, criterion="newton", hv="exact", group="diag").step(closure)
    opt = PSGD([theta], 0.5, criterion="newton", group="diag", precond_step=0.2, init_scale=0.1)
    losses = [float(opt.step(closure)) for _ in range(60)]
    assert losses[-1] < 1e-6 * losses[0]


@pytest.mark.parametrize("hv", ["auto", "exact", "difference"])
def test_frozen_parameters_have_no_part_in_products(hv):
    """H v is over the parameters that can move: a frozen one is neither differentiated by nor shifted."""
    theta = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    frozen = torch.nn.Parameter(torch.tensor([3.0, 5.0], dtype=torch.float64), requires_grad=False)
    twin = psgd.Preconditioner("diag", 2, "float64")
    v = psgd.normal(2, "float64", seed=0, tensor=0, step=0)
    twin.update(v, 2 * frozen.numpy() * v)
    calls = []
    opt = PSGD([theta, frozen], 0.1, criterion="newton", hv=hv, group="diag")
    opt.step(lambda: calls.append(1) or (frozen * theta**2).sum())
    assert np.allclose(opt.preconditioner(theta).Q, twin.Q, rtol=1e-6) and opt.preconditioner(frozen).updates == 0
    assert len(calls) == (2 if hv == "difference" else 1)
    other = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    groups = [{"params": [frozen], "criterion": "newton"}, {"params": [other]}]
    PSGD(groups, 0.1, group="diag", hv=hv).step(lambda: (frozen * other**2).sum())
    assert not torch.equal(other.detach(), torch.ones(2)) and other.grad.grad_fn is None


def test_differences_see_the_same_dropout():
    torch.manual_seed(1)
    weight = torch.nn.Parameter(torch.ones(400, dtype=torch.float64))
    seen = []

    def closure():
        kept = F.dropout(torch.ones(400, dtype=torch.float64), 0.5)
        seen.append(kept)
        return (kept * weight * weight).sum()

    PSGD([weight], 0.0, criterion="newton", hv="difference", group="diag").step(closure)
    assert len(seen) == 2 and torch.equal(*seen)
    assert torch.equal(weight.detach(), torch.ones(400, dtype=torch.float64))


def test_fold_bias_is_the_matrix_with_one_more_column():
    linear = torch.nn.Linear(4, 3).double()
    matrix = torch.nn.Parameter(torch.cat([linear.weight, linear.bias[:, None]], 1).detach().clone())
    x, y = torch.randn(8, 4, dtype=torch.float64), torch.randn(8, 3, dtype=torch.float64)
    ones = torch.cat([x, torch.ones(8, 1, dtype=torch.float64)], 1)
    for named in (linear, linear.parameters()):
        folded = PSGD(named, 0.1, group="scan", criterion="newton", fold_bias=True, momentum=0.9)
    plain = PSGD([matrix], 0.1, group="scan", criterion="newton", momentum=0.9)
    for _ in range(5):
        folded.step(lambda: ((linear(x) - y) ** 2).mean())
        plain.step(lambda: ((ones @ matrix.t() - y) ** 2).mean())
    assert torch.allclose(linear.weight, matrix[:, :-1], rtol=1e-12) and torch.allclose(linear.bias, matrix[:, -1])
    assert folded.preconditioner(linear.bias) is folded.preconditioner(linear.weight)


def test_patterns_of_names():
    net = small_net()
    opt = PSGD(net, 0.1, group={"0.*": "diag", "*.weight": "scaw"})
    specs = {name: opt.preconditioner(p).spec for name, p in net.named_parameters()}
    assert specs == {"0.weight": "diag", "0.bias": "diag", "3.weight": "scaw", "3.bias": "tri"}
    assert opt.preconditioner(net[0].weight).shape == (3, 9)
    with pytest.raises(ValueError, match="names"):
        PSGD(net.parameters(), 0.1, group={"*": "diag"})
    with pytest.raises(ValueError, match="pattern 'weigth' matches no parameter; their names are 0.weight, 0.bias"):
        PSGD(net, 0.1, group={"*.weight": "scaw", "weigth": "diag"})
    apart = [{"params": [pair for pair in net.named_parameters() if kind in pair[0]]} for kind in ("weight", "bias")]
    PSGD(apart, 0.1, group={"*.weight": "scaw", "*.bias": "diag"})  # each pattern matches in one of them
    with pytest.raises(psgd.SpecError, match="parameter 3.bias"):
        PSGD(net, 0.1, group={"3.bias": "scaw"})
    by_function = PSGD(net, 0.1, group=lambda name, shape: "diag")
    assert by_function.preconditioner(net[3].weight).spec == "diag"


def test_param_groups_have_their_own_settings():
    first, second = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    opt = PSGD([{"params": [first], "lr": 0.0}, {"params": [second]}], lr=0.1, group="diag")
    opt.add_param_group({"params": [("third", torch.nn.Parameter(torch.ones(3)))], "group": {"th*": "tri"}})
    for p in opt.param_groups[2]["params"] + [first, second]:
        p.grad = torch.ones_like(p)
    opt.step()
    assert torch.equal(first.detach(), torch.ones(2)) and (second < 1).all()
    assert opt.preconditioner(opt.param_groups[2]["params"][0]).spec == "tri"
    with pytest.raises(psgd.SpecError):
        opt.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))], "group": "nonsense("})
    assert len(opt.param_groups) == 3
    opt.step()


def test_schedulers_move_the_step_size():
    weight = torch.nn.Parameter(torch.ones(2))
    opt = PSGD([weight], lr=1.0, group="identity")
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
    moves = []
    for _ in range(3):
        weight.grad = torch.ones(2)
        before = weight.detach().clone()
        opt.step()
        scheduler.step()
        moves.append(float((before - weight.detach())[0]))
    assert np.allclose(moves, [1, 0.5, 0.25])


@pytest.mark.parametrize("way", ["state_dict", "file", "pickle", "deepcopy"])
@pytest.mark.parametrize("criterion", ["fisher", "newton"])
def test_it_resumes_bit_for_bit(way, criterion):
    options = dict(criterion=criterion, fold_bias=True, momentum=0.9, precond_step=0.1, norm="second")
    net, data = small_net(), batch()
    opt = PSGD(net, 0.02, **options)
    train(net, opt, data, 5)
    if way in ("state_dict", "file"):
        saved = opt.state_dict()
        if way == "file":
            file = io.BytesIO()
            torch.save(saved, file)
            file.seek(0)
            saved = torch.load(file)
        twin_net = copy.deepcopy(net)
        twin = PSGD(twin_net, 0.7, **options)
        twin.load_state_dict(saved)
    else:
        both = (net, opt)
        twin_net, twin = copy.deepcopy(both) if way == "deepcopy" else pickle.loads(pickle.dumps(both))
    assert train(net, opt, data, 5) == train(twin_net, twin, data, 5)
    assert torch.equal(params_of(net), params_of(twin_net))
    assert repr(opt) == repr(twin)


def test_state_of_another_group_is_refused():
    net = small_net()
    saved = PSGD(net, 0.1, group="diag").state_dict()
    other = PSGD(net, 0.1, group="diag")
    other.load_state_dict(saved)
    broken = copy.deepcopy(saved)
    broken["state"][0]["tensor"] = broken["state"][0]["tensor"][:-1]
    with pytest.raises(psgd.FormatError):
        other.load_state_dict(broken)


def states_of(opt):
    return {(i, key): value.clone() for i, entry in opt.state_dict()["state"].items() for key, value in entry.items()}


@pytest.mark.parametrize("last", ["truncated", "damaged", "group"])
def test_a_refused_state_changes_nothing(last):
    net, data = small_net(), batch()
    opt = PSGD(net, 0.1, momentum=0.9)
    train(net, opt, data, 3)
    saved = copy.deepcopy(opt.state_dict())
    train(net, opt, data, 3)
    before, groups = states_of(opt), copy.deepcopy(opt.state_dict()["param_groups"])
    final = saved["state"][max(saved["state"])]  # the tensors before it are in order
    if last == "truncated":
        final["tensor"] = final["tensor"][:-1]
    elif last == "damaged":
        final["tensor"][-20] ^= 1
    else:
        final["tensor"] = PSGD([torch.ones(7)], 0.1).state_dict()["state"][0]["tensor"]
    saved["param_groups"][0]["lr"] = 0.5
    with pytest.raises(psgd.FormatError):
        opt.load_state_dict(saved)
    after = states_of(opt)
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)
    assert opt.state_dict()["param_groups"] == groups


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
@pytest.mark.parametrize("split", [False, True])
def test_a_skipped_step_changes_counters_only(criterion, split):
    params = [torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.randn(4))]
    given = [{"params": [p]} for p in params] if split else params
    opt = PSGD(given, 0.1, criterion=criterion, momentum=0.9, update_every=1)
    opt.step(lambda: sum((p**4).sum() for p in params))
    before, old = states_of(opt), [p.detach().clone() for p in params]
    opt.step(lambda: (params[0] ** 4).sum() + (params[1] ** 4).sum() * float("nan"))
    assert opt.skipped == 1 and all(map(torch.equal, old, params))
    for key, state in states_of(opt).items():
        changed = (state != before[key]).nonzero().ravel()
        if key[1] == "tensor":  # its counters are in the last 16 bytes of a header of 368; the checksum is last
            assert all(352 <= at < 368 or at >= len(state) - 8 for at in changed.tolist()), (key, changed)


def test_zero_grad_and_missing_gradients():
    used, unused = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    for criterion in ("fisher", "newton"):
        opt = PSGD([used, unused], 0.1, criterion=criterion)
        opt.step(lambda: (used**2).sum())
        assert torch.equal(unused.detach(), torch.ones(2)) and opt.skipped == 0
        opt.zero_grad(set_to_none=True)
        assert used.grad is None
    opt = PSGD([used], 0.1)
    opt.step()
    with pytest.raises(TypeError, match="closure"):
        opt.step(lambda: 1.0)


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
@pytest.mark.parametrize("every", [1, 2])
def test_what_is_not_finite_changes_nothing(criterion, every):
    weight = torch.nn.Parameter(torch.ones(3))
    opt = PSGD([weight], 0.1, criterion=criterion, update_every=every, group="tri")
    opt.step(lambda: (weight**2).sum())
    before, state = weight.detach().clone(), opt.preconditioner(weight).state()
    for bad in (float("nan"), float("inf")):
        opt.step(lambda: (weight**2).sum() * bad)
    assert opt.skipped == 2 and "finite" in opt.note or "not a number" in opt.note or "infinite" in opt.note
    assert torch.equal(weight.detach(), before) and opt.preconditioner(weight).state() == state


def test_clip_and_weight_decay():
    weight = torch.nn.Parameter(torch.full((4,), 2.0))
    opt = PSGD([weight], 0.5, group="identity", clip=1.0)
    weight.grad = torch.full((4,), 10.0)
    opt.step()
    assert torch.allclose(weight.detach(), torch.full((4,), 2 - 0.25))
    opt = PSGD([weight], 0.5, group="identity", weight_decay=0.1)
    weight.grad = torch.zeros(4)
    opt.step()
    assert torch.allclose(weight.detach(), torch.full((4,), 1.75 * 0.95))


def test_update_every():
    weight = torch.nn.Parameter(torch.ones(3))
    calls = []
    opt = PSGD([weight], 0.01, criterion="newton", update_every=3, hv="difference")
    for _ in range(6):
        opt.step(lambda: calls.append(1) or (weight**2).sum())
    assert opt.preconditioner(weight).updates == 2 and len(calls) == 8


def test_layouts_of_parameters_and_gradients():
    conv = torch.nn.Conv2d(3, 4, 3)
    twin = copy.deepcopy(conv).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 6, 6)
    for net in (conv, twin):
        opt = PSGD(net, 0.1, group="scaw", fold_bias=True)
        for _ in range(3):
            opt.step(lambda: (net(x) ** 2).mean())
    assert torch.allclose(conv.weight, twin.weight, rtol=1e-4, atol=1e-5)
    scalar, empty = torch.nn.Parameter(torch.tensor(2.0)), torch.nn.Parameter(torch.empty(0, 3))
    opt = PSGD([scalar, empty], 0.1)
    opt.step(lambda: scalar**2 + empty.sum())
    assert scalar < 2


def test_refused():
    weight = torch.nn.Parameter(torch.ones(3))
    for wrong, kind in (
        (dict(lr=-1), ValueError), (dict(lr="x"), TypeError), (dict(momentum=1.0), ValueError),
        (dict(clip=-1.0), ValueError), (dict(update_every=0), ValueError), (dict(criterion="x"), ValueError),
        (dict(precond_step=2), ValueError), (dict(group=3), TypeError), (dict(seed=-1), ValueError),
        (dict(damping=float("nan")), ValueError), (dict(group="tri("), psgd.SpecError), (dict(hv=1), ValueError),
    ):  # fmt: skip
        with pytest.raises(kind):
            PSGD([weight], **wrong)
    for wrong, sentence in (
        (dict(method="lbfgs"), "torch.optim.LBFGS"), (dict(method="newton-cg"), "psgd.minimize"),
        (dict(lr_schedule="plateau"), "ReduceLROnPlateau"), (dict(precond_step_schedule="plateau"), "ReduceLROnPlateau"),
    ):  # fmt: skip
        with pytest.raises(psgd.UnsupportedError, match=sentence):
            PSGD([weight], **wrong)
    with pytest.raises(TypeError, match="complex64"):
        PSGD([torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))])
    with pytest.raises(TypeError):
        PSGD(weight)
    with pytest.raises(ValueError):
        PSGD([])
    with pytest.raises(ValueError):
        PSGD([weight]).preconditioner(torch.ones(3))


def test_every_option_of_the_library_is_a_keyword():
    """Each with its default, so that the name and the type of the value are right; and each in the docstring's terms."""
    infos = list(options_of(partial(lib.psgd_optimizer_option, b"psgd")))
    for info in infos:
        option, default = info.name.decode(), info.default_value.decode()
        keyword = {"decay": "weight_decay", "apply": "operator"}.get(option, option.replace("-", "_"))
        keyword = "precond_" + keyword if keyword.startswith("step") else keyword
        if option in ("first-tensor", "parameters", "group"):  # the optimizer's own business; choose_spec
            continue
        value = {0: float, 1: int, 2: lambda word: word == "yes"}.get(info.type, str)(default)
        opt = PSGD([torch.nn.Parameter(torch.ones(3))], **{keyword: value})
        assert keyword in opt.param_groups[0] and f"  {keyword} " in opt.options()
    assert len(infos) > 40
    for wrong, right in (("nesterof", "nesterov"), ("learning_rate", "lr"), ("step", "precond_step")):
        with pytest.raises(TypeError, match=f"did you mean {right}\\?"):
            PSGD([torch.nn.Parameter(torch.ones(3))], **{wrong: 1})


def test_every_method_of_the_library():
    weight, twin = (torch.nn.Parameter(torch.tensor([1.0, 2.0])) for _ in range(2))
    ours, theirs = PSGD([weight], 0.1, method="adam"), torch.optim.Adam([twin], 0.1)
    for _ in range(5):
        ours.step(lambda: (weight**4).sum())
        theirs.zero_grad()
        (twin**4).sum().backward()
        theirs.step()
    assert torch.allclose(weight, twin, rtol=1e-5)
    for method in ("sgd", "momentum", "rmsprop", "esgd", "kfac"):
        before = float((weight**4).sum())
        PSGD([weight], 1e-3, method=method).step(lambda: (weight**4).sum())
        assert float((weight**4).sum()) < before
    with pytest.raises(ValueError, match="no preconditioner"):
        ours.preconditioner(weight)


def test_schedules_of_the_library_and_of_torch_go_together():
    weight = torch.nn.Parameter(torch.zeros(2))
    opt = PSGD([weight], 1.0, group="identity", lr_schedule="step", lr_every=1, lr_factor=0.5, warmup=2)
    moves = []
    for lr in (1.0, 1.0, 8.0):
        opt.param_groups[0]["lr"] = torch.tensor(lr)
        weight.grad, before = torch.ones(2), float(weight[0])
        opt.step()
        moves.append(before - float(weight[0]))
    assert np.allclose(moves, [0.5, 0.5, 2.0])
    opt = PSGD([weight], 0.1, group="identity")
    scheduler = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=10)  # sets momentum as well
    for _ in range(3):
        weight.grad = torch.ones(2)
        opt.step()
        scheduler.step()
    opt.param_groups[0]["clip"] = 1e-3  # any option may change; the state stays
    before = weight.detach().clone()
    opt.step()
    assert 0 < float((weight - before).norm()) < 2e-4


def test_pairs_are_products_with_several_v():
    theta = torch.nn.Parameter(torch.randn(3, dtype=torch.float64))
    matrix = torch.tensor([[4.0, 1, 0], [1, 3, 0], [0, 0, 1]], dtype=torch.float64)
    for hv in ("exact", "difference"):
        opt = PSGD([theta], 0.1, group="tri", criterion="newton", pairs=2, hv=hv)
        twin = psgd.Preconditioner("tri", 3, "float64", pairs=2)
        v = psgd.normal((2, 3), "float64")
        twin.update(v, v @ matrix.numpy())
        opt.step(lambda: theta @ matrix @ theta / 2)
        assert np.allclose(opt.preconditioner(theta).Q, twin.Q, rtol=1e-6)


def test_v_has_a_part_for_tensors_that_are_not_fitted():
    a, b = (torch.nn.Parameter(torch.ones(1, dtype=torch.float64)) for _ in range(2))
    opt = PSGD([a, b], 0.0, group="diag", criterion="newton", update_every=2)
    opt.step(lambda: (a**2).sum())
    opt.step(lambda: (3 * a * b + b**2).sum())  # the first step of b, the second of a
    v = psgd.normal(1, "float64", tensor=0, step=1), psgd.normal(1, "float64", tensor=1, step=0)
    twin = psgd.Preconditioner("diag", 1, "float64")
    twin.update(v[1], 3 * v[0] + 2 * v[1])
    assert np.array_equal(opt.preconditioner(b).Q, twin.Q) and opt.preconditioner(a).updates == 1


def test_param_groups_move_together_or_not_at_all():
    params = [torch.nn.Parameter(torch.ones(2, dtype=dtype)) for dtype in (torch.float32, torch.float64, torch.float32)]
    opt = PSGD([{"params": params[:2]}, {"params": params[2:]}], 0.1, max_skipped=3)
    for p in params:
        p.grad = torch.ones_like(p)
    opt.step()
    assert opt.preconditioner(params[1]).dtype == np.float64 and all((p < 1).all() for p in params)
    before = [p.detach().clone() for p in params]
    params[2].grad[0] = float("nan")
    with pytest.warns(RuntimeWarning, match="a step was skipped: .* not finite"):
        opt.step()
    assert opt.skipped == 1 and "shape (2,)" in opt.note and all(map(torch.equal, before, params))
    with warnings.catch_warnings():  # there is one warning
        warnings.simplefilter("error")
        opt.step()
        opt.step()
    with pytest.raises(psgd.NotFiniteError, match="4 steps in a row were skipped .*max-skipped is 3"):
        opt.step()
    params[2].grad[0] = 1
    opt.step()
    assert not all(map(torch.equal, before, params))
    params[2].grad[0] = float("nan")
    opt.step()  # the first in a row again
    single = PSGD(params[2:], 0.1, max_skipped=3)
    with pytest.raises(psgd.NotFiniteError, match="max-skipped is 3"), pytest.warns(RuntimeWarning):
        for _ in range(4):
            single.step()
    assert single.skipped == 3


def test_autograd_learns_of_the_step_and_dtypes_may_change():
    weight = torch.nn.Parameter(torch.ones(3))
    loss = (weight**2).sum()
    opt = PSGD([weight], 0.1)
    weight.grad = torch.ones(3)
    opt.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    weight.grad, weight.data = None, weight.data.double()
    weight.grad = torch.ones(3, dtype=torch.float64)
    before = weight.detach().clone()
    opt.step()
    assert weight.dtype == torch.float64 and (weight < before).all()


@pytest.mark.parametrize("size", [2, 4])
def test_a_parameter_that_changes_its_size_is_refused(size):
    memory = torch.ones(5)
    weight = torch.nn.Parameter(torch.ones(3))
    opt = PSGD([weight], 0.1, method="sgd")
    weight.data, weight.grad = memory[:size], torch.ones(size)
    with pytest.raises(ValueError, match=f"of shape \\({size},\\) now, and was of shape \\(3,\\)"):
        opt.step()
    assert memory.eq(1).all()


@pytest.mark.parametrize("hv", ["exact", "difference"])
@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_newton_follows_a_model_that_changes_its_dtype(dtypes, hv):
    nets = [small_net(dtypes[0]) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    data = batch(dtypes[0])
    for net, dtype in zip(nets, dtypes):
        opt = PSGD(net, 0.05, criterion="newton", hv=hv, fold_bias=True)
        train(net, opt, data, 3)
        net.to(dtype)
        train(net, opt, (data[0].to(dtype), data[1]), 5)
        assert opt.skipped == 0
    for one, other in zip(*(net.parameters() for net in nets)):
        torch.testing.assert_close(one.detach().double(), other.detach().double(), rtol=1e-2, atol=1e-3)


def sparse_pair(dtype=torch.float64, **options):
    embedding = torch.nn.Embedding(50, 3, sparse=True, dtype=dtype)
    return embedding, PSGD(embedding, 0.1, **options)


def lookup(embedding, opt, ids):
    opt.zero_grad()
    (embedding(torch.tensor(ids)) ** 2).sum().backward()
    assert embedding.weight.grad.is_sparse
    opt.step()


def test_sparse_gradients_follow_a_model_that_changes_its_dtype():
    pairs = [sparse_pair(torch.float64, group="scaw", damping=0.1) for _ in range(2)]
    pairs[1][0].load_state_dict(pairs[0][0].state_dict())
    for (embedding, opt), dtype in zip(pairs, (torch.float64, torch.float32)):
        lookup(embedding, opt, [3, 7, 3])
        embedding.to(dtype)
        for _ in range(3):
            lookup(embedding, opt, [3, 7, 3])
    one, other = (embedding.weight.detach().double() for embedding, _ in pairs)
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_sparse_gradients_stay_sparse():
    embedding, opt = sparse_pair(group="scaw", damping=0.1)
    before = embedding.weight.detach().clone()
    for _ in range(5):
        lookup(embedding, opt, [3, 7, 3])
    changed = (embedding.weight.detach() != before).any(1).nonzero().ravel().tolist()
    assert changed == [3, 7] and embedding.weight.grad.is_sparse
    precond = opt.preconditioner(embedding.weight)
    assert precond.spec == "scaw" and precond.updates == 5
    assert (np.diag(precond.factors[0]) != 1).nonzero()[0].tolist() == [3, 7]


def test_sparse_step_is_the_dense_one_on_the_rows_present():
    embedding, opt = sparse_pair(group="kron(diag,tri)", damping=0.1, norm="max", precond_step=0.1)
    twin = psgd.Preconditioner("kron(diag,tri)", (2, 3), "float64", norm="max", step=0.1)
    expected = embedding.weight.detach()[[4, 9]].clone()
    for step in range(10):
        g = 2 * expected
        v = torch.from_numpy(psgd.normal((50, 3), "float64", seed=0, tensor=0, step=step)[[4, 9]])
        twin.update(v, g + 0.1 * v)
        expected = expected - 0.1 * twin.apply(g)
        lookup(embedding, opt, [9, 4])
    assert torch.allclose(embedding.weight.detach()[[4, 9]], expected, rtol=1e-10)


def test_sparse_state_resumes_bit_for_bit():
    embedding, opt = sparse_pair(damping=0.1)
    lookup(embedding, opt, [1, 2, 3])
    twin_net = copy.deepcopy(embedding)
    twin = PSGD(twin_net, 0.5, damping=0.1)
    twin.load_state_dict(opt.state_dict())
    copied_net, copied = copy.deepcopy((embedding, opt))
    for net, each in ((embedding, opt), (twin_net, twin), (copied_net, copied)):
        lookup(net, each, [2, 3, 30, 31, 32])
        lookup(net, each, [1])
    assert torch.equal(embedding.weight, twin_net.weight) and torch.equal(embedding.weight, copied_net.weight)


def test_a_sparse_gradient_may_have_no_rows_at_first():
    embedding, opt = sparse_pair(damping=0.1)
    before = embedding.weight.detach().clone()
    none = torch.empty((1, 0), dtype=torch.long), torch.empty((0, 3), dtype=torch.float64)
    embedding.weight.grad = torch.sparse_coo_tensor(*none, (50, 3))
    opt.step()
    assert torch.equal(embedding.weight.detach(), before)
    lookup(embedding, opt, [3, 7])
    changed = (embedding.weight.detach() != before).any(1).nonzero().ravel().tolist()
    assert changed == [3, 7] and opt.skipped == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sparse_state_of_many_rows_and_few_bits_resumes(dtype):
    nets = [torch.nn.Embedding(50_000, 1, sparse=True).to(dtype) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    opts = [PSGD(net, 0.1, method="sgd") for net in nets]
    for net, opt in zip(nets, opts):
        net.weight.grad = torch.sparse_coo_tensor(torch.arange(40_000)[None], torch.ones(40_000, 1, dtype=dtype), net.weight.shape)
        opt.step()
    opts[1].load_state_dict(opts[0].state_dict())
    for net, opt in zip(nets, opts):
        net.weight.grad = torch.sparse_coo_tensor(torch.arange(45_000)[None], torch.ones(45_000, 1, dtype=dtype), net.weight.shape)
        opt.step()
    assert torch.equal(nets[0].weight, nets[1].weight)


def test_a_sparse_gradient_of_another_shape_is_refused():
    weight = torch.nn.Parameter(torch.ones(50, 30))
    opt, before = PSGD([weight], 0.1, method="sgd"), weight.data
    weight.data = torch.ones(50, 2)
    weight.grad = torch.sparse_coo_tensor(torch.tensor([[3, 45]]), torch.ones(2, 2), (50, 2))
    weight.data = before
    with pytest.raises(ValueError, match="of shape \\(50, 2\\) now, and was of shape \\(50, 30\\)"):
        opt.step()
    assert before.eq(1).all()


def test_sparse_refused():
    for wrong in (dict(group="kron(tri,tri)"), dict(criterion="newton"), dict(momentum=0.9), dict(weight_decay=0.1)):
        embedding, opt = sparse_pair(**wrong)
        (embedding(torch.tensor([1])) ** 2).sum().backward()
        with pytest.raises((psgd.UnsupportedError, RuntimeError)):
            opt.step()
    embedding, opt = sparse_pair(clip=0.5)
    (embedding(torch.tensor([1])) ** 2).sum().backward()
    before = embedding.weight.detach().clone()
    embedding.weight.grad = embedding.weight.grad * float("nan")
    opt.step()
    assert opt.skipped == 1 and torch.equal(before, embedding.weight.detach())


def test_convolution_weights_take_a_kron_of_all_their_dimensions():
    weight = torch.nn.Parameter(torch.randn(3, 2, 3, 3, dtype=torch.float64))
    opt = PSGD([weight], 0.1, group="kron(tri,tri,diag,diag)", criterion="newton", seed=1, precond_step=0.1)
    twin = psgd.Preconditioner("kron(tri,tri,diag,diag)", (3, 2, 3, 3), "float64", step=0.1)
    h = 4 * psgd.normal((3, 2, 3, 3), "float64", seed=1)
    twin.update(psgd.normal((3, 2, 3, 3), "float64", seed=1), h)
    opt.step(lambda: 2 * (weight**2).sum())
    precond = opt.preconditioner(weight)
    assert precond.shape == (3, 2, 3, 3) and np.allclose(precond.Q, twin.Q, rtol=1e-12)
    assert PSGD([weight], 0.1, group="scaw").preconditioner(weight).shape == (3, 18)
    with pytest.raises(psgd.SpecError, match="kron"):
        PSGD([weight], 0.1, group="kron(tri,tri,diag)")


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
def test_health(criterion):
    net, data = small_net(), batch()
    opt = PSGD(net, 0.05, criterion=criterion, group={"3.weight": "kron(dense,diag)"})
    assert [row["criterion"] for row in opt.health()] == [None] * 4
    train(net, opt, data, 5)
    rows = {row["name"]: row for row in opt.health()}
    assert list(rows) == [name for name, _ in net.named_parameters()]
    row = rows["3.weight"]
    assert row["shape"] == (4, 27) and row["group"] == "kron(dense,diag)" and row["updates"] == 5
    assert row["skipped"] == 0 and row["condition"] >= 1 and 0 < row["criterion"] < np.inf
    joint = PSGD(net, 0.05, criterion=criterion, joint=True)
    train(net, joint, data, 2)
    assert [(row["name"], row["updates"]) for row in joint.health()] == [("all", 2)]
    assert PSGD(net, 0.05, method="adam").health() == []


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
def test_a_delay_is_deterministic_and_resumes(criterion):
    """A pair's Q comes into force delay steps later, whenever the worker is done with it."""
    def begin(delay):
        torch.manual_seed(0)
        net, data = small_net(), batch()
        return net, data, PSGD(net, 0.05, criterion=criterion, precond_step=0.1, delay=delay, update_every=1)

    def after(delay, steps):
        net, data, opt = begin(delay)
        train(net, opt, data, steps)
        return params_of(net)

    assert torch.equal(after(3, 12), after(3, 12))
    assert torch.equal(after(3, 1), after(0, 1))  # the first pair is in force at once
    assert not torch.equal(after(3, 12), after(0, 12))

    net, data, opt = begin(3)
    train(net, opt, data, 7)
    saved = copy.deepcopy((net.state_dict(), opt.state_dict()))  # with pairs in flight
    other, _, again = begin(3)
    other.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    train(net, opt, data, 5)
    train(other, again, data, 5)
    assert torch.equal(params_of(net), params_of(other))
