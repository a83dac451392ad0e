// The frame: who is logged in, which page is shown, and whether it is live.
import { Refusal, whenLoggedOut } from "./api.js";
import { h, icon, notice, show } from "./dom.js";
import { tell } from "./dialog.js";
import { load, login, logout, serves, session } from "./session.js";
import { assess, health } from "./watch.js";

const PAGES = [
  ["overview", "Overview", "overview", () => true], ["queue", "Queue", "queue", () => true], ["quota", "Quota", "tree", () => true],
  ["history", "History", "history", () => serves("usage")], ["nodes", "Nodes", "nodes", () => session.nodes], ["whatif", "What if", "whatif", () => serves("simulations")],
  ["users", "Users", "users", () => session.admin],
];
const VIEWS = { jobs: "job", workloads: "job" };
const THEME = "fairway-theme";
let current = null;
let turn = 0;

function theme() {
  const chosen = localStorage.getItem(THEME);
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  return dark;
}

function frame() {
  const app = document.getElementById("app");
  const live = h("span", { class: "live", id: "live", role: "status", "data-state": health.state });
  const side = h("div", { class: "side" },
    h("a", { class: "brand", href: "#/overview" }, h("img", { src: "/page/icon.svg", alt: "" }), h("span", { class: "label" }, "Fairway")),
    h("nav", { class: "nav", "aria-label": "Pages" }, PAGES.filter(([, , , is]) => is()).map(([path, label, picture]) => h("a", { href: `#/${path}`, "data-page": path, title: label }, icon(picture), h("span", { class: "label" }, label)))),
    h("div", { class: "foot" }, live,
      h("div", { class: "row" }, h("span", { class: "who cut", title: "who is logged in" }, session.user), h("span", { class: "row" },
        h("button", { class: "btn plain square", "aria-label": "Switch between light and dark", onclick: flip }, icon(theme() ? "sun" : "moon")),
        h("button", { class: "btn plain square", "aria-label": "Log out", onclick: logout }, icon("out")))),
      h("span", { class: "version" }, session.version)));
  app.className = "frame";
  app.replaceChildren(side, h("main", { class: "main", id: "main", tabindex: "-1" }));
  told(health.state);
}

function flip(event) {
  localStorage.setItem(THEME, theme() ? "light" : "dark");
  event.currentTarget.replaceChildren(icon(theme() ? "sun" : "moon"));
}

const WORDS = { live: "Live", loading: "Loading", lost: "Reconnecting" };
function told(state) {
  const live = document.getElementById("live");
  if (!live) return;
  live.dataset.state = state;
  live.textContent = WORDS[state];
}
health.listeners.add(told);

/** Which page an address names, and with what. */
function address() {
  const [path, tail] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { name: parts[0] || "overview", parts: parts.slice(1), query: new URLSearchParams(tail || "") };
}

/** Change the query of the address without another entry in the history. */
export function remember(query) {
  const { name, parts } = address();
  const tail = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  history.replaceState(null, "", `#/${[name, ...parts.map(encodeURIComponent)].join("/")}${tail ? `?${tail}` : ""}`);
}

async function route() {
  const asked = address();
  const mine = ++turn;
  if (asked.name === "login") return enter(asked.parts[0] || "");
  if (!session.user) {
    try { await load(); } catch (error) { return failed(error); }
    if (!session.user) return enter("");
  }
  if (!document.getElementById("live")) frame();
  const view = VIEWS[asked.name] || asked.name;
  const known = view === "job" || PAGES.some(([path]) => path === view);
  const shown = known ? asked.name : "overview";
  for (const link of document.querySelectorAll(".nav a")) {
    const is = link.dataset.page === shown || (view === "job" && link.dataset.page === "queue");
    if (is) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "center" });
    } else link.removeAttribute("aria-current");
  }
  const { mount } = await import(`./views/${known ? view : "overview"}.js`);
  if (mine !== turn) return undefined;
  current?.();
  const main = document.getElementById("main");
  main.replaceChildren();
  current = mount(main, asked);
  assess();
  document.title = `${main.querySelector("h1")?.textContent || "Fairway"} · Fairway`;
  if (performance.now() > 4000) main.focus({ preventScroll: true });
  scrollTo(0, 0);
  return undefined;
}

function failed(error) {
  const app = document.getElementById("app");
  app.className = "";
  app.replaceChildren(h("main", { class: "login" }, h("h1", null, "Fairway"), notice("bad", error.message), h("button", { class: "btn main-action", onclick: route }, "Try again")));
}

/** The login, by the code of an address or by a token. */
async function enter(code) {
  current?.();
  current = null;
  Object.assign(session, { user: "" });
  const app = document.getElementById("app");
  app.className = "";
  if (code) {
    history.replaceState(null, "", "#/login");
    try { await login({ code }); location.hash = "#/overview"; return; } catch (error) { form(app, error); return; }
  }
  form(app, null);
}

function form(app, error) {
  const problem = h("div", null);
  const token = h("input", { type: "password", name: "token", autocomplete: "off", required: true, "aria-label": "Token" });
  const submit = async (event) => {
    event.preventDefault();
    try {
      await login({ token: token.value.trim() });
      location.hash = "#/overview";
    } catch (refused) {
      show(problem, notice("bad", refused instanceof Refusal && refused.code === 401 ? "This token is not known here, or has expired." : refused.message));
    }
  };
  if (error) show(problem, notice("bad", error.message));
  app.replaceChildren(h("main", { class: "login card", id: "main" }, h("div", { class: "brand" }, h("img", { src: "/page/icon.svg", alt: "" }), "Fairway"),
    h("h1", null, "Log in"), h("p", { class: "soft" }, "On the machine of the server, this opens the page with a login:"), h("pre", { class: "mono", tabindex: "0" }, "fairway dashboard"),
    h("form", { class: "stack", onsubmit: submit }, h("label", { class: "field" }, "Or use a token, from fairway users token NAME", token), problem,
      h("button", { class: "btn main-action" }, "Log in"))));
  document.title = "Log in · Fairway";
}

whenLoggedOut(() => { if (session.user) { session.user = ""; location.hash = "#/login"; } });

const KEYS = [["g then o / q / u / h / n / w", "Overview, Queue, Quota, History, Nodes, What if"], ["/", "Search"], ["↑ ↓ or j k", "Move in a table"], ["space or x", "Choose a row"], ["Enter", "Open a row"], ["?", "This list"]];
let waiting = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  const pages = { o: "overview", q: "queue", u: "quota", h: "history", n: "nodes", w: "whatif" };
  if (waiting === "g" && event.key in pages) location.hash = `#/${pages[event.key]}`;
  else if (event.key === "/") { event.preventDefault(); document.querySelector("input[type=search]")?.focus(); }
  else if (event.key === "?") tell("Keys", h("dl", { class: "facts" }, KEYS.map(([key, what]) => [h("dt", null, key), h("dd", null, what)])));
  waiting = event.key;
});

theme();
addEventListener("hashchange", route);
route();
