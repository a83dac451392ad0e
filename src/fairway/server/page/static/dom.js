// Elements, icons, and morphing: a page is described anew and the document changed only where it differs.
const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "g", "rect", "line", "text", "circle", "polyline", "polygon", "title"]);

/** An element. `on…` are handlers, `style` an object, `key` says which element stays which. */
export function h(tag, props, ...children) {
  const drawn = SVG_TAGS.has(tag);
  const element = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "key") element._key = value;
    else if (name === "value") { element.value = value; element._value = value; }
    else if (name === "checked") { element.checked = value; }
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child.nodeType ? child : String(child));
  }
}

const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "onscroll"];

/** Make `old` look like `made`, keeping what is equal: focus, scroll position and text selection survive. */
export function morph(old, made) {
  if (old === made) return old;
  if (old.nodeType !== made.nodeType || old.nodeName !== made.nodeName || old._key !== made._key) {
    old.replaceWith(made);
    return made;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return old;
  }
  if (old._own) return old; // a part that keeps itself up to date
  for (const { name } of [...old.attributes]) if (name !== "style" && !made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style && old.style.cssText !== made.style.cssText) old.style.cssText = made.style.cssText;
  for (const name of HANDLERS) if (old[name] !== made[name]) old[name] = made[name];
  if (made._own) { old.replaceWith(made); return made; }
  children(old, made);
  if (made._value !== undefined && old !== document.activeElement && old.value !== made._value) old.value = made._value;
  if (old.type === "checkbox") old.checked = made.checked;
  return old;
}

function children(old, made) {
  const keyed = new Map();
  for (const child of old.childNodes) if (child._key !== undefined) keyed.set(child._key, child);
  let next = old.firstChild;
  for (const child of [...made.childNodes]) {
    let match = child._key !== undefined ? keyed.get(child._key) : next;
    if (match && child._key === undefined && match._key !== undefined) match = null;
    if (!match) { old.insertBefore(child, next); continue; }
    if (match !== next) old.insertBefore(match, next);
    const kept = morph(match, child);
    next = kept.nextSibling;
  }
  while (next) { const after = next.nextSibling; next.remove(); next = after; }
}

/** Show these children in an element. */
export function show(element, ...what) {
  const made = element.cloneNode(false);
  append(made, what);
  children(element, made);
}

const PATHS = {
  overview: "M2 2h5v5H2zM9 2h5v3H9zM9 7h5v7H9zM2 9h5v5H2z",
  queue: "M2 4h12M2 8h12M2 12h8",
  tree: "M8 2v4M3 10V8h10v2M3 10v4M13 10v4M8 8v6",
  history: "M2 13V8M6 13V3M10 13V6M14 13V9",
  nodes: "M2 3h12v4H2zM2 9h12v4H2zM5 5h.01M5 11h.01",
  users: "M6 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM1 14c0-3 2-4.500 5-4.500s5 1.500 5 4.500M11 3a2.500 2.500 0 0 1 0 5M12.500 10c1.700.500 2.500 2 2.500 4",
  whatif: "M4 2v6a4 4 0 0 0 4 4h4M10 9l3 3-3 3M4 8v6",
  play: "M5 3l8 5-8 5z", clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 5v3l2 2", check: "M3 8.500l3.500 3.500L13 4.500",
  cross: "M4 4l8 8M12 4l-8 8", pause: "M5 3v10M11 3v10", back: "M3 8a5 5 0 1 1 2 4M3 3v5h5", stop: "M4 4h8v8H4z",
  warn: "M8 2l6.500 11.500h-13zM8 6.500v3M8 11.500h.01", up: "M8 13V3M4 7l4-4 4 4", gpu: "M4 4h8v8H4zM6.500 1.500V4M9.500 1.500V4M6.500 12v2.500M9.500 12v2.500M1.500 6.500H4M1.500 9.500H4M12 6.500h2.500M12 9.500h2.500",
  moon: "M13 9.500A5.500 5.500 0 0 1 6.500 3 5.500 5.500 0 1 0 13 9.500z", sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  out: "M6 3H3v10h3M10 5l3 3-3 3M13 8H6", down: "M8 2v9M4 7.500L8 11.500l4-4M3 14h10", plus: "M8 3v10M3 8h10", search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.700 10.700L14 14",
};

export function icon(name) {
  return h("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, h("path", { d: PATHS[name] }));
}

/** What there is to see when there is nothing, and the command that changes that. */
export function empty(title, text, command) {
  return h("div", { class: "empty" }, h("h2", null, title), text && h("p", null, text), command && h("pre", { tabindex: "0" }, command));
}

export function notice(tone, ...what) {
  return h("div", { class: "notice", "data-tone": tone, role: tone === "bad" ? "alert" : "note" }, icon("warn"), h("div", null, ...what));
}

export function toast(text, tone = "") {
  const element = h("div", { class: "toast", "data-tone": tone, role: tone === "bad" ? "alert" : "status" }, text);
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), tone === "bad" ? 9000 : 4500);
}

export function options(values, chosen) {
  return values.map(([value, label]) => h("option", { value, selected: value === chosen }, label));
}
