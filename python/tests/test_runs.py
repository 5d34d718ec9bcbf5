"""Metric logs: read as docs/metrics.md says, drawn where matplotlib is."""
import numpy as np
import pytest

import psgd

LOG = """\
{"kind":"header","version":1,"run":"newton-scan","method":"psgd-newton","seed":"1","settings":{"group":"scan","lr":"0.1"}}
{"kind":"point","step":100,"epoch":0.5,"seconds":31.25,"split":"train","loss":6.5,"perplexity":1002.2}
{"kind":"health","step":100,"epoch":0.5,"seconds":31.25,"tensor":"lstm1","group":"scan","updates":100}
{"kind":"point","step":200,"epoch":1,"seconds":60,"split":"train","loss":null}
{"kind":"point","step":200,"epoch":1,"seconds":60,"split":"valid","loss":5.5,"perplexity":225.9,"lr":0.1}
{"kind":"final","step":200,"epoch":1,"seconds":61,"test_perplexity":214.0}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(LOG)
    return tmp_path


def test_a_log_is_read(folder):
    run = psgd.read_run(folder)
    assert (run.name, run.method, run.settings["lr"]) == ("newton-scan", "psgd-newton", "0.1")
    steps, losses = run.curve()
    assert np.array_equal(steps, [100, 200]) and losses[0] == 6.5 and np.isnan(losses[1])
    assert np.array_equal(run.curve("perplexity", "valid", "seconds"), [[60], [225.9]])
    assert run.final["test_perplexity"] == 214 and run.health[0]["updates"] == 100


def test_a_run_that_is_still_going(folder):
    file = folder / "metrics.jsonl"
    file.write_text(LOG + '{"kind":"point","st')
    assert len(psgd.read_run(str(file)).points) == 3
    file.write_text(LOG + "nonsense\n")
    with pytest.raises(psgd.FormatError, match="line 7"):
        psgd.read_run(file)
    with pytest.raises(FileNotFoundError):
        psgd.read_run(folder / "missing")


def test_runs_are_drawn(folder):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (Debian: python3-matplotlib)")
    matplotlib.use("agg")
    ax = psgd.plot_runs(folder, psgd.read_run(folder), x="epoch")
    assert len(ax.lines) == 2 and ax.get_xlabel() == "epoch" and ax.get_yscale() == "log"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["newton-scan"] * 2
    assert psgd.plot_runs(folder, metric="perplexity", split="valid", ax=ax, log=False) is ax
    with pytest.raises(ValueError, match="there are: .*loss"):
        psgd.plot_runs(folder, metric="accuracy")
    with pytest.raises(ValueError):
        psgd.plot_runs()
    matplotlib.pyplot.close("all")
