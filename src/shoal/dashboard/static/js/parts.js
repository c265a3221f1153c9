// Small pieces that several pages share.

import { el, put, say, svg } from "./dom.js";
import * as words from "./words.js";

// Every state has a sign of its own, so that nothing is told by colour alone.
const LOOKS = {
  good: ["running", "healthy", "ok", "done"],
  warn: ["missed", "held back", "paused", "no robots", "resting", "delayed", "warning", "probing", "pending", "retry"],
  bad: ["cooling down", "blocked", "given up", "cancelled", "dead", "error", "critical", "quarantined", "banned", "gone"],
};
const SIGNS = { good: "●", warn: "▲", bad: "■", plain: "○" };

function lookOf(state) {
  return Object.keys(LOOKS).find((look) => LOOKS[look].includes(state)) ?? "plain";
}

export function chip(state, more = "") {
  const look = lookOf(state);
  return el(
    "span",
    { class: `chip ${look}` },
    el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[look]),
    more ? `${state} ${more}` : state,
  );
}

export function card(title, ...content) {
  return el("section", { class: "card", "aria-label": title }, el("h2", null, title), content);
}

/** What to do next, where there is nothing to show. */
export function vacant(title, ...hint) {
  return [el("p", { class: "vacant-title" }, title), hint.length ? el("p", { class: "quiet" }, hint) : null];
}

export function code(text) {
  return el("code", null, text);
}

export function button(text, label, onClick, look = "") {
  return el(
    "button",
    { type: "button", class: look, "aria-label": label === text ? null : label, on: { click: onClick } },
    text,
  );
}

/** A number with its name, for the top of a page. */
export class Figure {
  constructor(name, href) {
    this.name = el("span", { class: "figure-name" }, name);
    this.value = el("span", { class: "figure-value" }, "-");
    this.note = el("span", { class: "figure-note" });
    this.node = el(
      href ? "a" : "div",
      { class: "figure", href },
      this.name,
      this.value,
      this.note,
    );
  }

  rename(name) {
    say(this.name, name);
  }

  set(value, note = "") {
    if (this.value.textContent !== value) this.value.textContent = value;
    if (this.note.textContent !== note) this.note.textContent = note;
  }
}

/** A horizontal bar; its number stands beside it, so the bar itself says nothing to a screen reader. */
export function bar(share, look = "") {
  const filled = el("span", {
    class: "bar-fill",
    style: { width: `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%` },
  });
  return el("span", { class: `bar ${look}`, "aria-hidden": "true" }, filled);
}

/** rows: [{name, number, note?, look?, href?}] as bars below each other, the longest being the largest number. */
export function bars(rows) {
  const most = Math.max(1, ...rows.map((row) => row.number));
  const line = (row) =>
    el(
      "li",
      null,
      el(row.href ? "a" : "span", { class: "bars-name", href: row.href }, row.name),
      bar(row.number / most, row.look),
      el(
        "span",
        { class: "bars-number" },
        words.count(row.number),
        row.note ? el("span", { class: "quiet" }, ` ${row.note}`) : null,
      ),
    );
  return el("ul", { class: "bars" }, rows.map(line));
}

/** The latest few values as a line, with the latest one marked. */
export function sparkline(values, describe) {
  if (values.length < 2) return el("span", { class: "quiet" }, "");
  const [width, height, edge] = [72, 18, 2];
  const most = Math.max(...values) || 1;
  const x = (place) => edge + (place * (width - 2 * edge)) / (values.length - 1);
  const y = (value) => height - edge - (value / most) * (height - 2 * edge);
  const points = values.map((value, place) => `${x(place).toFixed(1)},${y(value).toFixed(1)}`);
  const last = values.length - 1;
  return svg(
    "svg",
    {
      class: "spark",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": describe(values),
    },
    svg("polyline", { points: points.join(" ") }),
    svg("circle", { cx: x(last).toFixed(1), cy: y(values[last]).toFixed(1), r: 1.8 }),
  );
}

/** name → value pairs. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]),
  );
}

export function sentences(list) {
  return el(
    "ul",
    { class: "sentences" },
    list.map((sentence) => el("li", null, sentence)),
  );
}

/** Two buttons for a list that is read page by page. `go` is called with the place where a page begins; "": the first. */
export class Pager {
  #past = []; // where the pages before this one begin

  constructor(go) {
    this.text = el("span", { class: "quiet", role: "status" });
    this.back = button("‹ previous", "previous page", () => go(this.#past.pop() ?? ""));
    this.on = button("next ›", "next page", () => {
      this.#past.push(this.place);
      go(this.next);
    });
    this.node = el("div", { class: "pager" }, this.text, this.back, this.on);
  }

  set(place, next, said) {
    this.place = place;
    this.next = next;
    say(this.text, said);
    this.back.disabled = !place;
    this.on.disabled = !next;
    this.node.hidden = !place && !next;
  }
}

const trails = new Map(); // host → its latencies, as this tab has seen them change
const [TRAIL, TRAILS] = [30, 2000];

export function trailOf(host, latency) {
  if (trails.size > TRAILS) trails.clear();
  const trail = trails.get(host) ?? [];
  if (latency !== null && latency !== trail.at(-1)) trails.set(host, [...trail, latency].slice(-TRAIL));
  return trails.get(host) ?? [];
}

/** A labelled field for a bar of filters. */
export function field(label, control) {
  const id = `label-${++labels}`;
  // Named by the words alone: a label around a menu would have its choices in the name.
  control.setAttribute("aria-labelledby", id);
  return el("label", { class: "field" }, el("span", { id }, label), control);
}

let labels = 0;

export function select(options, value, onChange, name) {
  const made = options.map(([name, text]) => el("option", { value: name }, text));
  const node = el("select", { name, on: { change: () => onChange?.(node.value) } }, made);
  node.value = value;
  return node;
}

/** Fills the choices of a job anew, keeping the one that is chosen. */
export function chooseJob(node, jobs, all = "all jobs") {
  const names = jobs.map((job) => job.job);
  if (node.dataset.names === JSON.stringify(names)) return;
  const chosen = node.value;
  put(
    node,
    el("option", { value: "" }, all),
    names.map((name) => el("option", { value: name }, name)),
  );
  node.value = names.includes(chosen) ? chosen : "";
  node.dataset.names = JSON.stringify(names);
}
