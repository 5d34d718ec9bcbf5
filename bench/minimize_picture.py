"""Performance and data profiles (Dolan and More 2002, More and Wild 2009) as an SVG, light or dark as the reader's page."""
import math

COLOURS = ("#e0483e", "#e39a2d", "#3b82d0", "#2fa36b", "#9b6bd3", "#8a8f98")
NAMES = {"psgd": "PSGD", "psgd, differences": "PSGD, finite differences", "liblbfgs": "libLBFGS"}
STYLE = """<style>
  .page { fill: #ffffff } text { fill: #24292f } .frame { stroke: #8c959f } .grid { stroke: #d8dee4 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #e6edf3 } .frame { stroke: #6e7681 } .grid { stroke: #30363d }
  }
</style>"""


def _axes(x, y, w, h, top, ticks, title, label):
    parts = [f'<text x="{x + w / 2}" y="{y - 10}" text-anchor="middle" font-size="13">{title}</text>',
             f'<text x="{x + w / 2}" y="{y + h + 34}" text-anchor="middle">{label}</text>']  # fmt: skip
    for share in (0, 25, 50, 75, 100):
        at = y + h * (1 - share / 100)
        parts.append(f'<line class="grid" x1="{x}" y1="{at}" x2="{x + w}" y2="{at}"/>')
        parts.append(f'<text x="{x - 6}" y="{at + 4}" text-anchor="end">{share} %</text>')
    for tick in ticks:
        at = x + w * math.log(tick) / math.log(top)
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="{y}" x2="{at:.1f}" y2="{y + h}"/>')
        parts.append(f'<text x="{at:.1f}" y="{y + h + 16}" text-anchor="middle">{tick:g}</text>')
    parts.append(f'<rect class="frame" x="{x}" y="{y}" width="{w}" height="{h}" fill="none"/>')
    return parts


def _steps(x, y, w, h, top, values, count, colour):
    """The share of problems at or below each value."""
    points, share = [], 0.0
    for i, value in enumerate(sorted(values), 1):
        if value > top:
            break
        at = x + w * max(0.0, math.log(value) / math.log(top))
        points += [(at, share), (at, i / count)]
        share = i / count
    points.append((x + w, share))
    drawn = " ".join(f"{a:.1f},{y + h * (1 - b):.1f}" for a, b in points)
    return f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>'


def draw(path, title, table, sizes):
    """table: problem -> solver -> evaluations, inf where it was not solved; sizes: problem -> n."""
    solvers, count = list(next(iter(table.values()))), len(table)
    w, h, y = 380, 260, 90
    left = {s: [row[s] / min(row.values()) for row in table.values() if row[s] < math.inf] for s in solvers}
    right = {s: [row[s] / (sizes[p] + 1) for p, row in table.items() if row[s] < math.inf] for s in solvers}
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 400" width="940" height="400" '
             'font-family="sans-serif" font-size="11">', STYLE, '<rect class="page" width="940" height="400"/>',
             f'<text x="60" y="24" font-size="13">{title}</text>']  # fmt: skip
    for i, s in enumerate(solvers):
        parts.append(f'<line x1="{60 + 175 * i}" y1="45" x2="{84 + 175 * i}" y2="45" stroke="{COLOURS[i]}" stroke-width="3"/>')
        parts.append(f'<text x="{90 + 175 * i}" y="49">{NAMES.get(s, s)}</text>')
    parts += _axes(60, y, w, h, 64, (1, 2, 4, 8, 16, 32, 64), "performance profile: share of problems solved",
                   "evaluations / fewest of all solvers (log scale)")  # fmt: skip
    parts += _axes(520, y, w, h, 10000, (1, 10, 100, 1000, 10000), "data profile: share of problems solved",
                   "evaluations / (n + 1) (log scale)")  # fmt: skip
    for i, s in reversed(list(enumerate(solvers))):
        parts.append(_steps(60, y, w, h, 64, left[s], count, COLOURS[i]))
        parts.append(_steps(520, y, w, h, 10000, right[s], count, COLOURS[i]))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*parts, "</svg>\n"]))
