// Durations, amounts and times as people say them.
const UNITS = { n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };
const GI = 2 ** 30;

/** A Kubernetes quantity as a number. */
export function quantity(text) {
  if (typeof text === "number") return text;
  const found = /^([+-]?[0-9.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(text || "0");
  return found ? Number(found[1]) * (UNITS[found[2]] ?? 1) : 0;
}

function isBytes(resource) {
  return resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
}

export function resourceName(resource) {
  const known = { cpu: "CPU", memory: "Memory", "ephemeral-storage": "Disk", "nvidia.com/gpu": "GPU", "amd.com/gpu": "GPU (AMD)", pods: "Pods" };
  return known[resource] || resource;
}

export function number(value, digits = 2) {
  if (value === 0) return "0";
  const size = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : digits;
  return value.toLocaleString("en-US", { maximumFractionDigits: size });
}

/** An amount of a resource without its name: `8`, `32 GiB`. */
export function amount(resource, value) {
  if (!isBytes(resource)) return number(value);
  return bytes(value);
}

export function bytes(value) {
  if (Math.abs(value) >= 1024 * GI) return `${number(value / GI / 1024, 1)} TiB`;
  if (Math.abs(value) >= GI || value === 0) return `${number(value / GI, 1)} GiB`;
  return `${number(value / 2 ** 20, 0)} MiB`;
}

/** `38s`, `12m 5s`, `2h 5m`, `3d 4h`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return parts(Math.floor(whole / 60), "m", whole % 60, "s", whole < 600);
  if (whole < 86400) return parts(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "m", true);
  return parts(Math.floor(whole / 86400), "d", Math.floor((whole % 86400) / 3600), "h", whole < 86400 * 10);
}

function parts(large, one, small, other, both) {
  return both && small ? `${large}${one} ${small}${other}` : `${large}${one}`;
}

let skew = 0;
/** The server's clock, from what it said the time was. */
export function setServerTime(text) {
  skew = Date.parse(text) - Date.now();
}
export function now() {
  return (Date.now() + skew) / 1000;
}
export function seconds(text) {
  return text ? Date.parse(text) / 1000 : null;
}
export function since(text) {
  return text ? now() - seconds(text) : null;
}
export function ago(text) {
  return text ? `${duration(since(text))} ago` : "–";
}

/** `14:05`, with the day where it is not today. */
export function clock(text) {
  const date = typeof text === "number" ? new Date(text * 1000) : new Date(text);
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}
export function fullTime(text) {
  return text ? new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" }) : "";
}
export function percent(ratio) {
  return ratio === null || ratio === undefined ? "–" : `${Math.round(ratio * 100)}%`;
}
/** The word for so many. */
export function words(count, one, many = `${one}s`) {
  return count === 1 ? one : many;
}
export function plural(count, one, many = `${one}s`) {
  return `${number(count, 0)} ${words(count, one, many)}`;
}

/** `in about 40m (25m – 1h 30m)` */
export function expected(start) {
  if (!start) return "";
  if (!start.known) return "";
  const left = seconds(start.at) - now();
  return left <= 20 ? "soon" : `in ${duration(left)}`;
}
export function expectedRange(start) {
  if (!start || !start.known) return start ? start.message : "";
  const from = start.earliest ? duration(Math.max(0, seconds(start.earliest) - now())) : "?";
  const to = start.latest ? duration(Math.max(0, seconds(start.latest) - now())) : "open";
  if (start.latest && seconds(start.latest) - now() <= 20) return "any moment now";
  return `about ${clock(start.at)}; in ${from} to ${to}`;
}
