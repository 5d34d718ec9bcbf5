"use strict";
/* Axes, curves and the tooltip of one chart. A curve is {label, colour, dash, x: [..], y: [..]}; y may hold null. */

const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "rect", "circle"].includes(tag);
  const node = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function show(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return value.toLocaleString("en-GB");
  if (size >= 1e5 || size < 1e-3) return value.toExponential(3).replace("e+", "e");
  return Number(value.toPrecision(4)).toLocaleString("en-GB", { maximumFractionDigits: 8 });
}

function showTick(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential().replace("e+", "e");
  return Number(value.toPrecision(10)).toLocaleString("en-GB", { maximumFractionDigits: 8 });
}

function niceTicks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw) || 10 * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && ticks.length < 50; i++) ticks.push(i * step);
  return ticks;
}

function logTicks(low, high, wanted) {
  const decades = Math.log10(high / low);
  if (decades < 0.7) return niceTicks(low, high, wanted);
  const ticks = [];
  const every = Math.max(1, Math.ceil(decades / wanted));
  const within = decades < 2.5 ? [1, 2, 5] : [1];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    if (e % every) continue;
    for (const k of within) {
      const tick = Number(`${k}e${e}`);
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push(tick);
    }
  }
  return ticks;
}

/* The visible range of values, with some air around a linear one. */
function rangeOf(values, log, air) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value === null || !Number.isFinite(value) || (log && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return null;
  if (low === high) return log ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  if (log) return [low / (high / low) ** air, high * (high / low) ** air];
  return [low - (high - low) * air, high + (high - low) * air];
}

function scaleOf(range, log, from, to) {
  const f = log ? Math.log10 : (value) => value;
  const low = f(range[0]), high = f(range[1]);
  return (value) => from + ((f(value) - low) / (high - low)) * (to - from);
}

/* Exponential moving average without the bias of its start; null stays null. */
function smoothed(values, weight) {
  let mean = 0, mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = weight * mean + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return mean / mass;
  });
}

function pathOf(curve, x, y, view) {
  let d = "", pen = false;
  for (let i = 0; i < curve.x.length; i++) {
    const value = curve.y[i], at = curve.x[i];
    if (value === null || at === null || (view.logY && value <= 0) || (view.logX && at <= 0)) {
      pen = false;
      continue;
    }
    d += `${pen ? "L" : "M"}${x(at).toFixed(2)} ${y(value).toFixed(2)}`;
    pen = true;
  }
  return d;
}

function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle;
    else high = middle;
  }
  return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
}

function swatch(run) {
  return make("svg", { class: "swatch", viewBox: "0 0 22 12", "aria-hidden": "true" },
    make("line", { x1: 1, x2: 21, y1: 6, y2: 6, "stroke-width": 3, stroke: run.colour, "stroke-dasharray": run.dash }));
}

/* Draws into box, which keeps one svg and one tooltip. view: {logX, logY, smooth, xLabel, yLabel}. */
function drawChart(box, curves, view) {
  const width = Math.max(260, box.clientWidth - 16), height = Math.round(Math.min(440, Math.max(260, width * 0.5)));
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${view.yLabel} against ${view.xLabel}` });
  const old = box.querySelector("svg");
  if (old) old.replaceWith(svg);
  else box.append(svg);
  box.querySelectorAll(".tip").forEach((tip) => tip.remove());

  const drawn = curves.map((curve) => ({ ...curve, y: view.smooth > 0 ? smoothed(curve.y, view.smooth) : curve.y, raw: curve.y }));
  const xRange = rangeOf(drawn.flatMap((curve) => curve.x), view.logX, 0);
  const yRange = rangeOf(drawn.flatMap((curve) => curve.y), view.logY, 0.04);
  if (!xRange || !yRange) {
    const why = curves.length ? "no value above 0 to draw on a log axis" : "no curve is switched on";
    svg.append(make("text", { class: "note", x: width / 2, y: height / 2, "text-anchor": "middle" }, why));
    return;
  }
  const yTicks = view.logY ? logTicks(...yRange, height / 45) : niceTicks(...yRange, height / 55);
  const left = 22 + 7.2 * Math.max(...yTicks.map((tick) => showTick(tick).length), 2), right = width - 14, top = 10, bottom = height - 40;
  const x = scaleOf(xRange, view.logX, left, right), y = scaleOf(yRange, view.logY, bottom, top);
  Object.assign(svg.dataset, { x0: xRange[0], x1: xRange[1], y0: yRange[0], y1: yRange[1], left, right, top, bottom });

  for (const tick of yTicks) {
    svg.append(make("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }),
      make("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, showTick(tick)));
  }
  const xTicks = view.logX ? logTicks(...xRange, width / 90) : niceTicks(...xRange, width / 110);
  for (const tick of xTicks) {
    svg.append(make("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom }),
      make("text", { x: x(tick), y: bottom + 17, "text-anchor": x(tick) > right - 18 ? "end" : "middle" }, showTick(tick)));
  }
  svg.append(make("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
    make("text", { x: (left + right) / 2, y: height - 5, "text-anchor": "middle" }, view.xLabel),
    make("text", { x: 12, y: (top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(top + bottom) / 2})` }, view.yLabel));

  for (const curve of drawn) {
    const style = { stroke: curve.colour, "stroke-dasharray": curve.dash, "data-run": curve.label };
    if (view.smooth > 0) svg.append(make("path", { ...style, class: "raw", d: pathOf({ x: curve.x, y: curve.raw.map((v) => (v === null || v < yRange[0] || v > yRange[1] ? null : v)) }, x, y, view) }));
    svg.append(make("path", { ...style, class: "curve", d: pathOf(curve, x, y, view) }));
    if (curve.x.length === 1 && curve.y[0] !== null) svg.append(make("circle", { cx: x(curve.x[0]), cy: y(curve.y[0]), r: 3, fill: curve.colour }));
  }
  addTooltip(box, svg, drawn, view, { x, y, left, right, top, bottom, width });
}

function addTooltip(box, svg, curves, view, plot) {
  const ruler = make("line", { class: "ruler", y1: plot.top, y2: plot.bottom, visibility: "hidden" });
  const tip = make("div", { class: "tip", hidden: true });
  svg.append(ruler);
  box.append(tip);
  const invert = (pixel) => {
    const part = (pixel - plot.left) / (plot.right - plot.left);
    const [low, high] = [Number(svg.dataset.x0), Number(svg.dataset.x1)];
    return view.logX ? low * (high / low) ** part : low + part * (high - low);
  };
  svg.addEventListener("pointerleave", () => {
    tip.hidden = true;
    ruler.setAttribute("visibility", "hidden");
  });
  svg.addEventListener("pointermove", (event) => {
    const area = svg.getBoundingClientRect();
    const pixel = Math.min(plot.right, Math.max(plot.left, ((event.clientX - area.left) / area.width) * plot.width));
    const at = invert(pixel);
    const rows = curves.filter((curve) => curve.x.length).map((curve) => {
      const i = nearest(curve.x, at);
      return { curve, x: curve.x[i], y: curve.y[i] };
    }).sort((a, b) => (b.y ?? -Infinity) - (a.y ?? -Infinity));
    tip.replaceChildren(make("div", { class: "hint" }, `${view.xLabel} ${show(rows.length ? rows[0].x : at)}`),
      make("table", {}, ...rows.map((row) => make("tr", {}, make("td", {}, swatch(row.curve)), make("td", {}, row.curve.label),
        make("td", { class: "number" }, show(row.y))))));
    tip.hidden = false;
    ruler.setAttribute("visibility", "visible");
    ruler.setAttribute("x1", pixel);
    ruler.setAttribute("x2", pixel);
    const place = (pixel / plot.width) * area.width + 8;
    tip.style.left = `${Math.max(4, Math.min(place + 12 + tip.offsetWidth > box.clientWidth ? place - tip.offsetWidth - 12 : place + 12, box.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = "1rem";
  });
}
