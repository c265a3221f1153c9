// One host: what holds it back, in words, and what a person may decide about it.

import { Slot, el, put } from "../dom.js";
import { card, chip, facts, sentences, sparkline, trailOf, vacant } from "../parts.js";
import * as words from "../words.js";
import { Orders } from "./orders.js";

const REFRESH = 2; // seconds

export function show(view) {
  const path = `/api/hosts/${encodeURIComponent(view.route.name)}`;
  const state = new Slot(el("p"), ([condition, time]) => chip(condition, time));
  const why = new Slot(el("div"), (found) =>
    found.length ? sentences(found) : vacant("nothing: it is asked as fast as it may be"),
  );
  const numbers = new Slot(el("div"), numbersOf);
  const queues = new Slot(el("div"), (found) =>
    found.length ? facts(found.map(inQueue)) : vacant("no pages wait for it"),
  );
  const errors = new Slot(el("div"), (found) =>
    found.length ? errorsOf(view.route.name, found) : vacant("none"),
  );
  const draw = (host) => {
    state.set([host.condition, left(host)]);
    if (!view.session.read_only) ordering.set(host);
    why.set(host.causes.map((cause) => cause.sentence));
    numbers.set(host);
    queues.set(host.queues);
    errors.set(host.errors);
  };
  const ordering = new Orders(path, draw);
  put(
    view.root,
    el("p", null, el("a", { href: "#/hosts" }, "‹ all hosts")),
    el("div", { class: "host-head" }, state.node, ordering.node),
    el(
      "div",
      { class: "columns" },
      card("What holds it back", why.node),
      card("Numbers", numbers.node),
      card("Queues", queues.node),
      card("Latest errors", errors.node),
    ),
  );
  view.every(REFRESH, () => view.get(path), draw);
}

function errorsOf(name, kinds) {
  const link = el("a", { href: `#/dead?host=${encodeURIComponent(name)}` }, "its dead letters");
  return [el("p", null, words.kinds([...kinds].reverse())), el("p", null, link)];
}

function inQueue({ job, lane, pending, delayed, waiting }) {
  const parts = [`${words.count(pending)} pending`];
  if (delayed > waiting) parts.push(`${words.count(delayed - waiting)} delayed`);
  if (waiting) parts.push(`${words.count(waiting)} wait for their next visit`);
  return [`${job} · ${lane}`, parts.join(", ")];
}

function left(host) {
  return host.until > host.now ? words.span(host.until - host.now) : "";
}

function numbersOf(host) {
  const every =
    host.rate === null
      ? "no limit"
      : `${words.speed(host.rate)} req/s, one every ${words.latency(1 / host.rate)}`;
  return facts([
    ["rate", `${every}: ${host.rate_by}`],
    ["at a time", `${words.count(host.in_flight)} in flight, at most ${words.count(host.cap)}`],
    [
      "latency",
      host.latency === null
        ? "not known yet"
        : [words.latency(host.latency), " ", sparkline(trailOf(host.host, host.latency), () => "latency lately")],
    ],
    ["timeout", words.latency(host.timeout)],
    ["follows", host.visits ? follows(host.visits) : null],
    ["robots.txt", robots(host)],
    ...(host.origins.length > 1 ? [["origins", origins(host)]] : []),
    ...Object.entries(host.settings).map(([key, value]) => [
      key.replace("_", " "),
      `${typeof value === "boolean" ? (value ? "on" : "off") : value}: ${host.set_by[key] ?? "set for this host"}`,
    ]),
    ["set by hand", byHand(host.set_by_hand)],
  ]);
}

function follows({ pages, on_time, changed }) {
  const said = `about ${words.plural(pages, "page")}`;
  if (on_time === null) return `${said}, each visited once so far`;
  return `${said}; ${words.percent(on_time)} of the visits of the last days were on time, ${words.percent(changed)} found a change`;
}

function robots({ robots: record, now }) {
  if (!record) return "not asked for yet";
  const said =
    { rules: "rules", allow: "allows everything", disallow: "cannot be had" }[record.verdict] ??
    record.verdict;
  const delay = record.crawl_delay ? `, asks for ${words.span(record.crawl_delay)} between requests` : "";
  return `${said}${record.reason ? ` (${record.reason})` : ""}${delay}, read ${words.span(now - record.fetched_at)} ago`;
}

function origins(host) {
  const said = ({ origin, condition, robots: verdict }) =>
    `${origin}: ${condition}, robots.txt ${verdict ?? "not asked for yet"}`;
  return host.origins.map(said).join("; ");
}

function byHand(manual) {
  const parts = [];
  if (manual.rate !== null)
    parts.push(manual.rate ? `${words.speed(manual.rate)} req/s` : "no limit on the rate");
  if (manual.per_host !== null) parts.push(`${manual.per_host} at a time`);
  if (manual.blocked) parts.push(manual.reason ? `blocked (${manual.reason})` : "blocked");
  return parts.join(", ");
}
