// Questions before something is done.
import { h } from "./dom.js";

/** Ask; resolves to the values of the fields, or to null if the answer is no. */
export function ask({ title, text, fields = [], yes, danger = false }) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const problem = h("p", { class: "small", role: "alert" });
    const form = h("form", { method: "dialog", "aria-labelledby": "ask" },
      h("h2", { id: "ask" }, title),
      [text].flat().filter(Boolean).map((line) => h("p", { class: "soft" }, line)),
      fields, problem,
      h("div", { class: "row" },
        h("button", { class: "btn", type: "button", value: "no", onclick: () => end(null) }, "Back"),
        h("button", { class: `btn main-action${danger ? " danger" : ""}`, type: "submit" }, yes)));
    const dialog = h("dialog", null, form);
    const end = (answer) => {
      dialog.close();
      dialog.remove();
      before?.focus?.();
      resolve(answer);
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      if (form.reportValidity()) end(Object.fromEntries(new FormData(form)));
    };
    dialog.oncancel = (event) => { event.preventDefault(); end(null); };
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector("input, select") || form.querySelector("[type=submit]")).focus();
  });
}

/** Show something that is shown only once. */
export function tell(title, ...content) {
  const dialog = h("dialog", null, h("form", { method: "dialog", "aria-labelledby": "told" }, h("h2", { id: "told" }, title), ...content,
    h("div", { class: "row" }, h("button", { class: "btn main-action" }, "Done"))));
  dialog.onclose = () => dialog.remove();
  document.body.append(dialog);
  dialog.showModal();
}
