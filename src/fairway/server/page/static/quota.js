// Quota and its use: the pools of ClusterQueues, what is borrowed, and who lends it.
import { h } from "./dom.js";
import { amount, quantity, resourceName } from "./format.js";

/** What each flavor and resource of a ClusterQueue or Cohort has, and how much of it is used. */
export function pools(object) {
  const used = new Map();
  const status = object.status || {};
  for (const flavor of status.flavorsReservation || status.flavorsUsage || []) {
    for (const one of flavor.resources || []) used.set(`${flavor.name}/${one.name}`, [quantity(one.total), quantity(one.borrowed)]);
  }
  const found = [];
  for (const group of object.spec?.resourceGroups || []) {
    for (const flavor of group.flavors || []) {
      for (const one of flavor.resources || []) {
        const key = `${flavor.name}/${one.name}`;
        const [total, borrowed] = used.get(key) || [0, 0];
        found.push({
          key, flavor: flavor.name, resource: one.name, nominal: quantity(one.nominalQuota), used: total, borrowed, lent: 0,
          borrowingLimit: one.borrowingLimit === undefined ? null : quantity(one.borrowingLimit),
          lendingLimit: one.lendingLimit === undefined ? null : quantity(one.lendingLimit),
        });
      }
    }
  }
  return found;
}

/** The queues with their pools, and the trees of cohorts that they are in. What a queue lends is its part of what others
 *  in its tree have borrowed, in proportion to what each leaves unused. */
export function quotaTree(clusterQueues, cohorts) {
  const parents = new Map(cohorts.map((one) => [one.metadata.name, one.spec?.parentName || ""]));
  const queues = clusterQueues.map((object) => ({
    name: object.metadata.name, object, cohort: object.spec?.cohortName || "", pools: pools(object),
    running: object.status?.admittedWorkloads || 0, waiting: waitingOf(object.status || {}), active: activity(object),
    weight: object.spec?.fairSharing?.weight, share: object.status?.fairSharing?.weightedShare,
  })).sort((a, b) => a.name.localeCompare(b.name));
  for (const queue of queues) if (queue.cohort && !parents.has(queue.cohort)) parents.set(queue.cohort, "");
  const declared = new Map(cohorts.map((one) => [one.metadata.name, one]));
  const nodes = new Map([...parents.keys()].map((name) => [name, {
    name, pools: declared.has(name) ? pools(declared.get(name)) : [], object: declared.get(name), cohorts: [], queues: [],
  }]));
  const roots = [];
  for (const [name, node] of nodes) {
    const parent = nodes.get(parents.get(name));
    if (parent && parent !== node) parent.cohorts.push(node);
    else roots.push(node);
  }
  const alone = [];
  for (const queue of queues) (nodes.get(queue.cohort)?.queues || alone).push(queue);
  for (const root of roots) lend(root);
  return { queues, roots: roots.sort((a, b) => a.name.localeCompare(b.name)), alone };
}

export function members(node) {
  return [...node.queues, ...node.cohorts.flatMap(members)];
}
function ownPools(node) {
  return [...node.pools, ...node.cohorts.flatMap(ownPools)];
}

function lend(root) {
  const all = members(root);
  const lenders = [...all.flatMap((queue) => queue.pools), ...ownPools(root)];
  const keys = new Set(lenders.map((pool) => pool.key));
  for (const key of keys) {
    const mine = lenders.filter((pool) => pool.key === key);
    const borrowed = mine.reduce((sum, pool) => sum + pool.borrowed, 0);
    const spare = (pool) => Math.min(Math.max(0, pool.nominal - pool.used), pool.lendingLimit ?? Infinity);
    const total = mine.reduce((sum, pool) => sum + spare(pool), 0);
    if (borrowed && total) for (const pool of mine) pool.lent = Math.min(spare(pool), (borrowed * spare(pool)) / total);
  }
}

/** Sums of the members of a cohort and of its own quota, by flavor and resource. */
export function sums(node) {
  const found = new Map();
  for (const pool of [...members(node).flatMap((queue) => queue.pools), ...ownPools(node)]) {
    const sum = found.get(pool.key) || { ...pool, nominal: 0, used: 0, borrowed: 0, lent: 0, moved: 0 };
    sum.nominal += pool.nominal;
    sum.used += pool.used;
    sum.moved += pool.borrowed;
    found.set(pool.key, sum);
  }
  return [...found.values()];
}

function waitingOf(status) {
  return (status.pendingWorkloads || 0) + Math.max(0, (status.reservingWorkloads || 0) - (status.admittedWorkloads || 0));
}
function activity(object) {
  const condition = (object.status?.conditions || []).find((one) => one.type === "Active");
  return !condition || condition.status === "True" ? "" : condition.message || condition.reason || "it is not active";
}

/** A bar: used, borrowed beyond nominal, lent to others, and a mark at nominal where more than that is used. */
export function poolBar(pool) {
  const scale = Math.max(pool.nominal, pool.used, 1e-9);
  const part = (value) => `${(100 * value) / scale}%`;
  const own = Math.min(pool.used, pool.nominal);
  const over = Math.max(0, pool.used - pool.nominal);
  return h("span", { class: "bar", role: "img", "aria-label": sentence(pool) },
    h("i", { class: "used", style: { left: "0", width: part(own) } }),
    pool.lent > 0 && h("i", { class: "lent", style: { left: part(pool.nominal - pool.lent), width: part(pool.lent) } }),
    over > 0 && h("i", { class: "borrowed", style: { left: part(pool.nominal), width: part(over) } }),
    over > 0 && h("i", { class: "mark", style: { left: part(pool.nominal) } }));
}

export function sentence(pool) {
  const of = (value) => amount(pool.resource, value);
  const more = [pool.borrowed > 0 && `${of(pool.borrowed)} borrowed`, pool.lent > 0 && `${of(pool.lent)} lent`].filter(Boolean);
  return `${resourceName(pool.resource)} in ${pool.flavor}: ${of(pool.used)} of ${of(pool.nominal)} used${more.length ? `, ${more.join(", ")}` : ""}`;
}

export function poolLine(pool, several, link) {
  const of = (value) => amount(pool.resource, value);
  return h("a", { class: "pool", key: pool.key, href: link, title: sentence(pool) },
    h("span", { class: "cut" }, resourceName(pool.resource), several && h("span", { class: "mute" }, ` ${pool.flavor}`)),
    poolBar(pool),
    h("span", { class: "figures" }, of(pool.used), h("span", { class: "mute" }, ` of ${of(pool.nominal)}`),
      pool.borrowed > 0 && h("span", { class: "tone-borrow" }, ` +${of(pool.borrowed)} borrowed`),
      pool.lent > 0 && h("span", { class: "tone-lend" }, ` ${of(pool.lent)} lent`)));
}

export function legend() {
  return h("div", { class: "legend" }, h("span", null, h("i", { class: "used" }), "used"), h("span", null, h("i", { class: "borrowed" }), "borrowed"),
    h("span", null, h("i", { class: "lent" }), "lent"), h("span", null, h("i", { class: "mark" }), "nominal quota"));
}
