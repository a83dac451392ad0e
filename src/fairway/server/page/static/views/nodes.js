// Nodes and GPUs: what each machine offers, what its pods hold, and how busy the server's own machine is.
import { get } from "../api.js";
import { empty, h, icon, notice, show } from "../dom.js";
import { ago, amount, bytes, number, percent, plural, quantity, resourceName } from "../format.js";
import { poolBar } from "../quota.js";

const LOOK_MS = 5000;
const SHOWN = ["cpu", "memory", "pods"];

export function mount(main) {
  const count = h("span", { class: "sub" });
  const body = h("div", { class: "body" }, h("p", { class: "mute" }, "Loading …"));
  main.append(h("header", { class: "top" }, h("h1", null, "Nodes"), count), body);
  const look = async () => {
    if (document.hidden) return;
    try {
      const [nodes, pods, machine] = await Promise.all([get("/api/v1/nodes"), get("/api/v1/pods?limit=2000"), get("/page/machine")]);
      show(count, plural(nodes.items.length, "node"));
      draw(body, nodes.items, pods.items, machine);
    } catch (error) {
      if (error.code) show(body, notice("bad", error.message));
    }
  };
  look();
  const timer = setInterval(look, LOOK_MS);
  return () => clearInterval(timer);
}

const isGpu = (name) => name.endsWith("/gpu");

function draw(body, nodes, pods, machine) {
  if (!nodes.length) return show(body, empty("No node", "A server runs jobs on its own machine unless it was started with --api-only:", "fairway up"));
  const held = new Map();
  for (const pod of pods) {
    if (!pod.spec.nodeName || ["Succeeded", "Failed"].includes(pod.status?.phase)) continue;
    const sum = held.get(pod.spec.nodeName) || { pods: [] };
    sum.pods.push(pod);
    for (const container of pod.spec.containers) for (const [name, value] of Object.entries({ ...container.resources?.limits, ...container.resources?.requests })) sum[name] = (sum[name] || 0) + quantity(value);
    held.set(pod.spec.nodeName, sum);
  }
  return show(body, nodes.map((node) => nodeCard(node, held.get(node.metadata.name) || { pods: [] })), machineCard(machine));
}

function nodeCard(node, held) {
  const { name, labels = {}, creationTimestamp } = node.metadata;
  const ready = (node.status?.conditions || []).find((one) => one.type === "Ready");
  const trouble = (node.status?.conditions || []).filter((one) => one.type !== "Ready" && one.status === "True");
  const offers = node.status?.allocatable || {};
  const names = [...SHOWN, ...Object.keys(offers).filter(isGpu)].filter((one) => one in offers);
  const model = labels["nvidia.com/gpu.product"];
  const isReady = ready?.status === "True";
  return h("section", { class: "card", key: name, "aria-label": `Node ${name}` },
    h("header", null, icon("nodes"), h("h2", null, name), h("span", { class: "pill", "data-tone": isReady ? "good" : "bad" }, icon(isReady ? "check" : "warn"), isReady ? "Ready" : "Not ready"), node.spec?.unschedulable && h("span", { class: "pill", "data-tone": "wait" }, icon("pause"), "Cordoned"),
      h("span", { class: "mute small" }, [node.status?.nodeInfo?.osImage, model, `added ${ago(creationTimestamp)}`].filter(Boolean).join(" · "))),
    h("div", { class: "queue-block" }, names.map((one) => {
      const total = quantity(offers[one]);
      const used = one === "pods" ? held.pods.length : held[one] || 0;
      return h("div", { class: "pool", key: one }, h("span", null, resourceName(one), isGpu(one) && model && h("span", { class: "mute" }, ` ${model}`)), poolBar({ resource: one, flavor: name, nominal: total, used, borrowed: 0, lent: 0 }), h("span", { class: "figures" }, amount(one, used), h("span", { class: "mute" }, ` of ${amount(one, total)} held`)));
    })),
    trouble.map((one) => h("p", { class: "queue-block small tone-bad" }, `${one.type}: ${one.message}`)),
    held.pods.length > 0 && h("div", { class: "queue-block wide" }, h("table", { class: "simple" }, h("thead", null, h("tr", null, h("th", null, "Pod"), h("th", null, "Namespace"), h("th", null, "State"), h("th", null, "GPUs"), h("th", { class: "num" }, "Since"))),
      h("tbody", null, held.pods.slice(0, 100).map((pod) => h("tr", { key: pod.metadata.uid }, h("td", null, jobLink(pod)), h("td", null, pod.metadata.namespace), h("td", null, pod.status?.phase || "Pending"),
        h("td", null, pod.metadata.annotations?.["fairway.dev/gpus"] || gpusOf(pod)), h("td", { class: "num" }, ago(pod.status?.startTime || pod.metadata.creationTimestamp)))))),
    held.pods.length > 100 && h("p", { class: "tiny mute" }, `and ${held.pods.length - 100} more`)));
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
