"""The package, and a program that uses it, are clean under mypy --strict."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def test_the_package_and_a_program_are_clean_under_mypy_strict():
    pytest.importorskip("mypy", reason="mypy is not installed")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
    if not hasattr(torch, "compile"):
        pytest.skip("the types of PyTorch 1 are not those of NumPy any more")
    settings = HERE.parents[1] / "pyproject.toml"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(settings), "--cache-dir", os.devnull]
    environment = dict(os.environ, MYPYPATH=str(HERE.parent))
    run = subprocess.run(
        [*command, str(HERE.parent / "psgd"), str(HERE / "typed_sample.py")],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
