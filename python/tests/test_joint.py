"""A joint preconditioner is one on the tensors put together as one vector, in NumPy and in psgd.torch.PSGD."""
import copy
import pickle

from functools import partial

import numpy as np
import pytest

import psgd

SHAPES = [(3, 4), 5, (2, 1, 3)]
SPECS = ["diag", "tri", "dense", "xmat", "lra(3)", "splu(2)", "sum(diag:5,tri)"]


def normal(rng, dtype="float64"):
    return [rng.standard_normal(shape).astype(dtype) for shape in SHAPES]


def flat(arrays):
    return np.concatenate([x.ravel() for x in arrays])


def fitted(spec="lra(3)", dtype="float64", updates=10, **options):
    rng = np.random.default_rng(3)
    joint = psgd.JointPreconditioner(spec, SHAPES, dtype, **options)
    for _ in range(updates):
        joint.update(normal(rng, dtype), normal(rng, dtype))
    return joint


@pytest.mark.parametrize("criterion", ["newton", "fisher"])
@pytest.mark.parametrize("spec", SPECS)
def test_it_is_the_preconditioner_of_the_concatenated_vector(spec, criterion):
    options = dict(criterion=criterion, step=0.1, damping=0.1 if criterion == "fisher" else None)
    joint = psgd.JointPreconditioner(spec, SHAPES, "float64", **options)
    whole = psgd.Preconditioner(spec, 23, "float64", **options)
    rng = np.random.default_rng(1)
    for _ in range(20):
        v, h = normal(rng), normal(rng)
        joint.update(v, h)
        whole.update(flat(v), flat(h))
    g = normal(rng)
    for what in ("P", "P2", "Q", "QT", "P_inverse", "Q_inverse"):
        y = joint.apply(g, what=what)
        assert [x.shape for x in y] == [(3, 4), (5,), (2, 1, 3)]
        assert np.allclose(flat(y), whole.apply(flat(g), what=what), rtol=1e-12, atol=1e-12), what
    assert np.isclose(joint.criterion(v, h), whole.criterion(flat(v), flat(h)), rtol=1e-12)
    assert np.allclose(joint.Q, whole.Q, rtol=1e-12, atol=1e-12) and joint.updates == 20
    assert np.isclose(joint.condition, whole.condition) and joint.group == whole.group
    whole.load_state(joint.state())


def test_v_may_be_integrated_out():
    joint = psgd.JointPreconditioner("diag", SHAPES, "float64", integrate=True)
    whole = psgd.Preconditioner("diag", 23, "float64", integrate=True)
    h = normal(np.random.default_rng(0))
    joint.update(None, h)
    whole.update(None, flat(h))
    assert np.allclose(joint.Q, whole.Q, rtol=1e-12) and joint.criterion(None, h) > 0
    with pytest.raises(ValueError, match="v is missing"):
        psgd.JointPreconditioner("diag", SHAPES, "float64").update(None, h)


def test_apply_writes_where_it_is_told():
    joint = fitted()
    g = normal(np.random.default_rng(0))
    expected = joint.apply(g)
    out = [np.empty_like(x) for x in g]
    assert all(x is y for x, y in zip(joint.apply(g, out=out), out))
    assert np.array_equal(flat(out), flat(expected))
    joint.apply(iter(g), out=g)
    assert np.array_equal(flat(g), flat(expected))
    one = [np.ones(3), np.ones(3)]
    with pytest.raises(ValueError, match="two arrays of out overlap"):
        psgd.JointPreconditioner("diag", [3, 3], "float64").apply(one, out=[one[0], one[0]])


def test_copies_and_states_resume_bit_for_bit():
    joint = fitted("splu(2)", "float32", norm="second", criterion="fisher")
    loaded = psgd.JointPreconditioner("splu(2)", SHAPES, "float32", norm="second", criterion="fisher")
    loaded.load_state(joint.state())
    twins = [loaded, copy.deepcopy(joint), pickle.loads(pickle.dumps(joint))]
    v, h = normal(np.random.default_rng(0), "float32"), normal(np.random.default_rng(1), "float32")
    joint.update(v, h)
    for twin in twins:
        assert twin.shapes == joint.shapes == ((3, 4), (5,), (2, 1, 3)) and twin.updates == joint.updates - 1
        twin.update(v, h)
        assert twin.state() == joint.state()
    assert repr(joint).startswith("psgd.JointPreconditioner('splu(2)', [(3, 4), 5, (2, 1, 3)], 'float32', norm='sec")
    with pytest.raises(psgd.FormatError):
        psgd.JointPreconditioner("splu(2)", [(3, 4), 6], "float32").load_state(joint.state())


def test_a_group_of_the_caller():
    class Diagonal(psgd.UserGroup):
        def algebra(self, S):
            return np.diag(np.diag(S))

    context = psgd.Context()
    context.add_group("mine", Diagonal())
    mine = psgd.JointPreconditioner("mine", SHAPES, "float64", context=context, norm="max")
    known = psgd.JointPreconditioner("diag", SHAPES, "float64", norm="max")
    v, h = normal(np.random.default_rng(0)), normal(np.random.default_rng(1))
    for joint in (mine, known):
        joint.update(v, h)
    assert np.allclose(mine.Q, known.Q, rtol=1e-12)


def test_refused():
    joint = fitted()
    good, before = [np.ones(x) for x in SHAPES], joint.state()
    for wrong, kind, words in (
        (good[:2], ValueError, "h has 2 arrays, but the preconditioner is over 3 tensors"),
        ([*good[:2], np.ones(6)], ValueError, r"h\[2\] has the shape \(6,\)"),
        ([*good[:2], good[2].astype("float32")], TypeError, r"h\[2\] is an array of float32"),
        ([np.ones((4, 3)).T, *good[1:]], ValueError, r"h\[0\] is not contiguous"),
        (np.ones(23), TypeError, "h must be a list with one array for each tensor, not ndarray"),
        (3, TypeError, "list"),
        ([np.full((3, 4), np.nan), *good[1:]], psgd.NotFiniteError, "not a number"),
    ):
        with pytest.raises(kind, match=words):
            joint.update(good, wrong)
    with pytest.raises(ValueError, match="what must be"):
        joint.apply(good, what="R")
    assert joint.state() == before
    for spec in ("kron(tri,tri)", "scaw"):
        with pytest.raises(psgd.SpecError, match="one vector, here of 23 elements: kron"):
            psgd.JointPreconditioner(spec, SHAPES)
    for shapes, kind in (([], ValueError), (3, TypeError), ("34", TypeError), ([3, 0], ValueError), ([()], ValueError)):
        with pytest.raises(kind):
            psgd.JointPreconditioner("diag", shapes)
    with pytest.raises(TypeError, match="already"):
        joint.__init__("diag", [2])
    assert joint.shapes == ((3, 4), (5,), (2, 1, 3))


# --- psgd.torch.PSGD(joint=True)


@pytest.fixture
def optim(torch):
    import psgd.torch

    torch.manual_seed(0)
    return partial(psgd.torch.PSGD, defaults="paper")


def pair(torch, optim, dtype="float64", **options):
    """A list of parameters with a joint optimizer, and the one parameter of all their elements with a plain one."""
    shapes = [(3, 4), (), (0, 2), (5,)]
    params = [torch.nn.Parameter(torch.randn(shape, dtype=getattr(torch, dtype))) for shape in shapes]
    whole = torch.nn.Parameter(torch.cat([p.detach().ravel() for p in params]))
    return params, optim(params, 0.1, joint=True, **options), whole, optim([whole], 0.1, **options)


def loss_of(torch, vector):
    scales = torch.arange(1, vector.numel() + 1, dtype=vector.dtype)
    return (scales * vector**2).sum() / 2 + vector.sum() ** 4 / 100


def joint_loss(torch, params):
    return loss_of(torch, torch.cat([p.ravel() for p in params]))


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
@pytest.mark.parametrize("spec", ["lra(4)", "xmat", "diag", None])
def test_a_step_is_that_of_one_concatenated_parameter(torch, optim, spec, criterion):
    options = dict(criterion=criterion, momentum=0.5, weight_decay=0.1, clip=1.0, update_every=2, precond_step=0.1)
    params, opt, whole, plain = pair(torch, optim, group=spec, **options)
    for _ in range(8):
        opt.step(lambda: joint_loss(torch, params))
        plain.step(lambda: loss_of(torch, whole))
    moved = torch.cat([p.detach().ravel() for p in params])
    assert torch.allclose(moved, whole.detach(), rtol=1e-12, atol=1e-12) and opt.skipped == 0
    precond = opt.preconditioner(params[0])
    assert precond is opt.preconditioner(params[3]) and precond.spec == (spec or "tri") and precond.updates == 4
    assert precond.shapes == ((3, 4), (1,), (5,))


@pytest.mark.parametrize("way", ["state_dict", "pickle", "deepcopy"])
@pytest.mark.parametrize("criterion", ["fisher", "newton"])
def test_it_resumes_bit_for_bit(torch, optim, way, criterion):
    options = dict(group="lra(3)", criterion=criterion, momentum=0.9, norm="second")
    params, opt, _, _ = pair(torch, optim, "float32", **options)
    for _ in range(4):
        opt.step(lambda: joint_loss(torch, params))
    if way == "state_dict":
        twins = [torch.nn.Parameter(p.detach().clone()) for p in params]
        twin = optim(twins, 0.7, joint=True, **options)
        twin.load_state_dict(opt.state_dict())
    else:
        both = (params, opt)
        twins, twin = copy.deepcopy(both) if way == "deepcopy" else pickle.loads(pickle.dumps(both))
    for _ in range(4):
        opt.step(lambda: joint_loss(torch, params))
        twin.step(lambda: joint_loss(torch, twins))
    assert all(torch.equal(p, q) for p, q in zip(params, twins)) and repr(opt) == repr(twin)
    assert opt.preconditioner(params[0]).state() == twin.preconditioner(twins[0]).state()


def test_param_groups_are_joint_one_by_one(torch, optim):
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    groups = [{"params": net[0].parameters(), "joint": True, "group": "xmat"}, {"params": net[1].parameters()}]
    opt = optim(groups, 0.1, group="diag")
    x = torch.randn(8, 4)
    losses = [float(opt.step(lambda: (net(x) ** 2).mean())) for _ in range(20)]
    assert losses[-1] < losses[0]
    assert opt.preconditioner(net[0].bias).spec == "xmat" and opt.preconditioner(net[0].bias).size == 15
    assert opt.preconditioner(net[1].bias).shape == (2,)
    saved = opt.state_dict()
    del saved["param_groups"][1]["joint"]  # as written before there was the option
    opt.load_state_dict(saved)
    assert opt.param_groups[0]["joint"] and not opt.param_groups[1]["joint"]


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
def test_a_parameter_without_a_gradient_takes_no_part(torch, optim, criterion):
    used, unused = (torch.nn.Parameter(torch.randn(4, dtype=torch.float64)) for _ in range(2))
    alone = torch.nn.Parameter(used.detach().clone())
    before = unused.detach().clone()
    options = dict(group="diag", criterion=criterion, weight_decay=0.1, clip=0.5, norm="max")
    opt, single = optim([used, unused], 0.1, joint=True, **options), optim([alone], 0.1, **options)
    for _ in range(5):
        opt.step(lambda: loss_of(torch, used))
        single.step(lambda: loss_of(torch, alone))
    assert torch.equal(unused, before) and torch.allclose(used, alone, rtol=1e-12)
    q = np.diag(opt.preconditioner(used).Q)
    assert np.array_equal(q[4:], np.ones(4)) and (q[:4] != 1).all()
    opt.step(lambda: loss_of(torch, torch.cat([used, unused])))
    assert not torch.equal(unused, before) and opt.skipped == 0
    opt = optim([used, unused], 0.1, joint=True, group="diag", criterion=criterion, integrate=True)
    opt.zero_grad(set_to_none=True)
    with pytest.raises(psgd.UnsupportedError, match=r"shape \(4,\) has no gradient"):
        opt.step(lambda: loss_of(torch, used))


def test_frozen_parameters_stay(torch, optim):
    live, frozen = (torch.nn.Parameter(torch.randn(3, dtype=torch.float64)) for _ in range(2))
    frozen.requires_grad_(False)
    before = frozen.clone()
    opt = optim([frozen, live], 0.1, joint=True, group="lra(1)", criterion="newton", hv="exact", weight_decay=0.1)
    losses = [float(opt.step(lambda: loss_of(torch, torch.cat([frozen, live])))) for _ in range(10)]
    assert torch.equal(frozen, before) and losses[-1] < losses[0] and opt.preconditioner(live).updates == 10


def test_what_is_not_finite_changes_nothing(torch, optim):
    params, opt, _, _ = pair(torch, optim, group="lra(2)")
    opt.step(lambda: joint_loss(torch, params))
    kept, state = [p.detach().clone() for p in params], opt.preconditioner(params[0]).state()
    params[3].grad[2] = float("nan")
    opt.step()
    assert opt.skipped == 1 and opt.note == "the gradient of a parameter of shape (5,) is not finite"
    assert all(torch.equal(p, q) for p, q in zip(params, kept)) and opt.preconditioner(params[0]).state() == state


def test_refused_in_torch(torch, optim):
    weight, bias = torch.nn.Parameter(torch.ones(3, 4)), torch.nn.Parameter(torch.ones(3))
    named = [("weight", weight), ("bias", bias)]
    for wrong, kind, words in (
        (dict(group="scaw"), psgd.SpecError, "one vector, here of 15 elements"),
        (dict(group={"*": "diag"}), TypeError, "one spec for all tensors"),
        (dict(group=lambda name, shape: "diag"), TypeError, "one spec"),
        (dict(joint=1), TypeError, "joint must be a bool"),
    ):
        with pytest.raises(kind, match=words):
            optim(named, **{"joint": True, **wrong})
    double = ("double", torch.nn.Parameter(torch.ones(3, dtype=torch.float64)))
    with pytest.raises(TypeError, match="parameter double is of torch.float64 and parameter weight of torch.float32"):
        optim([*named, double], joint=True)
    with pytest.raises(TypeError, match="float16"):
        optim([*named, ("half", torch.nn.Parameter(torch.ones(3, dtype=torch.float16)))], joint=True)
    net = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Embedding(5, 2, sparse=True)])
    opt = optim(net, joint=True)
    net[0](net[1](torch.tensor([1, 2]))).sum().backward()
    with pytest.raises(psgd.UnsupportedError, match="dense gradients only"):
        opt.step()
