// The whole crawl at a glance: how fast, how well, what is left, and what holds it back.

import { TimeChart } from "../charts.js";
import { Slot, el, put } from "../dom.js";
import { live } from "../live.js";
import { Figure, bars, card, chip, vacant } from "../parts.js";
import * as words from "../words.js";
import { Jobs } from "./jobs.js";

const KEPT = 900; // samples: 15 minutes

export function show(view) {
  const parts = [
    new Figures(),
    new Hold(),
    new Charts(view),
    new Jobs(view),
    new Lanes(),
    new Conditions(),
    new Schedules(),
  ];
  put(
    view.root,
    parts.map((part) => part.node),
  );
  const update = (now) => parts.forEach((part) => part.update(now));
  view.listen("overview", update);
  if (live.overview) update(live.overview);
  else view.attempt(async () => update(await view.get("/api/overview")));
}

class Figures {
  constructor() {
    this.rate = new Figure("pages/s");
    this.flight = new Figure("in flight", "#/workers");
    this.success = new Figure("success", "#/errors");
    this.pending = new Figure("pending");
    this.done = new Figure("done");
    this.dead = new Figure("dead", "#/dead");
    const all = [this.rate, this.flight, this.success, this.pending, this.done, this.dead];
    this.node = el(
      "section",
      { class: "figures", "aria-label": "Numbers" },
      all.map((figure) => figure.node),
    );
  }

  update(now) {
    this.rate.set(words.rate(now.rate), "lately");
    this.flight.set(words.count(now.in_flight), words.plural(now.workers, "worker"));
    this.success.set(words.percent(now.success), now.success === null ? "no attempts lately" : "of attempts");
    const retries = now.delayed - now.waiting;
    this.pending.set(
      words.count(now.pending),
      retries ? `and ${words.count(retries)} delayed` : "none delayed",
    );
    const standing = now.jobs.some((job) => job.freshness);
    this.done.rename(standing ? "done and followed" : "done");
    this.done.set(words.count(now.done + now.waiting), now.hosts === null ? "" : `on ${words.plural(now.hosts, "host")}`);
    const items = now.rejected ? `${words.count(now.rejected)} rejected` : "";
    this.dead.set(words.count(now.dead), items || (now.dead ? "dead letters" : "no dead letters"));
  }
}

/** Why the crawl is slow, in words. */
class Hold {
  constructor() {
    this.node = el("section", { class: "hold", "aria-label": "What holds the crawl back" });
    this.slot = new Slot(this.node, (told) => this.#draw(...told));
  }

  update(now) {
    const idle = !now.jobs.some((job) => job.state === "running");
    this.slot.set([[...pressureLines(now.pressure), ...jobLines(now)], idle, now.pace, hostLine(now)]);
  }

  #draw(lines, idle, pace, hosts) {
    this.node.className = `hold ${lines.length || (hosts && !idle) ? "warn" : idle ? "idle" : "good"}`;
    const fine = idle ? "No job is running" : hosts ? "Some hosts are held back" : "Nothing holds the crawl back";
    const item = ([sentence, note]) =>
      el("li", null, sentence, note ? el("span", { class: "quiet" }, ` · ${note}`) : null);
    return [
      el("strong", null, lines.length ? "Held back" : fine),
      lines.length ? el("ul", null, lines.map(item)) : pace ? el("p", null, sentence(pace)) : null,
      hosts ? el("a", { href: "#/hosts?sort=condition&order=desc" }, hosts) : null,
    ];
  }
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

/** Hosts that are held back do not hold back the others; still, what is left may wait for them. */
function hostLine({ conditions, hosts }) {
  const { healthy, ...held } = conditions ?? {};
  const known = Object.keys(ILL).filter((name) => held[name]);
  const number = known.reduce((sum, name) => sum + held[name], 0);
  if (!number) return "";
  const each = known.map((name) => `${words.count(held[name])} ${name}`).join(", ");
  return `${words.count(number)} of ${words.plural(hosts, "host")} ${number === 1 ? "is" : "are"} waiting: ${each}`;
}

/** The same rule on several workers is one line. */
function pressureLines(pressure) {
  const bySentence = new Map();
  for (const { sentence, worker } of pressure) {
    bySentence.set(sentence, [...(bySentence.get(sentence) ?? []), worker]);
  }
  const who = (workers) =>
    workers.length > 1 ? words.plural(workers.length, "worker") : `worker ${workers[0]}`;
  return [...bySentence].map(([sentence, workers]) => [sentence, who(workers)]);
}

function jobLines(now) {
  const lines = now.jobs
    .filter((job) => job.trouble)
    .map((job) => [`${job.job} is paused: ${job.trouble}`, ""]);
  const late = now.jobs.filter((job) => job.freshness?.late);
  lines.push(...late.map((job) => [`${job.job} is behind: ${overdue(job.freshness, now.now)}`, ""]));
  if (!now.workers && now.jobs.some((job) => job.state === "running")) {
    const start = "start one with: shoal worker FILE.py, or run the command again that began the crawl";
    lines.push([`no worker is running; ${start}`, ""]);
  }
  return lines;
}

function overdue({ overdue, followed, oldest_due }, now) {
  const pages = `${words.count(overdue)} of ${words.plural(followed, "page")} overdue`;
  return `${pages}, the oldest by ${words.span(now - oldest_due)}`;
}

class Charts {
  constructor(view) {
    this.points = [];
    const chart = (title, colour, format, more) =>
      new TimeChart(view, { title, series: [{ name: title, colour }], format, ...more });
    this.rate = chart("pages/s", "--accent", words.rate);
    this.flight = chart("in flight", "--violet", (value) => words.count(Math.round(value)));
    this.success = chart("success", "--good", words.percent, {
      top: 1,
      tick: (share) => `${Math.round(share * 100)} %`,
    });
    this.node = el(
      "section",
      { class: "charts", "aria-label": "The last 15 minutes" },
      this.rate.node,
      this.flight.node,
      this.success.node,
    );
    view.attempt(async () => {
      const { points } = await view.get("/api/live");
      const last = points.at(-1)?.at ?? 0;
      this.points = [...points, ...this.points.filter((point) => point.at > last)];
      this.#draw();
    });
  }

  update(now) {
    if (now.now <= (this.points.at(-1)?.at ?? 0)) return;
    this.points.push({ at: now.now, rate: now.rate, in_flight: now.in_flight, success: now.success });
    if (this.points.length > KEPT) this.points.shift();
    this.#draw();
  }

  #draw() {
    const times = this.points.map((point) => point.at);
    for (const [chart, name] of [
      [this.rate, "rate"],
      [this.flight, "in_flight"],
      [this.success, "success"],
    ]) {
      chart.set(times, [this.points.map((point) => point[name])]);
    }
  }
}

class Lanes {
  constructor() {
    this.slot = new Slot(el("div"), (lanes) =>
      lanes.length ? bars(lanes.map(laneRow)) : vacant("the queue is empty"),
    );
    this.node = card("Queue by lane", this.slot.node);
  }

  update({ lanes }) {
    this.slot.set(lanes);
  }
}

function laneRow({ lane, pending, in_flight }) {
  return { name: lane, number: pending, note: in_flight ? `+ ${words.count(in_flight)} in flight` : "" };
}

const ILL = {
  healthy: "good",
  "no robots": "warn",
  resting: "warn",
  probing: "warn",
  "cooling down": "bad",
  blocked: "bad",
  "given up": "bad",
};

class Conditions {
  constructor() {
    this.slot = new Slot(el("div"), (conditions) => this.#draw(conditions));
    this.node = card("Hosts by condition", this.slot.node);
  }

  update({ conditions }) {
    this.slot.set(conditions);
  }

  #draw(conditions) {
    if (conditions === null) return vacant("counting the hosts …");
    const known = Object.keys(ILL).filter((name) => conditions[name]);
    const row = (name) => ({
      name: chip(name),
      number: conditions[name],
      look: ILL[name],
      href: `#/hosts?condition=${encodeURIComponent(name)}`,
    });
    return known.length ? bars(known.map(row)) : vacant("no hosts yet");
  }
}

class Schedules {
  constructor() {
    this.slot = new Slot(el("div"), ([lines, leader]) => [
      el(
        "ul",
        { class: "sentences" },
        lines.map(([name, ...rest]) =>
          el("li", null, el("span", { class: "name" }, name), ` ${rest.join(" · ")}`),
        ),
      ),
      el("p", { class: "quiet" }, leader ? `coordinator ${leader}` : "no coordinator"),
    ]);
    this.node = card("Schedules", this.slot.node);
  }

  update({ schedules, leader, now }) {
    this.node.hidden = !schedules.length && !leader;
    this.slot.set([schedules.map((one) => scheduleLine(one, now)), leader]);
  }
}

function scheduleLine(one, now) {
  const beat = one.cron ? `${one.cron} (UTC)` : `every ${words.span(one.every)}`;
  const next = one.next_at <= now ? "due" : `next in ${words.span(one.next_at - now)}`;
  return [
    one.schedule,
    beat,
    one.paused ? "paused" : next,
    ...(one.last_run ? [`last run ${one.last_run}`] : []),
  ];
}
