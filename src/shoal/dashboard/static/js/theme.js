// Light, dark, or as the system has it; kept in localStorage.

const NEXT = { system: "light", light: "dark", dark: "system" };
const listeners = new Set();

export function theme() {
  return document.documentElement.dataset.theme ?? "system";
}

export function nextTheme() {
  const chosen = NEXT[theme()];
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("shoal.theme", chosen);
  } catch {
    // It holds until the page is left.
  }
  changed();
  return chosen;
}

/** Calls back when colours change; answers how to stop that. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function changed() {
  for (const listener of listeners) listener();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
