// A table of all its rows. On a phone each row is a card: its title, a corner beside it, and the other cells under their labels.
import { h } from "./dom.js";

const MOST_BESIDE = 4;

/** `columns`: {label, num, at, cell(row), hint(row)}; `at` is its place in a card: `title` (the first one), `corner`, `whole`, a line of its own, or `none`. */
export function simpleTable({ columns, rows, key, middle = false }) {
  const places = columns.map((one, index) => one.at || (index ? "" : "title"));
  const beside = Math.min(MOST_BESIDE, places.filter((one) => !one).length) || 1;
  const cell = (row) => (one, index) => h("td", { role: "cell", class: one.num ? "num" : null, title: one.hint?.(row), "data-at": places[index] || null, "data-label": places[index] ? null : one.label }, one.cell(row));
  return h("div", { class: "wide" }, h("table", { class: `simple${middle ? " mid" : ""}`, role: "table", style: { "--beside": beside } },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((one) => h("th", { role: "columnheader", class: one.num ? "num" : null }, one.hidden ? h("span", { class: "hidden" }, one.label) : one.label)))),
    h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { role: "row", key: key(row) }, columns.map(cell(row)))))));
}
