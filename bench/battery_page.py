"""The page of bench/battery: tables, a performance profile and curves as an SVG."""
import datetime
import math
import platform
import subprocess
from pathlib import Path

COLOURS = {"psgd-newton": "#c0392b", "psgd-fisher": "#e67e22", "adam": "#2c5aa0", "adamw": "#5dade2",
           "momentum": "#7f8c8d", "lbfgs": "#27ae60"}
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
        costs = {row["optimizer"]: row[key] for row in rows if row["optimizer"] in COLOURS and row["optimizer"] != "lbfgs"}
        known = [cost for cost in costs.values() if cost]
        for name, cost in costs.items():
            if known:
                found.setdefault(name, []).append(cost / min(known) if cost else math.inf)
    return {name: sorted(ratios) for name, ratios in found.items()}


class Svg:
    def __init__(self, width, height):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                      f'height="{height}" font-family="sans-serif" font-size="11">',
                      f'<rect width="{width}" height="{height}" fill="white"/>']

    def text(self, x, y, words, anchor="middle", size=11, colour="#333"):
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{words}</text>')

    def line(self, points, colour, width=1.5):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def frame(self, x, y, w, h):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="none" stroke="#999"/>')

    def save(self, path):
        path.write_text("\n".join([*self.parts, "</svg>\n"]))


def draw_profile(svg, x, y, w, h, title, ratios):
    svg.frame(x, y, w, h)
    svg.text(x + w / 2, y - 6, title, size=12)
    top = 32.0
    for share in (0, 50, 100):
        svg.text(x - 4, y + h * (1 - share / 100) + 4, f"{share} %", "end", 9)
    for tick in (1, 2, 4, 8, 16, 32):
        svg.text(x + w * math.log(tick) / math.log(top), y + h + 13, f"{tick}×")
    for name, values in ratios.items():
        points, share = [], 0
        for ratio in values:
            if ratio > top:
                break
            px = x + w * math.log(ratio) / math.log(top)
            points += [(px, y + h * (1 - share / len(values))), (px, y + h * (1 - (share + 1) / len(values)))]
            share += 1
        points = [(x, points[0][1] if points else y + h), *points, (x + w, y + h * (1 - share / len(values)))]
        svg.line(points, COLOURS[name], 2)


def draw_curves(svg, x, y, w, h, title, rows):
    svg.frame(x, y, w, h)
    svg.text(x + w / 2, y - 5, title)
    curves = [(row["optimizer"], run["curve"]) for row in rows if row["optimizer"] in COLOURS for run in row["runs"][:1]
              if len(run["curve"]) > 1]
    values = [point[3] for _, curve in curves for point in curve if point[3] > 0 and math.isfinite(point[3])]
    if not values:
        return
    first = max(curve[0][3] for _, curve in curves if math.isfinite(curve[0][3]))
    low, high = min(values), min(max(values), 2 * first)
    span = math.log(high / low) or 1
    total = max(curve[-1][0] for _, curve in curves)
    svg.text(x - 4, y + 8, show(high, 2), "end", 9)
    svg.text(x - 4, y + h, show(low, 2), "end", 9)
    for name, curve in curves:
        points = [(x + w * step / total, y + h * (1 - math.log(min(max(loss, low), high) / low) / span))
                  for step, _, _, loss in curve if math.isfinite(loss) and loss > 0]
        svg.line(points, COLOURS[name], 1.3)


def draw(path, tasks):
    columns, w, h, margin = 4, 200, 120, 48
    lines = -(-len(tasks) // columns)
    svg = Svg(10 + columns * (w + margin), 300 + lines * (h + 35))
    for i, name in enumerate(COLOURS):
        svg.line([(40 + i * 130, 15), (60 + i * 130, 15)], COLOURS[name], 3)
        svg.text(65 + i * 130, 19, name, "start")
    draw_profile(svg, margin, 50, 425, 180, "steps to tuned Adam's final loss: share of tasks within × of the best", profile(tasks, "steps_to"))
    draw_profile(svg, 540, 50, 425, 180, "the same in seconds", profile(tasks, "seconds_to"))
    for i, (name, rows) in enumerate(tasks.items()):
        draw_curves(svg, margin + i % columns * (w + margin), 285 + i // columns * (h + 35), w, h, f"{name}: training loss by step", rows)
    svg.save(path)


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
    draw(path.with_suffix(".svg"), {name: rows for name, rows in tasks.items() if rows})
    count = len(rates.split(","))
    text = f"""# The battery

`bench/battery`, {datetime.date.today()}, {version}{' at ' + commit if commit else ''}, {platform.machine()}, one thread.{' ' + note if note else ''}

PSGD runs with its defaults (Newton and Fisher; no option per task beside the criterion). The baselines are SGD with
momentum, Adam and AdamW, each with the best of {count} learning rates
({rates.replace(',', ', ')}), chosen on the first seed by the training loss over
the last twentieth of the steps and run on {seeds} seeds; L-BFGS where the function is deterministic. Steps, batches, seeds
and annealing (cosine to 0) are the same for all. Everything runs in C on the same gradients. Final loss: the
training loss over the last 5 % of the steps, median over seeds. Epochs, and seconds, to Adam's loss: where the training
loss, averaged over 5 % of the steps, first reaches the final loss of tuned Adam. Seconds are those of the processor,
batches included, evaluations not. On `mgh` the loss is the geometric mean over functions of (f − min)/(f₀ − min), an
epoch is a step, and seconds are those of the clock.

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
