"""The types of the package are precise enough for a program that mypy --strict checks."""
import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_a_program_is_clean_under_mypy_strict():
    pytest.importorskip("mypy", reason="mypy is not installed")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
    if not hasattr(torch, "compile"):
        pytest.skip("the types of PyTorch 1 are not those of NumPy any more")
    here = Path(__file__).resolve()
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", os.devnull]
    environment = dict(os.environ, MYPYPATH=str(here.parents[1]))
    run = subprocess.run(
        [*command, str(here.with_name("typed_sample.py"))], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
