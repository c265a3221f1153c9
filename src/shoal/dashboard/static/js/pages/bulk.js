// Replaying and dropping dead letters: those that are ticked, or all that match the filter that is shown.

import { post } from "../api.js";
import { act, confirm } from "../dialogs.js";
import { el, put, say } from "../dom.js";
import { button } from "../parts.js";
import * as words from "../words.js";

const VERBS = {
  replay: {
    look: "primary",
    done: "replayed",
    title: "Replay",
    then: "They go back into the queue, with a fresh number of attempts.",
  },
  drop: {
    look: "danger",
    done: "dropped",
    title: "Drop",
    then: "They are forgotten, with everything known about why. This cannot be undone.",
  },
};

export class Bulk {
  #boxes = new Map(); // id → checkbox
  #found = null; // what is shown, with the filter that it was found by; null while another is on its way

  constructor(session, refresh) {
    this.readOnly = session.read_only;
    this.refresh = refresh;
    this.all = el("input", { type: "checkbox", on: { change: () => this.#tickAll(this.all.checked) } });
    this.text = el("span", { class: "quiet", role: "status" });
    this.buttons = Object.entries(VERBS).map(([verb, { look }]) => [
      verb,
      button(verb, verb, () => this.#do(verb), look),
    ]);
    const tools = [
      el("label", { class: "pick-all" }, this.all, " this page"),
      this.text,
      el(
        "span",
        { class: "buttons" },
        this.buttons.map(([, node]) => node),
      ),
    ];
    this.node = el("div", { class: "tools" }, this.readOnly ? this.text : tools);
    this.column = { name: "pick", title: "", of: (letter) => letter.id, draw: (id) => this.#boxes.get(id) };
  }

  /** A page of letters has come; what is ticked and still there stays so. */
  set(found) {
    const known = this.#boxes;
    this.#boxes = new Map(found.letters.map(({ id }) => [id, known.get(id) ?? this.#box(id)]));
    this.#found = found;
    this.#show();
  }

  /** Another filter is being asked for: until its letters are here, nothing can be done with "all that match". */
  outdate() {
    this.#found = null;
    this.#tickAll(false);
  }

  #box(id) {
    return el("input", {
      type: "checkbox",
      "aria-label": `select ${id}`,
      on: { change: () => this.#show() },
    });
  }

  #ticked() {
    return [...this.#boxes].filter(([, box]) => box.checked).map(([id]) => id);
  }

  #tickAll(checked) {
    for (const box of this.#boxes.values()) box.checked = checked;
    this.#show();
  }

  #show() {
    const [ticked, shown] = [this.#ticked().length, this.#boxes.size];
    this.all.checked = shown > 0 && ticked === shown;
    this.all.indeterminate = ticked > 0 && ticked < shown;
    say(
      this.text,
      ticked ? `${words.count(ticked)} selected` : this.#found ? inWords(this.#found) : "looking …",
    );
    const which = ticked ? words.count(ticked) : "all";
    for (const [verb, node] of this.buttons) {
      say(node, `${verb} ${which}`);
      node.disabled = !shown || this.#found === null;
    }
  }

  async #do(verb) {
    const [ids, { filter, ...found }] = [this.#ticked(), this.#found];
    const which = ids.length ? words.plural(ids.length, "dead letter") : `all that match (${inWords(found)})`;
    // Replaying a few can be repeated at will; everything else is asked about first.
    const harmless = verb === "replay" && ids.length > 0;
    const { title, then, look, done } = VERBS[verb];
    if (!harmless && !(await confirm(`${title} ${which}?`, then, verb, look))) return;
    const all = Object.keys(filter).length ? {} : { all: true };
    await act(async () => {
      const { count } = await post("/api/dead", {
        action: verb,
        ...(ids.length ? { ids } : { filter, ...all }),
      });
      return `${words.plural(count, "dead letter")} ${done}`;
    });
    this.#tickAll(false);
    await this.refresh();
  }
}

function inWords({ letters, before }) {
  const shown = words.plural(letters.length, "dead letter");
  return before ? `${shown} on this page, and more` : shown;
}
