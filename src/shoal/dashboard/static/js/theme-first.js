// Before the first paint: the theme chosen here earlier. A classic script, so that nothing flashes.
try {
  const chosen = localStorage.getItem("shoal.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: the system's theme it is.
}
