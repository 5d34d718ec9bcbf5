"""One line changed, from torch.optim.AdamW to psgd.torch.PSGD, in programs that were not written for it."""
import copy
import warnings

import pytest

import psgd

torch = pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
import psgd.torch  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def a_weight():
    return torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64))


def test_switches_of_how_torch_computes_are_taken():
    weights = [a_weight() for _ in range(2)]
    plain = psgd.torch.PSGD([weights[0]], 0.1, weight_decay=0.01)
    switched = psgd.torch.PSGD(
        [weights[1]], 0.1, weight_decay=0.01, foreach=True, fused=None, maximize=False, capturable=False, amsgrad=False
    )
    for opt, weight in zip((plain, switched), weights):
        for _ in range(3):
            opt.step(lambda: (weight**4).sum())
    assert torch.equal(*weights)


def test_maximize_goes_up():
    down, up = a_weight(), a_weight()
    first = psgd.torch.PSGD([down], 0.1, weight_decay=0.1)
    second = psgd.torch.PSGD([up], 0.1, weight_decay=0.1, maximize=True)
    for _ in range(5):
        first.step(lambda: (down**4).sum())
        second.step(lambda: -(up**4).sum())
    assert torch.equal(down, up)
    rows = [torch.nn.Embedding(5, 2, sparse=True) for _ in range(2)]
    rows[1].load_state_dict(rows[0].state_dict())
    for embedding, sign in zip(rows, (1, -1)):
        opt = psgd.torch.PSGD(embedding, 0.1, group="scaw", criterion="fisher", momentum=0, maximize=sign < 0)
        (sign * (embedding(torch.tensor([1, 3])) ** 2).sum()).backward()
        opt.step()
    assert torch.equal(rows[0].weight, rows[1].weight)


def test_keywords_without_a_meaning_are_named():
    for keyword, value, sentence in (
        ("betas", (0.95, 0.999), "write momentum=0.95"), ("eps", 1e-8, "damping"), ("amsgrad", True, "amsgrad"),
        ("capturable", True, "CUDA graph"), ("differentiable", True, "not differentiable"), ("maximize", 1, "bool"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=sentence):
            psgd.torch.PSGD([a_weight()], 0.1, **{keyword: value})
    with pytest.raises(TypeError, match="two numbers"):
        psgd.torch.PSGD([a_weight()], 0.1, method="adam", betas=0.9)


def test_betas_and_eps_are_those_of_methods_that_have_them():
    ours, theirs = a_weight(), a_weight()
    first = psgd.torch.PSGD([ours], 0.1, method="adam", betas=(0.8, 0.9), eps=1e-3)
    second = torch.optim.Adam([theirs], 0.1, betas=(0.8, 0.9), eps=1e-3)
    for _ in range(5):
        first.step(lambda: (ours**4).sum())
        second.zero_grad()
        (theirs**4).sum().backward()
        second.step()
    assert torch.allclose(ours, theirs, rtol=1e-12)


def test_state_of_another_optimizer_is_refused_in_a_sentence():
    weight = a_weight()
    opt = psgd.torch.PSGD([weight], 0.1, momentum=0.9)
    opt.step(lambda: (weight**4).sum())
    before, groups = opt.state_dict()["state"][0]["tensor"].clone(), copy.deepcopy(opt.state_dict()["param_groups"])
    adam, sgd = torch.optim.AdamW([weight], 0.1), torch.optim.SGD([weight], 0.1)
    (weight**2).sum().backward()
    adam.step()
    for other, sentence in ((adam, "exp_avg.*without load_state_dict"), (sgd, "another optimizer: it lacks")):
        with pytest.raises(psgd.FormatError, match=sentence):
            opt.load_state_dict(other.state_dict())
        assert torch.equal(opt.state_dict()["state"][0]["tensor"], before)
        assert opt.state_dict()["param_groups"] == groups
    opt.step(lambda: (weight**4).sum())


def test_groups_with_and_without_names():
    first, second = a_weight(), a_weight()
    opt = psgd.torch.PSGD([first], 0.1)
    opt.add_param_group({"params": [("second", second)], "group": {"sec*": "tri"}})
    assert opt.preconditioner(second).spec == "tri"
    twin = psgd.torch.PSGD([{"params": [first]}, {"params": [("second", second)], "group": {"sec*": "tri"}}], 0.1)
    twin.load_state_dict(opt.state_dict())
    assert [group["param_names"] for group in twin.param_groups] == [[""], ["second"]]


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="torch.compile came with PyTorch 2")
@pytest.mark.parametrize("donated", [False, True])
def test_newton_through_a_compiled_model_takes_differences(donated):
    import torch._functorch.config as config

    old, config.donated_buffer = getattr(config, "donated_buffer", False), donated
    try:
        torch._dynamo.reset()
        x, y = torch.randn(32, 4, dtype=torch.float64), torch.randn(32, 2, dtype=torch.float64)
        ends = []
        for hv, compiled in (("difference", False), ("auto", True)):
            torch.manual_seed(1)
            net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()
            model = torch.compile(net, backend="aot_eager") if compiled else net
            opt = psgd.torch.PSGD(net, 0.05, criterion="newton", hv=hv)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                for _ in range(4):
                    opt.step(lambda: F.mse_loss(model(x), y))
            told = [str(each.message) for each in seen if "finite difference" in str(each.message)]
            assert len(told) == compiled and all("torch.compile" in sentence for sentence in told)
            ends.append(torch.cat([p.detach().reshape(-1) for p in net.parameters()]))
        assert torch.allclose(*ends, rtol=1e-4, atol=1e-5)
        opt = psgd.torch.PSGD(net, 0.05, criterion="newton", hv="exact")
        with pytest.raises((psgd.UnsupportedError, RuntimeError), match="compile|differences"):
            opt.step(lambda: F.mse_loss(model(x), y))
    finally:
        config.donated_buffer = old
