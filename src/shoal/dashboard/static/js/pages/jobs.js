// The jobs, on the overview: how far each is, and pausing, resuming and cancelling it.

import { post } from "../api.js";
import { act, confirm } from "../dialogs.js";
import { el } from "../dom.js";
import { bar, button, card, chip, code, vacant } from "../parts.js";
import { Table } from "../table.js";
import * as words from "../words.js";

export class Jobs {
  constructor(view) {
    const acts = view.session.read_only
      ? []
      : [{ name: "actions", title: "", of: (job) => job.state, draw: (_, job) => buttons(job) }];
    this.table = new Table({
      caption: "Jobs",
      key: (job) => job.job,
      columns: [
        {
          name: "job",
          title: "job",
          head: true,
          of: (job) => [job.job, job.spider, job.created_at, job.trouble ?? job.left, words.counted(job)],
          draw: jobName,
        },
        { name: "state", title: "state", of: (job) => job.state, draw: (state) => chip(state) },
        {
          name: "pages",
          title: "pages",
          wide: true,
          of: (job) => [job.freshness?.followed ?? job.done, job.admitted, job.fed_all, job.progress, Boolean(job.freshness)],
          draw: progress,
        },
        {
          name: "rate",
          title: "pages/s",
          number: true,
          of: (job) => (job.rate ? words.rate(job.rate) : "-"),
        },
        {
          name: "fresh",
          title: "fresh",
          number: true,
          of: (job) => [job.freshness?.ratio ?? null, job.job],
          draw: freshLink,
        },
        { name: "eta", title: "ETA", number: true, of: (job) => [job.eta, nextVisit(job)], draw: ends },
        {
          name: "failed",
          title: "dead",
          number: true,
          of: (job) => [job.dead, job.rejected, job.job],
          draw: deadLink,
        },
        { name: "retried", title: "retried", number: true, of: (job) => words.count(job.retried) },
        { name: "flight", title: "in flight", number: true, of: (job) => words.count(job.leased) },
        { name: "items", title: "rows", number: true, of: (job) => words.count(job.items) },
        ...acts,
      ],
      empty: () =>
        vacant(
          "no jobs in this store yet",
          "hand one in with ",
          code("shoal submit FILE.py"),
          " or crawl here with ",
          code("shoal crawl URL"),
        ),
    });
    this.node = card("Jobs", this.table.node);
    this.node.classList.add("full");
  }

  update(now) {
    this.table.update(now.jobs.map((job) => ({ ...job, now: now.now })));
    this.node.classList.toggle("none-standing", !now.jobs.some((job) => job.freshness));
  }
}

/** A standing job never ends: its next visit is told instead. */
function nextVisit({ freshness, now }) {
  if (!freshness || freshness.next_due === null) return "";
  return freshness.next_due - now < 1 ? "now" : words.span(freshness.next_due - now);
}

function ends([eta, next]) {
  return next ? [next, el("span", { class: "quiet job-note" }, "next visit")] : words.duration(eta);
}

function freshLink([ratio, job]) {
  if (ratio === null) return "-";
  return el("a", { href: `#/freshness?job=${encodeURIComponent(job)}` }, words.percent(ratio));
}

function jobName([name, spider, since, said, counted]) {
  const note = `${spider && spider !== name ? `${spider}, ` : ""}since ${words.clock(since)}`;
  return [
    el("a", { class: "name", href: `#/jobs/${encodeURIComponent(name)}` }, name),
    el("span", { class: "quiet job-note" }, note),
    said ? el("span", { class: "job-note" }, said) : "",
    counted ? el("span", { class: "quiet job-note" }, `counted ${counted}`) : "",
  ];
}

function progress([done, admitted, fedAll, share, standing]) {
  const text = `${words.count(done)} of ${words.count(admitted)}${fedAll ? "" : "+"}${standing ? " followed" : ""}`;
  return el(
    "span",
    { class: "progress" },
    bar(share ?? 0),
    el("span", { class: "progress-text" }, text, el("span", { class: "quiet" }, words.percent(share))),
  );
}

function deadLink([dead, rejected, job]) {
  const link = (query, text) => el("a", { href: `#/dead?${query}`, class: "bad-text" }, text);
  const of = `job=${encodeURIComponent(job)}`;
  const pages = dead ? link(of, words.count(dead)) : "0";
  return rejected
    ? [pages, el("br"), link(`${of}&kind=rejected`, words.plural(rejected, "rejected item"))]
    : pages;
}

function buttons(job) {
  const one = (action, look) =>
    button(action, `${action} job ${job.job}`, () => order(job.job, action), look);
  const first = { running: "pause", paused: "resume" }[job.state];
  return first ? el("span", { class: "buttons" }, one(first), one("cancel", "danger")) : "";
}

async function order(job, action) {
  const lost = "Its waiting pages are not fetched any more. This cannot be undone.";
  if (action === "cancel" && !(await confirm(`Cancel ${job}?`, lost, "cancel the job"))) return;
  await act(async () => (await post(`/api/jobs/${encodeURIComponent(job)}`, { action })).said);
}
