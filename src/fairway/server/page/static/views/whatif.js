// What if: changes to the live state, played forward by the server's own engine, compared with no change.
import { FAIRWAY, post } from "../api.js";
import { remember } from "../app.js";
import { lineChart, room } from "../chart.js";
import { count, stat } from "../counts.js";
import { empty, h, icon, notice, options, show } from "../dom.js";
import { amount, clock, duration, number, percent, quantity, resourceName } from "../format.js";
import { collection, follow, session } from "../session.js";
import { simpleTable } from "../simple.js";

const KINDS = [["quota", "Another quota"], ["node", "Another node"], ["job", "New jobs"], ["priority", "Another priority"], ["cancel", "Without a job"], ["policy", "Another policy"]];
const field = (name, label, more = {}) => ({ name, label, ...more });
const FIELDS = {
  quota: [field("clusterQueue", "ClusterQueue", { queue: true }), field("resource", "Resource", { value: "cpu" }), field("nominal", "Quota, or +4, -2", { value: "+4", required: true }), field("flavor", "Flavor", { placeholder: "the only one" })],
  node: [field("cpu", "CPUs", { value: "8" }), field("memory", "Memory", { value: "32Gi" }), field("nvidia.com/gpu", "GPUs", { value: "" }), field("count", "How many", { value: "1", number: true }), field("clusterQueue", "Quota for", { queue: true })],
  job: [field("name", "Name", { value: "new" }), field("namespace", "Namespace", { space: true }), field("queue", "Queue", { value: "default" }), field("cpu", "CPUs", { value: "1" }), field("nvidia.com/gpu", "GPUs", { value: "" }), field("count", "How many", { value: "1", number: true }), field("priority", "Priority", { value: "0", number: true }), field("durationSeconds", "Runs for, seconds", { value: "3600", number: true })],
  priority: [field("namespace", "Namespace", { space: true }), field("name", "Job (object name)", { required: true }), field("priority", "Priority", { value: "100", number: true })],
  cancel: [field("namespace", "Namespace", { space: true }), field("name", "Job (object name)", { required: true })],
  policy: [field("clusterQueue", "ClusterQueue", { queue: true }), field("withinClusterQueue", "Preempts within the queue", { choices: ["", "Never", "LowerPriority", "LowerOrNewerEqualPriority"] }), field("reclaimWithinCohort", "Takes back from borrowers", { choices: ["", "Never", "LowerPriority", "Any"] }), field("queueingStrategy", "Order", { choices: ["", "BestEffortFIFO", "StrictFIFO"] })],
};
const TOGETHER = { node: ["cpu", "memory", "nvidia.com/gpu"], job: ["cpu", "nvidia.com/gpu"] };

const MOST_JOBS = 1000;
const SHOWN = {
  never: ["that do not start", (job) => job.after && !job.after.running && !job.after.start],
  preempted: ["that are preempted", (job) => job.after?.preemptions > 0],
};

export function mount(main, { query }) {
  const state = { changes: [], kind: "quota", result: null, error: null, busy: false, only: query.get("jobs") || "", queue: query.get("queue") || "" };
  const body = h("div", { class: "body" });
  main.append(h("header", { class: "top" }, h("h1", null, "What if"), h("span", { class: "sub" }, "changes to the present, played forward by the real engine; nothing is changed")), body);
  const draw = () => show(body, formCard(state, actions), state.error && notice("bad", state.error.message), result(state, room(body), jobsLink));
  /** The jobs of the result of which these are true, without playing it again. */
  const jobsLink = (only, queue = "") => ({ href: `#/whatif?${new URLSearchParams({ jobs: only, queue })}`, onclick: (event) => {
    event.preventDefault();
    Object.assign(state, { only, queue });
    remember({ jobs: only, queue });
    draw();
    body.querySelector("[aria-label='Jobs']").scrollIntoView();
  } });
  const actions = {
    choose: (kind) => { state.kind = kind; draw(); },
    add: (event) => { event.preventDefault(); state.changes.push(made(state.kind, new FormData(event.target))); draw(); },
    drop: (index) => { state.changes.splice(index, 1); draw(); },
    run: async () => {
      Object.assign(state, { busy: true, error: null });
      draw();
      try {
        state.result = await post(`${FAIRWAY}/simulations`, { apiVersion: "fairway.dev/v1alpha1", kind: "Simulation", spec: { changes: state.changes, limit: MOST_JOBS } });
      } catch (error) { state.error = error; }
      state.busy = false;
      draw();
    },
  };
  const stop = follow("clusterQueues", () => { if (!state.drawn) { state.drawn = true; draw(); } });
  draw();
  return stop;
}

/** A change as the API takes it. */
function made(kind, form) {
  const change = {};
  const together = {};
  for (const { name, number: isNumber } of FIELDS[kind]) {
    const value = String(form.get(name) ?? "").trim();
    if (value === "") continue;
    if (TOGETHER[kind]?.includes(name)) together[name] = value;
    else change[name] = isNumber ? Number(value) : value;
  }
  if (kind === "node") change.resources = together;
  if (kind === "job") change.requests = together;
  return { [kind]: change };
}

function input(one, queues) {
  if (one.queue) return h("select", { name: one.name }, options([["", queues.length === 1 ? queues[0] : "the only one"], ...queues.map((name) => [name, name])], queues[0]));
  if (one.space) {
    if (session.everywhere) return h("input", { type: "text", name: one.name, value: "default", required: true });
    return h("select", { name: one.name }, options(session.namespaces.map(({ name }) => [name, name]), ""));
  }
  if (one.choices) return h("select", { name: one.name }, options(one.choices.map((value) => [value, value || "as now"]), ""));
  return h("input", { type: one.number ? "number" : "text", name: one.name, value: one.value || "", required: one.required, placeholder: one.placeholder, autocomplete: "off" });
}

function words(change) {
  const [[kind, spec]] = Object.entries(change);
  const all = Object.entries({ ...spec, ...spec.resources, ...spec.requests }).filter(([, value]) => typeof value !== "object").map(([name, value]) => `${name === "nvidia.com/gpu" ? "gpu" : name} ${value}`).join(", ");
  return `${KINDS.find(([name]) => name === kind)[1]}: ${all}`;
}

function formCard(state, { choose, add, drop, run }) {
  const queues = [...(collection("clusterQueues")?.rows.keys() || [])].sort();
  return h("section", { class: "card", "aria-labelledby": "changes-title" }, h("header", null, h("h2", { id: "changes-title" }, "Changes"), h("span", { class: "grow" }), h("button", { class: "btn main-action", disabled: state.busy, onclick: run }, icon("play"), state.busy ? "Playing …" : "Play it")),
    h("form", { class: "pad stack", onsubmit: add, key: state.kind },
      h("div", { class: "seg", role: "group", "aria-label": "Kind of change" }, KINDS.map(([name, label]) => h("button", { type: "button", "aria-pressed": String(state.kind === name), onclick: () => choose(name) }, label))),
      h("div", { class: "forms" }, FIELDS[state.kind].map((one) => h("label", { class: "field" }, one.label, input(one, queues))), h("button", { class: "btn" }, icon("plus"), "Add"))),
    h("ul", { class: "tree" }, state.changes.map((change, index) => h("li", { class: "queue-block row" }, h("span", { class: "small" }, words(change)), h("span", { style: { "margin-left": "auto" } }, h("button", { class: "btn plain", "aria-label": `Remove ${words(change)}`, onclick: () => drop(index) }, icon("cross"))))), !state.changes.length && h("li", { class: "queue-block small mute" }, "No change yet. Played as it is, it shows when everything that waits now would start.")));
}

function result({ result: found, busy, only, queue }, width, jobsLink) {
  if (!found) return busy ? h("p", { class: "mute" }, "Playing …") : empty("Add a change and play it", "The same on the command line:", `fairway simulate --quota ${[...(collection("clusterQueues")?.rows.keys() || [])].sort()[0] || "cluster-queue"}:cpu=+4`);
  const { before, after, queues, jobs, notes, jobsOmitted, computedSeconds } = found.status;
  return [
    notes?.length > 0 && h("div", { key: "notes" }, notes.map((one) => h("p", { class: "small soft" }, one))),
    h("div", { class: "stats", key: "stats" }, compare("Wait, median", before.wait?.p50, after.wait?.p50, duration), compare("Wait, 90%", before.wait?.p90, after.wait?.p90, duration), compare("All done after", before.makespanSeconds, after.makespanSeconds, duration), compare("Preemptions", before.preemptions, after.preemptions, (value) => number(value ?? 0, 0), jobsLink("preempted")), compare("Not within 30 days", before.neverStarted, after.neverStarted, (value) => number(value ?? 0, 0), jobsLink("never"))),
    h("section", { class: "card", key: "chart", "aria-label": "Waiting jobs over time" }, h("header", null, h("h2", null, "Waiting jobs"), h("span", { class: "grow" }), h("div", { class: "legend" }, h("span", null, "solid: with the changes"), h("span", null, "dashed: as it is")), h("span", { class: "tiny mute" }, `played in ${number(computedSeconds)} s`)), h("div", { class: "pad" }, timeline(before, after, width))),
    h("section", { class: "card", key: "use", "aria-label": "Use of the quota" }, h("header", null, h("h2", null, "Use of the quota")), useTable(before, after)),
    queues?.length > 0 && h("section", { class: "card", key: "queues", "aria-label": "By queue" }, h("header", null, h("h2", null, "By queue")), queueTable(queues, jobsLink)),
    jobsCard(jobs, jobsOmitted, only, queue, jobsLink),
  ];
}

function jobsCard(jobs, omitted, only, queue, jobsLink) {
  const [words, fits] = SHOWN[only] || ["", () => true];
  const found = (jobs || []).filter((job) => fits(job) && (!queue || job.clusterQueue === queue));
  const filtered = words || queue;
  return h("section", { class: "card", key: "jobs", "aria-label": "Jobs" }, h("header", null, h("h2", null, filtered ? `Jobs ${[queue && `of ${queue}`, words].filter(Boolean).join(" ")}` : "Jobs"), h("span", { class: "mute small" }, `largest change first${omitted ? `, ${number(omitted, 0)} of all jobs not shown` : ""}`),
    h("span", { class: "grow" }), filtered && h("a", { class: "link small", ...jobsLink("") }, "All jobs")), jobTable(found));
}

function compare(name, before, after, say, link = {}) {
  const better = (after ?? 0) < (before ?? 0);
  const tone = after === before ? "" : better ? "tone-good" : "tone-bad";
  return stat({ name, figure: say(after), ...link, more: after === before ? "as it is" : `${better ? "less" : "more"} than ${say(before)}`, tone });
}

function timeline(before, after, width) {
  const points = (summary) => (summary.timeline || []).map((one) => [one.seconds, one.waiting]);
  const end = Math.max(1, ...[...points(before), ...points(after)].map(([at]) => at));
  return lineChart({ series: [{ points: points(after) }, { points: points(before), dashed: true }].filter((one) => one.points.length), ticks: [0, end / 4, end / 2, (3 * end) / 4, end].map((at) => [at, at ? `+${duration(at)}` : "now"]), label: "Waiting jobs over time, with the changes and as it is", unit: "jobs", width });
}

function useTable(before, after) {
  const key = (one) => `${one.flavor}/${one.resource}`;
  const old = new Map((before.use || []).map((one) => [key(one), one]));
  return simpleTable({ rows: after.use || [], key, columns: [
    { label: "Resource", cell: (one) => [resourceName(one.resource), h("span", { class: "mute" }, ` ${one.flavor}`)] },
    { label: "Quota", num: true, cell: (one) => amount(one.resource, quantity(one.nominal)) },
    { label: "As it is", num: true, cell: (one) => percent(old.get(key(one))?.ratio) },
    { label: "With the changes", num: true, cell: (one) => percent(one.ratio) },
  ] });
}

function queueTable(queues, jobsLink) {
  return simpleTable({ rows: queues, key: (one) => one.clusterQueue, columns: [
    { label: "ClusterQueue", cell: (one) => one.clusterQueue },
    { label: "Jobs", num: true, cell: ({ clusterQueue, after }) => count(after?.jobs ?? 0, jobsLink("", clusterQueue)) },
    { label: "Wait as it is", num: true, cell: ({ before }) => duration(before?.wait?.p50) },
    { label: "With the changes", num: true, cell: ({ after }) => duration(after?.wait?.p50) },
    { label: "Preemptions", num: true, cell: ({ clusterQueue, before, after }) => [`${before?.preemptions ?? 0} → `, h("a", jobsLink("preempted", clusterQueue), `${after?.preemptions ?? 0}`)] },
  ] });
}

const CHANGES = { same: ["still", "check", "same"], sooner: ["good", "up", "sooner"], later: ["wait", "clock", "later"], new: ["accent", "plus", "new"], gone: ["still", "cross", "gone"] };
function jobTable(jobs) {
  if (!jobs?.length) return h("p", { class: "pad mute" }, "No such job.");
  const start = (run) => (!run ? "–" : run.running ? "runs" : run.start ? clock(run.start) : "never");
  return simpleTable({ rows: jobs, key: (job) => `${job.namespace}/${job.workload}`, columns: [
    { label: "Job", cell: jobLink },
    { label: "User", cell: (job) => job.user },
    { label: "ClusterQueue", at: "none", cell: (job) => job.clusterQueue },
    { label: "Starts as it is", num: true, cell: (job) => start(job.before) },
    { label: "With the changes", num: true, cell: (job) => start(job.after) },
    { label: "Change", at: "corner", cell: changePill },
  ] });
}

function jobLink(job) {
  const name = job.shown.replace(/^job /, "");
  return job.owner?.kind === "ManagedJob" && job.change !== "new" ? h("a", { class: "link", href: `#/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.owner.name)}` }, name) : name;
}

function changePill(job) {
  const [tone, picture, word] = CHANGES[job.change] || CHANGES.same;
  const times = (job.after?.preemptions ?? 0) - (job.before?.preemptions ?? 0);
  const by = (job.changeSeconds ? `${duration(Math.abs(job.changeSeconds))} ${word}` : word) + (times > 0 ? `, preempted ${times > 1 ? `${times} times` : "once"}` : "");
  return h("span", { class: "pill", "data-tone": tone }, icon(picture), by);
}
