"""Curves of bench/pytorch as SVG, light or dark as the reader's page."""
import math

from minimize_picture import STYLE

COLOURS = {"PSGD, newton": "#e0483e", "PSGD, fisher": "#e39a2d", "AdamW": "#3b82d0", "Muon": "#2fa36b", "SOAP": "#9b6bd3",
           "author, KronNewton": "#8a8f98", "author, KronWhiten": "#b08968", "L-BFGS": "#17a2b8"}  # fmt: skip


def legend(entries, per_line=4, x=60, y=24):
    parts = []
    for i, (name, colour) in enumerate(entries.items()):
        left, at = x + 210 * (i % per_line), y + 20 * (i // per_line)
        parts.append(f'<line x1="{left}" y1="{at}" x2="{left + 24}" y2="{at}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{left + 30}" y="{at + 4}">{name}</text>')
    return parts


def panel(x, y, w, h, title, label, curves):
    """curves: [(colour, [(across, loss)])], the loss on a logarithmic scale."""
    known = [v for _, curve in curves for _, v in curve if v > 0 and math.isfinite(v)]
    first = max(curve[0][1] for _, curve in curves if math.isfinite(curve[0][1]))
    low, high, right = min(known), min(max(known), 2 * first), max(a for _, curve in curves for a, _ in curve)
    span = math.log(high / low) or 1
    parts = [f'<text x="{x + w / 2}" y="{y - 8}" text-anchor="middle" font-size="12">{title}</text>',
             f'<text x="{x + w / 2}" y="{y + h + 30}" text-anchor="middle">{label}</text>',
             f'<rect class="frame" x="{x}" y="{y}" width="{w}" height="{h}" fill="none"/>']  # fmt: skip
    for share in (0, 0.5, 1):
        parts.append(f'<text x="{x + w * share:.1f}" y="{y + h + 15}" text-anchor="middle">{right * share:.3g}</text>')
        value, at = low * math.exp(span * share), y + h * (1 - share)
        parts.append(f'<line class="grid" x1="{x}" y1="{at:.1f}" x2="{x + w}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{x - 5}" y="{at + 4:.1f}" text-anchor="end">{value:.2g}</text>')
    for colour, curve in reversed(curves):
        shown = [(x + w * a / right, y + h * (1 - math.log(min(max(v, low), high) / low) / span)) for a, v in curve
                 if v > 0 and math.isfinite(v)]  # fmt: skip
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in shown)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return parts


def mean_curve(runs, column):
    """The median over seeds, point by point; column 0: steps, 1: seconds."""
    def middle(values):
        return sorted(values)[len(values) // 2]

    length = min(len(run["curve"]) for run in runs)
    return [(middle([r["curve"][i][column] for r in runs]), middle([r["curve"][i][2] for r in runs])) for i in range(length)]


def save(path, width, height, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="11">')  # fmt: skip
    path.write_text("\n".join([head, STYLE, f'<rect class="page" width="{width}" height="{height}"/>', *parts, "</svg>\n"]))


def draw(path, tasks, kinds):
    """A line of two panels a task: the training loss against steps and against seconds."""
    present = {title.split(", lr ")[0] for _, rows in tasks.values() for title in rows}
    parts = legend({name: colour for name, colour in COLOURS.items() if name in present})
    for k, (name, (_, rows)) in enumerate(tasks.items()):
        for column, label in enumerate(("steps", "seconds")):
            curves = [(COLOURS[title.split(", lr ")[0]], mean_curve(runs, column)) for title, runs in rows.items()
                      if all(run["curve"] for run in runs)]  # fmt: skip
            parts += panel(70 + 440 * column, 90 + 235 * k, 370, 170, kinds[name].title, label, curves)
    save(path, 900, 70 + 235 * len(tasks), parts)
