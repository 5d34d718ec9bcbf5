"""Every Python example in docs/python.md runs."""
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example_runs(number, capsys):
    code = EXAMPLES[number]
    for module in ("scipy", "torch"):
        if re.search(rf"^(import|from) .*\b{module}\b", code, re.M):
            pytest.importorskip(module, reason=f"{module} is not installed (Debian: python3-{module})")
    if "import torch" in code:
        import torch

        torch.manual_seed(0)
    exec(compile(code, f"{PAGE.name}, example {number + 1}", "exec"), {"__name__": "__main__"})


def test_there_is_a_short_example_for_each_library():
    assert len(EXAMPLES) >= 5
    for code in EXAMPLES[:3]:
        assert len([line for line in code.splitlines() if line.strip()]) <= 10
