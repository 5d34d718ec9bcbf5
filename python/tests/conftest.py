"""Tests that need more than NumPy say so and are skipped where it is missing."""
import locale
import sys
from pathlib import Path

import pytest

locale.setlocale(locale.LC_ALL, "")  # as a program with a window does: scripts/check sets a decimal comma
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed (Debian: python3-torch)")
