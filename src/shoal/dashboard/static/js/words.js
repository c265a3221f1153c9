// Numbers as people read them: the same words as shoal.observe.words gives on the command line.

const plain = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });
const VISITS = /^visits(: |$)/; // counters of a standing job: they are told with its freshness
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(number) {
  return whole.format(number);
}

/** "variants 900 · sizes 12 · 3 more", the largest first */
export function byCount(counts, limit = 6) {
  const ranked = Object.entries(counts).sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  const shown = ranked.slice(0, limit).map(([name, number]) => `${name} ${count(number)}`);
  if (ranked.length > limit) shown.push(`${ranked.length - limit} more`);
  return shown.join(" · ");
}

/** What a job has counted, and what its requests have cost: "variants 900 · cost 0.45, 0.0009 a page" */
export function counted(job) {
  const total = Object.values(job.costs ?? {}).reduce((sum, cost) => sum + cost, 0);
  const short = (cost) => String(Number(cost.toPrecision(3)));
  const cost = total ? `cost ${short(total)}${job.done ? `, ${short(total / job.done)} a page` : ""}` : "";
  const own = Object.entries(job.counts).filter(([name]) => !VISITS.test(name));
  return [byCount(Object.fromEntries(own)), cost].filter(Boolean).join(" · ");
}

export function plural(number, noun, nouns) {
  return number === 1 ? `1 ${noun}` : `${count(number)} ${nouns ?? `${noun}s`}`;
}

export function rate(perSecond) {
  return perSecond < 100 ? perSecond.toFixed(1) : count(perSecond);
}

/** "4", "0.33", "1,250"; "-" where there is no limit. */
export function speed(perSecond) {
  if (perSecond === null || perSecond === undefined) return "-";
  return perSecond >= 100 ? count(perSecond) : plain.format(Number(perSecond.toPrecision(2)));
}

/** "-", "4.2 ms", "81 ms", "1.25 s" */
export function latency(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
}

/** "-", "8.2 s", "1:05", "2:00:00", "3 d 4 h" */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${seconds.toFixed(0)} s`;
  const all = Math.round(seconds);
  const second = all % 60,
    minute = Math.floor(all / 60) % 60,
    hours = Math.floor(all / 3600);
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  return hours ? `${hours}:${two(minute)}:${two(second)}` : `${minute}:${two(second)}`;
}

/** "0.4 s", "41 s", "10 min", "3 h", "4 d": for sentences, where the exact second does not matter. */
export function span(seconds) {
  if (seconds < 1) return `${Math.max(seconds, 0).toFixed(1)} s`;
  if (seconds < 90) return `${seconds.toFixed(0)} s`;
  if (seconds < 90 * 60) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 48 * 3600) return `${(seconds / 3600).toFixed(0)} h`;
  return `${count(seconds / 86400)} d`;
}

/** "812 B", "1.5 MB": decimal units, as disks and networks count. */
export function size(octets) {
  let value = octets;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (value < 1000) return `${value.toFixed(unit === "B" ? 0 : 1)} ${unit}`;
    value /= 1000;
  }
  return `${value.toFixed(1)} TB`;
}

/** Rounded down, so that 100 % means all. */
export function percent(share) {
  if (share === null || share === undefined) return "-";
  return `${(Math.floor(share * 1000) / 10).toFixed(1)} %`;
}

/** "http_503 ×3, timeout": kinds in the order given, each once. */
export function kinds(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, number]) => (number === 1 ? name : `${name} ×${number}`)).join(", ");
}

/** "14:03:22" of today, else "2025-11-15 14:03", in the viewer's time zone. */
export function clock(at) {
  const day = new Date(at * 1000);
  const time = `${two(day.getHours())}:${two(day.getMinutes())}`;
  if (day.toDateString() === new Date().toDateString()) return `${time}:${two(day.getSeconds())}`;
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())} ${time}`;
}

function two(number) {
  return String(number).padStart(2, "0");
}
