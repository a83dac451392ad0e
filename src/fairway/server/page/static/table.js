// A table of any length: only the rows in sight are in the document. Arrow keys move, space chooses, enter opens.
import { h, morph } from "./dom.js";

const SPARE = 8;

export class VirtualTable {
  /** `columns`: {name, label, num, width, wide, cell(row)}, of which `wide` ones need room; `narrow` draws a row on a phone. */
  constructor({ label, columns, narrow, selectable = false, open, empty, onWindow = () => {}, onSelect = () => {} }) {
    Object.assign(this, { label, all: columns, narrow, selectable, open, empty, onWindow, onSelect });
    this.rows = [];
    this.lines = new Map();
    this.selected = new Set();
    this.focused = 0;
    this.phone = matchMedia("(max-width: 860px)");
    this.medium = matchMedia("(max-width: 1240px)");
    this.space = h("div", { class: "space", role: "presentation" });
    this.scroller = h("div", { class: "rows", role: "presentation", onscroll: () => this.draw() }, this.space);
    this.head = h("div", { class: "head", role: "row" });
    this.headGroup = h("div", { role: "rowgroup" }, this.head);
    this.bodyGroup = h("div", { role: "rowgroup" });
    this.space.append(this.bodyGroup);
    this.table = h("div", { class: "grid", role: "table", "aria-label": label }, this.headGroup, this.scroller);
    this.nothing = h("div", { hidden: true });
    this.element = h("div", { class: "vt" }, this.table, this.nothing);
    this.element._own = true;
    this.scroller.onkeydown = (event) => this.key(event);
    this.phone.onchange = this.medium.onchange = () => this.reset();
    this.resize = new ResizeObserver(() => this.draw());
    this.resize.observe(this.scroller);
    this.drawHead();
  }

  get height() { return this.phone.matches ? 68 : 40; }
  get columns() { return this.medium.matches ? this.all.filter((one) => !one.wide) : this.all; }
  destroy() { this.resize.disconnect(); this.phone.onchange = this.medium.onchange = null; }

  drawHead() {
    this.head.style.setProperty("grid-template-columns", this.grid());
    const check = this.selectable && h("span", { role: "columnheader" }, h("span", { class: "hidden" }, "Choose"), h("input", {
      type: "checkbox", "aria-label": "Choose all", checked: this.rows.length > 0 && this.rows.every((row) => this.selected.has(row.key)),
      onchange: (event) => this.chooseAll(event.target.checked) }));
    const cells = this.columns.map((one) => h("span", { role: "columnheader", class: one.num ? "num" : "" }, one.label));
    this.head.replaceChildren(...[check, ...cells].filter(Boolean));
  }

  grid() { return [this.selectable && "20px", ...this.columns.map((one) => one.width)].filter(Boolean).join(" "); }

  reset() {
    for (const line of this.lines.values()) line.remove();
    this.lines.clear();
    this.drawHead();
    this.set(this.rows);
  }

  set(rows) {
    const key = this.rows[this.focused]?.key;
    this.rows = rows;
    if (key !== undefined && rows[this.focused]?.key !== key) {
      const moved = rows.findIndex((row) => row.key === key);
      if (moved >= 0 && this.scroller.contains(document.activeElement)) this.focused = moved;
    }
    this.focused = Math.max(0, Math.min(this.focused, rows.length - 1));
    this.space.style.height = `${rows.length * this.height}px`;
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.nothing.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
    if (!rows.length) this.nothing.replaceChildren(this.empty());
    this.draw();
  }

  /** The rows in sight. */
  range() {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / this.height) - SPARE);
    const count = Math.ceil((this.scroller.clientHeight || 600) / this.height) + 2 * SPARE;
    return [first, Math.min(this.rows.length, first + count)];
  }

  draw() {
    const [first, last] = this.range();
    const kept = new Map();
    let before = null;
    for (let index = first; index < last; index += 1) {
      const row = this.rows[index];
      const made = this.line(row, index);
      const old = this.lines.get(row.key);
      const line = old ? morph(old, made) : made;
      this.lines.delete(row.key);
      kept.set(row.key, line);
      const place = before ? before.nextSibling : this.bodyGroup.firstChild;
      if (line !== place) this.bodyGroup.insertBefore(line, place);
      before = line;
    }
    for (const line of this.lines.values()) line.remove();
    this.lines = kept;
    if (first !== this.first || last !== this.last) {
      this.first = first;
      this.last = last;
      this.onWindow(first, last);
    }
  }

  line(row, index) {
    const chosen = this.selected.has(row.key);
    const check = this.selectable && h("span", { role: "cell" }, h("input", { type: "checkbox", checked: chosen, tabindex: "-1", "aria-label": `Choose ${row.title || row.key}`, onchange: (event) => this.choose(row, event.target.checked) }));
    const cells = this.phone.matches ? this.narrow(row) : this.columns.map((one) => h("span", { role: "cell", class: one.num ? "num" : one.name === "title" ? "name" : "", title: one.hint ? one.hint(row) : null }, one.cell(row)));
    return h("div", {
      class: "line", role: "row", key: row.key, "aria-rowindex": index + 2, tabindex: index === this.focused ? "0" : "-1", "aria-selected": this.selectable ? String(chosen) : null,
      style: { transform: `translateY(${index * this.height}px)`, "grid-template-columns": this.phone.matches ? `${this.selectable ? "20px " : ""}minmax(0, 1fr)` : this.grid() },
    }, check, cells);
  }

  key(event) {
    if (event.target.closest("input, a, button") && event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 12, PageUp: -12, Home: -this.rows.length, End: this.rows.length };
    if (event.key in steps) {
      event.preventDefault();
      this.focus(this.focused + steps[event.key]);
    } else if (event.key === "Enter" && this.open) this.open(this.rows[this.focused]);
    else if ((event.key === " " || event.key === "x") && this.selectable) {
      event.preventDefault();
      const row = this.rows[this.focused];
      this.choose(row, !this.selected.has(row.key));
    }
  }

  focus(index) {
    this.focused = Math.max(0, Math.min(this.rows.length - 1, index));
    const top = this.focused * this.height;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    if (top + this.height > scrollTop + clientHeight) this.scroller.scrollTop = top + this.height - clientHeight;
    this.draw();
    this.lines.get(this.rows[this.focused]?.key)?.focus();
  }

  choose(row, is) {
    if (is) this.selected.add(row.key);
    else this.selected.delete(row.key);
    this.chosen();
  }
  chooseAll(is) {
    this.selected = new Set(is ? this.rows.map((row) => row.key) : []);
    this.chosen();
  }
  chosen() {
    this.drawHead();
    this.draw();
    this.onSelect(this.selected);
  }
}
