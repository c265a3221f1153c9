// The pictures of the navigation: lines on a grid of 16.

import { svg } from "./dom.js";

const PATHS = {
  overview: "M2 13V9h3v4zM6.5 13V3h3v10zM11 13V6h3v7z",
  hosts: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  workers:
    "M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2M3.4 3.4l1.4 1.4M11.2 11.2l1.4 1.4M3.4 12.6l1.4-1.4M11.2 4.8l1.4-1.4",
  proxies: "M2 5h9M8.5 2.5 11 5 8.5 7.5M14 11H5M7.5 8.5 5 11l2.5 2.5",
  freshness: "M13.5 8a5.5 5.5 0 1 1-1.6-3.9M13.5 2v3h-3M8 5v3.2l2 1.3",
  errors: "M8 2 14.5 13.5h-13zM8 6.5v3.5M8 12h.01",
  dead: "M2 4h12v9H2zM2 4.5l6 4.5 6-4.5",
  tasks: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM6.3 6.2C6.5 4.4 9.8 4.5 9.7 6.5 9.6 7.7 8 7.8 8 9.2M8 11.5h.01",
  events: "M2.5 4h11M2.5 8h11M2.5 12h7",
  more: "M3 8h.01M8 8h.01M13 8h.01",
};

export function icon(name) {
  const line = svg("path", {
    d: PATHS[name],
    fill: "none",
    stroke: "currentColor",
    "stroke-width": name === "more" ? 2.5 : 1.4,
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
  });
  return svg(
    "svg",
    { viewBox: "0 0 16 16", width: 16, height: 16, class: "icon", "aria-hidden": "true" },
    line,
  );
}
