// Nodes and GPUs: what each machine offers, what its pods hold, and how busy the server's own machine is.
import { get } from "../api.js";
import { count, nodesLink } from "../counts.js";
import { empty, h, icon, notice, show } from "../dom.js";
import { ago, amount, bytes, number, percent, plural, quantity, resourceName } from "../format.js";
import { poolBar } from "../quota.js";
import { simpleTable } from "../simple.js";

const LOOK_MS = 5000;
const SHOWN = ["cpu", "memory", "pods"];
const FEW_PODS = 100;

export function mount(main, { query }) {
  const summary = h("span", { class: "sub" });
  const body = h("div", { class: "body" }, h("p", { class: "mute" }, "Loading …"));
  main.append(h("header", { class: "top" }, h("h1", null, "Nodes"), summary), body);
  const wanted = (node) => (!query.get("node") || node.metadata.name === query.get("node")) && (query.get("state") !== "unready" || !isReady(node));
  const filtered = query.has("node") || query.has("state");
  const look = async () => {
    if (document.hidden) return;
    try {
      const [nodes, pods, machine] = await Promise.all([get("/api/v1/nodes"), get(`/api/v1/pods?limit=2000&fieldSelector=${encodeURIComponent("status.phase!=Succeeded,status.phase!=Failed")}`), get("/page/machine")]);
      const found = nodes.items.filter(wanted);
      show(summary, plural(found.length, "node"), filtered && [" of ", count(nodes.items.length, nodesLink())]);
      draw(body, found, pods.items, machine, query.has("node") ? Infinity : FEW_PODS);
    } catch (error) {
      if (error.code) show(body, notice("bad", error.message));
    }
  };
  look();
  const timer = setInterval(look, LOOK_MS);
  return () => clearInterval(timer);
}

const isGpu = (name) => name.endsWith("/gpu");
const isReady = (node) => (node.status?.conditions || []).some((one) => one.type === "Ready" && one.status === "True");

function draw(body, nodes, pods, machine, most) {
  if (!nodes.length) return show(body, empty("No node", "A server runs jobs on its own machine unless it was started with --api-only:", "fairway up"));
  const held = new Map();
  for (const pod of pods) {
    if (!pod.spec.nodeName) continue;
    const sum = held.get(pod.spec.nodeName) || { pods: [] };
    sum.pods.push(pod);
    for (const container of pod.spec.containers) for (const [name, value] of Object.entries({ ...container.resources?.limits, ...container.resources?.requests })) sum[name] = (sum[name] || 0) + quantity(value);
    held.set(pod.spec.nodeName, sum);
  }
  return show(body, nodes.map((node) => nodeCard(node, held.get(node.metadata.name) || { pods: [] }, most)), machineCard(machine));
}

function nodeCard(node, held, most) {
  const { name, labels = {}, creationTimestamp } = node.metadata;
  const trouble = (node.status?.conditions || []).filter((one) => one.type !== "Ready" && one.status === "True");
  const offers = node.status?.allocatable || {};
  const names = [...SHOWN, ...Object.keys(offers).filter(isGpu)].filter((one) => one in offers);
  const model = labels["nvidia.com/gpu.product"];
  const ready = isReady(node);
  return h("section", { class: "card", key: name, "aria-label": `Node ${name}` },
    h("header", null, icon("nodes"), h("h2", null, name), h("span", { class: "pill", "data-tone": ready ? "good" : "bad" }, icon(ready ? "check" : "warn"), ready ? "Ready" : "Not ready"), node.spec?.unschedulable && h("span", { class: "pill", "data-tone": "wait" }, icon("pause"), "Cordoned"),
      h("span", { class: "mute small" }, [node.status?.nodeInfo?.osImage, model, `added ${ago(creationTimestamp)}`].filter(Boolean).join(" · "))),
    h("div", { class: "queue-block" }, names.map((one) => {
      const total = quantity(offers[one]);
      const used = one === "pods" ? held.pods.length : held[one] || 0;
      return h("div", { class: "pool", key: one }, h("span", null, resourceName(one), isGpu(one) && model && h("span", { class: "mute" }, ` ${model}`)), poolBar({ resource: one, flavor: name, nominal: total, used, borrowed: 0, lent: 0 }), h("span", { class: "figures" }, one === "pods" ? count(used, nodesLink({ node: name })) : amount(one, used), h("span", { class: "mute" }, ` of ${amount(one, total)} held`)));
    })),
    trouble.map((one) => h("p", { class: "queue-block small tone-bad" }, `${one.type}: ${one.message}`)),
    held.pods.length > 0 && podTable(held.pods.slice(0, most)),
    held.pods.length > most && h("p", { class: "queue-block small" }, h("a", { href: nodesLink({ node: name }) }, `All ${held.pods.length} pods`)));
}

function podTable(pods) {
  return simpleTable({ rows: pods, key: (pod) => pod.metadata.uid, columns: [
    { label: "Pod", cell: jobLink },
    { label: "Namespace", cell: (pod) => pod.metadata.namespace },
    { label: "State", at: "corner", cell: (pod) => pod.status?.phase || "Pending" },
    { label: "GPUs", cell: (pod) => pod.metadata.annotations?.["fairway.dev/gpus"] || gpusOf(pod) },
    { label: "Since", num: true, cell: (pod) => ago(pod.status?.startTime || pod.metadata.creationTimestamp) },
  ] });
}

function gpusOf(pod) {
  const count = pod.spec.containers.reduce((sum, one) => sum + Object.entries(one.resources?.limits || one.resources?.requests || {}).filter(([name]) => isGpu(name)).reduce((all, [, value]) => all + quantity(value), 0), 0);
  return count ? number(count) : "–";
}

function jobLink(pod) {
  const job = pod.metadata.labels?.["fairway.dev/job"];
  return job ? h("a", { class: "link", href: `#/jobs/${encodeURIComponent(pod.metadata.namespace)}/${encodeURIComponent(job)}` }, pod.metadata.name) : pod.metadata.name;
}

function machineCard({ cpu, memory, gpus }) {
  const line = (name, ratio, text) => h("div", { class: "pool", key: name }, h("span", null, name), poolBar({ resource: name, flavor: "", nominal: 1, used: ratio, borrowed: 0, lent: 0 }), h("span", { class: "figures" }, text));
  return h("section", { class: "card", key: "machine", "aria-label": "The server's machine" }, h("header", null, h("h2", null, "How busy the server's machine is"), h("span", { class: "mute small" }, `load ${number(cpu.load)}`)),
    h("div", { class: "queue-block" }, line("Cores busy", cpu.used, `${percent(cpu.used)} of ${cpu.cores}`), line("Memory used", memory.used / memory.total, `${bytes(memory.used)} of ${bytes(memory.total)}`),
      gpus.map((gpu) => line(`GPU ${gpu.index} ${gpu.model}`, gpu.used, `${percent(gpu.used)}, ${bytes(gpu.memory.used)} of ${bytes(gpu.memory.total)}`)),
      !gpus.length && h("p", { class: "tiny mute" }, "The driver of this machine reports no GPU; declared ones count for quota only.")));
}
