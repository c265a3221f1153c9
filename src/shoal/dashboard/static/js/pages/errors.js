// What goes wrong, by class, over time.

import { TimeChart } from "../charts.js";
import { el, put, say } from "../dom.js";
import { live } from "../live.js";
import { card, chooseJob, field, select, vacant } from "../parts.js";
import { Table } from "../table.js";
import * as words from "../words.js";

const REFRESH = 3; // seconds
const SHOWN = 6; // classes with a colour of their own
const OTHER = "others";

export function show(view) {
  const wish = { job: view.params.get("job") ?? "" };
  const jobs = select([["", "all jobs"], ...(wish.job ? [[wish.job, wish.job]] : [])], wish.job, (job) => {
    wish.job = job;
    view.remember(wish);
    refresh();
  });
  const chart = new TimeChart(view, {
    title: "",
    series: [],
    format: (value) => words.count(Math.round(value)),
    stacked: true,
    height: 220,
  });
  const legend = el("ul", { class: "legend", "aria-label": "Colours" });
  const table = errorTable();
  const charted = card("Errors over time", chart.node, legend);
  put(
    view.root,
    el("form", { class: "filters", on: { submit: (event) => event.preventDefault() } }, field("job", jobs)),
    charted,
    card("By class", table.node),
  );

  const load = () => view.get("/api/errors", wish);
  const refresh = view.every(REFRESH, load, (found) => {
    chooseJob(jobs, live.overview?.jobs ?? []);
    const total = found.errors.reduce((sum, error) => sum + error.count, 0);
    const colours = coloursOf(found.errors);
    table.update(
      found.errors.map((error) => ({
        ...error,
        share: total ? error.count / total : 0,
        colour: colours.get(error.kind) ?? colours.get(OTHER),
      })),
    );
    charted.hidden = found.points.length === 0;
    drawChart(chart, legend, found, colours);
  });
}

/** The commonest classes have a colour; the rest share one. */
function coloursOf(errors) {
  const named = errors.slice(0, SHOWN).map((error, n) => [error.kind, `--series-${n + 1}`]);
  return new Map(errors.length > SHOWN ? [...named, [OTHER, "--series-7"]] : named);
}

function drawChart(chart, legend, { points, interval }, colours) {
  const names = [...colours.keys()];
  const value = (point, name) => (name === OTHER ? rest(point, colours) : (point.errors[name] ?? 0));
  const series = names.map((name) => ({ name, colour: colours.get(name) }));
  const full = filled(points, interval);
  chart.reset(
    series,
    full.map((point) => point.at),
    names.map((name) => full.map((point) => value(point, name))),
  );
  say(chart.title, `each step is ${words.span(interval)}`);
  const told = JSON.stringify([...colours]);
  if (legend.dataset.told === told) return;
  legend.dataset.told = told;
  put(
    legend,
    names.map((name) => el("li", null, swatch(colours.get(name)), name)),
  );
}

function rest(point, colours) {
  return Object.entries(point.errors).reduce(
    (sum, [kind, number]) => (colours.has(kind) ? sum : sum + number),
    0,
  );
}

/** Intervals in which nothing happened are not sent: they are zero, not unknown. */
function filled(points, interval) {
  if (!points.length) return [];
  const byPlace = new Map(points.map((point) => [Math.round(point.at / interval), point]));
  const first = Math.round(points[0].at / interval) - 1;
  const last = Math.round(points.at(-1).at / interval) + 1;
  if (last - first > 2_000) return points;
  return Array.from(
    { length: last - first + 1 },
    (_, n) => byPlace.get(first + n) ?? { at: (first + n) * interval, errors: {} },
  );
}

function swatch(colour) {
  return el("span", { class: "swatch", "aria-hidden": "true", style: { background: `var(${colour})` } });
}

function errorTable() {
  return new Table({
    caption: "Errors by class, with what each means",
    key: (error) => error.kind,
    columns: [
      {
        name: "kind",
        title: "class",
        head: true,
        of: (error) => [error.kind, error.colour],
        draw: ([kind, colour]) => [
          swatch(colour),
          el(
            "a",
            {
              href: `#/dead?kind=${encodeURIComponent(kind)}`,
              class: "name",
              title: "dead letters of this class",
            },
            kind,
          ),
        ],
      },
      { name: "count", title: "times", number: true, of: (error) => words.count(error.count) },
      { name: "share", title: "share", number: true, of: (error) => words.percent(error.share) },
      { name: "meaning", title: "meaning", wide: true, of: (error) => error.meaning },
      { name: "blame", title: "counts against the host", of: (error) => (error.blames_host ? "yes" : "no") },
    ],
    empty: () => vacant("no errors so far"),
  });
}
