// Charts in SVG, as wide as they are told so that their letters have the size of the page: columns over time, and lines.
import { h } from "./dom.js";
import { number } from "./format.js";

const LEFT = 44;
const BOTTOM = 22;

function frame(width, height, top, label, unit) {
  const y = (value) => height - BOTTOM - (value / top) * (height - BOTTOM - 22);
  const lines = [0, top / 2, top].map((value) => [
    h("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
    h("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, number(value, top < 0.2 ? 3 : top < 4 ? 2 : 0)),
  ]);
  return { y, element: h("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, h("title", null, label), lines,
    unit && h("text", { x: LEFT, y: 10 }, unit)) };
}

/** A round number that is at least so large, and whose half is round, too. */
function nice(value) {
  if (value <= 0) return 2;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((one) => one * power).find((one) => one >= value);
}

/** Hours in the unit that suits the largest of them: its name, and how many of it an hour has. */
export function unitOf(largest) {
  return largest > 0 && largest < 1 ? ["minutes", 60] : ["hours", 1];
}

/** `columns`: [{label, title, parts: [numbers]}]; the parts are stacked, in the colours a0, a1, … */
export function columnChart({ columns, label, unit, width = 720, height = 190 }) {
  const top = nice(Math.max(...columns.map(({ parts }) => parts.reduce((sum, one) => sum + one, 0)), 0));
  const { y, element } = frame(width, height, top, label, unit);
  const step = (width - LEFT) / Math.max(1, columns.length);
  const every = Math.ceil(columns.length / Math.max(2, Math.floor(width / 75)));
  columns.forEach(({ label: text, title, parts }, index) => {
    const x = LEFT + index * step;
    let sum = 0;
    const bars = parts.map((value, part) => {
      const from = sum;
      sum += value;
      return value > 0 && h("rect", { class: `a${part % 6}`, x: x + step * 0.14, width: step * 0.72, y: y(sum), height: Math.max(1, y(from) - y(sum)), rx: "1.5" });
    });
    element.append(h("g", null, h("title", null, title), h("rect", { x, y: 0, width: step, height: height - BOTTOM, fill: "transparent" }), bars,
      index % every === 0 && h("text", { x: x + step / 2, y: height - 6, "text-anchor": "middle" }, text)));
  });
  return element;
}

/** `series`: [{name, dashed, points: [[x, y]]}]; `ticks`: [[x, text]] */
export function lineChart({ series, ticks, label, unit, width = 720, height = 190 }) {
  const points = series.flatMap((one) => one.points);
  const top = Math.max(2, nice(Math.max(...points.map(([, value]) => value), 0)));
  const end = Math.max(...points.map(([at]) => at), 1e-9);
  const { y, element } = frame(width, height, top, label, unit);
  const x = (value) => LEFT + (value / end) * (width - LEFT - 4);
  series.forEach((one, index) => {
    const steps = one.points.flatMap(([at, value], number_) => (number_ ? [`${x(at)},${y(one.points[number_ - 1][1])}`, `${x(at)},${y(value)}`] : [`${x(at)},${y(value)}`]));
    element.append(h("polyline", { class: `line l${index % 3}${one.dashed ? " dash" : ""}`, points: steps.join(" ") }));
  });
  for (const [at, text] of ticks) element.append(h("text", { x: x(at), y: height - 6, "text-anchor": at === 0 ? "start" : at >= end ? "end" : "middle" }, text));
  return element;
}

export function swatches(names) {
  return h("div", { class: "legend" }, names.map((name, index) => h("span", null, h("i", { class: `swatch a${index % 6}` }), name)));
}

/** How wide a chart in this element may be. */
export function room(element) {
  return Math.max(280, Math.min(1400, (element.clientWidth || 720) - 32));
}
