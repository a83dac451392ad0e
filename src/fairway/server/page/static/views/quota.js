// Quota: the trees of cohorts with their queues, who lends to whom, and fair shares.
import { get, KUEUE } from "../api.js";
import { count, jobsLink, ofClusterQueue, quotaLink, runningAndWaiting } from "../counts.js";
import { empty, h, show } from "../dom.js";
import { amount, resourceName, words } from "../format.js";
import { legend, members, poolLine, quotaTree, sums } from "../quota.js";
import { collection, follow } from "../session.js";
import { simpleTable } from "../simple.js";

const SLOW_MS = 30_000;

export function mount(main, { query }) {
  const chosen = query.get("queue") || "";
  const cohort = query.get("cohort") || "";
  const body = h("div", { class: "body" });
  const state = { cohorts: [], flavors: new Map() };
  main.append(h("header", { class: "top" }, h("h1", null, "Quota"), h("span", { class: "grow" }), legend()), body);
  const draw = () => {
    const found = collection("clusterQueues");
    if (!found?.loaded) return show(body, h("p", { class: "mute" }, "Loading …"));
    if (found.refused) return show(body, empty("The quota cannot be shown", found.refused.message));
    const tree = quotaTree([...found.rows.values()], state.cohorts);
    if (!tree.queues.length && !tree.roots.length) return show(body, empty("No quota is defined", "A team is a queue with quota of its own. With --borrow it may use what others leave idle:", "fairway teams add vision --cpus 4 --gpus 2 --borrow"));
    return show(body, tree.roots.filter((root) => !cohort || root.name === cohort).map((root) => cohortCard(root, chosen)),
      cohort && h("p", { class: "small", key: "all" }, h("a", { href: quotaLink() }, "All quota")),
      !cohort && tree.alone.length > 0 && h("section", { class: "card", key: "alone", "aria-labelledby": "alone-title" }, h("header", null, h("h2", { id: "alone-title" }, tree.roots.length ? "Outside every cohort" : "Queues"), h("span", { class: "mute small" }, "they neither lend nor borrow")),
        h("ul", { class: "tree" }, tree.alone.map((queue) => queueNode(queue, chosen)))));
  };
  const load = () => { if (!document.hidden) get(`${KUEUE}/cohorts`).then(({ items }) => { state.cohorts = items; draw(); }, () => {}); };
  load();
  const timer = setInterval(load, SLOW_MS);
  const stop = follow("clusterQueues", draw);
  return () => { stop(); clearInterval(timer); };
}

function cohortCard(root, chosen) {
  const flows = lending(root);
  const whole = quotaLink({ cohort: root.name });
  return h("section", { class: "card", key: `cohort ${root.name}`, "aria-labelledby": `cohort-${root.name}` },
    h("header", null, h("h2", { id: `cohort-${root.name}` }, `Cohort ${root.name}`), h("span", { class: "mute small" }, count(members(root).length, whole, words(members(root).length, "queue")))),
    h("div", { class: "queue-block" }, sums(root).map((pool) => poolLine(pool, true, whole))),
    flows.length > 0 && h("div", { class: "queue-block" }, h("h3", null, "Who lends to whom"), lendingTable(flows),
    h("p", { class: "tiny mute" }, "What is borrowed comes from the whole cohort; lenders are counted in proportion to what each leaves unused.")),
    h("ul", { class: "tree" }, inside(root, chosen, whole)));
}

function lendingTable(flows) {
  return simpleTable({ rows: flows, key: (flow) => flow.key, columns: [
    { label: "Flavor", cell: (flow) => flow.flavor },
    { label: "Resource", cell: (flow) => resourceName(flow.resource) },
    { label: "Lenders", cell: (flow) => flow.lenders.map(({ name, link, value }) => h("div", null, h("a", { class: "tone-lend", href: link }, `${name}: ${amount(flow.resource, value)}`))) },
    { label: "Borrowers", cell: (flow) => flow.borrowers.map(({ name, value }) => h("div", null, h("a", { class: "tone-borrow", href: jobsLink({ state: "running", queue: ofClusterQueue(name) }) }, `${name}: ${amount(flow.resource, value)}`))) },
  ] });
}

function inside(node, chosen, whole) {
  return [...node.cohorts.map((one) => h("li", { key: `cohort ${one.name}` }, h("div", { class: "node" }, h("h3", null, `Cohort ${one.name}`), one.pools.map((pool) => poolLine(pool, true, whole))), h("ul", null, inside(one, chosen, whole)))),
    ...node.queues.map((queue) => queueNode(queue, chosen))];
}

function lending(root) {
  const flows = new Map();
  const note = (pool, name, link) => {
    if (!pool.borrowed && !pool.lent) return;
    if (!flows.has(pool.key)) flows.set(pool.key, { key: pool.key, flavor: pool.flavor, resource: pool.resource, lenders: [], borrowers: [] });
    if (pool.lent) flows.get(pool.key).lenders.push({ name, link, value: pool.lent });
    if (pool.borrowed) flows.get(pool.key).borrowers.push({ name, link, value: pool.borrowed });
  };
  for (const queue of members(root)) for (const pool of queue.pools) note(pool, queue.name, quotaLink({ queue: queue.name }));
  const own = (node) => { for (const pool of node.pools) note(pool, `cohort ${node.name}`, quotaLink({ cohort: root.name })); node.cohorts.forEach(own); };
  own(root);
  return [...flows.values()].filter((flow) => flow.borrowers.length);
}

function queueNode(queue, chosen) {
  const holders = jobsLink({ state: "running", queue: ofClusterQueue(queue.name) });
  const { preemption = {}, queueingStrategy } = queue.object.spec || {};
  const rules = [preemption.withinClusterQueue && preemption.withinClusterQueue !== "Never" && `preempts within the queue: ${preemption.withinClusterQueue}`, preemption.reclaimWithinCohort && preemption.reclaimWithinCohort !== "Never" && `takes back what it lent: ${preemption.reclaimWithinCohort}`, queueingStrategy].filter(Boolean).join("; ");
  return h("li", { key: queue.name }, h("div", { class: "node", "data-chosen": chosen === queue.name ? "" : null },
    h("div", { class: "row" }, h("h3", null, queue.name), h("span", { class: "rules tiny mute" }, rules), runningAndWaiting(queue)),
    queue.active && h("p", { class: "small tone-wait" }, `Admits nothing: ${queue.active}`),
    (queue.weight !== undefined || queue.share !== undefined) && h("p", { class: "tiny soft" }, `Fair share: ${queue.share ?? 0}${queue.weight !== undefined ? `, weight ${queue.weight}` : ""}. The smaller share is served first.`),
    queue.pools.map((pool) => [poolLine(pool, true, holders),
      (pool.borrowingLimit !== null || pool.lendingLimit !== null) && h("p", { class: "tiny mute right" }, [pool.borrowingLimit !== null && `may borrow ${amount(pool.resource, pool.borrowingLimit)}`, pool.lendingLimit !== null && `lends at most ${amount(pool.resource, pool.lendingLimit)}`].filter(Boolean).join(", "))])));
}
