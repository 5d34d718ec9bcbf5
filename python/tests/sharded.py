"""What test_torch_sharded.py runs in every process: sharded.py FOLDER RANK WORLD."""
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

import psgd
import psgd.torch

F = torch.nn.functional
BATCH = 16


def make_net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()


def share(rank, world, step):
    torch.manual_seed(100 + step)
    x, y = torch.randn(BATCH, 6, dtype=torch.float64), torch.randn(BATCH, 3, dtype=torch.float64)
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
    "default": dict(OPTIONS), "kron": dict(OPTIONS, group={"*.weight": "kron(tri,tri)"}),
    "scan": dict(OPTIONS, group={"*.weight": "scan"}), "folded": dict(OPTIONS, fold_bias=True, clip=0.1),
    "native": dict(OPTIONS, backend="native"),
}  # fmt: skip


def main(folder, rank, world):
    torch.set_num_threads(1)
    psgd.set_threads(1)
    made = {}
    mesh = None
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
        mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
    for name, options in CASES.items():
        net = make_net()
        net = shard(net, mesh) if mesh is not None else net
        opt = psgd.torch.PSGD(net, 0.05, **options)
        run(net, opt, rank, world, range(4))
        made[name] = values(net)
        if mesh is not None:
            path = Path(folder) / f"checkpoint-{name}"
            dcp.save({"optim": get_optimizer_state_dict(net, opt)}, checkpoint_id=path)
            twin = psgd.torch.PSGD(net, 0.05, **options)
            empty = {"optim": get_optimizer_state_dict(net, opt)}
            for entry in empty["optim"]["state"].values():
                for tensor in entry.values():
                    tensor.zero_()
            dcp.load(empty, checkpoint_id=path)
            set_optimizer_state_dict(net, twin, empty["optim"])
            opt = twin
        run(net, opt, rank, world, range(4, 6))
        made[name + ", resumed"] = values(net)
    torch.save(made, Path(folder) / f"{rank}.pt")
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)  # torch's own threads do not always outlive the end of the interpreter
