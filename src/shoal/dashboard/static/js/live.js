// One connection that brings what is new: the overview every second, and notable events as they happen.

import { get } from "./api.js";

const SILENT = 30_000; // ms without a word: the connection is as good as lost
const AGAIN = [1_000, 2_000, 5_000]; // ms before the next try

const listeners = { overview: new Set(), event: new Set(), state: new Set() };
export const live = { overview: null, state: "connecting", why: "" };

let source = null;
let heard = 0;
let tries = 0;
let retry = null;

/** kind: overview, event or state. Answers how to stop listening. */
export function on(kind, listener) {
  listeners[kind].add(listener);
  return () => listeners[kind].delete(listener);
}

export function start() {
  connect();
  setInterval(() => {
    if (source !== null && performance.now() - heard > SILENT) lost();
  }, 1_000);
  // A hidden tab costs the server nothing.
  document.addEventListener("visibilitychange", () => (document.hidden ? hangUp() : connect()));
}

export function connect() {
  clearTimeout(retry);
  if (source !== null || document.hidden) return;
  heard = performance.now();
  source = new EventSource("/api/stream");
  source.addEventListener("overview", (message) => {
    live.overview = JSON.parse(message.data);
    alive();
    tell("overview", live.overview);
  });
  source.addEventListener("event", (message) => {
    alive();
    tell("event", JSON.parse(message.data));
  });
  source.addEventListener("away", (message) => {
    heard = performance.now();
    become("away", JSON.parse(message.data).error);
  });
  source.onerror = lost;
}

function alive() {
  heard = performance.now();
  tries = 0;
  become("live");
}

function lost() {
  hangUp();
  become("lost");
  // Also finds out whether the session has ended: get() then leads to the login page.
  get("/api/session").catch(() => {});
  retry = setTimeout(connect, AGAIN[Math.min(tries++, AGAIN.length - 1)]);
}

export function hangUp() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

/** connecting, live, lost (no server) or away (the server has no store; `why` tells) */
function become(state, why = "") {
  if (live.state === state) return;
  live.state = state;
  live.why = why;
  tell("state", state);
}

function tell(kind, what) {
  for (const listener of [...listeners[kind]]) listener(what);
}
