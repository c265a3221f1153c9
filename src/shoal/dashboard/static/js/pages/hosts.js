// The hosts: read page by page, as the store has them. What was read is sorted here.

import { el, put } from "../dom.js";
import { live } from "../live.js";
import { Pager, chip, chooseJob, code, field, select, sparkline, trailOf, vacant } from "../parts.js";
import { Table } from "../table.js";
import * as words from "../words.js";

const READ = 500; // hosts
const SHOWN = 100; // … of these, the first in the order that was asked for
const TURNS = 40; // requests for the hosts that a filter lets through
const REFRESH = 3; // seconds
const CONDITIONS = ["healthy", "no robots", "resting", "probing", "cooling down", "blocked", "given up"];

export function show(view) {
  const { focus, ...given } = Object.fromEntries(view.params);
  const wish = { q: "", condition: "", job: "", sort: "condition", order: "desc", after: "", ...given };

  const change = (part) => {
    Object.assign(wish, { after: "" }, part);
    view.remember(wish);
    refresh();
  };
  const table = hostTable(wish, change);
  const pager = new Pager((after) => change({ after }));
  const { node, jobs } = filters(wish, change);
  put(view.root, node, el("section", { class: "card", "aria-label": "Hosts" }, table.node, pager.node));
  if (focus === "search") node.querySelector("input").focus();

  const refresh = view.every(REFRESH, () => read(view, wish), ({ now, hosts, after }) => {
    chooseJob(jobs, live.overview?.jobs ?? []);
    const rows = hosts.map((host) => ({ ...host, left: host.until === null ? null : host.until - now }));
    table.node.classList.toggle("none-standing", !hosts.some((host) => host.visits));
    table.update(ordered(rows, wish).slice(0, SHOWN));
    const shown = hosts.length > SHOWN ? `the first ${SHOWN} of ${words.plural(hosts.length, "host")}` : words.plural(hosts.length, "host");
    pager.set(wish.after, after, after ? `${shown} on this page` : shown);
  });
}

/** A page of hosts. Where a filter lets few through, the server looks at some thousands at a time. */
async function read(view, { q, condition, job, after }) {
  const found = await view.get("/api/hosts", { q, condition, job, after, limit: READ });
  for (let turn = 0; turn < TURNS && found.after && found.hosts.length < READ; turn++) {
    const more = await view.get("/api/hosts", { q, condition, job, after: found.after, limit: READ });
    found.hosts.push(...more.hosts);
    found.after = more.after;
  }
  return found;
}

const KEYS = {
  name: (host) => host.host,
  pending: (host) => host.pending,
  rate: (host) => host.rate ?? Infinity,
  latency: (host) => host.latency ?? -1,
  on_time: (host) => host.visits?.on_time ?? Infinity,
  in_flight: (host) => host.in_flight,
  errors: (host) => host.errors.length,
  condition: (host) => CONDITIONS.indexOf(host.condition),
};

/** By the column, and those that are equal in it: the longest queue first, then by name. */
function ordered(rows, { sort, order }) {
  const key = KEYS[sort] ?? KEYS.condition;
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const turn = order === "desc" ? -1 : 1;
  return rows.sort(
    (a, b) => turn * compare(key(a), key(b)) || b.pending - a.pending || compare(a.host, b.host),
  );
}

function filters(wish, change) {
  let typing = null;
  const typed = (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ q: event.target.value.trim() }), 200);
  };
  const search = el("input", {
    type: "search",
    value: wish.q,
    placeholder: "part of a name",
    on: { input: typed },
  });
  const jobs = select([["", "all jobs"], ...(wish.job ? [[wish.job, wish.job]] : [])], wish.job, (job) =>
    change({ job }),
  );
  const pick = (name) =>
    el(
      "button",
      {
        type: "button",
        class: "toggle",
        "aria-pressed": String(wish.condition === name),
        on: { click: () => choose(name) },
      },
      name ? chip(name) : "all",
    );
  const choices = el("div", { class: "choices", role: "group", "aria-label": "Condition" });
  const choose = (condition) => {
    change({ condition });
    put(choices, ["", ...CONDITIONS].map(pick));
    [...choices.children].find((one) => one.getAttribute("aria-pressed") === "true")?.focus();
  };
  put(choices, ["", ...CONDITIONS].map(pick));
  const node = el(
    "form",
    { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } },
    field("host", search),
    field("job", jobs),
    choices,
  );
  return { node, jobs };
}

function hostTable(wish, change) {
  return new Table({
    caption: "Hosts, with their condition, rate, latency and queue",
    key: (host) => host.host,
    sort: wish.sort,
    order: wish.order,
    onSort: (sort, order) => change({ sort, order, after: wish.after }),
    columns: [
      { name: "host", title: "host", sort: "name", head: true, of: (host) => host.host, draw: link },
      {
        name: "condition",
        title: "condition",
        sort: "condition",
        number: false,
        of: (host) => [host.condition, left(host.left)],
        draw: ([condition, more]) => chip(condition, more),
      },
      {
        name: "pending",
        title: "queue",
        sort: "pending",
        number: true,
        of: (host) => (host.pending ? words.count(host.pending) : "-"),
      },
      {
        name: "fresh",
        title: "on time",
        sort: "on_time",
        number: true,
        of: (host) => (host.visits ? [host.visits.pages, host.visits.on_time] : null),
        draw: (visits) => (visits ? fresh(...visits) : "-"),
      },
      { name: "rate", title: "req/s", sort: "rate", number: true, of: (host) => words.speed(host.rate) },
      {
        name: "flight",
        title: "in flight",
        sort: "in_flight",
        number: true,
        of: (host) => [host.in_flight, host.cap],
        draw: ([now, most]) => el("span", null, String(now), el("span", { class: "quiet" }, `/${most}`)),
      },
      {
        name: "latency",
        title: "latency",
        sort: "latency",
        number: true,
        of: (host) => words.latency(host.latency),
      },
      {
        name: "spark",
        title: "lately",
        of: (host) => trailOf(host.host, host.latency),
        draw: (values) => sparkline(values, (all) => `latency lately, last ${words.latency(all.at(-1))}`),
      },
      { name: "timeout", title: "timeout", number: true, of: (host) => words.latency(host.timeout) },
      {
        name: "errors",
        title: "errors",
        sort: "errors",
        cut: true,
        of: (host) => words.kinds([...host.errors].reverse()) || "-",
      },
    ],
    empty: () =>
      wish.q || wish.condition || wish.job
        ? vacant("no host matches", "loosen the filter above")
        : vacant("no hosts yet", "start a crawl with ", code("shoal crawl URL")),
  });
}

/** How many of its visits were on time, and how many pages are visited again and again. */
function fresh(pages, share) {
  const number = el("span", { class: "quiet" }, ` of ${words.plural(pages, "page")}`);
  return el("span", null, words.percent(share), number);
}

function link(name) {
  return el("a", { href: `#/hosts/${encodeURIComponent(name)}`, class: "name" }, name);
}

/** Coarse, so that a cell is not drawn anew all the time. */
function left(seconds) {
  return seconds > 0 ? words.span(Math.ceil(seconds)) : "";
}
