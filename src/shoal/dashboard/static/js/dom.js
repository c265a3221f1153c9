// Elements from plain values. Text is always text: nothing here, or anywhere else, parses markup. And it is what it
// looks like: characters that reorder or hide others become U+FFFD, as on the command line.

const SVG = "http://www.w3.org/2000/svg";
const UNSEEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]/gu;
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "indeterminate"]);

/** el("a", {href, class, on: {click}}, "text", child, null, [more]) */
export function el(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "style") {
      for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    } else if (PROPERTIES.has(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : seen(String(value)));
  }
  node.append(...children.flat(Infinity).filter(shown).map(seen));
  return node;
}

function shown(child) {
  return child !== null && child !== undefined && child !== false;
}

function seen(child) {
  return typeof child === "string" ? child.replace(UNSEEN, "\ufffd") : child;
}

/** Puts new content into an element, in one go. */
export function put(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter(shown).map(seen));
  return node;
}

/** Changes text only if it is another one, so that nothing is laid out or read out for nothing. */
export function say(node, text) {
  const plain = seen(text);
  if (node.textContent !== plain) node.textContent = plain;
}

/** A place that is drawn anew only when its value is another one, so that focus and selection stay. */
export class Slot {
  #mark = null;

  constructor(node, draw) {
    this.node = node;
    this.draw = draw;
  }

  set(value) {
    const mark = JSON.stringify(value);
    if (mark === this.#mark) return;
    this.#mark = mark;
    put(this.node, this.draw(value));
  }
}

export function byId(id) {
  return document.getElementById(id);
}
