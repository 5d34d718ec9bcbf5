#!/usr/bin/python3
"""psgd report: bad runs get a sentence; the page, in a headless Chromium, shows the values of the logs."""
import base64
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

from chromium import Browser

psgd = os.path.join(sys.argv[2], "psgd")
folder = tempfile.mkdtemp()
failures = []


def check(truth, what):
    if not truth:
        failures.append(what)
        print("FAILED:", what)


def write_run(task, name, method, losses, health=(), finished=True, at="runs", scores=None, **settings):
    path = os.path.join(folder, at, f"{task}-{name}".replace("<", "").replace("/", ""))
    os.makedirs(path)
    with open(os.path.join(path, "metrics.jsonl"), "w", encoding="utf-8") as log:
        def put(**record):
            log.write(json.dumps(record) + "\n")
        put(kind="header", version=1, run=name, method=method, task=task, seed="1", settings=settings)
        for i, loss in enumerate(losses):
            when = {"step": 10 * (i + 1), "epoch": (i + 1) / 20, "seconds": 0.5 * (i + 1)}
            put(kind="point", **when, split="train", loss=loss)
            if i % 10 == 9:
                put(kind="point", **when, split="valid", loss=1.1 * loss, perplexity=math.exp(1.1 * loss))
                for tensor in health:
                    put(kind="health", **when, tensor=tensor, group="scan", updates=i, skipped=0, condition=1.5 + i)
        if scores:
            put(kind="point", **when, split="test", accuracy=1 - scores["test_error"], lr=0)
        if finished:
            put(kind="final", **when, test_loss=1.2 * losses[-1], **(scores or {}))
        else:
            log.write('{"kind":"point","st')
    return path


def psgd_fails(words, *arguments):
    ran = subprocess.run([psgd, "report", *arguments], capture_output=True, text=True)
    check(ran.returncode in (1, 2) and words in ran.stderr and ran.stderr.count("\n") == 1,
          f"psgd report {arguments} says '{words}', not {ran.returncode}: {ran.stderr}")


losses = {"sgd": [6 * math.exp(-i / 40) + 0.2 * math.sin(i) for i in range(60)],
          "newton scan": [6 * math.exp(-i / 15) + 0.1 * math.cos(i) + 0.2 for i in range(60)],
          "</script><b>odd & \"name\"": [5 - i / 20 for i in range(40)]}
for name, values in losses.items():
    write_run("language", name, "psgd-newton" if "scan" in name else "sgd", values, health=["lstm1"] if "scan" in name else (),
              finished="odd" not in name, lr="0.1" if "scan" in name else "20", batch="20")
write_run("rosenbrock", "dense", "psgd-newton", [10 ** (2 - i / 4) for i in range(60)], health=["theta"])
for task, known in {"ten": {"classes": "10"}, "thousand": {"classes": "1000"}, "unknown": {}}.items():
    write_run(task, "net", "adam", losses["sgd"], at="pictures", scores={"test_error": 0.5, "test_top5_error": 0.1, "skipped_steps": 0},
              **known)
runs = os.path.join(folder, "runs")
pictures = os.path.join(folder, "pictures.html")
page = os.path.join(folder, "report.html")

os.mkdir(os.path.join(folder, "empty"))
psgd_fails("at least one RUN")
psgd_fails("there is no run", os.path.join(folder, "nowhere"))
psgd_fails("not the folder of a run", os.path.join(folder, "empty"))
psgd_fails("line 1", os.path.abspath(__file__))
psgd_fails("cannot write", runs, "-o", os.path.join(folder, "nowhere", "report.html"))
check(not os.path.exists("report.html"), "a failed report leaves no page")
subprocess.run([psgd, "report", runs, "-o", page], check=True, stdout=subprocess.DEVNULL)
subprocess.run([psgd, "report", os.path.join(folder, "pictures"), "-o", pictures], check=True, stdout=subprocess.DEVNULL)
text = open(page, encoding="utf-8").read()
check(not re.search(r"(src|href)=.?(https?:)?//", text), "the page refers to nothing outside")

psgd_fails("no run has logged", runs, "--figure", os.path.join(folder, "figure"), "--metric", "train joy")
psgd_fails("step, epoch or seconds", runs, "--figure", os.path.join(folder, "figure"), "--against", "hope")
if shutil.which("gnuplot"):
    figure = os.path.join(folder, "figure")
    drawn = subprocess.run([psgd, "report", runs, "--figure", figure, "--against", "epoch"], check=True,
                           capture_output=True, text=True)
    check(drawn.stderr == "", f"no warnings, but: {drawn.stderr}")
    short = write_run("short", "one", "sgd", [1.0], at="short")
    drawn_short = subprocess.run([psgd, "report", short, "--figure", os.path.join(folder, "short")], check=True,
                                 capture_output=True, text=True)
    check(drawn_short.stderr == "", f"no warnings of a short run, but: {drawn_short.stderr}")
    for task in ("language", "rosenbrock"):
        svg = open(os.path.join(folder, f"figure-{task}.svg"), encoding="utf-8").read()
        png = open(os.path.join(folder, f"figure-{task}.png"), "rb").read()
        check("training loss" in svg and png.startswith(b"\x89PNG"), f"a figure of {task}")
        check(f"written: {figure}-{task}.svg, {figure}-{task}.png\n" in drawn.stdout, f"{task} is said to be written")
        check("<title>Gnuplot" not in svg and svg.count("<style>") == 1, f"the figure of {task} has a style, not gnuplot's title")
    named = os.path.join(folder, "named")
    for name in ("newton-scan-10", "fisher-diag", "lbfgs", "batch-norm", "newton-scan-10x", "fisher-tea"):
        write_run("language", name, "psgd", losses["sgd"], at="named")
    subprocess.run([psgd, "report", named, "--figure", os.path.join(folder, "names"), "--title", "A <title>"], check=True)
    svg = open(os.path.join(folder, "names.svg"), encoding="utf-8").read()
    for words in ("PSGD, Newton, scan, every 10 steps", "PSGD, Fisher, diag", "L-BFGS", "batch normalisation", "newton-scan-10x",
                  "fisher-tea", "A &lt;title>"):
        check(f"<text>{words}</text>" in svg, f"the figure of names says '{words}'")

program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if not program:
    shutil.rmtree(folder)
    print("skipped: there is no chromium to open the page with")
    sys.exit(1 if failures else 77)

PATHS = """(task) => { const svg = document.querySelector(`[data-task=${task}] .plot svg`);
  return { plot: { ...svg.dataset }, paths: [...svg.querySelectorAll('.curve')].map((p) => [p.dataset.run, p.getAttribute('d')]) }; }"""


def drawn(task, log_y=False):
    """The curves of a task as {run: [(x, y)]}, from the pixels of its paths."""
    found = browser.run(f"({PATHS})({json.dumps(task)})")
    plot = {name: float(value) for name, value in found["plot"].items()}
    curves = {}
    for run, d in found["paths"]:
        points = [tuple(map(float, point.split())) for point in re.findall(r"[ML]([-\d.]+ [-\d.]+)", d)]
        values = []
        for x, y in points:
            u = (x - plot["left"]) / (plot["right"] - plot["left"])
            w = (plot["bottom"] - y) / (plot["bottom"] - plot["top"])
            value = plot["y0"] * (plot["y1"] / plot["y0"]) ** w if log_y else plot["y0"] + w * (plot["y1"] - plot["y0"])
            values.append((plot["x0"] + u * (plot["x1"] - plot["x0"]), value))
        curves[run] = values
    return curves, plot


def close(curve, xs, ys, plot, log_y=False):
    """Within a fiftieth of a pixel: paths have two decimals."""
    if len(curve) != len(ys):
        return False
    x_room = 0.02 * (plot["x1"] - plot["x0"]) / (plot["right"] - plot["left"])
    span = math.log(plot["y1"] / plot["y0"]) if log_y else plot["y1"] - plot["y0"]
    y_room = 0.02 * span / (plot["bottom"] - plot["top"])
    return all(abs(x - a) <= x_room and abs(math.log(y / b) if log_y else y - b) <= y_room for (x, y), a, b in zip(curve, xs, ys))


browser = Browser(program)
try:
    browser.window(1280, 900, False)
    browser.open("file://" + page)
    check(not browser.problems(), f"the page loads without an error: {browser.problems()}")
    check(browser.run("document.querySelectorAll('section').length") == 2, "a section for each task")

    curves, plot = drawn("language")
    check(set(curves) == set(losses), "a curve for each run")
    for name, values in losses.items():
        check(close(curves[name], [10 * (i + 1) for i in range(len(values))], values, plot), f"the curve of {name} has its values")
    curves, plot = drawn("rosenbrock", True)
    check(close(curves["dense"], range(10, 610, 10), [10 ** (2 - i / 4) for i in range(60)], plot, True), "the log axis has its values")

    browser.click("[data-task=language] [data-axis=seconds]")
    curves, plot = drawn("language")
    check(close(curves["sgd"], [0.5 * (i + 1) for i in range(60)], losses["sgd"], plot), "against seconds")
    browser.click("[data-task=language] .logy")
    curves, plot = drawn("language", True)
    check(close(curves["sgd"], [0.5 * (i + 1) for i in range(60)], losses["sgd"], plot, True), "a click switches to a log axis")
    browser.click("[data-task=language] .logy")

    browser.click("[data-task=language] .legend [data-run=sgd]")
    check(set(drawn("language")[0]) == set(losses) - {"sgd"}, "a click on the legend hides a curve")
    check(browser.run("document.querySelector('.legend [data-run=sgd]').getAttribute('aria-pressed')") == "false", "the legend shows it")
    browser.click("[data-task=language] .legend [data-run=sgd]")
    check(set(drawn("language")[0]) == set(losses), "another click shows it again")

    browser.run("(() => { const s = document.querySelector('[data-task=language] .smooth'); s.value = 40; s.dispatchEvent(new Event('input')); })()")
    mean = mass = 0.0
    smooth = []
    for value in losses["sgd"]:
        mean, mass = 0.9 * mean + 0.1 * value, 0.9 * mass + 0.1
        smooth.append(mean / mass)
    curves, plot = drawn("language")
    check(close(curves["sgd"], [0.5 * (i + 1) for i in range(60)], smooth, plot), "smoothing is a moving average")

    browser.run("(() => { const s = document.querySelector('[data-task=language] .measure'); s.value = 'health/lstm1/condition'; s.dispatchEvent(new Event('change')); })()")
    check(set(drawn("language")[0]) == {"newton scan"}, "the health of a preconditioner can be drawn")
    cells = browser.run("[...document.querySelectorAll('[data-task=language] table')].map((t) => t.innerText).join('\\n')")
    for words in ("test loss", "newton scan", "not finished", "batch", "lstm1", "</script><b>odd"):
        check(words in cells, f"the tables show '{words}'")

    browser.open("file://" + page)
    backgrounds = set()
    for width in (1280, 400):
        for dark in (False, True):
            browser.window(width, 900, dark)
            check(browser.run("document.documentElement.scrollWidth <= innerWidth"), f"nothing sticks out at {width} pixels")
            inside = browser.run("[...document.querySelectorAll('.plot svg text')].every((t) => { const a = t.getBoundingClientRect(),"
                                 "b = t.ownerSVGElement.getBoundingClientRect(); return a.left >= b.left - 1 && a.right <= b.right + 1; })")
            check(inside, f"the labels of the axes are inside at {width} pixels")
            backgrounds.add((dark, browser.run("getComputedStyle(document.body).backgroundColor")))
            with open(f"report-{width}-{'dark' if dark else 'light'}.png", "wb") as picture:
                picture.write(base64.b64decode(browser.screenshot()))
    check(len(backgrounds) == 2, "light and dark differ, and only they do")

    if shutil.which("gnuplot"):
        browser.open("file://" + os.path.join(folder, "names.svg"))
        fills = "['rect', 'text', 'path.gridline', '#gnuplot_canvas path'].map((q) => Object.values(['fill', 'stroke'].map((p) =>" \
                "getComputedStyle(document.querySelector(q))[p])).join())"
        colours = []
        for dark in (False, True):
            browser.window(1280, 900, dark)
            colours.append(browser.run(fills))
        check(colours[0] != colours[1] and "rgb(255, 255, 255)" in colours[0][0] and "rgb(13, 17, 23)" in colours[1][0],
              f"a figure is light or dark as the page around it: {colours}")
        outside = browser.run("[...document.querySelectorAll('text')].filter((t) => { const a = t.getBoundingClientRect(), b ="
                              "document.documentElement.getBoundingClientRect(); return a.left < b.left || a.right > b.right ||"
                              "a.bottom > b.bottom; }).map((t) => t.textContent)")
        check(outside == [], f"no text of a figure is outside: {outside}")

    browser.open("file://" + pictures)
    for task, shown in {"ten": False, "thousand": True, "unknown": True}.items():
        columns = browser.run(f"[...document.querySelectorAll('[data-task={task}] thead th')].map((cell) => cell.textContent)")
        check("test error" in columns and ("test top-5 error" in columns) == shown, f"top-5 among {task} classes: {columns}")
        check(columns[:3] == ["run", "method", "state"] and not re.search("accuracy|lr|learning|skipped", " ".join(columns)),
              f"the results of {task} have no column that says nothing: {columns}")
    check(not browser.problems(), f"no error in the end: {browser.problems()}")
finally:
    browser.close()
    shutil.rmtree(folder)
sys.exit(1 if failures else 0)
