// The proxies of every pool, as the crawls on this store have met them.

import { el, put } from "../dom.js";
import { card, chip, code, vacant } from "../parts.js";
import { Table } from "../table.js";
import * as words from "../words.js";

const REFRESH = 4; // seconds
const HOSTS = 50; // of a pool; shoal proxies hosts shows them all

export function show(view) {
  const tables = new Map();
  const nothing = el(
    "section",
    { class: "card" },
    vacant("no proxies have been used yet", "a table ", code("[proxies]"), " in shoal.toml sets pools up"),
  );
  const load = () => view.get("/api/proxies");
  view.every(REFRESH, load, ({ pools, now }) => {
    if (!pools.length) return put(view.root, nothing);
    nothing.remove();
    for (const pool of pools) {
      if (!tables.has(pool.pool)) tables.set(pool.pool, addPool(view, pool));
      const [proxies, hosts] = tables.get(pool.pool);
      proxies.update(pool.proxies.map((proxy) => ({ ...proxy, left: proxy.until ? proxy.until - now : 0 })));
      hosts.update(pool.hosts.slice(0, HOSTS));
    }
  });
}

function addPool(view, pool) {
  const table = new Table({
    caption: `Proxies of pool ${pool.pool}`,
    key: (proxy) => proxy.proxy,
    columns: [
      { name: "proxy", title: "proxy", head: true, of: (proxy) => proxy.proxy },
      {
        name: "condition",
        title: "condition",
        of: (proxy) => [proxy.condition, proxy.left > 0 ? words.span(Math.ceil(proxy.left)) : ""],
        draw: ([condition, left]) => chip(condition, left),
      },
      { name: "requests", title: "requests", number: true, of: (proxy) => words.count(proxy.requests) },
      { name: "success", title: "success", number: true, of: (proxy) => words.percent(proxy.success) },
      { name: "latency", title: "latency", number: true, of: (proxy) => words.latency(proxy.latency) },
      { name: "banned", title: "refused by", wide: true, of: (proxy) => proxy.banned_by.join(", ") || "-" },
    ],
    empty: () => vacant("no proxies in this pool"),
  });
  const title = pool.cost === null ? `Pool ${pool.pool}` : `Pool ${pool.pool}, cost ${pool.cost} a request`;
  const hosts = hostsOf(pool);
  view.root.append(card(title, table.node, hosts.node));
  return [table, hosts];
}

function hostsOf(pool) {
  return new Table({
    caption: `Hosts asked through pool ${pool.pool}`,
    key: (use) => use.host,
    columns: [
      { name: "host", title: "host", head: true, of: (use) => use.host },
      { name: "requests", title: "requests", number: true, of: (use) => words.count(use.requests) },
      { name: "success", title: "success", number: true, of: (use) => words.percent(use.success) },
      { name: "refused", title: "refused", number: true, of: (use) => words.count(use.refused) },
      { name: "median", title: "median", number: true, of: (use) => words.latency(use.median) },
      { name: "cost", title: "cost", number: true, of: (use) => (use.cost ? use.cost.toPrecision(4) : "-") },
    ],
    empty: () => vacant("no host was asked through this pool"),
  });
}
