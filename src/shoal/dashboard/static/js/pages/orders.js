// What a person may decide about a host: block it, unblock it, set its limits.

import { post } from "../api.js";
import { act, ask } from "../dialogs.js";
import { Slot, el } from "../dom.js";
import { button, field, select } from "../parts.js";
import * as words from "../words.js";

const SPANS = [
  ["", "until it is unblocked"],
  ["600", "10 minutes"],
  ["3600", "1 hour"],
  ["21600", "6 hours"],
  ["86400", "1 day"],
];

/** The buttons, and the dialogs behind them. `draw` is given the host as it is after an order. */
export class Orders {
  constructor(path, draw) {
    this.path = path;
    this.draw = draw;
    this.slot = new Slot(el("span", { class: "buttons" }), () => this.#buttons());
    this.node = this.slot.node;
  }

  set(host) {
    this.host = host;
    this.slot.set([host.condition === "healthy", host.set_by_hand.blocked]);
  }

  #buttons() {
    const { host, condition, set_by_hand: manual } = this.host;
    return [
      manual.blocked ? null : button("block", `block ${host}`, () => this.#block(), "danger"),
      condition === "healthy" ? null : button("unblock", `unblock ${host}`, () => this.#unblock()),
      button("set limits", `set limits of ${host}`, () => this.#limit()),
    ];
  }

  #order(body, told) {
    return act(async () => {
      const host = await post(this.path, body);
      this.draw(host);
      return told(host);
    });
  }

  async #block() {
    const { host } = this.host;
    const reason = el("input", { name: "reason", maxlength: 200, placeholder: "for whoever asks later" });
    const then = el("p", { class: "quiet" }, "Its pages wait; those in flight are finished.");
    const fields = [field("for", select(SPANS, "", null, "seconds")), field("reason", reason), then];
    const form = await ask(`Block ${host}`, fields, "block", "danger");
    if (form === null) return;
    const seconds = form.get("seconds") ? { seconds: Number(form.get("seconds")) } : {};
    await this.#order(
      { action: "block", reason: form.get("reason"), ...seconds },
      () => `${host} is blocked`,
    );
  }

  #unblock() {
    const { host } = this.host;
    const lost = (buried) =>
      `; ${words.plural(buried, "page")} of it were buried unfetched, see its dead letters`;
    return this.#order(
      { action: "unblock" },
      ({ buried }) => `${host} may be asked again${buried ? lost(buried) : ""}`,
    );
  }

  async #limit() {
    const { host, set_by_hand: manual } = this.host;
    const number = (name, step, min) =>
      el("input", {
        name,
        type: "number",
        min,
        step,
        value: manual[name] ?? "",
        placeholder: "as the settings say",
      });
    const fields = [
      field("requests per second (0: no limit)", number("rate", "any", 0)),
      field("requests at once", number("per_host", 1, 1)),
      el("p", { class: "quiet" }, "Empty: as the settings say."),
    ];
    const form = await ask(`Limits of ${host}`, fields, "set");
    if (form === null) return;
    const given = (name) => (form.get(name) === "" ? null : Number(form.get(name)));
    const limits = { rate: given("rate"), per_host: given("per_host") };
    await this.#order({ action: "set", ...limits }, () => `limits of ${host} are set`);
  }
}
