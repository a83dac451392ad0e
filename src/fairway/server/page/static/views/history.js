// History: use by user, queue, organization and flavor over days and months; waits, preemptions, success; as CSV too.
import { FAIRWAY, get, inNamespace, query } from "../api.js";
import { remember } from "../app.js";
import { columnChart, room, swatches } from "../chart.js";
import { empty, h, icon, notice, options, show } from "../dom.js";
import { amount, ago, clock, duration, fullTime, number, percent, plural, resourceName } from "../format.js";
import { session } from "../session.js";

const DAY = 86_400_000;
const RANGES = { day: ["24 hours", DAY, "hour"], week: ["7 days", 7 * DAY, "day"], month: ["30 days", 30 * DAY, "day"], year: ["12 months", 365 * DAY, "month"] };
const GROUPS = [["user", "User"], ["queue", "Queue"], ["clusterQueue", "ClusterQueue"], ["organization", "Organization"], ["team", "Team"], ["flavor", "Flavor"], ["namespace", "Namespace"], ["kind", "Kind"]];
const MOST_COLOURS = 5;

export function mount(main, { query: asked }) {
  const state = { range: asked.get("range") in RANGES ? asked.get("range") : "week", by: asked.get("by") || "user", measure: asked.get("measure") || "", space: asked.get("namespace") || "", rows: null, total: null, attempts: [] };
  const bar = h("div", { class: "row" });
  const body = h("div", { class: "body" });
  main.append(h("header", { class: "top" }, h("h1", null, "History"), h("span", { class: "grow" }), bar), body);
  let turn = 0;
  const load = async () => {
    const mine = ++turn;
    const { range, by } = state;
    remember({ range, by, measure: state.measure, namespace: state.space });
    controls();
    const [, span, step] = RANGES[range];
    const since = new Date(Date.now() - span).toISOString().replace(/\.\d+Z/, "Z");
    const space = session.everywhere ? state.space : state.space || session.namespaces[0]?.name;
    const base = (resource) => (space ? inNamespace(FAIRWAY, space, resource) : `${FAIRWAY}/${resource}`);
    try {
      const [parts, all, attempts] = await Promise.all([get(query(base("usage"), { since, step, by })), get(query(base("usage"), { since, by })), get(query(base("attempts"), { since, limit: 50 }))]);
      if (mine !== turn) return;
      Object.assign(state, { parts: parts.items, rows: all.items, total: all.total, attempts: attempts.items, error: null });
    } catch (error) {
      if (mine !== turn) return;
      state.error = error;
    }
    draw();
  };
  const change = (name) => (event) => { state[name] = event.target.value; load(); };
  const controls = () => show(bar,
    h("div", { class: "seg", role: "group", "aria-label": "Range" }, Object.entries(RANGES).map(([name, [label]]) => h("button", { "aria-pressed": String(state.range === name), onclick: () => { state.range = name; load(); } }, label))),
    h("select", { "aria-label": "By", onchange: change("by") }, options(GROUPS.map(([value, label]) => [value, `by ${label}`]), state.by)),
    session.namespaces.length > 1 && !session.everywhere && h("select", { "aria-label": "Namespace", onchange: change("space") }, options(session.namespaces.map(({ name }) => [name, name]), state.space)),
    h("button", { class: "btn", onclick: () => download(state), disabled: !state.rows?.length }, icon("down"), "CSV"));
  const draw = () => {
    controls();
    if (state.error) return show(body, state.error.code === 404 ? empty("This server keeps no history", "A newer one does.") : notice("bad", state.error.message));
    if (!state.rows) return show(body, h("p", { class: "mute" }, "Loading …"));
    if (!state.rows.length) return show(body, empty("Nothing ran in this time", "Every attempt of every job is counted here, for years.", "fairway jobs launch 'echo hello'"));
    const resources = [...new Set(state.rows.flatMap((row) => Object.keys(row.hours)))].sort();
    if (!resources.includes(state.measure)) state.measure = resources.find((one) => one.endsWith("/gpu")) || resources[0] || "cpu";
    return show(body, totals(state), chartCard(state, room(body), resources, (one) => { state.measure = one; draw(); }), tableCard(state, resources), attemptsCard(state));
  };
  controls();
  draw();
  load();
  return () => { turn += 1; };
}

function totals({ total }) {
  const stat = (name, figure, more) => h("div", { class: "stat" }, h("span", { class: "name" }, name), h("span", { class: "number" }, figure), h("span", { class: "more" }, more));
  return h("div", { class: "stats" },
    stat("Attempts", number(total.started, 0), `${number(total.ended, 0)} ended, ${number(total.running, 0)} running`),
    stat("Succeeded", percent(total.successRate), `${number(total.succeeded, 0)} of ${number(total.succeeded + total.failed, 0)}`),
    stat("Preempted", number(total.preempted, 0), `${number(total.evicted, 0)} evicted otherwise, ${number(total.lost, 0)} lost`),
    stat("Wait, median", total.wait ? duration(total.wait.p50) : "–", total.wait ? `90% under ${duration(total.wait.p90)}, longest ${duration(total.wait.max)}` : "nothing started"));
}

function chartCard(state, width, resources, choose) {
  const { parts, by, measure, rows, range } = state;
  const label = (row) => row[by] || "none";
  const largest = [...rows].sort((a, b) => (b.hours[measure] || 0) - (a.hours[measure] || 0)).map(label);
  const names = largest.slice(0, MOST_COLOURS);
  const rest = largest.length > MOST_COLOURS;
  const step = RANGES[range][2];
  const times = new Map();
  for (const row of parts) {
    if (!times.has(row.start)) times.set(row.start, Array(names.length + (rest ? 1 : 0)).fill(0));
    const at = names.indexOf(label(row));
    times.get(row.start)[at < 0 ? names.length : at] += row.hours[measure] || 0;
  }
  const text = (start) => (step === "hour" ? clock(start).slice(-5) : new Date(start).toLocaleDateString("en-GB", step === "day" ? { day: "numeric", month: "short" } : { month: "short", year: "2-digit" }));
  const columns = buckets(range, [...times.keys()]).map((start) => {
    const found = times.get(start) || [];
    return { label: text(start), title: `${text(start)}: ${number(found.reduce((sum, one) => sum + one, 0))} hours`, parts: found };
  });
  return h("section", { class: "card", "aria-label": "Use over time" }, h("header", null, h("h2", null, `${resourceName(measure)} hours`), h("span", { class: "grow" }),
    h("select", { "aria-label": "Resource", onchange: (event) => choose(event.target.value) }, options(resources.map((one) => [one, `${resourceName(one)} hours`]), measure))),
  h("div", { class: "pad stack" }, columnChart({ columns, label: `${resourceName(measure)} hours by ${by}`, unit: measure === "memory" ? "GiB hours" : "hours", width, height: 220 }), swatches(rest ? [...names, "all others"] : names)));
}

/** The times of the columns, also of those in which nothing ran. */
function buckets(range, known) {
  const [, span, step] = RANGES[range];
  if (step === "month") return known.sort();
  const size = step === "hour" ? 3_600_000 : DAY;
  const end = Math.floor(Date.now() / size) * size;
  return Array.from({ length: span / size }, (_, index) => new Date(end - (span / size - 1 - index) * size).toISOString().replace(".000Z", "Z"));
}

function tableCard({ rows, by }, resources) {
  const order = [...rows].sort((a, b) => b.runSeconds - a.runSeconds);
  const link = (row) => (by === "user" && row.user ? h("a", { class: "link", href: `#/queue?state=all&user=${encodeURIComponent(row.user)}` }, row.user) : row[by] || h("span", { class: "mute" }, "none"));
  return h("section", { class: "card", "aria-label": "Use in all" }, h("header", null, h("h2", null, "In all"), h("span", { class: "mute small" }, plural(rows.length, "row"))), h("div", { class: "wide" }, h("table", { class: "simple" },
    h("thead", null, h("tr", null, h("th", null, GROUPS.find(([value]) => value === by)?.[1] || by), resources.map((one) => h("th", { class: "num" }, `${resourceName(one)} h`)), ["Started", "Succeeded", "Failed", "Preempted", "Success", "Wait p50", "p90", "p99"].map((one) => h("th", { class: "num" }, one)))),
    h("tbody", null, order.map((row) => h("tr", { key: row[by] || "" }, h("td", null, link(row)), resources.map((one) => h("td", { class: "num" }, number(row.hours[one] || 0))), [row.started, row.succeeded, row.failed, row.preempted].map((one) => h("td", { class: "num" }, number(one || 0, 0))), h("td", { class: "num" }, percent(row.successRate)), ["p50", "p90", "p99"].map((one) => h("td", { class: "num" }, row.wait ? duration(row.wait[one]) : "–"))))))));
}

const TONES = { Running: ["good", "play"], Succeeded: ["still", "check"], Failed: ["bad", "warn"], Preempted: ["wait", "back"], Evicted: ["wait", "back"], Cancelled: ["still", "cross"], Lost: ["bad", "warn"] };
function attemptsCard({ attempts }) {
  if (!attempts.length) return null;
  const link = (one) => (one.job?.kind === "ManagedJob" ? h("a", { class: "link", href: `#/jobs/${encodeURIComponent(one.metadata.namespace)}/${encodeURIComponent(one.job.name)}` }, one.jobName || one.job.name) : `${one.job?.kind || ""} ${one.jobName || one.workload}`);
  return h("section", { class: "card", "aria-label": "Latest attempts" }, h("header", null, h("h2", null, "Latest attempts"), h("span", { class: "mute small" }, `the last ${attempts.length}`)), h("div", { class: "wide" }, h("table", { class: "simple" },
    h("thead", null, h("tr", null, h("th", null, "Job"), h("th", null, "User"), h("th", null, "Queue"), h("th", null, "Outcome"), h("th", { class: "num" }, "Waited"), h("th", { class: "num" }, "Ran"), h("th", null, "Held"), h("th", { class: "num" }, "Started"))),
    h("tbody", null, attempts.map((one) => { const [tone, picture] = TONES[one.outcome] || ["still", "clock"]; return h("tr", { key: one.metadata.uid }, h("td", null, link(one), h("span", { class: "mute" }, ` ${one.job?.id ?? ""}${one.attempt > 1 ? ` attempt ${one.attempt}` : ""}`)), h("td", null, one.user), h("td", null, one.queue), h("td", { title: one.message }, h("span", { class: "pill", "data-tone": tone }, icon(picture), one.outcome)), h("td", { class: "num" }, duration(one.waitSeconds)), h("td", { class: "num" }, duration(one.runSeconds)), h("td", null, held(one.resources)), h("td", { class: "num", title: fullTime(one.started) }, ago(one.started))); })))));
}
function held(resources) {
  return Object.entries(resources || {}).map(([name, value]) => `${/^\d+(\.\d+)?$/.test(value) ? amount(name, Number(value)) : value.replace("Gi", " GiB")} ${name === "memory" ? "" : resourceName(name)}`.trim()).join(", ");
}

function download({ rows, by }) {
  const resources = [...new Set(rows.flatMap((row) => Object.keys(row.hours)))].sort();
  const fields = ["started", "ended", "running", "succeeded", "failed", "preempted", "evicted", "cancelled", "lost", "runSeconds", "successRate"];
  const waits = ["mean", "p50", "p90", "p99", "max"];
  const cell = (value) => (/[",\n]/.test(String(value ?? "")) || /^[=+@-]/.test(String(value ?? "")) && typeof value === "string" ? `"${String(value).replace(/"/g, '""').replace(/^([=+@-])/, "'$1")}"` : String(value ?? ""));
  const lines = [[by, ...resources.map((one) => `${one} hours`), ...fields, ...waits.map((one) => `wait ${one}`)], ...rows.map((row) => [row[by] || "", ...resources.map((one) => row.hours[one] || 0), ...fields.map((one) => row[one]), ...waits.map((one) => row.wait?.[one])])];
  const url = URL.createObjectURL(new Blob([`${lines.map((line) => line.map(cell).join(",")).join("\n")}\n`], { type: "text/csv" }));
  const link = h("a", { href: url, download: `fairway-usage-by-${by}.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
