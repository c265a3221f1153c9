// The worker processes: what each does, and what holds it back.

import { el, put } from "../dom.js";
import { bar, code, vacant } from "../parts.js";
import { Table } from "../table.js";
import * as words from "../words.js";

const REFRESH = 2; // seconds
const FLIGHTS = 50; // pages in flight that are shown

export function show(view) {
  const sum = el("p", { class: "quiet" });
  const table = new Table({
    caption: "Workers",
    key: (worker) => worker.worker,
    columns: [
      {
        name: "worker",
        title: "worker",
        head: true,
        of: (worker) => [worker.pid || worker.worker, worker.machine, worker.version],
        draw: ([name, machine, version]) => [
          el("span", { class: "name" }, String(name)),
          machine ? el("span", { class: "quiet" }, ` on ${machine}`) : null,
          version ? el("span", { class: "quiet" }, `, ${version}`) : null,
        ],
      },
      { name: "rate", title: "pages/s", number: true, of: (worker) => words.rate(worker.rate) },
      {
        name: "flight",
        title: "slots",
        number: true,
        of: (worker) => [worker.in_flight - worker.waiting, worker.slots],
        draw: slots,
      },
      {
        name: "memory",
        title: "memory",
        number: true,
        of: (worker) => (worker.memory ? words.size(worker.memory) : "-"),
      },
      { name: "jobs", title: "jobs", of: (worker) => worker.jobs.join(", ") || "-" },
      { name: "lanes", title: "lanes", of: (worker) => [worker.lanes, worker.paused_lanes], draw: lanes },
      {
        name: "pressure",
        title: "held back by",
        wide: true,
        of: (worker) =>
          worker.silent
            ? [`silent for ${words.span(worker.silent)}: it has died, hangs, or is cut off`]
            : worker.pressure.map((one) => one.sentence),
        draw: (all) => (all.length ? all.join("; ") : el("span", { class: "quiet" }, "nothing")),
      },
    ],
    empty: () =>
      vacant(
        "no worker is running",
        "start one with ",
        code("shoal worker FILE.py"),
        " or crawl here with ",
        code("shoal crawl FILE.py"),
      ),
  });
  const flights = inFlight(view);
  put(view.root, sum, el("section", { class: "card", "aria-label": "Workers" }, table.node), flights);
  const load = () => view.get("/api/workers");
  view.every(REFRESH, load, ({ workers }) => {
    const machines = new Set(workers.map((worker) => worker.machine)).size;
    const rate = workers.reduce((all, worker) => all + worker.rate, 0);
    sum.textContent = workers.length
      ? `${words.plural(workers.length, "worker")} on ${words.plural(machines, "machine")}, ${words.rate(rate)} pages/s`
      : "";
    table.update([...workers].sort((a, b) => b.rate - a.rate));
  });
}

/** The pages that have taken longest, sorted by the server; never more than it was asked for. */
function inFlight(view) {
  const wish = { sort: "seconds", order: "desc", limit: FLIGHTS };
  const load = () => view.get(`/api/flights?${new URLSearchParams(wish)}`);
  const table = new Table({
    caption: "Pages in flight",
    key: (page) => `${page.worker} ${page.since} ${page.job} ${page.url}`,
    sort: wish.sort,
    order: wish.order,
    onSort: (sort, order) => {
      Object.assign(wish, { sort, order });
      again();
    },
    columns: [
      { name: "for", title: "for", sort: "seconds", number: true, of: (page) => words.span(page.seconds) },
      { name: "url", title: "page", sort: "url", head: true, cut: true, of: (page) => page.url },
      { name: "host", title: "host", sort: "host", of: (page) => page.host },
      { name: "job", title: "job", sort: "job", of: (page) => page.job },
      { name: "lane", title: "lane", sort: "lane", of: (page) => page.lane },
      { name: "attempt", title: "attempt", sort: "attempt", number: true, of: (page) => page.attempt },
      {
        name: "worker",
        title: "worker",
        sort: "worker",
        of: (page) => (page.pid ? `${page.pid} on ${page.machine}` : `${page.worker} (gone)`),
      },
    ],
    empty: () => vacant("no pages are in flight", ""),
  });
  const again = view.every(REFRESH, load, ({ flights }) => table.update(flights));
  return el("section", { class: "card", "aria-label": "Pages in flight" }, el("h2", null, "Pages in flight"), table.node);
}

function slots([now, all]) {
  return el("span", { class: "slots" }, `${now}/${all || "?"}`, all ? bar(now / all) : null);
}

function lanes([served, paused]) {
  return served.map((lane, n) => [
    n ? ", " : "",
    paused.includes(lane) ? el("span", { class: "warn-text" }, `${lane} (paused)`) : lane,
  ]);
}
