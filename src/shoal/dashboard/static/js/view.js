// What a page is given: its place in the document, its words of the address, and everything that ends with it.

import { get, query } from "./api.js";
import { el, put } from "./dom.js";
import { on } from "./live.js";

const PATIENCE = 10; // times as long as it took, nothing is loaded again

export class View {
  #leaving = new AbortController();
  #alarm = el("p", { class: "banner bad", role: "alert", hidden: true });

  constructor(main, route, session) {
    this.route = route; // {page, name, params}
    this.params = route.params;
    this.session = session;
    this.root = el("div", { class: `page page-${route.page}` });
    put(main, this.#alarm, this.root);
  }

  get(path, params) {
    return get(path, params, this.#leaving.signal);
  }

  /** Runs something when the page is left. */
  atEnd(cleanUp) {
    this.#leaving.signal.addEventListener("abort", cleanUp);
  }

  listen(kind, listener) {
    this.atEnd(on(kind, listener));
  }

  leave() {
    this.#leaving.abort();
  }

  /**
   * Loads and shows something now and every few seconds, while the page is looked at; what takes long to load, less
   * often. Answers how to do it at once.
   * What was asked for earlier and comes later is not shown: the filter may be another one by then.
   */
  every(seconds, load, show) {
    let timer = null;
    let turn = 0;
    const run = async () => {
      clearTimeout(timer);
      const mine = ++turn;
      const began = Date.now();
      await this.attempt(async () => {
        const found = document.hidden ? null : await load();
        if (found !== null && mine === turn) show(found);
      });
      if (mine === turn && !this.#leaving.signal.aborted) {
        timer = setTimeout(run, Math.max(seconds * 1000, (Date.now() - began) * PATIENCE));
      }
    };
    this.atEnd(() => clearTimeout(timer));
    const seen = () => !document.hidden && run();
    document.addEventListener("visibilitychange", seen, { signal: this.#leaving.signal });
    run();
    return run;
  }

  /** What goes wrong is said at the top of the page until it goes well again. */
  async attempt(work) {
    try {
      await work();
      this.#alarm.hidden = true;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#alarm.textContent = error.message;
      this.#alarm.hidden = false;
    }
  }

  /** Keeps filters and order in the address, so that they can be bookmarked and survive a reload. */
  remember(params) {
    const { page, name } = this.route;
    const path = name ? `${page}/${encodeURIComponent(name)}` : page;
    history.replaceState(null, "", `#/${path}${query(params)}`);
  }
}

/** "#/hosts/shop.example?x=1" → {page, name, params} */
export function parseRoute(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page, ...rest] = path.split("/");
  return { page, name: decode(rest.join("/")), params: new URLSearchParams(search) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
