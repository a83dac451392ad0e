// A log as it grows: searched, followed, and no more of it in the document than a browser can bear.
import { query, stream } from "./api.js";
import { h, icon } from "./dom.js";
import { number } from "./format.js";
import { pause } from "./watch.js";

const MOST_LINES = 20_000;
const TAIL = 5000;
const CHUNK = 200;
const ESCAPES = /\u001b\[[0-9;?]*[A-Za-z]/g;

export class LogView {
  constructor(path, name) {
    this.path = path;
    this.name = name;
    this.lines = [];
    this.dropped = 0;
    this.rest = "";
    this.needle = "";
    this.stuck = true;
    this.shown = 0;
    this.box = h("div", { class: "logbox", tabindex: "0", role: "log", "aria-label": "Log", "aria-live": "off", onscroll: () => {
      this.stuck = this.box.scrollTop + this.box.clientHeight > this.box.scrollHeight - 24;
    } });
    this.state = h("span", { class: "tiny mute", role: "status" });
    this.element = h("div", null, h("div", { class: "bulk" },
      h("input", { type: "search", "aria-label": "Search the log", placeholder: "Search the log", oninput: (event) => this.search(event.target.value) }),
      this.state, h("span", { class: "grow" }),
      h("a", { class: "btn", href: path, download: `${name}.log` }, icon("down"), "Download")), this.box);
    this.element._own = true;
    this.run();
  }

  async run() {
    this.abort = new AbortController();
    for (let failures = 0; !this.abort.signal.aborted;) {
      this.tell("Following");
      try {
        this.lines = [];
        this.dropped = 0;
        this.rest = "";
        await stream(query(this.path, { follow: "true", tailLines: TAIL }), (text) => this.add(text), this.abort.signal, () => this.redraw());
        if (this.rest) this.add("\n");
        this.tell("Complete");
        return;
      } catch (error) {
        if (this.abort.signal.aborted) return;
        if (error.code >= 400 && error.code < 500) { this.tell(error.message); return; }
        failures += 1;
        this.tell("Reconnecting");
        await pause(Math.min(10_000, 500 * 2 ** failures));
      }
    }
  }

  tell(what) {
    this.what = what;
    const hits = this.needle ? `, ${number(this.hits || 0, 0)} lines match` : "";
    const all = this.lines.length + this.dropped;
    this.state.textContent = `${what}; ${number(all, 0)} ${all === 1 ? "line" : "lines"}${hits}`;
  }

  add(text) {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop();
    for (const line of lines) this.lines.push(line.replace(/\r$/, "").replace(/^.*\r/, "").replace(ESCAPES, ""));
    const over = this.lines.length - MOST_LINES;
    if (over > 0) {
      this.lines.splice(0, over);
      this.dropped += over;
      this.redraw();
      return;
    }
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  search(needle) {
    this.needle = needle.toLowerCase();
    this.redraw();
  }

  redraw() {
    this.box.replaceChildren();
    this.shown = 0;
    this.hits = 0;
    this.draw();
  }

  draw() {
    let chunk = this.box.lastElementChild;
    if (chunk?.className === "empty" && this.shown < this.lines.length) {
      chunk.remove();
      chunk = null;
    }
    for (let index = this.shown; index < this.lines.length; index += 1) {
      const line = this.lines[index];
      const at = this.needle ? line.toLowerCase().indexOf(this.needle) : 0;
      if (at < 0) continue;
      if (this.needle) this.hits += 1;
      if (chunk?.className !== "chunk" || chunk.childElementCount >= CHUNK) this.box.append((chunk = h("div", { class: "chunk" })));
      const end = at + this.needle.length;
      chunk.append(h("div", { class: "l" }, h("span", { class: "n", "aria-hidden": "true" }, String(index + this.dropped + 1)),
        h("span", null, this.needle ? [line.slice(0, at), h("mark", null, line.slice(at, end)), line.slice(end)] : line)));
    }
    this.shown = this.lines.length;
    if (!this.box.childElementCount) this.box.append(h("div", { class: "empty" }, this.needle ? "No line matches." : "Nothing was written yet."));
    this.tell(this.what);
    if (this.stuck) this.box.scrollTop = this.box.scrollHeight;
  }

  close() {
    this.abort?.abort();
    cancelAnimationFrame(this.frame);
  }
}
