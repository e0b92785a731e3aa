// Before the first paint, so that a chosen theme does not flash. Not a module for that reason.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("sluice-theme");
  } catch {
    // Storage may be off.
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
