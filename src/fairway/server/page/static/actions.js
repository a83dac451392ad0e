// What can be done with jobs: each asks first, and all chosen jobs are changed at once or none.
import { FAIRWAY, inNamespace, KUEUE, patch, post, remove } from "./api.js";
import { ask } from "./dialog.js";
import { h, icon, toast } from "./dom.js";
import { plural } from "./format.js";
import { mayWrite, session } from "./session.js";

const AT_ONCE = 1000;
const managed = (row) => row.kind === "ManagedJob";
const OWNERS = { Job: "/apis/batch/v1:jobs", RayJob: "/apis/ray.io/v1:rayjobs", RayCluster: "/apis/ray.io/v1:rayclusters", JobSet: "/apis/jobset.x-k8s.io/v1alpha2:jobsets", Pod: "/api/v1:pods" };

export const ACTIONS = [
  { name: "hold", label: "Hold", icon: "pause", fits: (row) => row.live && !row.hold && row.state !== "CANCELLING" && mayHold(row),
    done: "held", text: ["If it runs, it is stopped and gives back its quota. A release queues it again, as after a preemption.",
      "Those that run are stopped and give back their quota. A release queues them again, as after a preemption."],
    spec: (row) => (managed(row) ? { hold: true } : { active: false }) },
  { name: "release", label: "Release", icon: "play", fits: (row) => row.live && row.hold && mayHold(row),
    done: "released", text: ["It waits in its queue again.", "They wait in their queues again."], spec: (row) => (managed(row) ? { hold: false } : { active: true }) },
  { name: "retry", label: "Retry", icon: "back", fits: (row) => !row.live && managed(row) && mayWrite(row.namespace),
    done: "queued again", text: ["It keeps its id, its checkpoint directory and the logs of earlier attempts.",
      "They keep their ids, their checkpoint directories and the logs of earlier attempts."],
    spec: (row) => ({ retry: row.retry + 1, ...(row.cancel ? { cancel: null } : {}) }) },
  { name: "priority", label: "Priority", icon: "up", fits: (row) => row.live && managed(row) && mayWrite(row.namespace),
    done: "changed", text: Array(2).fill("It takes effect at once: a waiting job moves in its queue, and may preempt a running one."),
    spec: (_row, answer) => priority(answer.priority) },
  { name: "cancel", label: "Cancel", icon: "cross", danger: true, fits: (row) => row.live && row.state !== "CANCELLING" && mayCancel(row),
    done: "being cancelled", 
    text: ["Its processes get SIGTERM and a grace period. Logs and results are kept.", "Their processes get SIGTERM and a grace period. Logs and results are kept."], spec: () => ({ cancel: true }) },
];

function mayHold(row) {
  return managed(row) ? mayWrite(row.namespace) : session.admin;
}
function mayCancel(row) {
  return mayWrite(row.namespace) && (managed(row) || row.owner?.kind in OWNERS);
}
function priority(text) {
  if (/^[+-]?\d+$/.test(text)) return { priority: Number(text), priorityClass: null };
  return text === "none" ? { priority: null, priorityClass: null } : { priority: null, priorityClass: text };
}

export function buttons(rows, { after = () => {}, all = false } = {}) {
  return ACTIONS.map((action) => {
    const fitting = rows.filter(action.fits);
    if (!fitting.length && !all) return null;
    return h("button", { class: `btn${action.danger ? " danger" : ""}`, key: action.name, disabled: !fitting.length, "data-action": action.name,
      onclick: () => perform(action, fitting, rows.length, after) }, icon(action.icon), action.label);
  });
}

export async function perform(action, rows, chosen, after) {
  const one = rows.length === 1;
  const what = one ? `job ${rows[0].id ?? ""} ${rows[0].title}`.replace("  ", " ") : plural(rows.length, "job");
  const others = rows.filter((row) => row.user && row.user !== session.user && session.user !== "admin").length;
  const left = chosen - rows.length;
  const fields = action.name !== "priority" ? [] : [h("label", { class: "field" }, "A number, a WorkloadPriorityClass, or none",
    h("input", { type: "text", name: "priority", required: true, autocomplete: "off", value: one ? String(rows[0].priority - rows[0].raised) : "" }))];
  const answer = await ask({
    title: `${action.label} ${what}?`, fields, yes: `${action.label} ${one ? "job" : plural(rows.length, "job")}`, danger: action.danger,
    text: [action.text[one ? 0 : 1],
      others && !one && `${plural(others, "job")} of other users.`, left > 0 && `${plural(left, "chosen job")} will stay as they are: this does not apply to them.`],
  });
  if (!answer) return;
  try {
    await change(action, rows, answer);
    toast(`${one ? `Job ${rows[0].id ?? rows[0].title}` : plural(rows.length, "job")} ${action.done}.`);
    after();
  } catch (error) {
    toast(`${action.label}: ${error.message}`, "bad");
  }
}

async function change(action, rows, answer) {
  const spaces = Map.groupBy ? Map.groupBy(rows.filter(managed), (row) => row.namespace) : group(rows.filter(managed));
  for (const [namespace, jobs] of spaces) {
    for (let start = 0; start < jobs.length; start += AT_ONCE) {
      const operations = jobs.slice(start, start + AT_ONCE).map((row) => ({
        verb: "patch", apiVersion: "fairway.dev/v1alpha1", kind: "ManagedJob", namespace, name: row.name, uid: row.uid,
        patch: { spec: action.spec(row, answer) },
      }));
      await post(inNamespace(FAIRWAY, namespace, "transactions"), { apiVersion: "fairway.dev/v1alpha1", kind: "Transaction", spec: { operations } });
    }
  }
  for (const row of rows.filter((one) => !managed(one))) {
    if (action.name === "cancel") {
      const [base, plural_] = OWNERS[row.owner.kind].split(":");
      await remove(`${inNamespace(base, row.namespace, plural_, row.owner.name)}?propagationPolicy=Background`);
    } else await patch(inNamespace(KUEUE, row.namespace, "workloads", row.name), { spec: action.spec(row, answer) });
  }
}

function group(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.namespace, [...(found.get(row.namespace) || []), row]);
  return found;
}
