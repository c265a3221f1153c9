// A table that changes in place: only cells whose value is another one are drawn again, so focus, selection and
// the reader's eye stay where they are. On a phone every row is a card (css/parts.css), which takes the ARIA roles.

import { el, put } from "./dom.js";

/**
 * columns: [{name, title, of(row), draw?(value, row), sort?, number?, wide?, cut?, head?}]
 *   of    a plain value; the cell is drawn again only when it changes
 *   draw  a node or text for it; by default the value itself
 *   sort  the server's name for this order; sorting is the server's work
 *   wide  takes the room that is left, in several lines; cut: in one line
 *   head  marks the column that names the row
 */
export class Table {
  #rows = new Map(); // key → {tr, cells: [td], values: [string]}
  #sorters = new Map();

  constructor({ caption, columns, key, sort, order, onSort, empty }) {
    Object.assign(this, { columns, key, sort, order, onSort, empty });
    this.body = el("tbody", { role: "rowgroup" });
    this.table = el(
      "table",
      { role: "table" },
      el("caption", { class: "unseen" }, caption),
      el(
        "thead",
        { role: "rowgroup" },
        el(
          "tr",
          { role: "row" },
          columns.map((column) => this.#header(column)),
        ),
      ),
      this.body,
    );
    this.vacant = el("div", { class: "vacant", hidden: true });
    this.node = el("div", { class: "tablebox" }, this.#sortMenu(), this.table, this.vacant);
    this.#markSort();
  }

  update(rows) {
    const known = this.#rows;
    this.#rows = new Map();
    for (const row of rows) {
      const key = this.key(row);
      const line = known.get(key) ?? this.#line();
      this.#draw(line, row);
      this.#rows.set(key, line);
    }
    const lines = [...this.#rows.values()].map((line) => line.tr);
    for (const [key, line] of known) if (!this.#rows.has(key)) line.tr.remove();
    this.#arrange(lines);
    this.table.hidden = rows.length === 0;
    this.vacant.hidden = rows.length > 0;
    if (rows.length === 0) put(this.vacant, this.empty());
  }

  /** Moves only what stands in the wrong place: moving an element takes the focus from it. */
  #arrange(lines) {
    let next = this.body.firstChild;
    for (const tr of lines) {
      if (tr === next) next = next.nextSibling;
      else this.body.insertBefore(tr, next);
    }
  }

  #line() {
    const cells = this.columns.map((column) =>
      el(column.head ? "th" : "td", {
        class: classes(column),
        role: column.head ? "rowheader" : "cell",
        scope: column.head && "row",
        "data-title": column.title,
      }),
    );
    return { tr: el("tr", { role: "row" }, cells), cells, values: [] };
  }

  #draw(line, row) {
    this.columns.forEach((column, place) => {
      const value = column.of(row);
      const mark = JSON.stringify(value) ?? "";
      if (line.values[place] === mark) return;
      line.values[place] = mark;
      const drawn = column.draw ? column.draw(value, row) : String(value ?? "-");
      put(line.cells[place], el("div", null, drawn));
      if (column.cut) line.cells[place].title = line.cells[place].textContent;
    });
  }

  #header(column) {
    const props = { scope: "col", role: "columnheader", class: classes(column) };
    if (!column.sort) return el("th", props, column.title || el("span", { class: "unseen" }, column.name));
    const button = el(
      "button",
      { type: "button", class: "sorter", on: { click: () => this.#toggle(column.sort) } },
      column.title,
    );
    const header = el("th", props, button);
    this.#sorters.set(column.sort, header);
    return header;
  }

  /** Cards have no headers to click on: the same orders, as a menu. */
  #sortMenu() {
    const sortable = this.columns.filter((column) => column.sort);
    if (!sortable.length) return null;
    const pick = (event) => this.#toggle(event.target.value, this.order);
    const options = sortable.map((column) => el("option", { value: column.sort }, column.title));
    this.menu = el("select", { on: { change: pick } }, options);
    this.turn = el("button", { type: "button", on: { click: () => this.#toggle(this.sort) } }, "turn round");
    return el("div", { class: "sortmenu" }, el("label", null, "sort by ", this.menu), this.turn);
  }

  #toggle(sort, order) {
    const column = this.columns.find((one) => one.sort === sort);
    const first = column.number ? "desc" : "asc";
    const turned = this.order === "asc" ? "desc" : "asc";
    this.order = order ?? (sort === this.sort ? turned : first);
    this.sort = sort;
    this.#markSort();
    this.onSort(this.sort, this.order);
  }

  #markSort() {
    for (const [name, header] of this.#sorters) {
      const sorted = name === this.sort ? (this.order === "asc" ? "ascending" : "descending") : "none";
      header.setAttribute("aria-sort", sorted);
    }
    if (this.menu) this.menu.value = this.sort;
  }
}

function classes(column) {
  const names = [column.number && "number", column.wide && "wide", column.cut && "cut", `c-${column.name}`];
  return names.filter(Boolean).join(" ");
}
