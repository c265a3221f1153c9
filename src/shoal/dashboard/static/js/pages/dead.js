// Dead letters: pages that were given up. Looked through, replayed or dropped, one by one or all that match.

import { el, put } from "../dom.js";
import { live } from "../live.js";
import { Pager, chooseJob, field, select, vacant } from "../parts.js";
import { Table } from "../table.js";
import * as words from "../words.js";
import { Bulk } from "./bulk.js";

const LIMIT = 50;
const REFRESH = 4; // seconds
const SINCE = [
  ["", "any time"],
  ["600", "the last 10 min"],
  ["3600", "the last hour"],
  ["86400", "the last day"],
  ["604800", "the last 7 days"],
];

export function show(view) {
  const wish = { job: "", host: "", kind: "", since: "", before: "", ...Object.fromEntries(view.params) };

  const change = (part) => {
    Object.assign(wish, { before: "" }, part);
    bulk.outdate();
    view.remember(wish);
    refresh();
  };
  const bulk = new Bulk(view.session, () => refresh());
  const table = letterTable(view.session.read_only ? [] : [bulk.column], wish);
  const pager = new Pager((before) => change({ before }));
  const jobs = jobMenu(wish, change);
  const list = el("section", { class: "card", "aria-label": "Dead letters" }, table.node, pager.node);
  put(
    view.root,
    filters(wish, jobs, change, () => bulk.outdate()),
    bulk.node,
    list,
  );

  const load = async () => {
    const filter = filterOf(wish);
    return { ...(await view.get("/api/dead", { ...filter, before: wish.before, limit: LIMIT })), filter };
  };
  const refresh = view.every(REFRESH, load, (found) => {
    // What was on this page is gone, perhaps by other hands.
    if (!found.letters.length && wish.before) return change({ before: "" });
    chooseJob(jobs, live.overview?.jobs ?? []);
    bulk.set(found);
    table.update(found.letters);
    pager.set(wish.before, found.before, wish.before ? "" : "the newest");
  });
}

/** As the server reads it; when "the last hour" began is reckoned anew each time. */
function filterOf({ job, host, kind, since }) {
  const from = since ? (live.overview?.now ?? Date.now() / 1000) - Number(since) : null;
  return Object.fromEntries(Object.entries({ job, host, kind, since: from }).filter(([, value]) => value));
}

function jobMenu(wish, change) {
  const known = wish.job ? [[wish.job, wish.job]] : [];
  return select([["", "all jobs"], ...known], wish.job, (job) => change({ job }));
}

function filters(wish, jobs, change, begin) {
  const typed = (name, placeholder) => {
    let typing = null;
    const input = (event) => {
      begin();
      clearTimeout(typing);
      typing = setTimeout(() => change({ [name]: event.target.value.trim() }), 250);
    };
    const props = {
      type: "search",
      value: wish[name],
      placeholder,
      autocapitalize: "off",
      spellcheck: "false",
    };
    return el("input", { ...props, on: { input } });
  };
  return el(
    "form",
    { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } },
    field("host", typed("host", "shop.example")),
    field("died of", typed("kind", "http_404")),
    field("job", jobs),
    field(
      "buried in",
      select(SINCE, wish.since, (since) => change({ since })),
    ),
  );
}

function letterTable(first, wish) {
  return new Table({
    caption: "Dead letters, the newest first",
    key: (letter) => letter.id,
    columns: [
      ...first,
      { name: "id", title: "id", of: (letter) => letter.id, number: true },
      {
        name: "url",
        title: "URL",
        cut: true,
        head: true,
        of: (letter) => [letter.id, letter.url],
        draw: link,
      },
      { name: "kind", title: "died of", of: (letter) => letter.kind, draw: (kind) => el("code", null, kind) },
      { name: "tries", title: "tries", number: true, of: (letter) => letter.attempts.length },
      { name: "job", title: "job", of: (letter) => letter.job },
      { name: "at", title: "buried", of: (letter) => words.clock(letter.at) },
    ],
    empty: () =>
      Object.keys(filterOf(wish)).length
        ? vacant("no dead letter matches", "loosen the filter above")
        : vacant("no dead letters", "pages that are given up appear here, with everything known about why"),
  });
}

function link([id, url]) {
  return el("a", { href: `#/dead/${id}`, class: "url" }, url);
}
