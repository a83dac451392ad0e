// Job: where it stands and why, its attempts, log, events and manifest, and what can be done with it.
import { buttons } from "../actions.js";
import { FAIRWAY, get, inNamespace, KUEUE, query, text } from "../api.js";
import { attemptsLink, count, jobsLink, ofClusterQueue } from "../counts.js";
import { empty, h, notice, show } from "../dom.js";
import { ago, amount, duration, expected, expectedRange, fullTime, now, number, plural, quantity, resourceName, seconds, words } from "../format.js";
import { foreignRow, jobRow, linkTo, ranFor, said, waitedFor, why } from "../jobs.js";
import { LogView } from "../log.js";
import { simpleTable } from "../simple.js";
import { Collection } from "../watch.js";
import { pill } from "./queue.js";

const CAUSES = { start: "Started", preempted: "Started again after a preemption", evicted: "Started again after an eviction", lost: "Started again after its pods were lost", error: "Started again after an error", held: "Started again after a release", retry: "Started again by a retry" };
const TONES = { Succeeded: "good", Failed: "bad", Preempted: "wait", Evicted: "wait", Lost: "bad" };
const CLOCK_MS = 1000;

export function mount(main, { name: kind, parts: [namespace, name, tab = "log"] }) {
  const managed = kind === "jobs";
  const path = managed ? inNamespace(FAIRWAY, namespace, "managedjobs") : inNamespace(KUEUE, namespace, "workloads");
  const state = { object: null, row: null, waiting: null, tab: managed ? tab : tab === "log" ? "events" : tab, attempt: null, container: "run", events: null, yaml: "" };
  const head = h("header", { class: "top" }, h("h1", null, name));
  const body = h("div", { class: "body" });
  main.append(head, body);
  let log = null;
  let asked = "";

  const draw = () => {
    const { row } = state;
    if (!row) {
      if (watched.loaded) show(body, empty(`There is no ${managed ? "job" : "workload"} ${name}`, watched.refused ? watched.refused.message : `in namespace ${namespace}; it may have been deleted.`, "fairway jobs queue -A"));
      return;
    }
    show(head, h("h1", null, row.title), h("span", { class: "mute" }, row.id === null ? row.kind : `job ${row.id}`), pill(row), h("span", { class: "grow" }), h("span", { class: "row" }, buttons([row])));
    show(body, h("div", { class: "two" },
      h("div", { class: "stack" }, standing(state), managed && attempts(state, choose), tabs(state, open, log)),
      facts(state)));
  };
  const choose = (attempt) => { state.attempt = attempt; openLog(); draw(); };
  const open = (which) => { state.tab = which; load(); draw(); };
  const openLog = () => {
    log?.close();
    const made = state.attempt;
    const base = inNamespace(FAIRWAY, namespace, "managedjobs", name, "log");
    log = new LogView(query(base, { attempt: made?.attempt, task: made?.task, container: state.container === "run" ? "" : state.container }), `${name}${made ? `-${made.attempt}` : ""}`);
    log.element._key = query(base, { attempt: made?.attempt, container: state.container });
  };
  state.setContainer = (which) => { state.container = which; openLog(); draw(); };
  const load = () => {
    if (state.tab === "log" && managed && !log) openLog();
    if (state.tab === "manifest") text(`${path}/${encodeURIComponent(name)}`, "application/yaml").then((yaml) => { state.yaml = yaml; draw(); }, () => {});
    if (state.tab === "events") loadEvents(state).then(draw, () => {});
  };
  const askWhy = async () => {
    const { row } = state;
    if (!row?.waits || !row.workload) { state.waiting = null; return; }
    try { state.waiting = await get(inNamespace(FAIRWAY, namespace, "waitingjobs", row.workload)); } catch { state.waiting = null; }
    draw();
  };
  const watched = new Collection([path], { row: (object) => ({ object }), fields: `metadata.name=${name}` });
  const stop = watched.subscribe(() => {
    const found = watched.rows.get(`${namespace}/${name}`)?.object;
    state.object = found || null;
    state.row = found ? (managed ? jobRow(found) : foreignRow(found)) : null;
    if (found && asked !== found.metadata.resourceVersion) {
      asked = found.metadata.resourceVersion;
      askWhy();
      load();
    }
    draw();
  });
  const timer = setInterval(() => { if (!document.hidden) draw(); }, CLOCK_MS);
  const again = setInterval(() => { if (!document.hidden && state.row?.waits) askWhy(); }, 3 * CLOCK_MS);
  return () => { stop(); watched.close(); log?.close(); clearInterval(timer); clearInterval(again); };
}

async function loadEvents(state) {
  const { object, row } = state;
  const about = [object.metadata.name, row.workload, row.owner?.name].filter(Boolean);
  const pods = (object.status?.attempts || []).slice(-3).flatMap((one) => (one.pods || []).map((pod) => pod.name));
  const lists = await Promise.all([...new Set([...about, ...pods])].slice(0, 12).map((name) => get(query(inNamespace("/api/v1", row.namespace, "events"), { fieldSelector: `involvedObject.name=${name}` }))));
  state.events = lists.flatMap((list) => list.items).sort((a, b) => seenAt(b) - seenAt(a)).slice(0, 200);
}
const seenAt = (event) => seconds(event.series?.lastObservedTime || event.lastTimestamp || event.eventTime || event.metadata.creationTimestamp);

/** The first sentence, and what stands in the way. */
function standing(state) {
  const { row, waiting } = state;
  return h("section", { class: "card", "aria-labelledby": "why-title", key: "why" }, h("header", null, h("h2", { id: "why-title" }, row.waits ? "Why it waits" : "Where it stands")),
    h("div", { class: "pad stack" }, h("p", null, sentence(row, waiting)), row.waits && waiting && inTheWay(waiting, row)));
}

function sentence(row, waiting) {
  const again = row.attempt > 1 ? ` (attempt ${row.attempt})` : "";
  if (!row.live) {
    const ran = ranFor(row);
    const end = { SUCCEEDED: "It succeeded", CANCELLED: "It was cancelled" }[row.state] || "It failed";
    return `${end}${row.ended ? ` ${duration(now() - row.ended)} ago` : ""}${ran ? `, after running for ${duration(ran)}` : ""}.${row.state === "SUCCEEDED" || !row.message ? "" : ` ${capital(said(row.message))}.`}`;
  }
  if (row.state === "CANCELLING") return "It was cancelled; its processes are being stopped.";
  if (row.state === "RUNNING") return `It has been running for ${duration(ranFor(row))}${again}, after waiting for ${duration(waitedFor(row))}.`;
  if (row.state === "STARTING") return `It has its quota, and its processes are starting${again}. ${capital(said(row.message))}`;
  if (row.state === "HELD") return "It is held. A release queues it again.";
  const where = waiting?.clusterQueue ? ` of ClusterQueue ${waiting.clusterQueue}` : "";
  const start = expected(waiting?.expectedStart);
  return [`It has waited for ${duration(waitedFor(row))} in queue ${row.queue || "?"}${where}`, place(waiting), `${start ? `; it may start ${start}` : ""}. ${capital(why(row, waiting))}${why(row, waiting) ? "." : ""}`];
}
function place(waiting) {
  if (!waiting?.position) return "";
  return [", ", h("a", { href: jobsLink({ state: "waiting", queue: ofClusterQueue(waiting.clusterQueue) }) }, waiting.position === 1 ? "next in line" : `at place ${number(waiting.position, 0)}`)];
}
const capital = (words) => (words ? words[0].toUpperCase() + words.slice(1).replace(/\.$/, "") : "");

function jobLink(one) {
  const label = one.shown || (one.owner ? `${one.owner.kind} ${one.owner.name}` : "another workload");
  if (!one.workload || !one.owner) return label;
  const [namespace, workload] = one.workload.split("/");
  const row = one.owner.kind === "ManagedJob" ? { kind: "ManagedJob", namespace, name: one.owner.name } : { kind: one.owner.kind, namespace, name: workload };
  return h("a", { class: "link", href: linkTo(row) }, label);
}

function inTheWay(waiting, row) {
  const start = waiting.expectedStart;
  return [
    waiting.canEverRun === false && notice("bad", "It can never run with the present nodes and quotas."),
    start && h("p", { class: "small soft" }, start.known ? `Expected start: ${expectedRange(start)}, from ${{ declared: "declared durations", name: "earlier jobs of this name", user: "earlier jobs of this user", queue: "earlier jobs of this queue", all: "all earlier jobs" }[start.basis] || "what ran before"}.${start.usualErrorSeconds === null ? "" : ` Half of the last starts came within ${duration(start.usualErrorSeconds)} of what was expected.`}` : `Expected start ${start.message}.`),
    waiting.shortages?.length > 0 && h("div", null, h("h3", null, "What is missing, and who holds it"), waiting.shortages.map((one) => h("div", null, h("p", { class: "small" }, `${amount(one.resource, quantity(one.missing))} of ${amount(one.resource, quantity(one.requested))} ${resourceName(one.resource)} in flavor ${one.flavor}`),
      one.holders?.length > 0 && holdersTable(one)))),
    waiting.ahead?.length > 0 && h("div", null, h("h3", null, "Ahead in the queue"), h("p", { class: "small soft" }, waiting.ahead.map((one, index) => [index ? ", " : "", jobLink(one), ` (priority ${one.priority})`]))),
    waiting.hints?.length > 0 && h("div", null, h("h3", null, "What would admit it"), h("ul", { class: "plain" }, waiting.hints.map((hint) => h("li", null, hintText(hint))))),
    !waiting.shortages?.length && waiting.obstacles?.length > 0 && h("ul", { class: "plain" }, [...new Set(waiting.obstacles.map((one) => one.message))].map((message) => h("li", null, capital(message)))),
    row.infra && h("p", { class: "small" }, `It is to run on ${row.infra}.`),
  ].filter(Boolean);
}

function holdersTable({ resource, holders }) {
  return simpleTable({ rows: holders, key: (one) => one.workload, columns: [
    { label: "Holder", cell: (one) => [jobLink(one), one.evicting && h("span", { class: "mute" }, " leaving")] },
    { label: "ClusterQueue", cell: (one) => one.clusterQueue },
    { label: "Priority", num: true, cell: (one) => String(one.priority) },
    { label: "Holds", num: true, cell: (one) => `${amount(resource, quantity(one.amount))} ${resourceName(resource)}` },
  ] });
}

/** A hint, with its commands as code. */
function hintText(hint) {
  const whole = capital(hint.startsWith("would ") ? `it ${hint}` : hint);
  return `${whole}.`.split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));
}

function attempts(state, choose) {
  const found = [...(state.object.status?.attempts || [])].reverse();
  if (!found.length) return null;
  return h("section", { class: "card", "aria-labelledby": "attempts-title", key: "attempts" }, h("header", null, h("h2", { id: "attempts-title" }, `Attempts`), h("span", { class: "mute small" }, plural(found.length, "attempt"))),
    h("ol", { class: "steps pad" }, found.map((one) => {
      const over = one.outcome || (one.stopping ? `stopping: ${one.stopping}` : "");
      const began = seconds(one.startedAt);
      const ran = began === null ? null : (seconds(one.endedAt) ?? now()) - began;
      return h("li", { key: `${one.task}/${one.attempt}`, "data-tone": one.endedAt ? TONES[one.outcome] || "" : "good" },
        h("div", { class: "row" }, h("strong", { class: "small" }, `Attempt ${one.attempt}`), h("span", { class: "small soft" }, CAUSES[one.cause || "start"] || one.cause), h("span", { class: "grow" }),
          h("button", { class: "btn plain", onclick: () => choose(one), "aria-label": `Show the log of attempt ${one.attempt}` }, "Log")),
        h("p", { class: "small soft" }, one.startedAt ? [h("span", { title: fullTime(one.startedAt) }, ago(one.startedAt)), `, ${one.endedAt ? "ran" : "has run"} for ${duration(ran)}`] : "not started yet", one.infra && ` on ${one.infra}`, one.priority !== undefined && `, priority ${one.priority}`),
        over && h("p", { class: "small" }, h("strong", null, spaced(over)), one.exitCode !== undefined && one.exitCode !== null && ` with exit code ${one.exitCode}`, one.message && `: ${said(one.message)}`));
    })));
}
const spaced = (camel) => camel.replace(/([a-z])([A-Z])/g, (_, a, b) => `${a} ${b.toLowerCase()}`);

function tabs(state, open, log) {
  const managed = state.row.kind === "ManagedJob";
  const names = [managed && ["log", "Log"], ["events", "Events"], ["manifest", "Manifest"]].filter(Boolean);
  const task = (state.object.spec.tasks || [])[0] || {};
  const containers = ["run", task.setup && "setup", (task.workdir || task.file_mounts) && "files"].filter(Boolean);
  return h("section", { class: "card", "aria-label": "Details", key: "tabs" },
    h("header", null, h("div", { class: "seg", role: "tablist", "aria-label": "Details" }, names.map(([name, label]) => h("button", { role: "tab", id: `tab-${name}`, "aria-selected": String(state.tab === name), "aria-controls": "tab-panel", onclick: () => open(name) }, label))),
      h("span", { class: "grow" }),
      state.tab === "log" && containers.length > 1 && h("select", { "aria-label": "Part of the job", onchange: (event) => state.setContainer(event.target.value) }, containers.map((one) => h("option", { value: one, selected: one === state.container }, one))),
      state.tab === "log" && state.attempt && h("span", { class: "small soft" }, `attempt ${state.attempt.attempt}`)),
    h("div", { role: "tabpanel", id: "tab-panel", "aria-labelledby": `tab-${state.tab}`, key: state.tab }, panel(state, log)));
}

function panel(state, log) {
  if (state.tab === "log") return log?.element;
  if (state.tab === "manifest") return h("pre", { class: "yaml", tabindex: "0", "aria-label": "Manifest" }, state.yaml || "Loading …");
  if (!state.events) return h("p", { class: "pad mute" }, "Loading …");
  if (!state.events.length) return empty("No event", "Events are kept for an hour.");
  return simpleTable({ rows: state.events, key: (one) => one.metadata.uid, columns: [
    { label: "Last seen", at: "corner", cell: (one) => `${duration(now() - seenAt(one))} ago` },
    { label: "Reason", at: "title", cell: (one) => h("span", { class: one.type === "Warning" ? "tone-bad" : null }, one.type === "Warning" && h("span", { class: "hidden" }, "Warning: "), one.reason) },
    { label: "Object", at: "whole", cell: (one) => `${one.involvedObject.kind} ${one.involvedObject.name}` },
    { label: "Message", at: "whole", cell: (one) => one.message },
  ] });
}

function preemptions({ namespace, name, preemptions: value }) {
  return count(value, attemptsLink({ range: "year", namespace, job: name, outcome: "Preempted" }), words(value, "preemption"));
}

function facts(state) {
  const { row, object } = state;
  const task = (object.spec.tasks || [])[0] || {};
  const lines = [
    ["State", pill(row)], ["User", row.user && h("a", { class: "link", href: jobsLink({ user: row.user }) }, row.user)],
    ["Queue", h("a", { class: "link", href: jobsLink({ queue: `lq:${row.queue}` }) }, row.queue)], ["Namespace", row.namespace],
    ["Priority", row.raised ? [`${row.priority}, of which ${row.raised} for `, preemptions(row)] : String(row.priority)], ["Class", row.priorityClass],
    ["Asks for", row.ask], ["Submitted", h("span", { title: fullTime(object.metadata.creationTimestamp) }, ago(object.metadata.creationTimestamp))],
    ["Waited", duration(waitedFor(row))], ["Ran", duration(ranFor(row))], ["Restarted", row.recoveries ? [`${plural(row.recoveries, "time")}, `, preemptions(row)] : "never"],
    ["Runs on", row.infra], ["Workload", row.workload && h("span", { class: "mono" }, row.workload)], ["Command", task.run && h("code", null, task.run.length > 160 ? `${task.run.slice(0, 160)} …` : task.run)],
  ];
  return h("section", { class: "card", "aria-labelledby": "facts-title" }, h("header", null, h("h2", { id: "facts-title" }, "Details")),
    h("dl", { class: "facts pad" }, lines.filter(([, value]) => value).map(([label, value]) => [h("dt", null, label), h("dd", null, value)])));
}
