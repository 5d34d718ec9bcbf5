"""backend="offload": the C core fits on the CPU, with a delay, while torch ops move the parameters where they are. The
device here is the CPU itself; streams are simulated."""
import copy
import gc
import os
import struct
import threading
import time
import zlib
from contextlib import contextmanager

import numpy as np
import pytest

import psgd

torch = pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
import psgd.torch  # noqa: E402
from psgd._lib import check, lib  # noqa: E402
from psgd.native import link as link_module  # noqa: E402
from psgd.native import offload  # noqa: E402
from psgd.native.link import Arrival, Link, StreamLink  # noqa: E402
from psgd.native.offload_worker import HostFit, Worker  # noqa: E402
from test_torch_native import SPECS, a_fit, one_thread, small_net, train  # noqa: E402, F401

CPU = torch.device("cpu")


@pytest.mark.parametrize("spec, shape", SPECS)
def test_the_elements_of_the_core_are_those_of_the_native_groups(spec, shape):
    rng, n = np.random.default_rng(len(spec)), int(np.prod(shape))
    core, native = psgd.Preconditioner(spec, shape, "float64", step=0.1), a_fit(spec, shape)
    for _ in range(5):
        v = rng.standard_normal(n)
        core.update(v.reshape(shape), (rng.uniform(0.3, 3, n) * v + v[::-1]).reshape(shape))
    elements = torch.empty(lib.psgd_precond_element_count(core._own()), dtype=torch.float64)
    check(lib.psgd_precond_elements(core._own(), elements.data_ptr()))
    native.take(elements)
    g = rng.standard_normal(shape)
    for what in ("P", "Q", "QT"):
        want, got = core.apply(g, what=what), native.apply(torch.from_numpy(g), what.lower()).numpy()
        assert np.abs(want - got).max() <= 1e-13 * np.abs(want).max(), what


def optimizer(net, backend="offload", **options):
    given = dict(precond_step=0.1, delay=3, update_every=1, update_anneal=0)
    given.update(options)
    return psgd.torch.PSGD(net, 0.02, backend=backend, **given)


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
@pytest.mark.parametrize("options", [
    dict(group="diag"), dict(group="scan", delay=1), dict(group="scaw"), dict(group="kron(dense,dense)"),
    dict(group="kron(tri,tri)"), dict(group="kron(dense,dense)", rule="pro", delay=5), dict(group="scaw", delay=0),
    dict(momentum=0.9, whiten="momentum", clip_rms=0.1), dict(update_every=None, delay=7), dict(l2=0.1, clip_gradient=0.1),
    dict(update_every=3, delay=4, fold_bias=True), dict(init="first", norm="second", group="scan"),
    dict(precond_step_schedule="step", precond_step_every=4, seed=5), dict(update_anneal=5, update_floor=0.3),
])  # fmt: skip
def test_steps_are_those_of_the_core_with_the_same_delay(criterion, options):
    ends, opts = [], []
    for backend in ("c", "offload"):
        net = small_net()
        opts.append(optimizer(net, backend, criterion=criterion, **options))
        ends.append(train(opts[-1], net, 24))
        opts[-1].params = list(net.parameters())
    moved = (ends[0] - train(None, small_net(), 0)).abs().max()
    assert (ends[0] - ends[1]).abs().max() <= 1e-12 * moved
    for a, b in zip(opts[0].params, opts[1].params):
        views = [opt.preconditioner(p) for opt, p in zip(opts, (a, b))]
        assert views[0].updates == views[1].updates and np.allclose(views[0].Q, views[1].Q, rtol=1e-10, atol=1e-12)


def test_half_precision():
    weight = torch.nn.Parameter(torch.ones(4, 3, dtype=torch.bfloat16))
    opt = optimizer([weight])
    for _ in range(6):
        opt.step(lambda: (weight.float() ** 2).sum())
    assert weight.detach().float().norm() < 3.4 and opt.preconditioner(weight).updates == 3


def test_a_fit_has_the_bits_of_the_core_and_comes_into_force_when_it_is_due():
    weight = torch.nn.Parameter(torch.zeros(4, 3, dtype=torch.float64))
    fit = dict(criterion="fisher", damping=0.1, norm="second", rule="eq", init="scale", init_scale=0.5)
    opt = optimizer([weight], group="kron(tri,dense)", delay=2, seed=7, momentum=0.0, **fit)
    core = psgd.Preconditioner("kron(tri,dense)", (4, 3), "float64", step=0.1, **fit)
    rng, seen = np.random.default_rng(0), {}
    for step in range(9):
        g = rng.standard_normal((4, 3))
        weight.grad = torch.from_numpy(g.copy())
        core.update(psgd.normal((4, 3), "float64", seed=7, tensor=0, step=step), g)
        seen[step + 1] = core.factors
        opt.step()
        weight.grad.zero_()
        view = opt.preconditioner(weight)
        assert view.updates == max(1, step - 1)  # that of the first pair, then of the pair two steps before
        made = [part.state[0].numpy() for part in view.fit.root.parts]
        assert all(np.array_equal(a, b) for a, b in zip(made, seen[view.updates]))


@contextmanager
def fits(monkeypatch, before):
    """Calls before(count of the fit) on the worker's thread, when those of other tests have ended."""
    own, counts = HostFit.fit, iter(range(10**6))
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "psgd-offload":
            thread.join(30)

    def fit(self, *rest):
        before(next(counts))
        return own(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(HostFit, "fit", fit)
        yield


def test_timing_changes_no_bits(monkeypatch):
    ends = []
    for pause in (0, 0.002):
        net = small_net()
        with fits(monkeypatch, lambda count: time.sleep(pause * (count % 3))):
            ends.append(train(optimizer(net, criterion="newton"), net, 12))
    assert torch.equal(*ends)


def test_the_caller_waits_only_for_what_is_due(monkeypatch):
    weight = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    go = threading.Event()
    with fits(monkeypatch, lambda count: count == 0 or go.wait(30)):
        opt = optimizer([weight], delay=3)
        for _ in range(4):  # steps 1 to 3 have pairs in flight; what step 1 sent is due at step 4
            opt.step(lambda: (weight**2).sum())
        assert opt.preconditioner(weight).updates == 1 and len(opt._lists[0].flying) == 3
        waiting = threading.Thread(target=lambda: opt.step(lambda: (weight**2).sum()))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        go.set()
        waiting.join(30)
        assert not waiting.is_alive() and opt.preconditioner(weight).updates == 2


def test_delay_free_takes_what_is_there():
    weight = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    opt = optimizer([weight], delay=50, delay_free=True)
    for step in range(5):
        opt.step(lambda: (weight**2).sum())
        for request in opt._lists[0].flying:
            request.done.wait()
        assert opt.preconditioner(weight).updates == max(1, step)


def test_what_goes_wrong_on_the_worker_reaches_the_caller(monkeypatch):
    def fail(count):
        if count == 2:
            raise MemoryError("no room on the worker")

    weight = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    with fits(monkeypatch, fail):
        opt = optimizer([weight], delay=3)
        for step in range(5):  # the pair of step 2 is the third; it is due at step 5
            opt.step(lambda: (weight**2).sum())
        before = weight.detach().clone()
        with pytest.raises(MemoryError, match="no room"):
            opt.step(lambda: (weight**2).sum())
        assert torch.equal(weight.detach(), before)
        opt.step(lambda: (weight**2).sum())
        assert not torch.equal(weight.detach(), before)


def test_what_goes_wrong_with_a_first_pair_leaves_the_moments(monkeypatch):
    def fail(count):
        if count == 0:
            raise MemoryError("no room on the worker")

    net, twin = small_net(), small_net()
    with fits(monkeypatch, fail):
        opt = optimizer(net, criterion="fisher", momentum=0.9)
        with pytest.raises(MemoryError, match="no room"):
            train(opt, net, 1)
    assert not opt._lists[0].averages and not opt._lists[0].flying
    assert torch.equal(train(opt, net, 6), train(optimizer(twin, criterion="fisher", momentum=0.9), twin, 6))


def test_what_goes_wrong_on_one_worker_moves_the_tensors_of_none(monkeypatch):
    one, two = (torch.nn.Parameter(torch.ones(5, dtype=dtype)) for dtype in (torch.float32, torch.float64))
    opt = optimizer([one, two], delay=1)

    def step():
        opt.step(lambda: (one**2).sum() + (two**2).sum())

    step()
    step()
    assert len(opt._lists) == 2
    (request,) = opt._lists[1].flying
    request.done.wait()
    request.error = MemoryError("no room on the worker")
    before = one.detach().clone(), two.detach().clone()
    with pytest.raises(MemoryError, match="no room"):
        step()
    assert torch.equal(one.detach(), before[0]) and torch.equal(two.detach(), before[1])
    step()
    assert not torch.equal(one.detach(), before[0]) and not torch.equal(two.detach(), before[1])


@pytest.mark.parametrize("steps", [0, 2])
def test_an_interrupt_while_the_caller_waits_loses_no_fit(monkeypatch, steps):
    def interrupted(worker, request):
        raise KeyboardInterrupt

    weight = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    opt = optimizer([weight], delay=1)
    for _ in range(steps):
        opt.step(lambda: (weight**2).sum())
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Worker, "wait", interrupted)
        opt.step(lambda: (weight**2).sum())
    assert len(opt._lists[0].flying) == 1 and opt.preconditioner(weight).updates == (1 if steps else 0)
    opt._lists[0]._publish()
    assert not opt._lists[0].flying and opt.preconditioner(weight).updates == (2 if steps else 1)


def test_a_thread_that_cannot_start_is_an_error_and_tried_again(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    weight = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    opt = optimizer([weight])
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="new thread"):
        patch.setattr(threading.Thread, "start", refuse)
        opt.step(lambda: (weight**2).sum())
    assert torch.equal(weight.detach(), torch.ones(5, dtype=torch.float64))
    opt.step(lambda: (weight**2).sum())
    assert opt.preconditioner(weight).updates == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_the_child_of_a_fork_refuses_and_does_not_wait(monkeypatch):
    weight, go = torch.nn.Parameter(torch.ones(5, dtype=torch.float64)), threading.Event()
    with fits(monkeypatch, lambda count: count == 0 or go.wait(30)):
        opt = optimizer([weight], delay=1)
        for _ in range(2):
            opt.step(lambda: (weight**2).sum())
        child = os.fork()
        if child == 0:
            weight.grad = torch.ones_like(weight)
            refused = 0
            for call in (opt.step, opt.state_dict):
                try:
                    call()
                except psgd.UnsupportedError as why:
                    refused += "fork" in str(why)
            os._exit(refused)
        go.set()
        for _ in range(300):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.1)
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert done and os.WEXITSTATUS(status) == 2


def test_memory_of_pairs_is_used_again():
    weight = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    opt = optimizer([weight], delay=1, criterion="newton", hv="exact")
    rooms = opt._lists[0].host
    for step in range(12):
        opt.step(lambda: (weight**2).sum() * (float("nan") if step % 2 else 1))
    for request in opt._lists[0].flying:
        request.done.wait()
    assert 2 <= len(rooms._free[5, torch.float64]) <= 4  # v and h of a step, finite or not


def test_the_delay_stays():
    weight = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    opt = optimizer([weight], delay=2)
    for _ in range(3):
        opt.step(lambda: (weight**2).sum())
    for other in (0, 5):
        opt.param_groups[0]["delay"] = other
        with pytest.raises(psgd.UnsupportedError, match="delay"):
            opt.step(lambda: (weight**2).sum())
        assert opt._lists[0].delay == 2
    opt.param_groups[0]["delay"] = 2
    opt.step(lambda: (weight**2).sum())
    assert opt.preconditioner(weight).updates == 2


def test_memory_of_the_host_is_there_whatever_the_default_device_is():
    if not hasattr(torch, "set_default_device"):
        pytest.skip("this PyTorch has no default device")
    with torch.device("meta"):
        assert Link(CPU).room(3, torch.float32).device == CPU


@pytest.mark.parametrize("probe", ["normal", "preconditioned", "mixed"])
@pytest.mark.parametrize("criterion", ["fisher", "newton"])
@pytest.mark.parametrize("spoil", [0, 4])
def test_a_step_that_is_not_finite_is_fitted_by_nobody(criterion, spoil, probe):
    ends, counts = [], []
    for backend in ("c", "offload"):
        net = small_net()
        opt = optimizer(net, backend, criterion=criterion, probe=probe, momentum=0.0)
        ends.append(train(opt, net, 12, spoil=spoil))
        counts.append([opt.preconditioner(p).updates for p in net.parameters()])
        assert opt.skipped == 1
    assert torch.allclose(*ends, rtol=1e-10, atol=1e-12) and counts[0] == counts[1]


def test_a_step_that_is_not_finite_in_one_tensor_is_fitted_for_none():
    ends = []
    for backend in ("c", "offload"):
        one, two = (torch.nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in range(2))
        opt = optimizer([one, two], backend, criterion="fisher", momentum=0.0)
        for step in range(8):
            opt.step(lambda: (one**2).sum() + (two**2).sum() * (float("nan") if step == 3 else 1))
        ends.append((opt.preconditioner(one).updates, torch.cat([one, two]).detach()))
    assert ends[0][0] == ends[1][0] == 4 and torch.allclose(ends[0][1], ends[1][1], rtol=1e-12)


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
def test_it_resumes_bit_for_bit_with_pairs_in_flight(criterion):
    net = small_net()
    options = dict(criterion=criterion, momentum=0.9, norm="second")
    opt = optimizer(net, **options)
    train(opt, net, 6)
    assert len(opt._lists[0].flying) == 3
    twin_net = copy.deepcopy(net)
    twin = optimizer(twin_net, **options)
    twin.load_state_dict(copy.deepcopy(opt.state_dict()))
    assert len(twin._lists[0].flying) == 3
    assert torch.equal(train(opt, net, 6), train(twin, twin_net, 6))
    fresh = small_net()
    begun = optimizer(fresh, **options)
    begun.load_state_dict(optimizer(small_net(), **options).state_dict())  # before the first step
    assert torch.equal(train(begun, fresh, 4), train(optimizer(other := small_net(), **options), other, 4))


def test_damaged_states_are_refused_and_change_nothing():
    weight = torch.nn.Parameter(torch.ones(2, 2, dtype=torch.float64))
    opt = optimizer([weight], momentum=0.9, group="kron(tri,diag)", delay=2)
    for _ in range(4):
        opt.step(lambda: (weight**2).sum())
    assert len(opt._lists[0].flying) == 2
    good = copy.deepcopy(opt.state_dict())
    last = max(good["state"])
    whole = bytes(good["state"][last]["offload"].tolist())
    bad = [whole[:-9], whole[:9] + b"\x07" + whole[10:], b"", whole + bytes(8)]
    for at in range(8, len(whole) - 8, 8):  # with a right checksum: sizes, codes, counters and values
        for evil in (-1, 2**62, 0x7FF8000000000000):
            body = whole[:at] + struct.pack("<q", evil) + whole[at + 8 : -8]
            bad.append(body + struct.pack("<q", zlib.crc32(body)))
    refused = 0
    for chars in bad:
        state = copy.deepcopy(good)
        state["state"][last]["offload"] = torch.tensor(list(chars), dtype=torch.uint8)
        try:
            opt.load_state_dict(state)
        except psgd.FormatError as why:
            refused += 1
            assert "offload" in str(why)
            now = opt.state_dict()["state"]
            assert all(torch.equal(now[i]["offload"], good["state"][i]["offload"]) for i in now)
            continue
        opt.load_state_dict(good)
    assert refused > len(bad) // 3


class Device:
    """A stand-in for torch.cuda on a machine without one: what a stream is given runs when somebody waits for it."""

    class Stream:
        def __init__(self, device=None):
            self.waiting, self.lock = [], threading.Lock()

        def run(self, upto=10**6):
            with self.lock:
                for do in self.waiting[:upto]:
                    do()
                    self.waiting.pop(0)

        def wait_stream(self, other):
            other.run()

        def wait_event(self, event):
            event.synchronize()

    class Event:
        def record(self, stream):
            self.stream, self.reached = stream, threading.Event()
            stream.waiting.append(self.reached.set)

        def synchronize(self):
            while not self.reached.is_set():
                self.stream.run(1)

    def __init__(self):
        self.main, self.local = self.Stream(), threading.local()

    def current_stream(self, device=None):
        return getattr(self.local, "stream", self.main)

    @contextmanager
    def stream(self, stream):
        self.local.stream = stream
        yield
        del self.local.stream


class SimulatedLink(StreamLink):
    """Memory holds NaN until a copy has run, and a copy reads its source when it runs."""

    def __init__(self, device, forget=""):
        super().__init__(device, Device())
        self.forget, self.lent = forget, 0

    def room(self, count, dtype):
        return torch.ones(count, dtype=dtype) if dtype is torch.bool else torch.full((count,), float("nan"), dtype=dtype)

    def empty_like(self, x):
        return torch.full_like(x, float("nan"))

    def copy(self, to, x):
        self.module.current_stream().waiting.append(lambda: to.copy_(x))

    def wait(self, mark):
        if self.forget != "wait":
            super().wait(mark)

    def use(self, arrival):
        return arrival.data if self.forget == "use" else super().use(arrival)

    def lend(self, made, stream):
        self.lent += 1


def run_through(link, monkeypatch):
    """A program that overwrites its gradients after each step."""
    with monkeypatch.context() as patch:
        if link is not None:
            patch.setattr(offload, "link_to", lambda device: link)
        weight = torch.nn.Parameter(torch.ones(6, 4, dtype=torch.float64))
        weight.grad = torch.empty_like(weight)
        opt = optimizer([weight], group="kron(tri,dense)", criterion="fisher", momentum=0.0)
        rng = np.random.default_rng(2)
        for _ in range(12):
            weight.grad.copy_(torch.from_numpy(rng.standard_normal((6, 4))))
            opt.step()
            weight.grad.fill_(1e9)
        return weight.detach(), opt


def test_streams_change_no_bits(monkeypatch):
    link = SimulatedLink(CPU)
    plain, streamed = run_through(None, monkeypatch)[0], run_through(link, monkeypatch)[0]
    assert torch.equal(plain, streamed) and link.lent > 0


def test_a_state_is_on_the_device_when_it_is_loaded(monkeypatch):
    weight, opt = run_through(SimulatedLink(CPU), monkeypatch)
    link = SimulatedLink(CPU)
    monkeypatch.setattr(offload, "link_to", lambda device: link)
    opt.load_state_dict(opt.state_dict())
    assert len(opt._lists[0].flying) == 3 and not link.up.waiting


@pytest.mark.parametrize("count", [0, 1, 7, 8, 20])
def test_copies_are_made_in_chunks(monkeypatch, count):
    monkeypatch.setattr(link_module, "CHUNK", 7)
    to, x = torch.zeros(count), torch.arange(float(count)) + 1
    StreamLink.copy(SimulatedLink(CPU), to, x)
    assert torch.equal(to, x)


@pytest.mark.parametrize("forget", ["wait", "use"])
def test_the_simulation_sees_a_wait_that_is_missing(monkeypatch, forget):
    plain = run_through(None, monkeypatch)[0]
    made, opt = run_through(SimulatedLink(CPU, forget), monkeypatch)
    assert not torch.equal(plain, made) or opt.skipped > 0


def test_the_thread_ends_with_the_optimizer():
    before = set(threading.enumerate())
    weight = torch.nn.Parameter(torch.ones(5))
    opt = optimizer([weight])
    assert not set(threading.enumerate()) - before  # it starts with the first pair
    opt.step(lambda: (weight**2).sum())
    (own,) = set(threading.enumerate()) - before
    del opt
    gc.collect()
    own.join(10)
    assert not own.is_alive()


def test_refused():
    weight = torch.nn.Parameter(torch.ones(3, 4))
    with pytest.raises(psgd.UnsupportedError, match="offload"):
        optimizer([weight], "native")
    for wrong in (dict(joint=True), dict(integrate=True), dict(method="adam")):
        with pytest.raises(psgd.UnsupportedError):
            optimizer([weight], **wrong)


@pytest.mark.parametrize("criterion", ["fisher", "newton"])
@pytest.mark.parametrize("group", ["kron(tri,tri)", "kron(dense,dense)", "scan", "diag", "block(tri:2,diag)"])
def test_nothing_but_pairs_and_q_leaves_the_device(criterion, group, monkeypatch):
    """Fake CUDA parameters, the real worker and the real C core; only the copies between them are made up."""
    fake = pytest.importorskip("torch._subclasses.fake_tensor", reason="this PyTorch has no FakeTensorMode")
    if not hasattr(torch, "compile"):
        pytest.skip("FakeTensorMode of PyTorch 1 makes no CUDA tensors without CUDA")

    moved = []

    class FakeLink(Link):
        def room(self, count, dtype):
            with fake.unset_fake_temporarily():
                return torch.ones(count, dtype=dtype)

        def to_host(self, copies):
            for to, x in copies:
                assert x.device.type == "cuda" and x.numel() == to.numel()
                moved.append(x.numel())

        def to_device(self, x):
            return Arrival(x.numel(), None)

        def use(self, arrival):
            return torch.empty(arrival.data, dtype=torch.float32, device=self.device)

    monkeypatch.setattr(offload, "link_to", FakeLink)
    shape = (5,) if "block" in group else (6, 5)
    with fake.FakeTensorMode(allow_non_fake_inputs=False):
        weight = torch.nn.Parameter(torch.empty(shape, device="cuda"))
        opt = optimizer([weight], None, criterion=criterion, group=group, delay=2)  # a delay on a device: offload
        opt._products.evaluate = lambda closure, params, hv, directions: (
            None, [{id(p): torch.empty_like(p) for p in of} for of, _ in directions()]
        )  # fmt: skip  autograd itself wants a CUDA driver
        for _ in range(5):
            weight.grad = torch.empty_like(weight)
            opt.step()
        assert opt.preconditioner(weight).updates == 3
        assert opt.preconditioner(weight).fit.Q().device.type == "cuda"
        pair = weight.numel() * (2 if criterion == "newton" else 1)
        assert sum(moved) == 5 * (pair + 1)  # and a flag
