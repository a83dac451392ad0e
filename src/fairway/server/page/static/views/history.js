// History: use by user, queue, organization and flavor over days and months; waits, preemptions, success; as CSV too.
import { FAIRWAY, get, inNamespace, query } from "../api.js";
import { remember } from "../app.js";
import { columnChart, room, swatches, unitOf } from "../chart.js";
import { attemptsLink, count, jobsLink, stat } from "../counts.js";
import { empty, h, icon, notice, options, show } from "../dom.js";
import { amount, ago, clock, duration, fullTime, number, percent, plural, resourceName } from "../format.js";
import { session } from "../session.js";
import { simpleTable } from "../simple.js";

const DAY = 86_400_000;
const RANGES = { day: ["24 hours", DAY, "hour"], week: ["7 days", 7 * DAY, "day"], month: ["30 days", 30 * DAY, "day"], year: ["12 months", 365 * DAY, "month"] };
const GROUPS = [["user", "User"], ["queue", "Queue"], ["clusterQueue", "ClusterQueue"], ["organization", "Organization"], ["team", "Team"], ["flavor", "Flavor"], ["namespace", "Namespace"], ["kind", "Kind"]];
const MOST_COLOURS = 5;
const ENDS = ["Succeeded", "Failed", "Preempted", "Evicted", "Cancelled", "Lost"];
const NONE = "-"; // the group of those that have no user, team and so on, as the API calls it
const FIRST = 50;
const NEXT = 500;

export function mount(main, { query: asked }) {
  const state = { range: asked.get("range") in RANGES ? asked.get("range") : "week", by: asked.get("by") || "user", measure: asked.get("measure") || "", space: asked.get("namespace") || "", outcome: asked.get("outcome") || "", group: asked.get("group") || "", job: asked.get("job") || "", rows: null, total: null, attempts: [], next: "" };
  const bar = h("div", { class: "row" });
  const body = h("div", { class: "body" });
  main.append(h("header", { class: "top" }, h("h1", null, "History"), h("span", { class: "grow" }), bar), body);
  let turn = 0;
  const load = async () => {
    const mine = ++turn;
    const { range, by } = state;
    remember({ range, by, measure: state.measure, namespace: state.space, outcome: state.outcome, group: state.group, job: state.job });
    controls();
    const [, span, step] = RANGES[range];
    const since = new Date(Date.now() - span).toISOString().replace(/\.\d+Z/, "Z");
    try {
      const [parts, all] = await Promise.all([get(query(base("usage"), { since, step, by })), get(query(base("usage"), { since, by }))]);
      const attempts = await list(all.since, FIRST); // sums are of whole hours or days: the attempts of the same time
      if (mine !== turn) return;
      Object.assign(state, { since: all.since, parts: parts.items, rows: all.items, total: all.total, attempts: attempts.items, next: attempts.metadata.continue, error: null });
    } catch (error) {
      if (mine !== turn) return;
      state.error = error;
    }
    draw();
  };
  const base = (resource) => {
    const space = session.everywhere ? state.space : state.space || session.namespaces[0]?.name;
    return space ? inNamespace(FAIRWAY, space, resource) : `${FAIRWAY}/${resource}`;
  };
  const list = (since, limit, next = "") => get(query(base("attempts"), { since, limit, continue: next, name: state.job, outcome: state.outcome === "Ended" ? ENDS.join(",") : state.outcome, [state.by]: state.group }));
  const more = async () => {
    const mine = turn;
    const found = await list(state.since, NEXT, state.next);
    if (mine !== turn) return;
    Object.assign(state, { attempts: [...state.attempts, ...found.items], next: found.metadata.continue });
    draw();
  };
  const change = (name) => (event) => { Object.assign(state, { group: "", [name]: event.target.value }); load(); };
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
    show(body, totals(state), chartCard(state, room(body), resources, (one) => { state.measure = one; draw(); }), tableCard(state, resources), attemptsCard(state, more));
    if ((state.outcome || state.group || state.job) && !state.scrolled) {
      state.scrolled = true;
      body.querySelector("[aria-label='Attempts']").scrollIntoView();
    }
    return undefined;
  };
  controls();
  draw();
  load();
  return () => { turn += 1; };
}

function totals({ total, range, by, space }) {
  const of = (outcome) => attemptsLink({ range, by, namespace: space, outcome });
  const some = (name, words = name.toLowerCase()) => count(total[name.toLowerCase()], of(name), words);
  return h("div", { class: "stats" },
    stat({ name: "Attempts", figure: number(total.ended + total.running, 0), href: of(""), more: [some("Ended"), ", ", some("Running")] }),
    stat({ name: "Succeeded", figure: percent(total.successRate), more: [some("Succeeded"), ", ", some("Failed")] }),
    stat({ name: "Preempted", figure: number(total.preempted, 0), href: of("Preempted"), more: [some("Evicted", "evicted otherwise"), ", ", some("Lost")] }),
    stat({ name: "Wait, median", figure: total.wait ? duration(total.wait.p50) : "–", more: total.wait ? `90% under ${duration(total.wait.p90)}, longest ${duration(total.wait.max)}` : "nothing started" }));
}

/** How many attempts of an outcome a row of sums counts. */
function counted(row, outcome) {
  return outcome ? row[outcome.toLowerCase()] || 0 : row.ended + row.running;
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
  const total = (found) => found.reduce((sum, one) => sum + one, 0);
  const [name, each] = unitOf(Math.max(...[...times.values()].map(total), 0));
  const unit = measure === "memory" ? `GiB ${name}` : name;
  const columns = buckets(range, [...times.keys()]).map((start) => {
    const found = (times.get(start) || []).map((one) => one * each);
    return { label: text(start), title: `${text(start)}: ${number(total(found))} ${unit}`, parts: found };
  });
  return h("section", { class: "card", "aria-label": "Use over time" }, h("header", null, h("h2", null, `${resourceName(measure)} hours`), h("span", { class: "grow" }),
    h("select", { "aria-label": "Resource", onchange: (event) => choose(event.target.value) }, options(resources.map((one) => [one, `${resourceName(one)} hours`]), measure))),
  h("div", { class: "pad stack" }, columnChart({ columns, label: `${resourceName(measure)} hours by ${by}`, unit, width, height: 220 }), swatches(rest ? [...names, "all others"] : names)));
}

/** The times of the columns, also of those in which nothing ran. */
function buckets(range, known) {
  const [, span, step] = RANGES[range];
  if (step === "month") return known.sort();
  const size = step === "hour" ? 3_600_000 : DAY;
  const end = Math.floor(Date.now() / size) * size;
  return Array.from({ length: span / size }, (_, index) => new Date(end - (span / size - 1 - index) * size).toISOString().replace(".000Z", "Z"));
}

function tableCard({ rows, by, range, space }, resources) {
  const attempts = (row, outcome) => (counted(row, outcome) ? count(counted(row, outcome), attemptsLink({ range, by, namespace: space, outcome, group: row[by] || NONE })) : "0");
  const order = [...rows].sort((a, b) => b.runSeconds - a.runSeconds);
  const link = (row) => (by === "user" && row.user ? h("a", { class: "link", href: jobsLink({ state: "all", user: row.user }) }, row.user) : row[by] || h("span", { class: "mute" }, "none"));
  const columns = [
    { label: GROUPS.find(([value]) => value === by)?.[1] || by, cell: link },
    ...resources.map((one) => ({ label: one === "memory" ? "GiB h" : `${resourceName(one)} h`, cell: (row) => number(row.hours[one] || 0) })),
    { label: "Attempts", cell: (row) => attempts(row, "") },
    ...["Succeeded", "Failed", "Preempted"].map((one) => ({ label: one, cell: (row) => attempts(row, one) })),
    { label: "Success", cell: (row) => percent(row.successRate) },
    ...["p50", "p90", "p99"].map((one) => ({ label: `Wait ${one}`, cell: (row) => (row.wait ? duration(row.wait[one]) : "–") })),
  ].map((one, index) => ({ ...one, num: index > 0 }));
  return h("section", { class: "card", "aria-label": "Use in all" }, h("header", null, h("h2", null, "In all")), simpleTable({ rows: order, key: (row) => row[by] || "", columns }));
}

const TONES = { Running: ["good", "play"], Succeeded: ["still", "check"], Failed: ["bad", "warn"], Preempted: ["wait", "back"], Evicted: ["wait", "back"], Cancelled: ["still", "cross"], Lost: ["bad", "warn"] };
function outcomePill({ outcome }) {
  const [tone, picture] = TONES[outcome] || ["still", "clock"];
  return h("span", { class: "pill", "data-tone": tone }, icon(picture), outcome);
}

function attemptLink(one) {
  const link = one.job?.kind === "ManagedJob" ? h("a", { class: "link", href: `#/jobs/${encodeURIComponent(one.metadata.namespace)}/${encodeURIComponent(one.job.name)}` }, one.jobName || one.job.name) : `${one.job?.kind || ""} ${one.jobName || one.workload}`;
  return [link, h("span", { class: "mute" }, ` ${one.job?.id ?? ""}${one.attempt > 1 ? ` attempt ${one.attempt}` : ""}`)];
}

function attemptsCard(state, more) {
  const { attempts, outcome, group, job, range, by, space, next } = state;
  const only = [job, group === NONE ? `no ${by}` : group, outcome].filter(Boolean).join(", ");
  const row = group ? state.rows.find((one) => (one[by] || NONE) === group) : state.total;
  const all = next && row && !job ? ` of ${number(counted(row, outcome), 0)}` : "";
  const table = simpleTable({ rows: attempts, key: (one) => one.metadata.uid, columns: [
    { label: "Job", cell: attemptLink },
    { label: "User", cell: (one) => one.user },
    { label: "Queue", at: "none", cell: (one) => one.queue },
    { label: "Outcome", at: "corner", cell: outcomePill, hint: (one) => one.message },
    { label: "Waited", num: true, cell: (one) => duration(one.waitSeconds) },
    { label: "Ran", num: true, cell: (one) => duration(one.runSeconds) },
    { label: "Held", at: "none", cell: (one) => held(one.resources) },
    { label: "Started", num: true, cell: (one) => ago(one.started), hint: (one) => fullTime(one.started) },
  ] });
  return h("section", { class: "card", "aria-label": "Attempts" }, h("header", null, h("h2", null, only ? `Attempts: ${only}` : "Attempts"), h("span", { class: "mute small" }, next ? `the last ${number(attempts.length, 0)}${all}` : plural(attempts.length, "attempt")), h("span", { class: "grow" }), only && h("a", { class: "link small", href: attemptsLink({ range, by, namespace: space }) }, "All attempts")), table,
    next && h("div", { class: "pad" }, h("button", { class: "btn", onclick: more }, "Show more")));
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
