// Numbers that count something: each leads to the list of what it counts.
import { h, icon } from "./dom.js";
import { number } from "./format.js";

function link(page, values) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();
  return query ? `#/${page}?${query}` : `#/${page}`;
}
/** The address of the jobs with these values: `state`, `user`, `queue` and `text`. */
export const jobsLink = (values) => link("queue", values);
/** The address of the attempts with these values, in the history: `range`, `by` and `group`, `outcome`, `namespace`, `job`. */
export const attemptsLink = (values) => link("history", values);
/** The address of the quota, of one cohort or with one queue in view. */
export const quotaLink = (values = {}) => link("quota", values);
export const nodesLink = (values = {}) => link("nodes", values);
export const ofClusterQueue = (name) => `cq:${name}`;

/** How many, and of what, as a link to them; `href` may come with a handler. */
export function count(value, href, words = "") {
  return h("a", { class: "count", ...(typeof href === "string" ? { href } : href) }, number(value, 0), words && ` ${words}`);
}

/** A large figure with its name; `href` is where it leads, `more` what else there is to say. */
export function stat({ name, picture, figure, href, onclick, more, tone = "" }) {
  return h("div", { class: "stat", key: name }, h("span", { class: "name" }, picture && icon(picture), name),
    href ? h("a", { class: "number", href, onclick, "aria-label": `${name}: ${figure}` }, figure) : h("span", { class: "number" }, figure), h("span", { class: `more ${tone}` }, more));
}

/** How many run and how many wait in a ClusterQueue. */
export function runningAndWaiting({ name, running, waiting }) {
  const queue = ofClusterQueue(name);
  return h("span", { class: "small", style: { "margin-left": "auto" } }, count(running, jobsLink({ state: "running", queue }), "running"), h("span", { class: "mute" }, " · "), count(waiting, jobsLink({ state: "waiting", queue }), "waiting"));
}
