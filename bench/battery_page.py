"""The page of bench/battery: the tables, with the picture of battery_picture.py."""
import datetime
import math
import platform
import subprocess
from pathlib import Path

import battery_picture

HEAD = ["optimizer", "lr", "final loss", "test", "epochs to Adam's loss", "s to Adam's loss", "s in all",
        "loss after 5 %", "notes"]


def show(value, digits=4):
    return "–" if value is None else f"{value:.{digits}g}"


def test_of(row):
    if row["test"] is None:
        return "–"
    return f"{100 * row['test']:.2f} %" if row.get("test_name") == "test_error" else show(row["test"])


def notes(row):
    said = []
    if row["diverged"]:
        said.append(f"diverged on {row['diverged']} of {len(row['runs'])} seeds")
    skipped = sum(run["skipped"] for run in row["runs"])
    if skipped:
        said.append(f"{skipped} steps skipped")
    lost = sum(bool(trial["diverged"]) for trial in row["trials"])
    if lost:
        said.append(f"{lost} of {len(row['trials'])} lr diverged")
    return ", ".join(said)


def table(name, rows, markdown=True):
    cells = [[row["optimizer"], row["lr"], show(row["loss"]), test_of(row), show(row["epochs_to"], 3),
              show(row["seconds_to"], 3), show(row["seconds"], 3), show(row["early"]), notes(row)] for row in rows]
    if markdown:
        lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
        return "\n".join(lines + ["| " + " | ".join(line) + " |" for line in cells])
    width = [max(len(line[i]) for line in [HEAD, *cells]) for i in range(len(HEAD))]
    text = ["  ".join(word.ljust(width[i]) for i, word in enumerate(line)).rstrip() for line in [HEAD, *cells]]
    return f"{name}\n" + "\n".join("  " + line for line in text)


def profile(tasks, key):
    """For each method the sorted ratios of its cost to the least cost of any but L-BFGS, inf where it did not get there."""
    found = {}
    for rows in tasks.values():
        costs = {row["optimizer"]: row[key] for row in rows if row["optimizer"] in battery_picture.COLOURS and row["optimizer"] != "lbfgs"}
        known = [cost for cost in costs.values() if cost]
        for name, cost in costs.items():
            if known:
                found.setdefault(name, []).append(cost / min(known) if cost else math.inf)
    return {name: sorted(ratios) for name, ratios in found.items()}


def verdict(tasks):
    """How PSGD compares with tuned Adam, in numbers."""
    lines = []
    for name in ("psgd-newton", "psgd-fisher"):
        fewer = faster = dead = diverged = count = 0
        for rows in tasks.values():
            by = {row["optimizer"]: row for row in rows}
            if name not in by or "adam" not in by:
                continue
            own, adam, count = by[name], by["adam"], count + 1
            fewer += own["epochs_to"] is not None and own["epochs_to"] < (adam["epochs_to"] or math.inf)
            faster += own["seconds_to"] is not None and own["seconds_to"] < (adam["seconds_to"] or math.inf)
            diverged += own["diverged"] > 0
            sgd = by.get("momentum")
            dead += bool(sgd and own["early"] is not None and sgd["early"] is not None and own["early"] >= sgd["early"])
        if count:
            lines.append(f"- `{name}` with defaults, {count} tasks: at tuned Adam's final loss in fewer epochs on {fewer}, "
                         f"in less time on\n  {faster}; diverged on {diverged}; after 5 % of the steps not below tuned SGD "
                         f"with momentum on {dead}.")
    return "\n".join(lines) or "- PSGD has not been run."


def write(path, tasks, about, validation, left_out, rates, seeds, psgd, note=""):
    def said(*words):
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()

    version = said(psgd, "--version")
    commit = said("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD")
    development = {name: rows for name, rows in tasks.items() if name not in validation}
    drawn = {name: rows for name, rows in tasks.items() if rows}
    battery_picture.draw(path.with_suffix(".svg"), drawn, (profile(drawn, "steps_to"), profile(drawn, "seconds_to")))
    count = len(rates.split(","))
    text = f"""# The battery

`bench/battery`, {datetime.date.today()}, {version}{' at ' + commit if commit else ''}, {platform.machine()}, one thread.
{chr(10) + note + chr(10) if note else ''}
PSGD runs with its defaults (Newton and Fisher; no option per task besides the criterion). The baselines are SGD with
momentum, Adam and AdamW, each with the best of {count} learning rates ({rates.replace(',', ', ')}),
chosen on the first seed by the training loss over the last twentieth of the steps and run on {seeds} seeds; L-BFGS where the
function is deterministic. Steps, batches, seeds and annealing (cosine to 0) are the same for all. Everything runs in C
on the same gradients.

| column | is |
|---|---|
| final loss | training loss over the last 5 % of the steps, median over seeds |
| epochs, s to Adam's loss | where the training loss, averaged over 5 % of the steps, first reaches the final loss of tuned Adam |
| s | processor time, batches included, evaluations not |
| loss after 5 % | training loss over the steps from 2.5 to 5 %, median over seeds |

On `mgh` the loss is the geometric mean over functions of (f − min)/(f₀ − min), an epoch is a step, and seconds are those
of the clock.

{verdict(development)}

![Performance profiles and training losses]({path.with_suffix('.svg').name})

Development tasks: {', '.join(f'`{name}`' for name in about if name not in validation)}.
**Validation tasks, on which nobody tunes and PSGD is run only at the end: {', '.join(f'`{name}`' for name in validation)}.**
"""
    for name, rows in tasks.items():
        text += f"\n## {name}\n\n{about[name][0].upper() + about[name][1:]}." + (" Validation." if name in validation else "")
        text += f"\n\n{table(name, rows)}\n" if rows else "\n\nNot computed yet.\n"
    for name, why in left_out.items():
        text += f"\n## {name}\n\nSkipped: {why}.\n"
    path.write_text(text)
