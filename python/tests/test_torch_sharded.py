"""FSDP2 on 2 and 4 processes equals one process to rounding, whatever the mesh, also after a checkpoint."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
try:
    from torch.distributed.fsdp import fully_shard  # noqa: F401
except Exception:  # Debian's PyTorch 1.13 cannot even import it on Python 3.11
    pytest.skip("fully_shard came with PyTorch 2.6", allow_module_level=True)

from sharded import CASES  # noqa: E402


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    here, made = Path(__file__).resolve(), {}
    environment = dict(os.environ, PYTHONPATH=str(here.parents[1]), GLOO_SOCKET_IFNAME="lo")
    for world in (1, 2, 4):
        folder = tmp_path_factory.mktemp(f"sharded{world}")
        command = [sys.executable, str(here.with_name("sharded.py")), str(folder)]
        running = [subprocess.Popen([*command, str(rank), str(world)], env=environment) for rank in range(world)]
        assert [process.wait(timeout=600) for process in running] == [0] * world
        made[world] = [torch.load(folder / f"{rank}.pt") for rank in range(world)]
    return made


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("case", [name + after for name in CASES for after in ("", ", resumed")])
def test_shards_move_as_the_whole(runs, case, world):
    for each in runs[world]:
        assert torch.allclose(each[case], runs[1][0][case], rtol=1e-10, atol=1e-12)
        assert torch.equal(each[case], runs[world][0][case])
