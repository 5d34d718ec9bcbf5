/* The page: for each task a chart with its controls and legend, and tables of results, settings and health. */

const data = JSON.parse(document.getElementById("data").textContent);
const axes = { step: "steps", epoch: "epochs", seconds: "seconds" };
const dashes = [null, "7 4", "2 3", "9 3 2 3"];
const higherIsBetter = (name) => /accuracy/.test(name);
const words = (name) => name.replaceAll("top5", "top-5").replaceAll("_", " ").replace(/^train /, "training ").replace(/^valid /, "validation ");
const metricWords = (split, name) => (name === "lr" ? "learning rate" : words(`${split} ${name}`));

data.runs.forEach((run, index) => {
  const place = data.runs.slice(0, index).filter((other) => other.task === run.task).length;
  run.colour = `var(--c${place % 8})`;
  run.dash = dashes[Math.floor(place / 8) % dashes.length];
});

/* What can be drawn: {key, label, group, curveOf(run)}, measures first, then the health of each tensor. */
function measuresOf(runs) {
  const found = new Map();
  for (const run of runs) {
    for (const curve of run.curves) {
      const key = curve.tensor ? `health/${curve.tensor}/${curve.name}` : `${curve.split}/${curve.name}`;
      const label = curve.tensor ? `${words(curve.name)}, ${curve.tensor}` : metricWords(curve.split, curve.name);
      if (!found.has(key)) found.set(key, { key, label, health: Boolean(curve.tensor), split: curve.split, name: curve.name, tensor: curve.tensor });
    }
  }
  const order = ["loss", "perplexity", "accuracy", "error"], splits = ["train", "valid", "test"];
  const rank = (list, word) => (list.indexOf(word) + list.length + 1) % (list.length + 1);
  return [...found.values()].sort((a, b) => a.health - b.health || rank(splits, a.split) - rank(splits, b.split) || rank(order, a.name) - rank(order, b.name));
}

function curveOf(run, measure) {
  return run.curves.find((curve) => curve.name === measure.name && (measure.tensor ? curve.tensor === measure.tensor : curve.split === measure.split));
}

function spansDecades(runs, measure) {
  const all = runs.flatMap((run) => curveOf(run, measure)?.value ?? []).filter((value) => value !== null);
  const values = all.filter((value) => value > 0);
  const low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return values.length > 0.8 * all.length && high / low > 50;
}

function buildChart(runs) {
  const measures = measuresOf(runs);
  if (!measures.length) return make("p", { class: "hint" }, "No numbers have been logged yet.");
  const view = { measure: measures[0], axis: "step", logX: false, logY: spansDecades(runs, measures[0]), smooth: 0 };
  const off = new Set();
  const box = make("div", { class: "plot" });

  function draw() {
    const curves = runs.filter((run) => !off.has(run)).map((run) => ({ run, curve: curveOf(run, view.measure) })).filter((pair) => pair.curve)
      .map(({ run, curve }) => ({ label: run.run, colour: run.colour, dash: run.dash, x: curve[view.axis], y: curve.value }));
    drawChart(box, curves, { ...view, xLabel: axes[view.axis], yLabel: view.measure.label });
  }

  const option = (measure) => make("option", { value: measure.key }, measure.label);
  const health = measures.filter((measure) => measure.health).map(option);
  const select = make("select", { class: "measure", onchange: () => {
    view.measure = measures.find((measure) => measure.key === select.value);
    logY.checked = view.logY = spansDecades(runs, view.measure);
    draw();
  } }, ...measures.filter((measure) => !measure.health).map(option), health.length ? make("optgroup", { label: "preconditioners" }, ...health) : null);

  const segments = make("span", { class: "segments", role: "group", "aria-label": "horizontal axis" }, ...Object.keys(axes).filter((axis) => axis === "step" || runs.some((run) => run.last[axis] > 0)).map((axis) => make("button", {
    type: "button", "data-axis": axis, "aria-pressed": String(axis === view.axis), onclick: (event) => {
      view.axis = axis;
      segments.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(button === event.currentTarget)));
      draw();
    } }, axes[axis])));

  const logX = make("input", { type: "checkbox", class: "logx", onchange: () => { view.logX = logX.checked; draw(); } });
  const logY = make("input", { type: "checkbox", class: "logy", onchange: () => { view.logY = logY.checked; draw(); } });
  logY.checked = view.logY;
  const smooth = make("input", { type: "range", class: "smooth", min: 0, max: 100, value: 0, oninput: () => {
    view.smooth = smooth.value === "0" ? 0 : 1 - 10 ** (-smooth.value / 40);
    draw();
  } });

  const legend = make("ul", { class: "legend", "aria-label": "runs" }, ...runs.map((run) => make("li", {}, make("button", {
    type: "button", "aria-pressed": "true", "data-run": run.run, title: `${run.run}: switch this run on or off`, onclick: (event) => {
      if (!off.delete(run)) off.add(run);
      event.currentTarget.setAttribute("aria-pressed", String(!off.has(run)));
      draw();
    } }, swatch(run), run.label))));

  new ResizeObserver(draw).observe(box);
  return make("div", {}, make("div", { class: "controls" }, make("label", {}, "show", select), make("span", { class: "label" }, "against", segments),
    make("label", {}, logX, "log x"), make("label", {}, logY, "log y"), make("label", {}, "smooth", smooth)), box, legend);
}

function table(head, rows) {
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
}

const runCell = (run) => make("th", { scope: "row" }, swatch(run), " ", run.run);

/* Among ten classes, guessing has half of them among the first five. */
const saysLittle = (run, name) => /top5/.test(name) && run.settings.classes <= 10;

/* Known beforehand, or one minus another column. */
const saysNothing = (run, curve) => curve.name === "lr" || (curve.name === "accuracy" && `${curve.split}_error` in run.final);

/* Columns: every number of a final record, then the last of every curve, with the best of the valid ones; no column of
 * zeros where nothing was skipped. */
function resultsOf(runs) {
  const columns = new Map();
  const put = (label, name, run, value) => {
    if (saysLittle(run, name)) return;
    if (!columns.has(label)) columns.set(label, { name, values: new Map() });
    columns.get(label).values.set(run, value);
  };
  for (const run of runs) for (const [name, value] of Object.entries(run.final)) put(words(name), name, run, value);
  for (const run of runs) {
    for (const curve of run.curves) {
      if (curve.tensor || !curve.value.length || saysNothing(run, curve)) continue;
      const label = metricWords(curve.split, curve.name), known = curve.value.filter((value) => value !== null);
      if (!(`${curve.split}_${curve.name}` in run.final)) put(`${label}, last`, curve.name, run, curve.value.at(-1));
      if (curve.split !== "valid" || !known.length || known.length < 2) continue;
      put(`${label}, best`, curve.name, run, known.reduce((a, b) => (higherIsBetter(curve.name) ? Math.max(a, b) : Math.min(a, b))));
    }
  }
  return [...columns].map(([label, column]) => ({ label, ...column })).filter((column) => column.name !== "skipped_steps" || [...column.values.values()].some((value) => value !== 0));
}

function buildResults(runs) {
  const columns = resultsOf(runs);
  for (const column of columns) {
    const known = [...column.values.values()].filter((value) => value !== null && Number.isFinite(value));
    const judged = /loss|perplexity|accuracy|error|distance|gap/.test(column.name) && runs.length > 1;
    column.best = judged && known.length ? known.reduce((a, b) => (higherIsBetter(column.name) ? Math.max(a, b) : Math.min(a, b))) : null;
  }
  const number = (text) => make("th", { class: "number", scope: "col" }, text);
  return table([make("th", { scope: "col" }, "run"), make("th", { scope: "col" }, "method"), make("th", { scope: "col" }, "state"), ...columns.map((column) => number(column.label)),
    number("steps"), number("epochs"), number("seconds"), number("ms per step")],
  runs.map((run) => make("tr", {}, runCell(run), make("td", { class: "words" }, run.method), make("td", {}, run.final.diverged ? "diverged" : run.finished ? "finished" : "not finished"), ...columns.map((column) => {
    const value = column.values.get(run);
    return make("td", { class: value !== undefined && value === column.best ? "number best" : "number" }, show(value));
  }), ...[run.last.step, run.last.epoch || null, run.last.seconds || null, run.last.step && run.last.seconds ? (1000 * run.last.seconds) / run.last.step : null].map((value) =>
    make("td", { class: "number" }, show(value))))));
}

function buildSettings(runs) {
  const of = (run, name) => (name === "seed" ? run.seed : run.settings[name] ?? run.defaults[name]);
  const named = (key) => [...new Set(runs.flatMap((run) => Object.keys(run[key])))];
  const rows = (names) => names.map((name) => {
    const differs = new Set(runs.map((run) => of(run, name))).size > 1;
    return make("tr", {}, make("th", { scope: "row" }, name), ...runs.map((run) => make("td", { class: differs ? "differs" : null }, of(run, name) ?? "–")));
  });
  const head = () => [make("th", { scope: "col" }, "setting"), ...runs.map((run) => make("th", { scope: "col" }, swatch(run), " ", run.run))];
  const given = named("settings").filter((name) => name !== "seed");
  const others = named("defaults").filter((name) => name !== "seed" && !given.includes(name));
  const all = table(head(), rows(["seed", ...given]));
  if (!others.length) return all;
  return make("div", {}, all, make("details", {}, make("summary", {}, "defaults: settings that no run was given"), table(head(), rows(others))));
}

function sparkline(curve) {
  const log = curve.value.every((value) => value === null || value > 0);
  const yRange = rangeOf(curve.value, log, 0.1), xRange = rangeOf(curve.step, false, 0);
  if (!yRange || curve.value.length < 2) return "–";
  const d = pathOf({ x: curve.step, y: curve.value }, scaleOf(xRange, false, 1, 99), scaleOf(yRange, log, 19, 1), { logY: log });
  return make("svg", { class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img", "aria-label": `${words(curve.name)} over the run` },
    make("path", { d, "vector-effect": "non-scaling-stroke" }));
}

function buildHealth(runs) {
  const rows = [], names = [];
  for (const run of runs) {
    for (const curve of run.curves) {
      if (!curve.tensor) continue;
      if (!names.includes(curve.name)) names.push(curve.name);
      let row = rows.find((other) => other.run === run && other.tensor === curve.tensor);
      if (!row) rows.push(row = { run, tensor: curve.tensor, group: curve.group, curves: {} });
      row.curves[curve.name] = curve;
    }
  }
  if (!rows.length) return null;
  const drawn = names.includes("condition") ? "condition" : names[0];
  return table([make("th", { scope: "col" }, "run"), make("th", {}, "tensor"), make("th", {}, "group"),
    ...names.map((name) => make("th", { class: "number", scope: "col" }, words(name))), make("th", {}, `${words(drawn)} over the run`)],
  rows.map((row) => make("tr", {}, runCell(row.run), make("td", {}, row.tensor), make("td", {}, row.group || "–"), ...names.map((name) => {
    const value = row.curves[name]?.value.at(-1);
    return make("td", { class: name === "skipped" && value > 0 ? "number warn" : "number" }, show(value));
  }), make("td", {}, row.curves[drawn] ? sparkline(row.curves[drawn]) : "–"))));
}

function buildTask(task, runs, index) {
  const health = buildHealth(runs);
  return make("section", { id: `task${index}`, "data-task": task }, make("h2", {}, task || "runs"), buildChart(runs),
    make("h3", {}, "Results"), buildResults(runs), make("h3", {}, "Settings"), buildSettings(runs),
    health ? make("h3", {}, "Preconditioners") : null, health ? make("p", { class: "hint" }, "As last logged. Skipped: parts of updates left out because they would have left the group.") : null, health);
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

const tasks = [...new Set(data.runs.map((run) => run.task))];
document.getElementById("about").textContent = `${data.runs.length} run${data.runs.length === 1 ? "" : "s"}, written by psgd ${data.version}`;
document.getElementById("main").replaceChildren(...tasks.map((task, i) => buildTask(task, data.runs.filter((run) => run.task === task), i)));
if (tasks.length > 1) document.getElementById("tasks").append(...tasks.map((task, i) => make("a", { href: `#task${i}` }, task || "runs")));
