// Shortcuts: "g" and a letter goes to a page, "/" to the search field, "?" tells them all.

import { el } from "./dom.js";
import { tell } from "./dialogs.js";
import { nextTheme } from "./theme.js";

const CHORD = 1_500; // ms between the two keys

let goingSince = -Infinity;

/** places: letter → {title, href} */
export function listenForKeys(places) {
  document.addEventListener("keydown", (event) => {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      isTyping(event.target) ||
      document.querySelector("dialog[open]")
    )
      return;
    const going = performance.now() - goingSince < CHORD;
    goingSince = -Infinity;
    if (going && places[event.key]) location.hash = places[event.key].href;
    else if (event.key === "g") goingSince = performance.now();
    else if (event.key === "/") search();
    else if (event.key === "?") help(places);
    else if (event.key === "t") nextTheme();
    else return;
    event.preventDefault();
  });
}

function isTyping(target) {
  return target.matches?.("input:not([type=checkbox]), textarea, select");
}

function search() {
  const found = document.querySelector("main input[type=search]");
  if (found) found.focus();
  else location.hash = "#/hosts?focus=search";
}

export function help(places) {
  const rows = [
    ...Object.entries(places).map(([letter, place]) => [`g ${letter}`, place.title]),
    ["/", "search"],
    ["t", "light, dark, or the system's theme"],
    ["?", "this list"],
  ];
  const keys = (text) => text.split(" ").map((key) => el("kbd", null, key));
  tell(
    "Keyboard shortcuts",
    el(
      "dl",
      { class: "facts keys" },
      rows.map(([text, what]) => [el("dt", null, keys(text)), el("dd", null, what)]),
    ),
  );
}
