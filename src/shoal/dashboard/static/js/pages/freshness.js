// How fresh the pages of a standing job are: over time, what visits have shown, what is due next, and which pages.

import { TimeChart } from "../charts.js";
import { Slot, el, put } from "../dom.js";
import { Figure, bars, card, chip, code, field, select, vacant } from "../parts.js";
import { Table } from "../table.js";
import * as words from "../words.js";

const REFRESH = 3; // seconds
const RESULTS = [
  ["changed", "--accent"],
  ["unchanged", "--series-7"],
  ["missed", "--series-2"],
  ["gone", "--series-1"],
  ["held back", "--series-5"],
];

export function show(view) {
  const wish = { job: view.params.get("job") ?? "" };
  const jobs = select([], wish.job, (job) => {
    wish.job = job;
    view.remember(wish);
    refresh();
  });
  const page = new Page(view);
  const nothing = el("section", { class: "card" });
  put(nothing, el("div", { class: "vacant" }, noJob()));
  const filter = el(
    "form",
    { class: "filters", on: { submit: (event) => event.preventDefault() } },
    field("job", jobs),
  );
  put(view.root, filter, nothing, page.node);
  const load = () => view.get("/api/freshness", wish.job ? { job: wish.job } : {});
  const refresh = view.every(REFRESH, load, (found) => {
    choose(jobs, found.jobs, found.job);
    filter.hidden = found.jobs.length < 2;
    nothing.hidden = found.job !== null;
    page.node.hidden = found.job === null;
    if (found.job !== null) page.update(found);
  });
}

function noJob() {
  return vacant(
    "no job visits its pages again and again",
    "such a job begins with ",
    code("shoal crawl FILE.py --revisit auto"),
  );
}

function choose(node, names, chosen) {
  if (node.dataset.names !== JSON.stringify(names)) {
    put(
      node,
      names.map((name) => el("option", { value: name }, name)),
    );
    node.dataset.names = JSON.stringify(names);
  }
  node.value = chosen ?? "";
}

class Page {
  constructor(view) {
    this.figures = new Figures();
    this.charts = new Charts(view);
    this.due = new Slot(el("div"), drawDue);
    this.hosts = hostTable();
    this.overdue = pageTable("Pages that are overdue longest", "no page is overdue", [late, checked]);
    this.troubled = pageTable("Pages that failed or were held back at their last visit", "no page failed at its last visit", [trouble, due]);
    this.restless = pageTable("Pages that change most", "no visit has found a change yet", [every, interval, changed, visits, due]);
    this.node = el(
      "div",
      { class: "fresh" },
      this.figures.node,
      this.charts.node,
      el(
        "div",
        { class: "columns" },
        card("Next visits", this.due.node),
        card("Hosts", this.hosts.node),
      ),
      card("Overdue", this.overdue.node),
      card("Gone, missed or held back", this.troubled.node),
      card("Change most", this.restless.node),
    );
  }

  update(found) {
    const near = (page) => ({ ...page, now: found.now });
    this.figures.update(found);
    this.charts.update(found);
    this.due.set(found.due);
    this.hosts.update(found.hosts.map(near));
    this.overdue.update(found.overdue.map(near));
    this.troubled.update(found.troubled.map(near));
    this.restless.update(found.restless.map(near));
  }
}

class Figures {
  constructor() {
    const names = ["fresh", "followed", "overdue", "next visit", "visits", "changed"];
    this.all = Object.fromEntries(names.map((name) => [name, new Figure(name)]));
    this.node = el(
      "section",
      { class: "figures", "aria-label": "Numbers" },
      Object.values(this.all).map((figure) => figure.node),
    );
  }

  update({ now, freshness }) {
    const { followed, on_time, overdue, new: unseen, oldest_due, next_due, failing, held_back: held, ...of } = freshness;
    const set = (name, value, note) => this.all[name].set(value, note);
    const about = freshness.estimated ? "about " : "";
    set("fresh", words.percent(freshness.ratio), "within their interval");
    set("followed", words.count(followed), unseen ? `${words.count(unseen)} not visited yet` : "all known pages");
    set(
      "overdue",
      about + words.count(overdue),
      oldest_due === null ? `${words.count(on_time)} on time` : `the oldest by ${words.span(now - oldest_due)}`,
    );
    set("next visit", next_due === null ? "-" : next_due - now < 1 ? "now" : words.span(next_due - now), "of those that wait");
    set("visits", words.count(of.visits), `${words.count(of.unchanged)} unchanged`);
    const lost = held
      ? `${words.count(held)} held back`
      : failing
        ? `${words.count(failing)} failing`
        : `${words.count(of.gone)} gone`;
    set("changed", words.count(of.changed), lost);
  }
}

// -- over time

class Charts {
  constructor(view) {
    this.fresh = new TimeChart(view, {
      title: "fresh",
      series: [{ name: "fresh", colour: "--good" }],
      format: words.percent,
      top: 1,
      tick: (share) => `${Math.round(share * 100)} %`,
    });
    this.visits = new TimeChart(view, {
      title: "visits a minute",
      series: [{ name: "visits", colour: "--violet" }],
      format: words.rate,
    });
    this.results = new TimeChart(view, {
      title: "what visits found, a minute",
      series: RESULTS.map(([name, colour]) => ({ name, colour })),
      format: words.rate,
      stacked: true,
    });
    const legend = el(
      "ul",
      { class: "legend", "aria-label": "Colours" },
      RESULTS.map(([name, colour]) =>
        el("li", null, el("span", { class: "swatch", "aria-hidden": "true", style: { background: `var(${colour})` } }), name),
      ),
    );
    this.results.node.append(legend);
    this.node = el(
      "section",
      { class: "charts", "aria-label": "Over time" },
      this.fresh.node,
      this.visits.node,
      this.results.node,
    );
  }

  update({ points }) {
    const times = points.map((point) => point.at);
    const minute = (point) => point.seconds / 60;
    this.fresh.set(times, [points.map((point) => point.freshness)]);
    this.visits.set(times, [points.map((point) => point.visits / minute(point))]);
    const names = RESULTS.map(([name]) => name.split(" ")[0]);
    this.results.set(
      times,
      names.map((name) => points.map((point) => point[name] / minute(point))),
    );
  }
}

// -- what is due next

function drawDue({ edges, pages }) {
  const names = ["overdue", ...edges.map((edge) => `within ${words.span(edge)}`), "later"];
  const rows = names.map((name, place) => ({ name, number: pages[place], look: place ? "" : "bad" }));
  const first = Math.min(1, rows.findIndex((row) => row.number));
  const last = rows.findLastIndex((row) => row.number);
  return last < 0 ? vacant("no page waits") : bars(rows.slice(Math.max(0, first), last + 1));
}

function hostTable() {
  return new Table({
    caption: "Hosts, with how many of their pages are overdue",
    key: (host) => host.host,
    columns: [
      {
        name: "host",
        title: "host",
        head: true,
        of: (host) => host.host,
        draw: (name) => el("a", { class: "name", href: `#/hosts/${encodeURIComponent(name)}` }, name),
      },
      { name: "followed", title: "pages", number: true, of: (host) => words.count(host.followed) },
      {
        name: "fresh",
        title: "fresh",
        number: true,
        of: (host) => words.percent(host.followed ? 1 - host.overdue / host.followed : null),
      },
      {
        name: "oldest",
        title: "oldest overdue",
        number: true,
        of: (host) => (host.oldest_due === null ? "-" : `by ${words.span(host.now - host.oldest_due)}`),
      },
      {
        name: "next",
        title: "next visit",
        number: true,
        of: (host) => (host.next_due === null ? "-" : until(host.next_due - host.now)),
      },
    ],
    empty: () => vacant("no page is followed yet"),
  });
}

// -- pages

const until = (seconds) => (seconds < 1 ? "now" : words.span(seconds));
const ago = (page, at) => (at ? `${words.span(page.now - at)} ago` : "-");
const late = { name: "late", title: "overdue by", number: true, of: (page) => words.span(page.now - page.due) };
const checked = { name: "checked", title: "last visit", number: true, of: (page) => ago(page, page.checked_at) };
const changed = { name: "changed", title: "last change", number: true, of: (page) => ago(page, page.changed_at) };
const visits = { name: "visits", title: "visits", number: true, of: (page) => words.count(page.visits) };
const interval = { name: "interval", title: "visited every", number: true, of: (page) => words.span(page.interval) };
const every = {
  name: "every",
  title: "changes every",
  number: true,
  of: (page) => (page.changes_every === null ? "-" : `about ${words.span(page.changes_every)}`),
};
const due = { name: "due", title: "next visit", number: true, of: (page) => until(page.due - page.now) };
const trouble = {
  name: "trouble",
  title: "what happened",
  wide: true,
  of: (page) => [page.gone ? "gone" : page.held ? "held back" : "missed", page.trouble, page.gone || page.held || page.missed],
  draw: ([what, why, times]) => [chip(what, times > 1 ? `${times} times` : ""), ` ${why}`],
};

function pageTable(caption, empty, columns) {
  return new Table({
    caption,
    key: (page) => page.url,
    columns: [
      {
        name: "url",
        title: "page",
        head: true,
        cut: true,
        of: (page) => page.url,
        draw: (url) => el("a", { href: `#/tasks?url=${encodeURIComponent(url)}`, title: "why" }, url),
      },
      ...columns,
      { name: "handler", title: "handler", of: (page) => page.handler || "-" },
    ],
    empty: () => vacant(empty),
  });
}
