"""The picture of bench/battery: performance profiles and training losses as an SVG, light or dark as the reader's page."""
import math

from minimize_picture import COLOURS as SHADES
from minimize_picture import STYLE

NAMES = {"psgd-newton": "PSGD, Newton", "psgd-fisher": "PSGD, Fisher", "adam": "Adam", "adamw": "AdamW",
         "momentum": "SGD with momentum", "lbfgs": "L-BFGS (on Moré, Garbow, Hillstrom only)"}
COLOURS = dict(zip(NAMES, (SHADES[0], SHADES[1], SHADES[2], SHADES[4], SHADES[5], SHADES[3])))
TASKS = {"logistic": "logistic regression", "logistic-scaled": "logistic, scaled features",
         "factors": "matrix factorisation", "mgh": "Moré, Garbow, Hillstrom", "mlp": "MLP, MNIST",
         "lenet5": "LeNet5, MNIST", "xor": "LSTM, delayed XOR", "chars": "LSTM, Tiny Shakespeare",
         "alexnet": "small AlexNet, CIFAR-10", "adding": "RNN, adding problem", "autoencoder": "autoencoder, MNIST",
         "oscillator": "MLP, damped oscillator"}


def power(exponent):
    return "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)] if c != "-" else "⁻" for c in str(exponent))


def log_ticks(low, high, most=5):
    """(value, label): powers of ten, every so many where they are many; within two decades, round values."""
    decades = math.log10(high / low)
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    if decades >= 2:
        every = max(1, math.ceil((last - first + 1) / most))
        return [(10.0 ** e, power(e)) for e in range(first, last + 1) if e % every == 0]
    for steps in ((1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9)):
        ticks = [k * 10.0 ** e for e in range(first - 1, last + 1) for k in steps if low <= k * 10.0 ** e <= high]
        if len(ticks) >= 3:
            break
    return [(tick, f"{tick:.6g}") for tick in ticks]


def linear_ticks(top):
    """0, two to four round values up to top."""
    step = next(k * 10.0 ** e for e in range(12) for k in (1, 2, 5) if top / (k * 10.0 ** e) <= 4)
    return [i * step for i in range(int(top / step) + 1)]


class Svg:
    def __init__(self, width, height):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                      f'height="{height}" font-family="sans-serif" font-size="11">', STYLE,
                      f'<rect class="page" width="{width}" height="{height}"/>']

    def text(self, x, y, words, anchor="middle", size=11):
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{words}</text>')

    def line(self, points, colour, width=1.5):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def axes(self, x, y, w, h, title, across, up):
        """A frame with grid lines; across and up hold (place from 0 to 1, label)."""
        self.text(x + w / 2, y - 7, title, size=12)
        for at, label in across:
            self.parts.append(f'<line class="grid" x1="{x + w * at:.1f}" y1="{y}" x2="{x + w * at:.1f}" y2="{y + h}"/>')
            self.text(x + w * at, y + h + 14, label, size=10)
        for at, label in up:
            self.parts.append(f'<line class="grid" x1="{x}" y1="{y + h * (1 - at):.1f}" x2="{x + w}" y2="{y + h * (1 - at):.1f}"/>')
            self.text(x - 5, y + h * (1 - at) + 4, label, "end", 10)
        self.parts.append(f'<rect class="frame" x="{x}" y="{y}" width="{w}" height="{h}" fill="none"/>')

    def save(self, path):
        path.write_text("\n".join([*self.parts, "</svg>\n"]))


def draw_profile(svg, x, y, w, h, title, ratios):
    top = 32.0
    svg.axes(x, y, w, h, title, [(math.log(tick) / math.log(top), f"{tick}×") for tick in (1, 2, 4, 8, 16, 32)],
             [(share / 100, f"{share} %") for share in (0, 25, 50, 75, 100)])
    svg.text(x + w / 2, y + h + 30, "at most this many times the least of all methods but L-BFGS (log scale)")
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
    curves = [(row["optimizer"], run["curve"]) for row in rows if row["optimizer"] in COLOURS for run in row["runs"][:1]
              if len(run["curve"]) > 1]
    values = [point[3] for _, curve in curves for point in curve if point[3] > 0 and math.isfinite(point[3])]
    if not values:
        svg.axes(x, y, w, h, title, [], [])
        return
    first = max(curve[0][3] for _, curve in curves if math.isfinite(curve[0][3]))
    low, high = min(values), min(max(values), 2 * first)
    span = math.log(high / low) or 1
    total = max(curve[-1][0] for _, curve in curves)
    svg.axes(x, y, w, h, title, [(tick / total, f"{tick:g}") for tick in linear_ticks(total)],
             [(math.log(tick / low) / span, label) for tick, label in log_ticks(low, high)])
    for name, curve in curves:
        points = [(x + w * step / total, y + h * (1 - math.log(min(max(loss, low), high) / low) / span))
                  for step, _, _, loss in curve if math.isfinite(loss) and loss > 0]
        svg.line(points, COLOURS[name], 1.3)


def draw(path, tasks, ratios):
    """tasks: name -> rows; ratios: (by steps, by seconds), each method -> sorted ratios to the best."""
    columns, w, h, margin = 4, 196, 120, 48
    lines, at = -(-len(tasks) // columns), 15
    svg = Svg(24 + columns * (w + margin), 300 + lines * (h + 50))
    for name, words in NAMES.items():
        svg.line([(at, 15), (at + 20, 15)], COLOURS[name], 3)
        svg.text(at + 26, 19, words, "start")
        at += 56 + 6.5 * len(words)
    draw_profile(svg, margin, 55, 430, 170, "Share of tasks at tuned Adam's final loss, by steps", ratios[0])
    draw_profile(svg, 548, 55, 430, 170, "Share of tasks at tuned Adam's final loss, by seconds", ratios[1])
    svg.text((24 + columns * (w + margin)) / 2, 286, "Training loss (log scale) against steps, first seed", size=13)
    for i, (name, rows) in enumerate(tasks.items()):
        draw_curves(svg, margin + i % columns * (w + margin), 318 + i // columns * (h + 50), w, h, TASKS.get(name, name), rows)
    svg.save(path)
