// Charts over time, drawn by uPlot on a canvas: thinned out to what can be seen, redrawn at most once a frame.

import { el, say } from "./dom.js";
import { onTheme } from "./theme.js";
import * as words from "./words.js";

const HEIGHT = 150;
const MOST_POINTS = 240;
const LEAST_SPAN = 60; // seconds on the time axis

/**
 * series: [{name, colour: "--accent", format, fill?}]; the values are told in words below the title, which also is
 * what a screen reader hears. stacked: the series lie upon each other.
 */
export class TimeChart {
  #plot = null;
  #data = null;
  #frame = 0;

  constructor(view, { title, series, format, tick, top, stacked = false, height = HEIGHT }) {
    Object.assign(this, { series, format, tick, top, stacked, height });
    this.title = el("span", { class: "chart-title" }, title);
    this.reading = el("span", { class: "chart-reading" });
    this.box = el("div", { class: "chart-box", "aria-hidden": "true", style: { height: `${height}px` } });
    this.node = el("figure", { class: "chart" }, el("figcaption", null, this.title, this.reading), this.box);
    const observer = new ResizeObserver(() => this.#later());
    observer.observe(this.box);
    const stop = onTheme(() => this.#rebuild());
    view.atEnd(() => {
      observer.disconnect();
      stop();
      cancelAnimationFrame(this.#frame);
      this.#plot?.destroy();
    });
  }

  /** times: seconds; columns: one list of values a series, null for "not known". */
  set(times, columns) {
    this.#data = thinned(times, columns);
    this.#later();
  }

  /** With other series than before. */
  reset(series, times, columns) {
    const same =
      JSON.stringify(series.map((one) => one.name)) === JSON.stringify(this.series.map((one) => one.name));
    this.series = series;
    this.#data = thinned(times, columns);
    if (same) this.#later();
    else this.#rebuild();
  }

  #later() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #rebuild() {
    this.#plot?.destroy();
    this.#plot = null;
    this.#later();
  }

  #draw() {
    const width = Math.floor(this.box.clientWidth);
    if (this.#data === null || width < 40) return;
    const data = this.stacked ? heaped(this.#data) : this.#data;
    if (this.#plot === null) this.#plot = new uPlot(this.#options(width), data, this.box);
    else {
      if (this.#plot.width !== width) this.#plot.setSize({ width, height: this.height });
      this.#plot.setData(data);
    }
    this.#read(this.#plot.cursor.idx);
  }

  /** The values where the pointer is, or else the latest ones. */
  #read(place) {
    const [times, ...columns] = this.#data;
    const at = place ?? times.length - 1;
    if (at < 0 || times.length === 0) return say(this.reading, "nothing yet");
    const told = this.series.map((one, n) => {
      const value = columns[n][at];
      const text = value === null || value === undefined ? "-" : this.format(value);
      return this.series.length === 1 ? text : `${one.name} ${text}`;
    });
    const when = place === null || place === undefined ? "" : ` at ${words.clock(times[at])}`;
    say(this.reading, this.stacked && when === "" ? "" : told.join(" · ") + when);
  }

  #options(width) {
    const [ink, grid] = [colour("--quiet"), colour("--line")];
    const axis = {
      stroke: ink,
      font: "11px system-ui, sans-serif",
      grid: { stroke: grid, width: 1 },
      ticks: { show: false },
    };
    return {
      width,
      height: this.height,
      padding: [8, 24, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: {
        x: { time: true, range: (_, from, to) => [Math.min(from, to - (this.stacked ? 1 : LEAST_SPAN)), to] },
        y: { range: (_, __, most) => [0, this.top ?? roomy(most)] },
      },
      axes: [
        { ...axis, size: 20, gap: 4, space: 60, values: (_, ticks) => ticks.map(short) },
        { ...axis, size: 44, gap: 4, space: 32, values: (_, ticks) => ticks.map(this.tick ?? plain) },
      ],
      series: [{}, ...this.#lines()],
      hooks: { setCursor: [(plot) => this.#read(plot.cursor.idx)] },
    };
  }

  #lines() {
    return this.series.map((one) => {
      const stroke = colour(one.colour);
      const fill = this.stacked ? stroke : faded(stroke);
      const paths = this.stacked ? uPlot.paths.stepped({ align: 1 }) : undefined;
      return {
        label: one.name,
        stroke,
        fill,
        width: this.stacked ? 0 : 1.5,
        points: { show: false },
        spanGaps: false,
        paths,
      };
    });
  }
}

/** At most so many points: neighbours become their mean. */
export function thinned(times, columns, most = MOST_POINTS) {
  const step = Math.ceil(times.length / most);
  if (step <= 1) return [times, ...columns];
  const starts = Array.from({ length: Math.ceil(times.length / step) }, (_, n) => n * step);
  const mean = (values) => {
    const known = values.filter((value) => value !== null && value !== undefined);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
  };
  const squeeze = (values) => starts.map((start) => mean(values.slice(start, start + step)));
  return [starts.map((start) => times[Math.min(start + step, times.length) - 1]), ...columns.map(squeeze)];
}

/** The columns upon each other. The highest heap is drawn first, so it is the first series. */
function heaped([times, ...columns]) {
  const heap = times.map(() => 0);
  const heaps = [...columns].reverse().map((values) => values.map((value, n) => (heap[n] += value ?? 0)));
  return [times, ...heaps.reverse()];
}

function roomy(most) {
  return most > 0 ? most * 1.15 : 1;
}

function short(at) {
  const time = words.clock(at).split(" ").at(-1);
  return time.replace(/:00$/, (end) => (time.length > 5 ? "" : end));
}

function plain(number) {
  return number.toLocaleString("en-US", { maximumFractionDigits: 2 });
}

/** A colour of the style sheet, as the current theme has it. */
function colour(name) {
  const probe = el("span", { style: { color: `var(${name})`, display: "none" } });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function faded(rgb) {
  return rgb.replace("rgb(", "rgba(").replace(")", ", 0.14)");
}
