// Users and tokens, for administrators of the whole server.
import { FAIRWAY, get, patch, post, remove } from "../api.js";
import { ask, tell } from "../dialog.js";
import { empty, h, icon, notice, options, show, toast } from "../dom.js";
import { ago, clock, fullTime, plural } from "../format.js";
import { simpleTable } from "../simple.js";

const USERS = `${FAIRWAY}/users`;
const ROLES = [["viewer", "viewer: looks"], ["editor", "editor: runs jobs"], ["admin", "admin: everything"]];

export function mount(main) {
  const body = h("div", { class: "body" }, h("p", { class: "mute" }, "Loading …"));
  const state = { users: [], groups: [] };
  const load = async () => {
    try {
      [state.users, state.groups] = (await Promise.all([get(USERS), get(`${FAIRWAY}/groups`)])).map((list) => list.items);
      draw(body, state, load);
    } catch (error) {
      show(body, notice("bad", error.message));
    }
  };
  main.append(h("header", { class: "top" }, h("h1", null, "Users"), h("span", { class: "grow" }), h("button", { class: "btn main-action", onclick: () => add(load) }, icon("plus"), "Add a user")), body);
  load();
  return () => {};
}

/** Do something, say that it is done or why not, and show the users as they are then. */
async function attempt(work, done, load) {
  try {
    const result = await work();
    if (done) toast(done);
    await load();
    return result;
  } catch (error) {
    toast(error.message, "bad");
    return null;
  }
}

function binding({ role, namespace }) {
  return namespace ? { role, namespace } : { role };
}
function roleFields(role = "editor", namespace = "") {
  return [h("label", { class: "field" }, "Role", h("select", { name: "role" }, options(ROLES, role))),
    h("label", { class: "field" }, "Namespace; empty for the whole server", h("input", { type: "text", name: "namespace", autocomplete: "off", value: namespace, placeholder: "whole server" }))];
}

function showToken(name, made) {
  const token = made.status.token;
  const copy = h("button", { class: "btn", type: "button", onclick: () => navigator.clipboard.writeText(token).then(() => toast("Copied."), () => {}) }, "Copy");
  tell(`The token of ${name}`, h("p", { class: "soft" }, "It is shown this once, and kept nowhere."), h("code", { class: "token", id: "new-token" }, token), copy);
}

async function add(load) {
  const answer = await ask({ title: "Add a user", yes: "Add", fields: [h("label", { class: "field" }, "Name", h("input", { type: "text", name: "name", required: true, autocomplete: "off" })), ...roleFields()] });
  if (!answer) return;
  const made = await attempt(() => post(USERS, { apiVersion: "fairway.dev/v1alpha1", kind: "User", metadata: { name: answer.name.trim() }, spec: { bindings: [binding(answer)] } }), "", load);
  if (made) showToken(answer.name, made);
}

function draw(body, { users, groups }, load) {
  if (!users.length) return show(body, empty("No user", "", "fairway users add ben --team vision"));
  const cells = new Map(users.map((user) => [user, userCells(user, load)]));
  return show(body, h("section", { class: "card", "aria-label": "Users" }, simpleTable({ rows: users, key: (user) => user.metadata.name, middle: true, columns: [
    { label: "User", cell: (user) => h("strong", null, user.metadata.name) },
    { label: "Roles", at: "whole", cell: (user) => cells.get(user).roles },
    ...(groups.length ? [{ label: "Groups", cell: (user) => user.status.groups }] : []),
    { label: "Tokens and sessions", at: "whole", cell: (user) => cells.get(user).tokens },
    { label: "Actions", hidden: true, num: true, at: "whole", cell: (user) => cells.get(user).actions },
  ] })),
  groups.length > 0 && h("section", { class: "card", "aria-label": "Groups" }, h("header", null, h("h2", null, "Groups"), h("span", { class: "mute small" }, plural(groups.length, "group"))), simpleTable({ rows: groups, key: (group) => group.metadata.name, columns: [
    { label: "Group", cell: (group) => group.metadata.name },
    { label: "Roles", at: "whole", cell: (group) => group.status.roles },
    { label: "Members", at: "whole", cell: (group) => group.status.members },
  ] })));
}

/** What a user has, and what can be done with each of it. */
function userCells(user, load) {
  const { name } = user.metadata;
  const path = `${USERS}/${encodeURIComponent(name)}`;
  const bindings = user.spec.bindings || [];
  const tokens = user.status.tokens.filter((one) => !one.sessionOf);
  const sessions = user.status.tokens.filter((one) => one.sessionOf);
  const grant = async () => {
    const answer = await ask({ title: `A role for ${name}`, text: "It is added to those that they have.", yes: "Add the role", fields: roleFields("viewer") });
    if (answer) await attempt(() => patch(path, { spec: { bindings: [...bindings, binding(answer)] } }), `${name} has another role.`, load);
  };
  const drop = async (one) => {
    const answer = await ask({ title: `Take the role ${one.role} from ${name}?`, yes: "Take it away", danger: true });
    if (answer) await attempt(() => patch(path, { spec: { bindings: bindings.filter((other) => other !== one) } }), "The role is gone.", load);
  };
  const token = async () => {
    const answer = await ask({ title: `Another token for ${name}`, yes: "Create", fields: [h("label", { class: "field" }, "Expires", h("select", { name: "days" }, options([["", "never"], ["1", "in a day"], ["30", "in 30 days"], ["365", "in a year"]], "30")))] });
    if (!answer) return;
    const expires = answer.days ? new Date(Date.now() + Number(answer.days) * 86_400_000).toISOString() : undefined;
    const made = await attempt(() => post(`${path}/token`, { apiVersion: "fairway.dev/v1alpha1", kind: "User", spec: { expires } }), "", load);
    if (made) showToken(name, made);
  };
  const revoke = async (one, what) => {
    const answer = await ask({ title: `Revoke ${what} ${one.id} of ${name}?`, text: one.sessionOf ? "The browser is logged out at once." : "It stops working at once, and so do the sessions that were opened with it.", yes: "Revoke", danger: true });
    if (answer) await attempt(() => remove(`${path}/token?id=${encodeURIComponent(one.id)}`), `The ${what} is revoked.`, load);
  };
  const end = async () => {
    const answer = await ask({ title: `Remove ${name}?`, text: "Their tokens stop working at once. Their jobs stay.", yes: "Remove", danger: true });
    if (answer) await attempt(() => remove(path), `${name} is removed.`, load);
  };
  const line = (one, what) => h("div", { class: "row", key: one.id }, h("span", { class: "mono small" }, one.id), h("span", { class: "tiny mute grow", title: fullTime(one.created) }, `${what}, ${ago(one.created)}${one.expires ? `, until ${clock(one.expires)}` : ""}`),
    h("button", { class: "btn plain", "aria-label": `Revoke ${what} ${one.id} of ${name}`, onclick: () => revoke(one, what) }, "Revoke"));
  return {
    roles: [bindings.map((one) => h("div", { class: "row", key: `${one.role} ${one.namespace}` }, `${one.role} ${one.namespace ? `in ${one.namespace}` : "everywhere"}`, h("button", { class: "btn plain square", "aria-label": `Take the role ${one.role} from ${name}`, onclick: () => drop(one) }, icon("cross")))), !bindings.length && h("span", { class: "mute" }, "none")],
    tokens: [...tokens.map((one) => line(one, "token")), ...sessions.map((one) => line(one, "session"))],
    actions: h("span", { class: "row nowrap" }, h("button", { class: "btn", onclick: grant, "aria-label": `Add a role to ${name}` }, "Add a role"), h("button", { class: "btn", onclick: token, "aria-label": `New token for ${name}` }, "New token"), h("button", { class: "btn danger", onclick: end, "aria-label": `Remove ${name}` }, "Remove")),
  };
}
