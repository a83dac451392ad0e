// What a job is on the page: a managed job, or the Workload of any other kind, as one row.
import { amount, now, quantity, resourceName, seconds } from "./format.js";

const LIVE = new Set(["", "PENDING", "STARTING", "RUNNING", "RECOVERING", "CANCELLING"]);
const WAITING = new Set(["PENDING", "RECOVERING"]);

export const STATES = {
  RUNNING: ["Running", "good", "play"], STARTING: ["Starting", "good", "up"], PENDING: ["Waiting", "wait", "clock"],
  RECOVERING: ["Recovering", "wait", "back"], CANCELLING: ["Stopping", "still", "stop"], HELD: ["Held", "still", "pause"],
  SUCCEEDED: ["Succeeded", "still", "check"], CANCELLED: ["Cancelled", "still", "cross"], FAILED: ["Failed", "bad", "warn"],
  FAILED_SETUP: ["Setup failed", "bad", "warn"], FAILED_PRECHECKS: ["Checks failed", "bad", "warn"],
  FAILED_NO_RESOURCE: ["Too large", "bad", "warn"], FAILED_CONTROLLER: ["Internal error", "bad", "warn"],
};
export function stateOf(row) {
  return STATES[row.state] || [row.state, "still", "clock"];
}

export function jobRow(object) {
  const { metadata, spec, status = {} } = object;
  const phase = status.phase || "PENDING";
  const aging = spec.aging || { step: 10, cap: 100 };
  const waits = WAITING.has(phase);
  return {
    kind: "ManagedJob", namespace: metadata.namespace, name: metadata.name, uid: metadata.uid,
    title: spec.name || metadata.name, id: spec.id, user: spec.user || "", queue: spec.queue || (status.workload ? "default" : ""),
    state: spec.cancel && LIVE.has(phase) ? "CANCELLING" : waits && spec.hold ? "HELD" : phase,
    phase, waits, live: LIVE.has(phase), hold: !!spec.hold, cancel: !!spec.cancel, retry: spec.retry || 0,
    priority: status.priority ?? spec.priority ?? 0, priorityClass: spec.priorityClass || "",
    raised: Math.min((status.preemptions || 0) * aging.step, aging.cap),
    submitted: seconds(metadata.creationTimestamp), queuedAt: seconds(status.queuedAt), running: seconds(status.runningSince),
    ended: seconds(status.endedAt), ran: status.ranSeconds || 0, recoveries: status.recoveries || 0,
    preemptions: status.preemptions || 0, attempt: status.attempt || 0, workload: status.workload || "",
    infra: status.infra || "", message: status.message || status.reason || "", ask: requested(spec, status),
  };
}

export function conditionOf(object, type) {
  return (object.status?.conditions || []).find((one) => one.type === type);
}
const holds = (object, type) => conditionOf(object, type)?.status === "True";

export function foreignRow(object) {
  const { metadata, spec, status = {} } = object;
  const owner = (metadata.ownerReferences || []).find((one) => one.controller) || metadata.ownerReferences?.[0];
  const finished = conditionOf(object, "Finished");
  const admitted = conditionOf(object, "Admitted");
  const done = finished?.status === "True";
  const runs = admitted?.status === "True";
  let state = spec.active === false ? "HELD" : "PENDING";
  if (runs) state = conditionOf(object, "PodsReady")?.status === "False" ? "STARTING" : "RUNNING";
  if (holds(object, "Evicted") && !runs && spec.active !== false) state = "RECOVERING";
  if (done) state = finished.reason === "Failed" ? "FAILED" : "SUCCEEDED";
  const begun = runs ? seconds(admitted.lastTransitionTime) : null;
  const over = done ? seconds(finished.lastTransitionTime) : null;
  const waiting = conditionOf(object, "QuotaReserved");
  return {
    kind: owner?.kind || "Workload", namespace: metadata.namespace, name: metadata.name, uid: metadata.uid,
    title: owner?.name || metadata.name, owner, id: null, user: "", queue: spec.queueName || "", state, phase: state,
    waits: !done && !runs, live: !done, hold: spec.active === false, cancel: false, retry: 0, priority: spec.priority || 0,
    priorityClass: "", raised: 0, submitted: seconds(metadata.creationTimestamp), queuedAt: seconds(metadata.creationTimestamp),
    running: done ? null : begun, ended: over, ran: done && begun ? over - begun : 0, recoveries: status.requeueState?.count || 0,
    preemptions: 0, attempt: 0, workload: metadata.name, infra: "",
    message: done ? finished.message : runs ? "" : waiting?.message || "", ask: podSetsAsk(spec.podSets || []),
  };
}

export function linkTo(row) {
  const kind = row.kind === "ManagedJob" ? "jobs" : "workloads";
  return `#/${kind}/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;
}

export function ranFor(row) {
  return row.ran + (row.running && row.live ? Math.max(0, now() - row.running) : 0);
}
export function waitedFor(row) {
  return row.submitted === null ? 0 : Math.max(0, (row.ended ?? now()) - row.submitted - ranFor(row));
}

/** Why a job waits, or what happened to it, in one line. */
export function why(row, waiting) {
  if (!row.live) return row.state === "SUCCEEDED" ? "" : said(row.message);
  if (row.state === "CANCELLING") return said(row.message) || "its processes are being stopped";
  if (row.state === "HELD") return "held until it is released";
  if (waiting) return waiting.canEverRun === false ? `can never run: ${waiting.message}` : waiting.message;
  return row.message === "Queued" || row.message === "Held" ? "" : said(row.message);
}

/** A message for people: Kueue's sentence about a preemption has only uids. */
export function said(message) {
  return (message || "").replace(/Preempted to accommodate a workload \(UID: [^)]*\) due to ([^;]+)(; preemptor path: [^;]*; preemptee path: [^;\s]*)?/, "made room for another job ($1)");
}

function requested(spec, status) {
  const tasks = spec.tasks || [];
  const task = tasks[Math.min(status.task || 0, tasks.length - 1)] || {};
  const nodes = Number(task.num_nodes) || 1;
  const each = ofNode(task.resources, status.candidate || 0).join(", ");
  if (task.ray && typeof task.ray === "object") {
    const workers = Number(task.ray.workers) || 0;
    return workers ? `${each} + ${workers} × (${ofNode(task.ray, 0).join(", ")})` : each;
  }
  return nodes > 1 ? `${nodes} × (${each})` : each;
}

function ofNode(given, candidate) {
  let resources = given && typeof given === "object" ? given : {};
  const offers = resources.any_of || resources.ordered;
  if (Array.isArray(offers) && offers.length) resources = { ...resources, ...offers[Math.min(candidate, offers.length - 1)] };
  const found = [];
  const accelerators = resources.accelerators ?? resources.gpus;
  if (resources.cpus !== undefined && resources.cpus !== null) found.push(`${resources.cpus} CPU`);
  else if (!accelerators) found.push("1 CPU");
  if (resources.memory) found.push(/[a-zA-Z]/.test(resources.memory) ? String(resources.memory) : `${resources.memory} GiB`);
  if (accelerators) {
    if (typeof accelerators === "object" && !Array.isArray(accelerators)) found.push(Object.entries(accelerators).map(([name, count]) => `${count || 1} ${name}`).join(" or "));
    else found.push([accelerators].flat().map((one) => String(one).replace(/^([^:]+):(\d+)$/, "$2 $1").replace(/^\d+$/, "$& GPU")).join(" or "));
  }
  return found;
}

function podSetsAsk(podSets) {
  const total = {};
  for (const set of podSets) {
    for (const container of set.template?.spec?.containers || []) {
      const asked = { ...container.resources?.limits, ...container.resources?.requests };
      for (const [name, value] of Object.entries(asked)) total[name] = (total[name] || 0) + quantity(value) * (set.count ?? 1);
    }
  }
  return Object.entries(total).map(([name, value]) => (name === "memory" ? amount(name, value) : `${amount(name, value)} ${resourceName(name)}`)).join(", ");
}
