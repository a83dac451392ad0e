// Queue: everyone who runs or waits, in the order of admission, with the reasons; choose many and act on them.
import { buttons } from "../actions.js";
import { get, KUEUE } from "../api.js";
import { remember } from "../app.js";
import { count, jobsLink } from "../counts.js";
import { empty, h, icon, options, show } from "../dom.js";
import { duration, expected, expectedRange, number, plural } from "../format.js";
import { linkTo, ranFor, stateOf, waitedFor, why } from "../jobs.js";
import { ordered } from "../order.js";
import { collection, follow, scoped } from "../session.js";
import { VirtualTable } from "../table.js";
import { Waits } from "../waits.js";

const STATES = [["live", "Running and waiting"], ["running", "Running"], ["waiting", "Waiting"], ["held", "Held"], ["ended", "Ended"], ["failed", "Failed"], ["", "All"]];
const TEST = {
  live: (row) => row.live, running: (row) => row.live && !row.waits, waiting: (row) => row.waits && row.state !== "HELD", held: (row) => row.state === "HELD",
  ended: (row) => !row.live, failed: (row) => row.state.startsWith("FAILED"), "": () => true,
};
const CLOCK_MS = 1000;

export function pill(row) {
  const [label, tone, picture] = stateOf(row);
  return h("span", { class: "pill", "data-tone": tone }, icon(picture), label);
}

function priorityText(row) {
  return row.raised ? `${row.priority} (+${row.raised})` : String(row.priority);
}

export function mount(main, { query }) {
  const filter = { state: query.has("state") ? query.get("state") : "live", user: query.get("user") || "", queue: query.get("queue") || "", text: query.get("text") || "" };
  const locals = new Map();
  let several = false; // namespaces, each of which may have a queue of the same name
  const waits = new Waits(() => later());
  const find = (row) => waits.of(row);
  const bar = h("div", { class: "bulk" });
  const summary = h("span", { class: "sub", role: "status" });
  const table = new VirtualTable({
    label: "Jobs in the order of admission", selectable: true,
    columns: [
      { name: "position", width: "44px", label: "Place", num: true, cell: (row) => (row.waits ? find(row)?.position ?? "" : "") },
      { name: "title", width: "minmax(96px, 1.4fr)", label: "Job", cell: (row) => [h("a", { href: linkTo(row), tabindex: "-1" }, row.title), h("span", { class: "mute" }, ` ${row.id ?? row.kind}`)] },
      { name: "user", width: "minmax(48px, .6fr)", label: "User", cell: (row) => row.user },
      { name: "queue", width: "minmax(70px, .9fr)", wide: true, label: "Queue", cell: (row) => [row.queue, several && h("span", { class: "mute" }, ` ${row.namespace}`)], hint: (row) => `LocalQueue ${row.queue} of namespace ${row.namespace}` },
      { name: "priority", width: "66px", label: "Priority", num: true, cell: priorityText },
      { name: "ask", width: "minmax(90px, 1.1fr)", wide: true, label: "Asks for", cell: (row) => row.ask, hint: (row) => row.ask },
      { name: "time", width: "60px", label: "Time", num: true, cell: (row) => duration(row.waits ? waitedFor(row) : ranFor(row)), hint: (row) => `waited ${duration(waitedFor(row))}, ran ${duration(ranFor(row))}` },
      { name: "start", width: "72px", label: "Starts", num: true, cell: (row) => (row.waits ? expected(find(row)?.expectedStart) : ""), hint: (row) => (row.waits ? expectedRange(find(row)?.expectedStart) : "") },
      { name: "state", width: "112px", label: "State", cell: pill },
      { name: "why", width: "minmax(80px, 2.8fr)", label: "Why", cell: (row) => why(row, find(row)), hint: (row) => why(row, find(row)) },
    ],
    narrow: (row) => [
      h("span", { role: "cell", class: "name" }, h("div", { class: "cut" }, h("a", { href: linkTo(row), tabindex: "-1" }, row.title), h("span", { class: "mute" }, ` ${row.id ?? row.kind} · ${row.user || row.queue}`)),
        h("div", { class: "tiny soft cut" }, [row.waits && find(row)?.position ? `place ${find(row).position}` : "", duration(row.waits ? waitedFor(row) : ranFor(row)), row.ask].filter(Boolean).join(" · ")),
        h("div", { class: "tiny mute cut" }, why(row, find(row)))),
      h("span", { role: "cell", class: "corner" }, pill(row)),
    ],
    open: (row) => { location.hash = linkTo(row); },
    empty: () => nothing(filter),
    onWindow: (first, last) => waits.window(first - table.before, last - table.before),
    onSelect: () => drawBar(),
  });
  table.before = 0;
  const card = h("section", { class: "card tall", "aria-label": "Queue" }, bar, table.element);
  main.append(h("header", { class: "top" }, h("h1", null, "Queue"), summary), h("div", { class: "body" }, card));

  let sorted = [];
  const all = () => ["jobs", "foreign"].flatMap((name) => [...(collection(name)?.rows.values() || [])]);
  const drawBar = () => {
    const byKey = new Map(sorted.map((row) => [row.key + row.kind, row]));
    const chosen = [...byKey.values()].filter((row) => table.selected.has(row.key));
    if (chosen.length) {
      show(bar, h("strong", { class: "small", role: "status" }, `${number(chosen.length, 0)} chosen`), buttons(chosen, { all: true, after: () => table.chooseAll(false) }), h("span", { class: "grow" }), h("button", { class: "btn plain", onclick: () => table.chooseAll(false) }, "Choose none"));
      return;
    }
    const rows = all();
    const users = [...new Set(rows.map((row) => row.user).filter(Boolean))].sort();
    const queues = [...new Set(rows.map((row) => row.queue).filter(Boolean))].sort();
    const clusters = [...new Set(locals.values())].sort();
    const change = (name) => (event) => { filter[name] = event.target.value; table.scroller.scrollTop = 0; remember({ ...filter, state: filter.state === "live" ? "" : filter.state || "all" }); redraw(); };
    show(bar,
      h("input", { type: "search", "aria-label": "Search jobs", placeholder: "Search name or id", value: filter.text, oninput: change("text"), key: "text" }),
      h("select", { "aria-label": "State", onchange: change("state"), key: "state" }, options(STATES, filter.state)),
      h("select", { "aria-label": "User", onchange: change("user"), key: "user" }, options([["", "All users"], ...users.map((one) => [one, one])], filter.user)),
      h("select", { "aria-label": "Queue", onchange: change("queue"), key: "queue" }, options([["", "All queues"], ...clusters.map((one) => [`cq:${one}`, `ClusterQueue ${one}`]), ...queues.map((one) => [`lq:${one}`, one])], filter.queue)));
  };

  const fits = (row) => TEST[filter.state === "all" ? "" : filter.state](row) && (!filter.user || row.user === filter.user)
    && (!filter.queue || (filter.queue.startsWith("cq:") ? row.clusterQueue === filter.queue.slice(3) : row.queue === filter.queue.slice(3)))
    && (!filter.text || row.title.includes(filter.text) || row.name.includes(filter.text) || String(row.id) === filter.text);
  const redraw = () => {
    const rows = all();
    several = rows.some((row) => row.namespace !== rows[0].namespace);
    for (const row of rows) row.clusterQueue = locals.get(`${row.namespace}/${row.queue}`) || "";
    sorted = ordered(rows.filter(fits), find);
    table.before = sorted.findIndex((row) => row.waits);
    table.filtered = !!(filter.user || filter.queue || filter.text);
    waits.exact = !table.filtered;
    const gone = [...table.selected].filter((key) => !collection("jobs")?.rows.has(key) && !collection("foreign")?.rows.has(key));
    for (const key of gone) table.selected.delete(key);
    table.set(sorted);
    drawBar();
    const loaded = collection("jobs")?.loaded && collection("foreign")?.loaded;
    const waiting = sorted.filter(TEST.waiting).length;
    show(summary, loaded ? [`${plural(sorted.length, "job")}, `, count(waiting, jobsLink({ ...filter, state: "waiting" }), "waiting"), waits.forecast] : `Loading … ${number(rows.length, 0)} jobs`);
  };
  let frame = 0;
  const later = () => { if (!frame) frame = requestAnimationFrame(() => { frame = 0; redraw(); }); };
  const onChange = () => { waits.refresh(); later(); };
  const stops = [follow("jobs", onChange), follow("foreign", onChange)];
  Promise.all(scoped(KUEUE, "localqueues").map((path) => get(path))).then((lists) => {
    for (const one of lists.flatMap((list) => list.items)) locals.set(`${one.metadata.namespace}/${one.metadata.name}`, one.spec.clusterQueue);
    later();
  }, () => {});
  const timer = setInterval(() => { if (!document.hidden) table.draw(); }, CLOCK_MS);
  waits.refresh();
  drawBar();
  return () => { stops.forEach((stop) => stop()); clearInterval(timer); cancelAnimationFrame(frame); waits.close(); table.destroy(); };
}

function nothing(filter) {
  if (!collection("jobs")?.loaded) return h("div", { class: "empty" }, "Loading …");
  if (collection("jobs").refused) return empty("The jobs cannot be shown", collection("jobs").refused.message);
  if (filter.user || filter.queue || filter.text || (filter.state !== "live" && filter.state)) return empty("No job fits this filter", "Another state, user or queue may have some.");
  return empty("Nothing runs or waits", "This runs a command as a job, and shows up here at once:", "fairway jobs launch -d 'python3 -c \"print(6 * 7)\"'");
}
