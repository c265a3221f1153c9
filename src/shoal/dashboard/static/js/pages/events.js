// What happens, as it happens: the newest first.

import { el, put, say } from "../dom.js";
import { button, chip, field, select, vacant } from "../parts.js";
import * as words from "../words.js";

const KEPT = 300;
const LEVELS = { debug: 0, info: 1, warning: 2, error: 3, critical: 4 };

export function show(view) {
  const log = new Log(view);
  put(
    view.root,
    log.filters,
    el("section", { class: "card", "aria-label": "Events" }, log.list, log.nothing),
  );
  view.attempt(async () => {
    const { events } = await view.get("/api/events", { limit: KEPT });
    log.begin(events);
  });
  view.listen("event", (event) => log.add(event));
}

class Log {
  #events = []; // newest last
  #waiting = [];
  #paused = false;

  constructor(view) {
    this.wish = { level: view.params.get("level") ?? "", name: view.params.get("name") ?? "" };
    this.view = view;
    this.list = el("ol", { class: "log", role: "log", "aria-label": "Events, the newest first" });
    this.nothing = el(
      "div",
      { class: "vacant" },
      vacant("no events yet", "they appear here as the crawl goes on"),
    );
    const levels = [
      ["", "all levels"],
      ["warning", "warnings and worse"],
      ["error", "errors only"],
    ];
    const name = el("input", {
      type: "search",
      value: this.wish.name,
      placeholder: "part of a name or message",
      on: { input: () => this.#wish({ name: name.value.trim() }) },
    });
    this.pause = button("pause", "pause", () => this.#toggle());
    this.pause.setAttribute("aria-pressed", "false");
    this.filters = el(
      "form",
      { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } },
      field(
        "level",
        select(levels, this.wish.level, (level) => this.#wish({ level })),
      ),
      field("event", name),
      this.pause,
    );
  }

  begin(events) {
    const known = new Set(events.map(identity));
    this.#events = [...events, ...this.#events.filter((event) => !known.has(identity(event)))];
    this.#draw();
  }

  add(event) {
    if (this.#events.some((one) => identity(one) === identity(event))) return;
    if (this.#paused) {
      this.#waiting.push(event);
      return say(this.pause, `go on (${words.count(this.#waiting.length)} new)`);
    }
    this.#events.push(event);
    if (this.#events.length > KEPT) this.#events.shift();
    if (!this.#wanted(event)) return;
    this.list.prepend(line(event));
    while (this.list.children.length > KEPT) this.list.lastChild.remove();
    this.#showNothing();
  }

  #toggle() {
    this.#paused = !this.#paused;
    this.pause.setAttribute("aria-pressed", String(this.#paused));
    say(this.pause, this.#paused ? "go on" : "pause");
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const event of waiting) this.add(event);
  }

  #wish(part) {
    Object.assign(this.wish, part);
    this.view.remember(this.wish);
    this.#draw();
  }

  #wanted(event) {
    const { level, name } = this.wish;
    const loud = !level || (LEVELS[event.level] ?? 1) >= LEVELS[level];
    return loud && (!name || `${event.event} ${event.message}`.toLowerCase().includes(name.toLowerCase()));
  }

  #draw() {
    put(
      this.list,
      this.#events
        .filter((event) => this.#wanted(event))
        .reverse()
        .map(line),
    );
    this.#showNothing();
  }

  #showNothing() {
    this.nothing.hidden = this.list.children.length > 0;
    if (!this.nothing.hidden)
      put(
        this.nothing,
        this.#events.length
          ? vacant("no event matches", "loosen the filter above")
          : vacant("no events yet", "they appear here as the crawl goes on"),
      );
  }
}

function identity(event) {
  return JSON.stringify([event.at, event.event, event.message]);
}

function line(event) {
  const said =
    event.message ||
    Object.entries(event.fields ?? {})
      .map(([name, value]) => `${name} ${value}`)
      .join(", ");
  return el(
    "li",
    null,
    el("time", { datetime: new Date(event.at * 1000).toISOString() }, words.clock(event.at)),
    chip(event.level),
    el("code", null, event.event),
    el("span", { class: "log-message" }, said),
  );
}
