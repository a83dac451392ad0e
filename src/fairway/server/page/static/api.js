// Requests to the API of this server, with the session's cookie and the header that shows that the page sends them.
const HEADERS = { "X-Fairway-Page": "1" };
export const KUEUE = "/apis/kueue.x-k8s.io/v1beta2";
export const FAIRWAY = "/apis/fairway.dev/v1alpha1";

/** A refusal, in the server's words. */
export class Refusal extends Error {
  constructor(code, message, reason = "") {
    super(message);
    this.code = code;
    this.reason = reason;
  }
}

let onLogout = () => {};
export function whenLoggedOut(handler) {
  onLogout = handler;
}

/** A response; a refusal is thrown. What cannot be sent is a refusal with code 0. */
export async function send(path, { method = "GET", body, type = "application/json", accept = "application/json", signal } = {}) {
  const headers = { ...HEADERS, Accept: accept };
  if (body !== undefined) headers["Content-Type"] = type;
  let response;
  try {
    response = await fetch(path, {
      method, headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "the server does not answer");
  }
  if (response.ok) return response;
  let status = {};
  try { status = await response.json(); } catch { /* no Status object: the code says enough */ }
  if (response.status === 401) onLogout();
  throw new Refusal(response.status, status.message || `the server answered with ${response.status}`, status.reason);
}

export async function get(path, signal) {
  return (await send(path, { signal })).json();
}
export async function post(path, body, signal) {
  return (await send(path, { method: "POST", body, signal })).json();
}
export async function patch(path, body) {
  return (await send(path, { method: "PATCH", body, type: "application/merge-patch+json" })).json();
}
export async function remove(path) {
  return (await send(path, { method: "DELETE" })).json();
}
export async function text(path, accept, signal) {
  return (await send(path, { accept, signal })).text();
}

/** A path with a query; what is empty is left out. */
export function query(path, parameters) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") found.set(name, value);
  }
  const tail = found.toString();
  return tail ? `${path}?${tail}` : path;
}

export function inNamespace(base, namespace, resource, name = "", part = "") {
  return [base, "namespaces", encodeURIComponent(namespace), resource, encodeURIComponent(name), part].filter(Boolean).join("/");
}

/** The pieces of a response as they arrive; resolves at its end. */
export async function stream(path, onText, signal, onBegin = () => {}) {
  const response = await send(path, { signal, accept: "*/*" });
  onBegin();
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onText(decoder.decode(value, { stream: true }));
  }
}
