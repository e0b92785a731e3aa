/** Switches between the system's theme, light, and dark. */
import { html, useState } from "../lib/preact.js";

const ORDER = ["auto", "light", "dark"];
const SIGNS = { auto: "◐", light: "☀", dark: "☾" };
const NAMES = { auto: "as the system", light: "light", dark: "dark" };

export function ThemeButton() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "auto");
  function change() {
    const next = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("sluice-theme", next);
    } catch {
      // Then only until the page is closed.
    }
    setTheme(next);
  }
  const label = `Theme: ${NAMES[theme]}`;
  return html`<button type="button" class="icon-button" aria-label=${label} title=${label} onClick=${change}>${SIGNS[theme]}</button>`;
}
