"""Metric logs of training runs: reading them, drawing them. The format is JSON lines, as the psgd command writes it."""
from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from ._errors import FormatError

PathLike = Union[str, "os.PathLike[str]"]


@dataclass
class Run:
    """One log: what the header says, and every record as a dict."""

    name: str
    method: str = ""
    settings: Dict[str, Any] = field(default_factory=dict)
    points: List[Dict[str, Any]] = field(default_factory=list)
    health: List[Dict[str, Any]] = field(default_factory=list)
    final: Optional[Dict[str, Any]] = None

    def curve(self, metric: str = "loss", split: str = "train", x: str = "step") -> Tuple[np.ndarray, np.ndarray]:
        """x and the metric of the points of a split, as float64 arrays; what is not finite in the log is NaN."""
        if x not in ("step", "epoch", "seconds"):
            raise ValueError(f"x must be step, epoch or seconds, not {x!r}")
        rows = [point for point in self.points if point.get("split") == split and metric in point and x in point]

        def column(key: str) -> np.ndarray:
            values = [row[key] for row in rows]
            return np.array([value if _is_number(value) else np.nan for value in values], dtype=np.float64)

        return column(x), column(metric)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_run(path: PathLike) -> Run:
    """Reads a run from its folder or its log file. An unfinished last line is left out: the run may still be going."""
    try:
        file = Path(path)
    except TypeError:
        raise TypeError(f"path must be a path, not {type(path).__name__}") from None
    if file.is_dir():
        file = file / "metrics.jsonl"
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{file} is not a metrics log: it is not UTF-8") from None
    run = Run(name=file.parent.name or file.stem)
    lines = text.split("\n")[:-1]
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or not _add(run, record):
            raise FormatError(f"{file}, line {number}: not a record of a metrics log")
    return run


def _add(run: Run, record: Dict[str, Any]) -> bool:
    kind = record.get("kind")
    if kind == "header":
        settings = record.get("settings")
        run.name = str(record.get("run") or run.name)
        run.method = str(record.get("method", ""))
        run.settings = settings if isinstance(settings, dict) else {}
    elif kind == "point":
        run.points.append(record)
    elif kind == "health":
        run.health.append(record)
    elif kind == "final":
        run.final = record
    else:
        return False
    return True


def plot_runs(
    *runs: Union[PathLike, Run], metric: str = "loss", split: str = "train", x: str = "step", log: bool = True, ax: Any = None
) -> Any:
    """Draws a metric of several runs (paths or ``Run``s) with matplotlib and returns the axes.

    ``x`` is step, epoch or seconds. ``ax`` are axes to draw on; without it there is a new figure."""
    loaded = [run if isinstance(run, Run) else read_run(run) for run in runs]
    if not loaded:
        raise ValueError("there is no run to draw")
    curves = [run.curve(metric, split, x) for run in loaded]
    if not any(len(xs) for xs, _ in curves):
        known = sorted({name for run in loaded for point in run.points for name in point} - {"kind", "split"})
        raise ValueError(f"no run has {metric!r} for {split!r}; there are: {', '.join(known) or 'no points at all'}")
    try:
        import matplotlib.pyplot as plt
    except ImportError as why:
        raise ImportError("psgd.plot_runs needs matplotlib (pip install matplotlib; Debian: python3-matplotlib)") from why
    if ax is None:
        _, ax = plt.subplots()
    for run, (xs, ys) in zip(loaded, curves):
        ax.plot(xs, ys, label=run.name)
    positive = all((ys[np.isfinite(ys)] > 0).all() for _, ys in curves)
    if log and positive:
        ax.set_yscale("log")
    ax.set_xlabel(x)
    ax.set_ylabel(f"{metric} ({split})")
    ax.legend()
    return ax
