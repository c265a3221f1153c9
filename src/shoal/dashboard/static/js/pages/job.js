// One job: how far it is, its newest rows, and the pages that it fetched last.

import { Slot, el, put, say } from "../dom.js";
import { Figure, card, chip, code, vacant } from "../parts.js";
import { Table } from "../table.js";
import * as words from "../words.js";

const REFRESH = 3; // seconds
const MOST_COLUMNS = 40;
const MOST_TEXT = 300; // characters of a value

export function show(view) {
  const path = `/api/jobs/${encodeURIComponent(view.route.name)}`;
  const head = new Slot(el("div", { class: "host-head" }), headOf);
  const figures = new Figures();
  const rows = new Rows(view.route.name);
  const pages = pagesTable();
  put(
    view.root,
    el("p", null, el("a", { href: "#/overview" }, "‹ all jobs")),
    head.node,
    figures.node,
    rows.node,
    card("Latest pages", pages.node),
  );
  view.every(REFRESH, () => view.get(path), (found) => {
    const { job } = found;
    head.set([job.state, job.spider, job.created_at, job.finished_at, job.trouble ?? job.left, words.counted(job)]);
    figures.update(job);
    rows.update(found.rows);
    pages.update(found.pages);
  });
}

function headOf([state, spider, since, until, said, counted]) {
  const time = until ? `, ended ${words.clock(until)}` : "";
  return [
    el("p", null, chip(state), el("span", { class: "quiet" }, ` ${spider ? `${spider}, ` : ""}since ${words.clock(since)}${time}`)),
    said ? el("p", null, said) : null,
    counted ? el("p", { class: "quiet" }, `counted ${counted}`) : null,
  ];
}

class Figures {
  constructor() {
    const names = ["pages/s", "done", "rows", "waiting", "in flight", "dead"];
    this.all = Object.fromEntries(names.map((name) => [name, new Figure(name)]));
    this.node = el(
      "section",
      { class: "figures", "aria-label": "Numbers" },
      Object.values(this.all).map((figure) => figure.node),
    );
  }

  update(job) {
    const set = (name, value, note) => this.all[name].set(value, note);
    set("pages/s", job.rate ? words.rate(job.rate) : "-", job.eta === null ? "lately" : `ETA ${words.duration(job.eta)}`);
    const known = `of ${words.count(job.admitted)}${job.fed_all ? "" : "+"}`;
    this.all.done.rename(job.freshness ? "followed" : "done");
    set("done", words.count(job.freshness?.followed ?? job.done), job.freshness ? `${words.percent(job.freshness.ratio)} fresh` : known);
    set("rows", words.count(job.items), job.rejected ? `${words.count(job.rejected)} rejected` : "none rejected");
    const retries = job.delayed - job.waiting;
    set("waiting", words.count(job.pending), retries ? `and ${words.count(retries)} delayed` : "none delayed");
    set("in flight", words.count(job.leased), words.plural(job.workers, "worker"));
    set("dead", words.count(job.dead), job.retried ? `${words.count(job.retried)} retried` : "none retried");
  }
}

// -- rows: a table for each kind of item, whose columns are the fields of its rows

class Rows {
  #tables = new Map(); // kind → {columns, table, node}

  constructor(job) {
    this.vacant = el("div", { class: "vacant" });
    this.box = el("div", { class: "kinds" });
    this.note = el("p", { class: "quiet" });
    put(this.vacant, vacant("no rows yet", "workers tell their newest rows every few seconds"));
    this.node = card("Newest rows", this.vacant, this.box, this.note);
    this.more = [" · ", code(`shoal rows ${/^[\w.-]+$/.test(job) ? job : "JOB"}`), " shows them in the terminal"];
    this.said = el("span");
    put(this.note, this.said, this.more);
  }

  update(rows) {
    const kinds = Map.groupBy ? Map.groupBy(rows, (row) => row.item) : grouped(rows);
    for (const kind of [...this.#tables.keys()]) if (!kinds.has(kind)) this.#tables.delete(kind);
    for (const [kind, own] of kinds) this.#kind(kind, own, kinds.size > 1);
    const nodes = [...kinds.keys()].map((kind) => this.#tables.get(kind).node);
    if (nodes.some((node, place) => this.box.children[place] !== node) || this.box.children.length > nodes.length)
      put(this.box, nodes);
    this.vacant.hidden = rows.length > 0;
    this.note.hidden = rows.length === 0;
    const cut = rows.some((row) => !row.whole) ? "; long values are cut" : "";
    const unseen = [...kinds.values()].reduce((sum, own) => sum + Math.max(0, namesOf(own).length - MOST_COLUMNS), 0);
    const more = unseen ? `; ${words.plural(unseen, "field")} more` : "";
    say(this.said, `${words.plural(rows.length, "row")}, the newest first${cut}${more}`);
  }

  #kind(kind, rows, several) {
    const columns = namesOf(rows).slice(0, MOST_COLUMNS).map((name) => [name, isNumeric(rows, name)]);
    const mark = JSON.stringify([columns, several]);
    let own = this.#tables.get(kind);
    if (own?.mark !== mark) {
      const table = rowsTable(kind, columns);
      const title = several ? el("h3", null, kind || "other rows") : null;
      own = { mark, table, node: el("div", { class: "kind" }, title, table.node) };
      this.#tables.set(kind, own);
    }
    own.table.update(rows.map((row, place) => ({ ...row, place })));
  }
}

function grouped(rows) {
  const kinds = new Map();
  for (const row of rows) kinds.set(row.item, [...(kinds.get(row.item) ?? []), row]);
  return kinds;
}

function namesOf(rows) {
  return [...new Set(rows.flatMap((row) => Object.keys(fields(row))))];
}

function isNumeric(rows, name) {
  const values = rows.map((row) => fields(row)[name] ?? null).filter((one) => one !== null);
  return values.length > 0 && values.every((one) => typeof one === "number");
}

/** A row that is no object has one field. */
function fields({ row }) {
  return row !== null && typeof row === "object" && !Array.isArray(row) ? row : { row };
}

function rowsTable(kind, columns) {
  const field = ([name, number], place) => ({
    name: `field-${place}`,
    title: short(name),
    number,
    of: (row) => (Object.hasOwn(fields(row), name) ? [fields(row)[name]] : []),
    draw: value,
  });
  return new Table({
    caption: `Newest rows of ${kind}`,
    key: (row) => `${row.at} ${row.place}`,
    columns: [
      { name: "at", title: "when", head: true, of: (row) => words.clock(row.at) },
      ...columns.map(field),
    ],
    empty: () => vacant("no rows yet"),
  });
}

/** Text as it is, anything else as JSON; the whole of it as a tooltip. */
function value(held) {
  if (!held.length) return ""; // the row has no such field
  const [given] = held;
  if (given === null) return el("span", { class: "quiet" }, "null");
  const text = typeof given === "string" ? given : JSON.stringify(given);
  return el("span", { class: `value ${typeof given}`, title: text.length > 40 ? text : null }, short(text));
}

function short(text) {
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text;
}

// -- pages

function pagesTable() {
  return new Table({
    caption: "Latest pages",
    key: (page) => `${page.at} ${page.url}`,
    columns: [
      { name: "at", title: "when", of: (page) => words.clock(page.at) },
      { name: "url", title: "page", head: true, cut: true, of: (page) => page.url },
      {
        name: "ending",
        title: "result",
        of: (page) => [page.ending, page.kind || page.status || ""],
        draw: ([ending, more]) => chip(ending, String(more)),
      },
      {
        name: "seconds",
        title: "time",
        number: true,
        of: (page) => (page.seconds ? words.latency(page.seconds) : "-"),
      },
      { name: "handler", title: "handler", of: (page) => page.handler || "-" },
      { name: "items", title: "rows", number: true, of: (page) => words.count(page.items) },
      { name: "links", title: "links", number: true, of: (page) => words.count(page.links) },
    ],
    empty: () => vacant("no pages yet", "workers tell their latest pages every few seconds"),
  });
}
