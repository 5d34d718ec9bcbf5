"""FSDP2 on 2 and 4 processes equals one process to rounding, whatever the mesh, also after a checkpoint of another number."""
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


def start(folder, world, *source):
    here = Path(__file__).resolve()
    environment = dict(os.environ, PYTHONPATH=str(here.parents[1]), GLOO_SOCKET_IFNAME="lo")
    command = [sys.executable, str(here.with_name("sharded.py")), str(folder)]
    running = [
        subprocess.Popen([*command, str(rank), str(world), *map(str, source)], env=environment) for rank in range(world)
    ]
    assert [process.wait(timeout=900) for process in running] == [0] * world
    return [torch.load(folder / f"{rank}.pt") for rank in range(world)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {world: tmp_path_factory.mktemp(f"sharded{world}") for world in (1, 2, 4)}


@pytest.fixture(scope="module")
def runs(folders):
    return {world: start(folder, world) for world, folder in folders.items()}


@pytest.fixture(scope="module")
def elsewhere(runs, folders, tmp_path_factory):
    """The checkpoints of 2 processes resumed on 4 and those of 4 on 2."""
    made = {2: folders[4], 4: folders[2]}
    return {world: start(tmp_path_factory.mktemp(f"other{world}"), world, source) for world, source in made.items()}


def check(found, expected):
    for each in found:
        assert torch.allclose(each, expected, rtol=1e-9, atol=1e-11)
        assert torch.equal(each, found[0])


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("case", [name + after for name in CASES for after in ("", ", resumed")])
def test_shards_move_as_the_whole(runs, case, world):
    check([each[case] for each in runs[world]], runs[1][0][case])


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("case", list(CASES))
def test_a_checkpoint_resumes_on_another_number_of_processes(runs, elsewhere, case, world):
    check([each[case + ", resumed"] for each in elsewhere[world]], runs[1][0][case + ", resumed"])


def test_copies_of_shards_move_as_the_whole(runs):
    for case in ("scaw", "scaw, resumed"):
        check([each["copies, " + case] for each in runs[4]], runs[1][0][case])


@pytest.mark.parametrize("world", [2, 4])
def test_each_owner_alone_holds_its_state(runs, world):
    held = [each["owners, held"] for each in runs[world]]
    assert sum(held) == 4 and min(held) >= 1  # four tensors, each of them once
    held = [each["scan, held"] for each in runs[world]]
    assert sum(held) == 2 * world + 2 and min(held) >= 2  # everybody has rows of the weights; the biases have owners


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("spec, sums", [("scan", 2 * 30 - 1), ("scaw", 30 * 31 // 2)])
def test_only_sums_of_the_right_factor_are_reduced(runs, spec, sums, world):
    assert sums <= runs[world][0]["reduced"][spec] <= sums + 24  # and a few scalars, whatever the number of rows


@pytest.mark.parametrize("world", [2, 4])
def test_half_precision_rounds_as_the_whole(runs, world):
    """The same bits but where a last place of float32 decides."""
    for each in runs[world]:
        assert (each["half"] != runs[1][0]["half"]).float().mean() < 0.05
        assert torch.allclose(each["half"], runs[1][0]["half"], rtol=0.02, atol=1e-3)
