/** Messages about what happens, also for screen readers. */
import { html, useEffect, useState } from "../lib/preact.js";

const SHOWN_MS = 6000;

/** @typedef {{id: number, kind: "info" | "good" | "error", text: string}} Toast */

/** @type {Toast[]} */
let toasts = [];
let last = 0;
/** @type {Set<(toasts: Toast[]) => void>} */
const listeners = new Set();

/** @param {Toast[]} next */
function publish(next) {
  toasts = next;
  for (const listener of listeners) listener(toasts);
}

/**
 * Shows a message. Errors stay until they are closed.
 * @param {string} text @param {Toast["kind"]} [kind]
 * @param {number} [replaces] the ID of an earlier message
 * @returns {number} its ID
 */
export function say(text, kind = "info", replaces = 0) {
  const id = (last += 1);
  publish([...toasts.filter((one) => one.id !== replaces), { id, kind, text }].slice(-4));
  if (kind !== "error") setTimeout(() => dismiss(id), SHOWN_MS);
  return id;
}

/** @param {number} id */
const dismiss = (id) => publish(toasts.filter((one) => one.id !== id));

export function Toasts() {
  const [shown, setShown] = useState(toasts);
  useEffect(() => {
    listeners.add(setShown);
    return () => {
      listeners.delete(setShown);
    };
  }, []);
  return html`
    <div class="toasts" role="status" aria-live="polite" aria-atomic="false">
      ${shown.map(
        (one) => html`
          <div key=${one.id} class="toast toast-${one.kind}">
            <span>${one.text}</span>
            <button type="button" class="icon-button" aria-label="Close message" onClick=${() => dismiss(one.id)}>×</button>
          </div>
        `,
      )}
    </div>
  `;
}
