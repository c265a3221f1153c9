// One dead letter: every attempt, what the server answered, and where the handler broke. All of it is foreign text.

import { post } from "../api.js";
import { act, confirm } from "../dialogs.js";
import { el, put } from "../dom.js";
import { button, card, facts } from "../parts.js";
import * as words from "../words.js";

export function show(view) {
  const back = el("p", null, el("a", { href: "#/dead" }, "‹ all dead letters"));
  put(view.root, back);
  view.attempt(async () => {
    const letter = await view.get(`/api/dead/${encodeURIComponent(view.route.name)}`);
    const columns = el(
      "div",
      { class: "columns" },
      card("Why", why(letter)),
      card("Attempts", timeline(letter.attempts)),
    );
    put(view.root, back, head(view, letter), columns, ...item(letter.item), ...response(letter.response));
  });
}

function head(view, letter) {
  const does = (action) =>
    button(action, `${action} dead letter ${letter.id}`, () => order(letter.id, action), LOOKS[action]);
  const buttons = view.session.read_only
    ? null
    : el("span", { class: "buttons" }, does("replay"), does("drop"));
  return el("div", { class: "letter-head" }, el("p", { class: "url" }, letter.url), buttons);
}

const LOOKS = { replay: "primary", drop: "danger" };
const DONE = { replay: "replayed: its page is in the queue again", drop: "dropped" };

async function order(id, action) {
  const lost = "It is forgotten, with everything known about why. This cannot be undone.";
  if (action === "drop" && !(await confirm("Drop this dead letter?", lost, "drop"))) return;
  const done = await act(async () => {
    const { count } = await post("/api/dead", { action, ids: [id] });
    return count ? `dead letter ${id} ${DONE[action]}` : `dead letter ${id} is not there any more`;
  });
  if (done) location.hash = "#/dead";
}

function why(letter) {
  const link = (href, text) => el("a", { href }, text);
  return facts([
    ["died of", [el("code", null, letter.kind), ` ${letter.meaning}`]],
    ["buried", words.clock(letter.at)],
    ["host", link(`#/hosts/${encodeURIComponent(letter.host)}`, letter.host)],
    ["job", link(`#/dead?job=${encodeURIComponent(letter.job)}`, letter.job)],
    ["handler", letter.handler || "-"],
    ["depth", String(letter.depth)],
    ...letter.hops.map((hop) => ["came from", hop]),
  ]);
}

function timeline(history) {
  const line = (one) =>
    el(
      "li",
      null,
      el(
        "p",
        { class: "attempt-head" },
        el("span", { class: "name" }, `attempt ${one.attempt}`),
        el("code", null, one.kind),
        el(
          "span",
          { class: "quiet" },
          `${words.clock(one.at)}${one.seconds ? `, took ${words.latency(one.seconds)}` : ""}`,
        ),
      ),
      one.detail
        ? el("p", null, one.detail, one.via && !one.detail.includes(one.via) ? ` (through ${one.via})` : "")
        : null,
    );
  return history.length
    ? el("ol", { class: "timeline" }, history.map(line))
    : el("p", { class: "quiet" }, "none");
}

function item(kept) {
  return kept === null ? [] : [card("Item", text("Item", kept))];
}

function response(kept) {
  if (kept === null) return [];
  const sections = [];
  if (kept.traceback) sections.push(card("Traceback", text("Traceback", kept.traceback)));
  if (kept.status !== null) {
    const lines = [
      `HTTP ${kept.status}`,
      ...Object.entries(kept.headers).map(([name, value]) => `${name}: ${value}`),
    ];
    sections.push(card("Response", text("Response head", lines.join("\n"))));
  }
  if (kept.body) {
    sections.push(
      card(
        "Body",
        text("Body, as text", kept.body),
        kept.cut
          ? el("p", { class: "quiet" }, "the rest is not shown; shoal dead show has all that was kept")
          : null,
      ),
    );
  }
  return sections;
}

/** Scrolls inside itself, also by keyboard. */
function text(label, content) {
  return el("pre", { tabindex: "0", role: "region", "aria-label": label }, content);
}
