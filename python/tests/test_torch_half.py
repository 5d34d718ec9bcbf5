"""bfloat16 and float16 parameters: float32 state, and steps that stochastic rounding does not lose."""
import copy

import pytest

import psgd

torch = pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
import psgd.torch  # noqa: E402
from psgd.native.rounding import round_stochastically  # noqa: E402

HALVES = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("half", HALVES)
def test_rounding_goes_to_a_neighbour_and_is_right_in_the_mean(half):
    torch.manual_seed(0)
    x = torch.cat([torch.randn(500), torch.randn(500) * 1e-6, torch.randn(500) * 1e3, torch.tensor([0.0, 1.0, -2.0])])
    nearest = x.to(half).float()
    tiny = 2.0**-24 if half == torch.float16 else 0.0
    gap = torch.maximum(torch.finfo(half).eps * x.abs(), torch.full_like(x, tiny))
    drawn = [round_stochastically(x, half, 1, 2, step).float() for step in range(400)]
    assert all(((each - x).abs() <= gap).all() for each in drawn)
    assert all(torch.equal(each[nearest == x], x[nearest == x]) for each in drawn)  # what fits stays
    mean = torch.stack(drawn).mean(0)
    assert ((mean - x).abs() <= gap * 0.5 * 5 / 400**0.5).all()  # five standard deviations
    again = round_stochastically(x, half, 1, 2, 7)
    assert torch.equal(again.float(), drawn[7]) and not torch.equal(again.float(), drawn[8])


@pytest.mark.parametrize("half", HALVES)
def test_rounding_does_not_overflow(half):
    most = torch.finfo(half).max
    assert torch.isfinite(round_stochastically(torch.full((100,), most), half, 0, 0, 0)).all()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("backend", ["c", "native"])
def test_small_steps_are_not_lost(half, backend):
    """500 steps of 4e-5 from 1, where the spacing of bfloat16 is 2^-8."""
    weight = torch.nn.Parameter(torch.ones(512, dtype=half))
    plain = dict(momentum=0, clip_relative=0, clip_rms=0, warmup=0)
    opt = psgd.torch.PSGD([weight], 4e-5, group="identity", criterion="fisher", backend=backend, **plain)
    for _ in range(500):
        weight.grad = torch.ones(512, dtype=half)
        opt.step()
    assert abs(float(weight.float().mean()) - 0.98) < 0.002 and weight.dtype == half


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
def test_native_and_core_round_alike(criterion):
    """The same bits but where a last place of float32 decides."""
    ends = []
    for backend in ("c", "native"):
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(20, 30).bfloat16())
        opt = psgd.torch.PSGD([weight], 0.01, group="kron(diag,diag)", criterion=criterion, backend=backend)
        for _ in range(5):
            opt.step(lambda: (weight.float() ** 4).sum())
        ends.append(weight.detach().float())
    assert (ends[0] != ends[1]).float().mean() < 0.02
    assert torch.allclose(*ends, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("half", HALVES)
def test_training_in_half_precision_is_near_that_in_float32(half):
    torch.manual_seed(0)
    x = torch.randn(256, 2)
    y = x[:, :1] * x[:, 1:]
    start = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    losses = {}
    for dtype in (torch.float32, half):
        net = copy.deepcopy(start).to(dtype)
        opt = psgd.torch.PSGD(net, 0.05, criterion="fisher", precond_step=0.1, fold_bias=True, clip=1.0, momentum=0.9)
        for _ in range(200):
            opt.zero_grad()
            loss = torch.nn.functional.mse_loss(torch.nn.functional.linear(
                torch.tanh(torch.nn.functional.linear(x, net[0].weight.float(), net[0].bias.float())),
                net[2].weight.float(), net[2].bias.float()), y)  # fmt: skip
            loss.backward()
            opt.step()
        losses[dtype] = float(loss)
        assert opt.preconditioner(net[0].weight).dtype == "float32"
    assert losses[half] < max(2 * losses[torch.float32], 0.05)


def test_state_of_half_precision_resumes_bit_for_bit():
    for backend in ("c", "native"):
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(4, 5).bfloat16())
        options = dict(criterion="fisher", momentum=0.9, group="scaw", backend=backend)
        opt = psgd.torch.PSGD([weight], 0.01, **options)
        for _ in range(3):
            opt.step(lambda: (weight.float() ** 2).sum())
        other = torch.nn.Parameter(weight.detach().clone())
        twin = psgd.torch.PSGD([other], 0.01, **options)
        twin.load_state_dict(opt.state_dict())
        opt.step(lambda: (weight.float() ** 2).sum())
        twin.step(lambda: (other.float() ** 2).sum())
        assert torch.equal(weight, other)
