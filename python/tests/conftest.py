"""Tests that need more than NumPy say so and are skipped where it is missing."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
