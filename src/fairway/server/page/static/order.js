// The order of rows: what runs, then who waits, queue by queue in the order of admission, then held, then ended.
function group(row) {
  if (!row.live) return 3;
  if (row.state === "HELD") return 2;
  return row.waits ? 1 : 0;
}
const byTime = (a, b) => (a.queuedAt ?? a.submitted) - (b.queuedAt ?? b.submitted) || (a.id ?? 0) - (b.id ?? 0);

/** Rows in order; `find` gives what the server says of one that waits. Places that it has not told are estimated. */
export function ordered(rows, find) {
  const groups = [[], [], [], []];
  for (const row of rows) groups[group(row)].push(row);
  groups[0].sort((a, b) => (b.running ?? Infinity) - (a.running ?? Infinity) || (b.id ?? 0) - (a.id ?? 0));
  groups[2].sort((a, b) => a.submitted - b.submitted || (a.id ?? 0) - (b.id ?? 0));
  groups[3].sort((a, b) => b.ended - a.ended || (b.id ?? 0) - (a.id ?? 0));
  return [...groups[0], ...waitingInOrder(groups[1], find), ...groups[2], ...groups[3]];
}

function waitingInOrder(rows, find) {
  const queues = new Map();
  for (const row of rows) {
    const name = find(row)?.clusterQueue || row.clusterQueue;
    if (!queues.has(name)) queues.set(name, []);
    queues.get(name).push(row);
  }
  const names = [...queues.keys()].sort((a, b) => !a - !b || (a < b ? -1 : 1)); // those that are in no queue yet are last
  return names.flatMap((name) => placed(queues.get(name), find));
}

/** Those with a place at their place, the others between them by priority and time. */
function placed(rows, find) {
  const known = [];
  const others = [];
  for (const row of rows) {
    const position = find(row)?.position;
    if (position) known.push([position, row]);
    else others.push(row);
  }
  known.sort((a, b) => a[0] - b[0]);
  others.sort((a, b) => b.priority - a.priority || byTime(a, b));
  const found = [];
  let next = 0;
  for (const [position, row] of known) {
    while (found.length < position - 1 && next < others.length) found.push(others[next++]);
    found.push(row);
  }
  return found.concat(others.slice(next));
}
