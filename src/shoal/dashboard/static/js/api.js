// The server's JSON, and how to change something: every change carries the session's CSRF word.

let csrf = "";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function openSession() {
  const session = await get("/api/session");
  csrf = session.csrf;
  return session;
}

export function get(path, params, signal) {
  return ask(`${path}${query(params)}`, { signal });
}

export function post(path, body) {
  const headers = { "Content-Type": "application/json", "X-Shoal-CSRF": csrf };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

/** "?a=1&b=2"; what is empty is left out. */
export function query(params) {
  const given = Object.entries(params ?? {}).filter(([, value]) => ![null, undefined, ""].includes(value));
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

export function toLogin() {
  try {
    sessionStorage.setItem("shoal.after", location.hash);
  } catch {
    // Then the overview comes first after logging in.
  }
  location.replace("/login");
}

async function ask(url, options) {
  let answer;
  try {
    answer = await fetch(url, { ...options, credentials: "same-origin", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the dashboard's server cannot be reached");
  }
  if (answer.status === 401) {
    toLogin();
    throw new Refused(401, "not logged in");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, body.error ?? `the server answered ${answer.status}`);
  return body;
}
