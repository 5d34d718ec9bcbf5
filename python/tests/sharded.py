"""What test_torch_sharded.py runs in every process: sharded.py FOLDER RANK WORLD [ANOTHER FOLDER]. With another folder the
runs of that one are resumed from their checkpoints."""
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import psgd
import psgd.torch

F = torch.nn.functional
BATCH = 16


def make_net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 7)).double()


def share(rank, world, step):
    torch.manual_seed(100 + step)
    x, y = torch.randn(BATCH, 6, dtype=torch.float64), torch.randn(BATCH, 7, dtype=torch.float64)
    return x[rank::world], y[rank::world]


def shard(net, mesh):
    from torch.distributed.fsdp import fully_shard

    for layer in (net[0], net[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def run(net, opt, rank, world, steps):
    for step in steps:
        x, y = share(rank, world, step)
        opt.zero_grad()
        F.mse_loss(net(x), y).backward()
        opt.step()


def values(net):
    full = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in net.parameters()]
    return torch.cat([p.detach().reshape(-1) for p in full])


OPTIONS = dict(precond_step=0.1, criterion="fisher", momentum=0.9)
CASES = {
    "default": dict(OPTIONS),
    "owners": dict(OPTIONS, group={"*.weight": "kron(tri,tri)", "*": "tri"}, l2=0.01),
    "scan": dict(OPTIONS, group={"*.weight": "scan"}, clip_rms=0.1, weight_decay=0.1),
    "scaw": dict(OPTIONS, group={"*.weight": "scaw"}, fold_bias=True, clip=0.1),
    "second": dict(OPTIONS, group={"*.weight": "kron(diag,bnorm)"}, norm="second", momentum=0, clip_gradient=0.1),
    "pro": dict(OPTIONS, group={"*.weight": "kron(diag,dense)", "*": "diag"}, rule="pro"),
    "qep": dict(OPTIONS, group={"*.weight": "kron(diag,xmat)", "*": "diag"}, rule="qep", clip_element=0.1),
    "identity": dict(OPTIONS, group={"*.weight": "kron(identity,tril)"}, init_scale=0.5, update_every=2),
    "max": dict(OPTIONS, group="diag", norm="max"),
    "gathered": dict(OPTIONS, backend="c"),
}  # fmt: skip


def half(mesh):
    """A bfloat16 parameter whose rows are spread, and one that is whole."""
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.manual_seed(1)
    start, gradients = torch.randn(9, 10).bfloat16(), torch.randn(5, 9, 10).bfloat16()
    spread = (lambda x: distribute_tensor(x, mesh, [Shard(0)])) if mesh is not None else (lambda x: x)
    weight = torch.nn.Parameter(spread(start))
    backend = {} if mesh is not None else {"backend": "native"}
    opt = psgd.torch.PSGD([weight], 0.01, group="kron(diag,diag)", criterion="fisher", precond_step=0.1, **backend)
    for g in gradients:
        weight.grad = spread(g)
        opt.step()
    return (weight.full_tensor() if mesh is not None else weight).detach().float()


def reduced(mesh, spec):
    """How many numbers a step all-reduces for a weight of 40 rows of 30."""
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.manual_seed(2)
    weight = torch.nn.Parameter(distribute_tensor(torch.randn(40, 30), mesh, [Shard(0)]))
    opt = psgd.torch.PSGD([weight], 0.01, group=spec, criterion="fisher")
    weight.grad = distribute_tensor(torch.randn(40, 30), mesh, [Shard(0)])
    counts, plain = [], dist.all_reduce

    def counted(x, *args, **options):
        counts.append(x.numel())
        return plain(x, *args, **options)

    dist.all_reduce = counted
    try:
        opt.step()
    finally:
        dist.all_reduce = plain
    return sum(counts)


def go(name, options, folder, rank, world, mesh, source):
    """The parameters after four steps and, through a checkpoint, after six."""
    made, net = {}, make_net()
    net = shard(net, mesh) if mesh is not None else net
    opt = psgd.torch.PSGD(net, 0.05, **options)
    if mesh is None:
        run(net, opt, rank, world, range(4))
        made[name] = values(net)
        run(net, opt, rank, world, range(4, 6))
        return {**made, name + ", resumed": values(net)}
    if source is None:
        run(net, opt, rank, world, range(4))
        made[name] = values(net)
        made[name + ", held"] = sum(len(each.fits) for each in opt._lists if each.native)
        opt.zero_grad()
        model, optim = get_state_dict(net, opt)
        dcp.save({"model": model, "optim": optim}, checkpoint_id=Path(folder) / f"checkpoint-{name}")
        net = shard(make_net(), mesh)
        opt = psgd.torch.PSGD(net, 0.05, **options)
    model, optim = get_state_dict(net, opt)
    saved = {"model": model, "optim": optim}
    dcp.load(saved, checkpoint_id=Path(source or folder) / f"checkpoint-{name}")
    set_state_dict(net, opt, model_state_dict=saved["model"], optim_state_dict=saved["optim"])
    run(net, opt, rank, world, range(4, 6))
    return {**made, name + ", resumed": values(net)}


def main(folder, rank, world, source=None):
    torch.set_num_threads(1)
    psgd.set_threads(1)
    made, mesh = {}, None
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
        mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
    for name, options in CASES.items():
        made.update(go(name, options, folder, rank, world, mesh, source))
    if source is None:
        made["half"] = half(mesh)
        if mesh is not None:
            made["reduced"] = {spec: reduced(mesh, spec) for spec in ("scan", "scaw")}
        if world == 4:  # two copies of two shards each
            two = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))
            made.update({f"copies, {k}": v for k, v in go("scaw", CASES["scaw"], f"{folder}/2", rank, world, two, None).items()})
    torch.save(made, Path(folder) / f"{rank}.pt")
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
    sys.stdout.flush()
    os._exit(0)  # torch's own threads do not always outlive the end of the interpreter
