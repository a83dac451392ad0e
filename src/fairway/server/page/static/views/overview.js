// Overview: what runs and waits, quota and its use, how busy the machine is, and the last 24 hours.
import { FAIRWAY, get, inNamespace, KUEUE, query } from "../api.js";
import { columnChart, room, unitOf } from "../chart.js";
import { attemptsLink, count, jobsLink, nodesLink, quotaLink, runningAndWaiting, stat } from "../counts.js";
import { empty, h, notice, show } from "../dom.js";
import { amount, bytes, clock, number, percent, plural, quantity, words, resourceName } from "../format.js";
import { legend, poolLine, quotaTree } from "../quota.js";
import { collection, follow, serves, session } from "../session.js";

const MACHINE_MS = 5000;
const SLOW_MS = 60_000;

export function mount(main) {
  const stats = h("div", { class: "stats" });
  const queues = h("div", null);
  const machine = h("div", { class: "pad stack pools-beside" });
  const day = h("div", { class: "pad stack" });
  const state = { machine: null, nodes: null, cohorts: [], usage: undefined };
  main.append(h("header", { class: "top" }, h("h1", null, "Overview")), h("div", { class: "body" }, stats,
    h("div", { class: "two" },
      h("section", { class: "card", "aria-labelledby": "quota-title" }, h("header", null, h("h2", { id: "quota-title" }, "Quota"), h("span", { class: "grow" }), legend()), queues),
      h("div", { class: "stack" },
        session.nodes && h("section", { class: "card", "aria-labelledby": "machine-title" }, h("header", null, h("h2", { id: "machine-title" }, "Machines and GPUs")), machine),
        serves("usage") && h("section", { class: "card", "aria-labelledby": "day-title" }, h("header", null, h("h2", { id: "day-title" }, "Last 24 hours"), h("span", { class: "grow" }), h("a", { class: "link small", href: "#/history" }, "History")), day)))));

  const draw = () => {
    const found = collection("clusterQueues");
    if (!found?.loaded) return drawWaiting(stats, queues);
    const tree = quotaTree([...found.rows.values()], state.cohorts);
    drawStats(stats, tree, state);
    drawQueues(queues, tree, found.refused);
    return undefined;
  };
  drawMachine(machine, state);
  drawDay(day, state);
  const stops = [follow("clusterQueues", draw)];
  const every = (milliseconds, what) => {
    const run = () => { if (!document.hidden) what(); };
    run();
    const timer = setInterval(run, milliseconds);
    stops.push(() => clearInterval(timer));
  };
  every(SLOW_MS, () => get(`${KUEUE}/cohorts`).then(({ items }) => { state.cohorts = items; draw(); }, () => {}));
  if (serves("usage")) every(SLOW_MS, () => loadDay().then((usage) => { state.usage = usage; drawDay(day, state); }, () => { state.usage = null; drawDay(day, state); }));
  if (session.nodes) {
    every(SLOW_MS, () => get("/api/v1/nodes").then(({ items }) => { state.nodes = items; drawMachine(machine, state); draw(); }, () => {}));
    every(MACHINE_MS, () => get("/page/machine").then((busy) => { state.machine = busy; drawMachine(machine, state); }, () => {}));
  }
  return () => stops.forEach((stop) => stop());
}

function drawWaiting(stats, queues) {
  show(stats, ["Running", "Waiting", "GPUs in use", "CPUs in use"].map((name) => stat({ name, picture: "queue", figure: "–", more: " " })));
  show(queues, h("div", { class: "queue-block mute" }, "Loading the queues …"));
}

/** What all queues together use of a resource. */
function total(tree, match) {
  let used = 0;
  let nominal = 0;
  for (const queue of tree.queues) for (const pool of queue.pools) if (match(pool.resource)) { used += pool.used; nominal += pool.nominal; }
  for (const root of tree.roots) for (const pool of root.pools) if (match(pool.resource)) nominal += pool.nominal;
  return { used, nominal };
}
const isGpu = (resource) => resource.endsWith("/gpu");

function drawStats(stats, tree, state) {
  const running = tree.queues.reduce((sum, one) => sum + one.running, 0);
  const waiting = tree.queues.reduce((sum, one) => sum + one.waiting, 0);
  const gpus = total(tree, isGpu);
  const cpus = total(tree, (resource) => resource === "cpu");
  const ready = (state.nodes || []).filter((node) => (node.status?.conditions || []).some((one) => one.type === "Ready" && one.status === "True")).length;
  show(stats,
    stat({ name: "Running", picture: "play", figure: number(running, 0), href: jobsLink({ state: "running" }), more: count(tree.queues.length, quotaLink(), words(tree.queues.length, "queue")) }),
    stat({ name: "Waiting", picture: "clock", figure: number(waiting, 0), href: jobsLink({ state: "waiting" }), more: waiting ? "in the order of admission" : "nobody waits" }),
    quotaStat("GPU", "gpu", gpus), quotaStat("CPU", "overview", cpus),
    state.nodes && stat({ name: "Machines", picture: "nodes", figure: number(state.nodes.length, 0), href: nodesLink(), more: ready === state.nodes.length ? "all ready" : count(state.nodes.length - ready, nodesLink({ state: "unready" }), "not ready") }));
}

function quotaStat(what, picture, { used, nominal }) {
  const name = `${what}s in use`;
  if (!nominal) return stat({ name, picture, figure: "–", href: quotaLink(), more: `no ${what} quota` });
  return stat({ name, picture, figure: `${number(used)} / ${number(nominal)}`, href: quotaLink(), more: `${percent(used / nominal)} of the quota` });
}

function drawQueues(element, tree, refused) {
  if (refused) return show(element, h("div", { class: "pad" }, notice("bad", refused.message)));
  if (!tree.queues.length) return show(element, empty("No queue yet", "A team gets a queue with quota of its own:", "fairway teams add vision --cpus 4 --gpus 2 --borrow"));
  return show(element, tree.queues.map((queue) => {
    const several = new Set(queue.pools.map((pool) => pool.flavor)).size > 1;
    const link = quotaLink({ queue: queue.name });
    return h("div", { class: "queue-block", key: queue.name },
      h("div", { class: "row" }, h("h3", null, h("a", { href: link }, queue.name)), queue.cohort && h("span", { class: "tiny mute" }, `cohort ${queue.cohort}`), runningAndWaiting(queue)),
      queue.active && h("p", { class: "small tone-wait" }, `Admits nothing: ${queue.active}`),
      queue.pools.map((pool) => poolLine(pool, several, link)));
  }));
}

function busyLine(name, ratio, text) {
  return h("div", { class: "pool", key: name }, h("span", { class: "cut" }, name), h("span", { class: "bar", role: "img", "aria-label": `${name}: ${percent(ratio)}` }, h("i", { class: "used", style: { left: "0", width: `${Math.min(100, 100 * ratio)}%` } })), h("span", { class: "figures" }, text));
}

function drawMachine(element, { machine, nodes }) {
  if (!machine) return show(element, h("p", { class: "mute small" }, "Loading …"));
  const { cpu, memory, gpus } = machine;
  const held = {};
  for (const node of nodes || []) for (const [name, value] of Object.entries(node.status?.allocatable || {})) held[name] = (held[name] || 0) + quantity(value);
  const offers = ["cpu", "memory", ...Object.keys(held).filter(isGpu)].filter((name) => held[name]).map((name) => (name === "memory" ? `${amount(name, held[name])} memory` : `${amount(name, held[name])} ${resourceName(name)}`)).join(", ");
  return show(element, h("div", null,
    busyLine("Cores busy", cpu.used, `${percent(cpu.used)} of ${cpu.cores}`),
    busyLine("Memory used", memory.used / memory.total, `${bytes(memory.used)} of ${bytes(memory.total)}`),
    gpus.map((gpu) => busyLine(`GPU ${gpu.index}`, gpu.used, `${percent(gpu.used)}, ${bytes(gpu.memory.used)}`))),
  h("p", { class: "tiny mute" }, `Load ${number(cpu.load)} on the server's machine. `, offers && [count(nodes.length, nodesLink(), words(nodes.length, "node")), ` offer${nodes.length === 1 ? "s" : ""} ${offers}.`]));
}

async function loadDay() {
  const since = new Date(Date.now() - 24 * 3600_000).toISOString().replace(/\.\d+Z/, "Z");
  const bases = session.everywhere ? [`${FAIRWAY}/usage`] : session.namespaces.map(({ name }) => inNamespace(FAIRWAY, name, "usage"));
  const reports = await Promise.all(bases.map((base) => get(query(base, { step: "hour", since }))));
  const hours = new Map();
  for (const item of reports.flatMap((one) => one.items)) {
    const sum = hours.get(item.start) || { start: item.start, hours: {}, started: 0, ended: 0, running: 0, failed: 0, preempted: 0 };
    for (const [name, value] of Object.entries(item.hours)) sum.hours[name] = (sum.hours[name] || 0) + value;
    for (const name of ["started", "ended", "running", "failed", "preempted"]) sum[name] += item[name] || 0;
    hours.set(item.start, sum);
  }
  return [...hours.values()];
}

const of24 = (outcome, value, what) => count(value, attemptsLink({ range: "day", outcome }), what);

function drawDay(element, { usage }) {
  if (usage === undefined) return show(element, h("p", { class: "mute small" }, "Loading …"));
  if (!usage?.length) return show(element, empty("Nothing ran in the last 24 hours", "What runs is counted here by the hour.", "fairway jobs launch 'echo hello'"));
  const gpu = usage.some((one) => Object.keys(one.hours).some(isGpu));
  const of = (one) => (gpu ? Object.entries(one.hours).filter(([name]) => isGpu(name)).reduce((sum, [, value]) => sum + value, 0) : one.hours.cpu || 0);
  const by = new Map(usage.map((one) => [Date.parse(one.start), one]));
  const begin = Math.floor(Date.now() / 3600_000) * 3600_000;
  const [unit, each] = unitOf(Math.max(...usage.map(of)));
  const columns = Array.from({ length: 24 }, (_, index) => {
    const at = begin - (23 - index) * 3600_000;
    const one = by.get(at);
    const hour = clock(at / 1000).slice(-5);
    return { label: hour, title: one ? `${hour}: ${number(of(one) * each)} ${gpu ? "GPU" : "CPU"} ${unit}, ${one.started} started, ${one.ended} ended` : `${hour}: nothing ran`, parts: [one ? of(one) * each : 0] };
  });
  const sum = (name) => usage.reduce((all, one) => all + one[name], 0);
  return show(element, columnChart({ columns, label: `${gpu ? "GPU" : "CPU"} ${unit} used in each of the last 24 hours`, unit: `${gpu ? "GPU" : "CPU"} ${unit}`, width: room(element), height: 170 }),
    h("p", { class: "small soft" }, of24("", sum("ended") + sum("running"), words(sum("ended") + sum("running"), "attempt")), ": ", of24("Running", sum("running"), "running"), ", ", of24("Ended", sum("ended"), "ended"), ", ", of24("Failed", sum("failed"), "failed"), ", ", of24("Preempted", sum("preempted"), "preempted"), "."));
}
