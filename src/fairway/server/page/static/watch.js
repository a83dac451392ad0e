// Objects that are listed once, page by page, and then kept up to date by a watch.
//
// A watch that ends is continued where it was. One that is too old (410) lists again. A server that does not answer is
// tried again, ever less often, and the page says so meanwhile. A page that nobody looks at lets its watches go.
import { get, query, Refusal, send } from "./api.js";

const FIRST_PAGE = 300;
const NEXT_PAGE = 2000;
const SILENCE_MS = 100_000; // the server sends a bookmark every minute
const HIDDEN_MS = 20_000;
const all = new Set();

/** Whether everything is up to date: `live`, `loading`, or `lost` while a server that was there does not answer. */
export const health = { state: "loading", listeners: new Set() };
export function assess() {
  const states = [...all].flatMap((one) => one.feeds.map((feed) => feed.state));
  const state = states.includes("lost") ? "lost" : states.includes("loading") ? "loading" : "live";
  if (state === health.state) return;
  health.state = state;
  for (const listener of health.listeners) listener(state);
}

export class Collection {
  /** `paths` are lists, one for each namespace that may be read; `row` makes of an object what is kept of it. */
  constructor(paths, { row = (object) => object, labels = "", fields = "" } = {}) {
    this.rows = new Map();
    this.loaded = false;
    this.refused = null;
    this.row = row;
    this.listeners = new Set();
    this.selector = { labelSelector: labels, fieldSelector: fields };
    this.feeds = paths.map((path) => new Feed(this, path));
    all.add(this);
    for (const feed of this.feeds) feed.run();
  }

  put(object) {
    const metadata = object.metadata;
    const key = metadata.namespace ? `${metadata.namespace}/${metadata.name}` : metadata.name;
    const made = this.row(object);
    made.key = key;
    this.rows.set(key, made);
    return key;
  }

  /** Tell the listeners, once for all that came in this turn. */
  changed() {
    if (this.told) return;
    this.told = true;
    queueMicrotask(() => {
      this.told = false;
      this.loaded = this.feeds.every((feed) => feed.listed);
      for (const listener of this.listeners) listener(this);
    });
  }

  subscribe(listener) {
    this.listeners.add(listener);
    if (this.rows.size || this.loaded) queueMicrotask(() => this.listeners.has(listener) && listener(this));
    return () => this.listeners.delete(listener);
  }

  pause() { for (const feed of this.feeds) feed.pause(); }
  resume() { for (const feed of this.feeds) feed.resume(); }
  close() {
    all.delete(this);
    this.listeners.clear();
    this.pause();
    assess();
  }
}

/** One list and its watch. */
class Feed {
  constructor(collection, path) {
    this.collection = collection;
    this.path = path;
    this.revision = "";
    this.listed = false;
    this.failures = 0;
    this.turn = 0;
    this.set("loading");
  }

  set(state) {
    this.state = state;
    assess();
  }

  pause() {
    this.turn += 1;
    this.abort?.abort();
    this.running = false;
  }
  resume() { if (!this.running) this.run(); }

  async run() {
    const turn = ++this.turn;
    this.running = true;
    while (turn === this.turn) {
      try {
        if (!this.revision) await this.list(turn);
        await this.watch(turn);
      } catch (error) {
        if (turn !== this.turn) return;
        if (error.code === 410) { this.revision = ""; continue; }
        if (error.code === 401 || error.code === 403 || error.code === 404) {
          this.refuse(error);
          return;
        }
        this.failures += 1;
        this.set("lost");
        await pause(Math.min(15_000, 400 * 2 ** (this.failures - 1)) * (0.75 + Math.random() / 2));
      }
    }
  }

  refuse(error) {
    this.running = false;
    this.listed = true;
    this.collection.refused = error;
    this.set("live");
    this.collection.changed();
  }

  async list(turn) {
    const { collection } = this;
    const seen = new Set();
    let token = "";
    do {
      this.abort = new AbortController();
      const limit = token || this.listed ? NEXT_PAGE : FIRST_PAGE;
      const page = await get(query(this.path, { ...collection.selector, limit, continue: token }), this.abort.signal);
      if (turn !== this.turn) return;
      for (const item of page.items) seen.add(collection.put(item));
      token = page.metadata.continue || "";
      if (!token) this.revision = page.metadata.resourceVersion;
      collection.changed();
    } while (token);
    const prefix = /\/namespaces\/([^/]+)\//.exec(this.path);
    for (const key of collection.rows.keys()) {
      if (!seen.has(key) && (!prefix || key.startsWith(`${decodeURIComponent(prefix[1])}/`))) collection.rows.delete(key);
    }
    this.listed = true;
    this.good();
    collection.changed();
  }

  good() {
    this.failures = 0;
    if (this.state !== "live") this.set("live");
  }

  async watch(turn) {
    const abort = (this.abort = new AbortController());
    let timer = setTimeout(() => abort.abort(), SILENCE_MS);
    try {
      const response = await send(query(this.path, {
        ...this.collection.selector, watch: "1", allowWatchBookmarks: "true", resourceVersion: this.revision,
      }), { signal: abort.signal });
      this.good();
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (turn !== this.turn) return;
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), SILENCE_MS);
        const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = lines.pop();
        for (const line of lines) if (line) this.take(JSON.parse(line));
        this.collection.changed();
      }
    } catch (error) {
      if (error instanceof Refusal) throw error;
      if (turn === this.turn) throw new Refusal(0, "the watch was cut off");
    } finally {
      clearTimeout(timer);
    }
    if (turn === this.turn) await pause(200); // the server ended it: it goes on where it was
  }

  take({ type, object }) {
    if (type === "ERROR") throw new Refusal(object.code || 410, object.message || "");
    this.revision = object.metadata.resourceVersion;
    if (type === "BOOKMARK") return;
    if (type === "DELETED") {
      const { namespace, name } = object.metadata;
      this.collection.rows.delete(namespace ? `${namespace}/${name}` : name);
    } else this.collection.put(object);
  }
}

export function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

let hidden = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hidden);
  if (document.hidden) hidden = setTimeout(() => { for (const one of all) one.pause(); }, HIDDEN_MS);
  else for (const one of all) one.resume();
});
