"""What test_torch_replicas.py runs in every process: replicas.py FOLDER RANK WORLD. Each case leaves its parameters."""
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import psgd
import psgd.torch

F = torch.nn.functional
STEPS, BATCH = 4, 16


def make_net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()


def share(rank, world, step):
    torch.manual_seed(100 + step)
    x, y = torch.randn(BATCH, 6, dtype=torch.float64), torch.randn(BATCH, 3, dtype=torch.float64)
    return x[rank::world], y[rank::world]


def train(rank, world, wrap=False, style="loss", steps=STEPS, spoil=None, **options):
    net = make_net()
    model = DistributedDataParallel(net) if wrap and world > 1 else net
    opt = psgd.torch.PSGD(net, 0.05, precond_step=0.1, group={"*.weight": "kron(tri,tri)"}, **options)
    for step in range(steps):
        x, y = share(rank, world, step)

        def closure():
            loss = F.mse_loss(model(x), y)
            if spoil == (rank, step):
                loss = loss * float("nan")
            if style == "backward":
                opt.zero_grad()
                loss.backward()
            return loss

        if style == "plain":
            opt.zero_grad()
            closure().backward(create_graph=options.get("criterion") == "newton")
            opt.step()
        else:
            opt.step(closure)
    skipped = torch.tensor([opt.skipped], dtype=torch.float64)
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()] + [skipped])


def sparse(rank, world):
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(20, 3, sparse=True, dtype=torch.float64)
    opt = psgd.torch.PSGD(embedding, 0.1, group="scaw", criterion="fisher", momentum=0)
    for step in range(STEPS):
        ids = torch.arange(12).roll(step)[rank::world]
        opt.zero_grad()
        (embedding(ids) ** 2).sum(1).mean().backward()
        opt.step()
    return embedding.weight.detach()


def unused(rank, world):
    """Every process uses a part of the parameters, and one is used by none."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(3, dtype=torch.float64)) for _ in range(world + 1)]
    opt = psgd.torch.PSGD(params, 0.1, group="diag", criterion="newton")
    for _ in range(STEPS):
        opt.step(lambda: (params[rank] ** 4).sum())
    return torch.cat([p.detach() for p in params])


def refused(rank, world):
    """The sentences about processes that are no replicas."""
    found = []
    for shape, scale in (((3 + rank,), 1), ((3,), 1 + rank)):
        weight = torch.nn.Parameter(torch.ones(shape) * scale)
        try:
            psgd.torch.PSGD([weight], 0.1).step(lambda: (weight**2).sum())
            found.append("")
        except psgd.UnsupportedError as why:
            found.append(str(why))
    return found


def compiled(rank, world):
    """Differences where torch.compile stands in the way, in every process."""
    net = make_net()
    model = torch.compile(net, backend="aot_eager")
    opt = psgd.torch.PSGD(net, 0.05, criterion="newton")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(STEPS):
            x, y = share(rank, world, step)
            opt.step(lambda: F.mse_loss(model(x), y))
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


CASES = {
    "newton": lambda r, w: train(r, w, criterion="newton"),
    "newton-ddp": lambda r, w: train(r, w, True, criterion="newton"),
    "newton-difference": lambda r, w: train(r, w, criterion="newton", hv="difference"),
    "newton-backward-ddp": lambda r, w: train(r, w, True, "backward", criterion="newton"),
    "newton-graph": lambda r, w: train(r, w, False, "plain", criterion="newton"),
    "fisher": lambda r, w: train(r, w, False, "plain", criterion="fisher"),
    "fisher-ddp": lambda r, w: train(r, w, True, "plain", criterion="fisher"),
    "fisher-loss-ddp": lambda r, w: train(r, w, True, criterion="fisher"),
    "spoilt": lambda r, w: train(r, w, criterion="newton", spoil=(w - 1, 1)),
    "apart": lambda r, w: train(r, w, criterion="newton", process_group=False),
    "sparse": sparse,
    "unused": unused,
}
if hasattr(torch, "compile"):
    CASES["compiled"] = compiled


def main(folder, rank, world):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    psgd.set_threads(1)
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    made = {name: case(rank, world) for name, case in CASES.items()}
    if world > 1:
        made["refused"] = refused(rank, world)
    torch.save(made, Path(folder) / f"{rank}.pt")
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
