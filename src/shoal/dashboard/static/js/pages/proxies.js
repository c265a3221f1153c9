// The proxies of every pool, as the crawls on this store have met them.

import { el, put } from "../dom.js";
import { card, chip, code, vacant } from "../parts.js";
import { Table } from "../table.js";
import * as words from "../words.js";

const REFRESH = 4; // seconds

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
      tables
        .get(pool.pool)
        .update(pool.proxies.map((proxy) => ({ ...proxy, left: proxy.until ? proxy.until - now : 0 })));
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
  view.root.append(card(title, table.node));
  return table;
}
