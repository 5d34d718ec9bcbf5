"""Replicas of a model in 2 and in 4 processes: they stay the same bits, and train as one process with all samples."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

from replicas import CASES, main  # noqa: E402

WORLDS = [2, 4]


def launch(folder, world):
    here = Path(__file__).resolve()
    environment = dict(os.environ, PYTHONPATH=str(here.parents[1]), GLOO_SOCKET_IFNAME="lo")
    command = [sys.executable, str(here.with_name("replicas.py")), str(folder)]
    running = [subprocess.Popen([*command, str(rank), str(world)], env=environment) for rank in range(world)]
    codes = [process.wait(timeout=600) for process in running]
    assert codes == [0] * world
    return [torch.load(folder / f"{rank}.pt") for rank in range(world)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    made = {}
    for world in WORLDS:
        made[world] = launch(tmp_path_factory.mktemp(f"world{world}"), world)
    alone = tmp_path_factory.mktemp("world1")
    threads = torch.get_num_threads()
    main(alone, 0, 1)
    torch.set_num_threads(threads)
    made[1] = [torch.load(alone / "0.pt")]
    return made


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("case", [name for name in CASES if name != "apart"])
def test_replicas_are_the_same_bits(runs, case, world):
    for other in runs[world][1:]:
        assert torch.equal(runs[world][0][case], other[case])


@pytest.mark.parametrize("world", WORLDS)
def test_the_test_can_fail(runs, world):
    assert not torch.equal(runs[world][0]["apart"], runs[world][1]["apart"])


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("case", [name for name in CASES if name not in ("apart", "unused")])
def test_they_train_as_one_process_on_all_samples(runs, case, world):
    """To rounding, which a difference divides by its step."""
    loose = case in ("newton-difference", "newton-backward-ddp", "compiled")
    tolerance = 1e-4 if loose else 1e-10
    assert torch.allclose(runs[world][0][case], runs[1][0][case], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("world", WORLDS)
def test_parameters_used_by_some_processes(runs, world):
    """They see the mean over all processes; the one that nobody uses stays."""
    torch.manual_seed(0)
    start = torch.cat([torch.randn(3, dtype=torch.float64) for _ in range(world + 1)])
    made = runs[world][0]["unused"]
    assert (made[:-3] != start[:-3]).all() and torch.equal(made[-3:], start[-3:])


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_not_finite_in_one_process_is_skipped_by_all(runs, world):
    assert [int(each["spoilt"][-1]) for each in runs[world]] == [1] * world


@pytest.mark.parametrize("world", WORLDS)
def test_processes_that_are_no_replicas_are_told(runs, world):
    for each in runs[world]:
        assert "different lists of parameters" in each["refused"][0] and "process_group" in each["refused"][0]
        assert "broadcast" in each["refused"][1]
