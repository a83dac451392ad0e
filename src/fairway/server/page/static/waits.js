// What the server says of those who wait: their place, why, and when they may start. It has no watch, so it is asked for
// when something has changed, for the rows in sight.
import { FAIRWAY, get, query } from "./api.js";
import { duration } from "./format.js";
import { scoped } from "./session.js";

const PAGE = 200;
const LEAST_MS = 2000;

export class Waits {
  constructor(onChange) {
    this.items = new Map();
    this.onChange = onChange;
    this.first = 0;
    this.last = PAGE;
    this.exact = true;
    this.forecast = "";
    this.timer = 0;
    this.took = 0;
    this.asked = 0;
    this.closed = false;
    this.pages = new Map();
  }

  of(row) {
    return row.waits && row.workload ? this.items.get(`${row.namespace}/${row.workload}`) : undefined;
  }

  /** These rows of the waiting ones are in sight. */
  window(first, last) {
    this.first = Math.max(0, first);
    this.last = Math.max(PAGE, last);
    if (this.wanted().some((page) => !this.pages.has(page))) this.refresh(60);
  }

  wanted() {
    const found = new Set([0]);
    if (this.exact) for (let page = Math.floor(this.first / PAGE); page * PAGE < this.last; page += 1) found.add(page);
    return [...found];
  }

  /** Ask soon; not more often than the server takes to answer allows. */
  refresh(soon = 0) {
    this.wanting = true;
    if (this.timer || this.closed) return;
    const due = this.asked ? this.asked + Math.max(LEAST_MS, 8 * this.took) - performance.now() : 0;
    this.timer = setTimeout(() => this.ask(), soon || Math.max(0, due));
  }

  async ask() {
    const begun = (this.asked = performance.now());
    this.wanting = false;
    const items = new Map();
    const pages = new Map();
    let pending = false;
    try {
      for (const page of this.wanted()) {
        for (const path of scoped(FAIRWAY, "waitingjobs")) {
          const list = await get(query(path, { limit: PAGE, continue: page ? String(page * PAGE) : "" }));
          pages.set(page, true);
          this.told(list);
          pending ||= list.items.some((one) => one.expectedStart?.message === "unknown: being worked out");
          for (const item of list.items) items.set(`${item.metadata.namespace}/${item.metadata.name}`, item);
        }
      }
      this.items = items;
      this.pages = pages;
    } catch { /* the watch of the jobs shows that the server is gone */ }
    this.took = performance.now() - begun;
    this.timer = 0;
    if (this.closed) return;
    this.onChange();
    if (this.wanting) this.refresh(); // something changed while the server answered
    if (pending) setTimeout(() => this.refresh(), 2000);
  }

  told(list) {
    const error = list.forecast?.error;
    this.forecast = error ? `; half of the past starts came within ${duration(error.medianSeconds)} of what was expected` : "";
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}
