// The frame around the pages: navigation, the pulse at the top, and which page is shown.

import { openSession, post } from "./api.js";
import { byId, el, put, say } from "./dom.js";
import { act } from "./dialogs.js";
import { icon } from "./icons.js";
import { help, listenForKeys } from "./keys.js";
import { connect, hangUp, live, on, start } from "./live.js";
import { nextTheme, onTheme, theme } from "./theme.js";
import { View, parseRoute } from "./view.js";
import * as words from "./words.js";
import * as dead from "./pages/dead.js";
import * as errors from "./pages/errors.js";
import * as events from "./pages/events.js";
import * as freshness from "./pages/freshness.js";
import * as host from "./pages/host.js";
import * as hosts from "./pages/hosts.js";
import * as job from "./pages/job.js";
import * as letter from "./pages/letter.js";
import * as overview from "./pages/overview.js";
import * as proxies from "./pages/proxies.js";
import * as tasks from "./pages/tasks.js";
import * as workers from "./pages/workers.js";

// In the order of the navigation; a phone shows the first four at once. Those that belong to another have no entry.
const PAGES = {
  overview: { title: "Overview", key: "o", show: overview.show },
  hosts: { title: "Hosts", key: "h", show: hosts.show, one: host.show, oneTitle: (name) => name },
  dead: {
    title: "Dead letters",
    key: "d",
    show: dead.show,
    one: letter.show,
    oneTitle: (id) => `Dead letter ${id}`,
  },
  errors: { title: "Errors", key: "e", show: errors.show },
  freshness: { title: "Freshness", key: "f", show: freshness.show },
  workers: { title: "Workers", key: "w", show: workers.show },
  proxies: { title: "Proxies", key: "p", show: proxies.show },
  tasks: { title: "Tasks", key: "t", show: tasks.show },
  events: { title: "Events", key: "v", show: events.show },
  jobs: {
    title: "Jobs",
    of: "overview",
    show: () => location.replace("#/overview"),
    one: job.show,
    oneTitle: (name) => name,
  },
};
const ENTRIES = Object.entries(PAGES).filter(([, page]) => !page.of);

let session = null;
let view = null;

function showRoute() {
  const route = parseRoute(location.hash);
  const page = PAGES[route.page];
  if (!page) return location.replace("#/overview");
  view?.leave();
  closeMenu();
  view = new View(byId("main"), route, session);
  const title = route.name && page.one ? page.oneTitle(route.name) : page.title;
  say(byId("title"), title);
  document.title = `${title} · Shoal`;
  for (const link of byId("nav").querySelectorAll("a")) {
    if (link.hash === `#/${page.of ?? route.page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  (route.name && page.one ? page.one : page.show)(view);
}

/** After a click on a link the reader goes on at the top of the new page. */
function goTo() {
  showRoute();
  scrollTo(0, 0);
  byId("title").focus({ preventScroll: true });
}

// -- the frame

const badges = {};

function buildNavigation() {
  const entry = ([name, page]) => {
    badges[name] = el("span", { class: "badge", hidden: true });
    return el(
      "li",
      null,
      el(
        "a",
        { href: `#/${name}`, title: `g ${page.key}` },
        icon(name),
        el("span", null, page.title),
        badges[name],
      ),
    );
  };
  const more = el(
    "button",
    {
      type: "button",
      class: "more",
      "aria-expanded": "false",
      "aria-controls": "pages",
      on: { click: toggleMenu },
    },
    icon("more"),
    el("span", null, "More"),
  );
  put(byId("nav"), el("ul", { id: "pages" }, ENTRIES.map(entry)), more);
}

function toggleMenu() {
  const more = byId("nav").querySelector(".more");
  const open = more.getAttribute("aria-expanded") !== "true";
  more.setAttribute("aria-expanded", String(open));
  document.body.classList.toggle("menu-open", open);
}

function closeMenu() {
  byId("nav").querySelector(".more").setAttribute("aria-expanded", "false");
  document.body.classList.remove("menu-open");
}

function buildFoot(places) {
  const themeButton = el("button", { type: "button", class: "plain", on: { click: nextTheme } });
  const name = () => say(themeButton, `theme: ${theme()}`);
  onTheme(name);
  name();
  put(
    byId("side-foot"),
    session.read_only
      ? el(
          "p",
          { class: "chip plain", title: "This dashboard shows, but does not change anything." },
          "read-only",
        )
      : null,
    el("p", { class: "store", title: session.store }, session.store),
    el("p", { class: "quiet" }, `Shoal ${session.version}`),
    themeButton,
    el("button", { type: "button", class: "plain", on: { click: () => help(places) } }, "keys: ?"),
    el("button", { type: "button", class: "plain", on: { click: logOut } }, "log out"),
  );
}

async function logOut() {
  await act(async () => {
    // First: a session that has ended refuses what this page would still ask for.
    view.leave();
    hangUp();
    try {
      await post("/logout", {});
    } catch (error) {
      connect();
      showRoute();
      throw error;
    }
    location.replace("/login");
    return "logged out";
  });
}

// -- the pulse

function showPulse(now) {
  const waiting = now.pending + now.delayed - now.waiting;
  const parts = [
    `${words.rate(now.rate)} pages/s`,
    `${words.count(now.in_flight)} in flight`,
    `${words.count(waiting)} waiting`,
  ];
  put(
    byId("pulse"),
    el("span", { class: "dot", "aria-hidden": "true" }),
    el("span", { class: "pulse-state" }, "live"),
    el("span", { class: "pulse-numbers" }, parts.join(" · ")),
  );
  badge("dead", now.dead);
  const { closed = 0, ...troubled } = now.conditions ?? {};
  badge(
    "hosts",
    Object.values(troubled).reduce((sum, number) => sum + number, 0),
    "in trouble",
  );
}

function badge(name, number, of = "") {
  badges[name].hidden = !number;
  say(badges[name], number > 999 ? "999+" : words.count(number));
  badges[name].title = of ? `${words.count(number)} ${of}` : words.count(number);
}

function showState(state) {
  const banner = byId("offline");
  banner.hidden = state === "live" || state === "connecting";
  document.body.dataset.state = state;
  if (state === "lost")
    say(banner, "No connection to the dashboard: the numbers stand still. Trying again …");
  if (state === "away") say(banner, `The numbers stand still: ${live.why}.`);
  if (state !== "live")
    put(
      byId("pulse"),
      el("span", { class: "dot", "aria-hidden": "true" }),
      el("span", { class: "pulse-state" }, state),
    );
}

async function begin() {
  session = await openSession();
  const places = Object.fromEntries(
    ENTRIES.map(([name, page]) => [page.key, { title: page.title, href: `#/${name}` }]),
  );
  buildNavigation();
  buildFoot(places);
  document.body.classList.toggle("read-only", session.read_only);
  listenForKeys(places);
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
  on("overview", showPulse);
  on("state", showState);
  addEventListener("hashchange", goTo);
  start();
  showRoute();
}

begin().catch((error) => {
  byId("offline").hidden = false;
  say(byId("offline"), `${error.message}; reload the page to try again`);
});
