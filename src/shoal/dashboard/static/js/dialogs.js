// Asking before something is done, and telling what came of it.

import { byId, el } from "./dom.js";

const STAYS = 6_000; // ms

/** Short news at the edge of the window; refusals stay until they are dismissed. */
export function notice(text, look = "good") {
  const node = el(
    "div",
    { class: `notice ${look}`, role: look === "bad" ? "alert" : null },
    el("span", null, text),
  );
  node.append(
    el(
      "button",
      { type: "button", class: "plain", "aria-label": "dismiss", on: { click: () => node.remove() } },
      "×",
    ),
  );
  byId("notices").append(node);
  if (look !== "bad") setTimeout(() => node.remove(), STAYS);
}

/** Does something that answers with words for the person, and says them. Answers whether it went well. */
export async function act(work) {
  try {
    notice(await work());
    return true;
  } catch (error) {
    notice(error.message, "bad");
    return false;
  }
}

/** A question with two answers. */
export async function confirm(title, text, yes, look = "danger") {
  const answer = await ask(title, [el("p", null, text)], yes, look);
  return answer !== null;
}

/**
 * A native dialog around fields; answers a FormData, or null if it was called off.
 * Focus begins on the first field, or on "cancel" where there is none: nothing is lost by hitting Enter too early.
 */
export function ask(title, content, yes, look = "primary") {
  const cancel = el("button", { type: "button", on: { click: () => dialog.close() } }, "cancel");
  const form = el(
    "form",
    { method: "dialog" },
    el("h2", { id: "dialog-title" }, title),
    content,
    el("div", { class: "dialog-buttons" }, cancel, el("button", { type: "submit", class: look }, yes)),
  );
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
  document.body.append(dialog);
  return new Promise((resolve) => {
    let answer = null;
    form.addEventListener("submit", () => (answer = new FormData(form)));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    dialog.showModal();
    (form.querySelector("input, select") ?? cancel).focus();
  });
}

export function tell(title, ...content) {
  const close = el("button", { type: "submit", class: "primary" }, "close");
  const form = el(
    "form",
    { method: "dialog" },
    el("h2", { id: "dialog-title" }, title),
    content,
    el("div", { class: "dialog-buttons" }, close),
  );
  const dialog = el(
    "dialog",
    { "aria-labelledby": "dialog-title", on: { close: () => dialog.remove() } },
    form,
  );
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}
