// Who looks, what they may do, and the collections that several pages share.
import { FAIRWAY, inNamespace, KUEUE, get, post, remove } from "./api.js";
import { setServerTime } from "./format.js";
import { foreignRow, jobRow } from "./jobs.js";
import { Collection } from "./watch.js";

export const session = { user: "", admin: false, everywhere: false, nodes: false, namespaces: [], resources: [] };
const shared = new Map();
const IDLE_MS = 30_000;

export async function load() {
  Object.assign(session, await get("/page/session"));
  setServerTime(session.now);
  return session;
}
export async function login(what) {
  await post("/page/session", what);
  return load();
}
export async function logout() {
  for (const { collection } of shared.values()) collection.close();
  shared.clear();
  try { await remove("/page/session"); } finally { location.hash = "#/login"; location.reload(); }
}

/** Whether the server answers for a resource that not every version has. */
export function serves(resource) {
  return session.resources.includes(resource);
}

export function mayWrite(namespace) {
  return session.writes || session.namespaces.some((one) => one.name === namespace && one.writes);
}

/** The lists of a resource of namespaces: one for all, or one for each that the user may read. */
export function scoped(base, resource) {
  if (session.everywhere) return [`${base}/${resource}`];
  return session.namespaces.map(({ name }) => inNamespace(base, name, resource));
}

const KINDS = {
  jobs: () => new Collection(scoped(FAIRWAY, "managedjobs"), { row: jobRow }),
  foreign: () => new Collection(scoped(KUEUE, "workloads"), { row: foreignRow, labels: "!fairway.dev/job" }),
  clusterQueues: () => new Collection([`${KUEUE}/clusterqueues`]),
};

/** Follow a shared collection; returns how to stop. It is let go half a minute after the last follower. */
export function follow(name, listener) {
  let entry = shared.get(name);
  if (!entry) shared.set(name, (entry = { collection: KINDS[name](), users: 0, timer: 0 }));
  clearTimeout(entry.timer);
  entry.users += 1;
  const stop = entry.collection.subscribe(listener);
  return () => {
    stop();
    entry.users -= 1;
    if (entry.users) return;
    entry.timer = setTimeout(() => {
      entry.collection.close();
      shared.delete(name);
    }, IDLE_MS);
  };
}

export function collection(name) {
  return shared.get(name)?.collection;
}
