/** Small parts: states, buttons, notes, tabs, copying. */
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { stateLabel } from "../lib/state.js";

/** A state, by color and by its name. @param {{state: string}} props */
export const Badge = ({ state }) => html`<span class="badge badge-${state.toLowerCase()}">${stateLabel(state)}</span>`;

/** @param {{kind?: "info" | "warning" | "error" | "good", title?: string, children?: any}} props */
export const Note = ({ kind = "info", title, children }) => html`
  <div class="note note-${kind}" role=${kind === "error" ? "alert" : undefined}>
    ${title && html`<strong class="note-title">${title}</strong>`}
    <div>${children}</div>
  </div>
`;

/** An error of a request. @param {{error: Error | null | undefined, what?: string}} props */
export const ErrorNote = ({ error, what }) =>
  error ? html`<${Note} kind="error" title=${what}>${error.message}<//>` : null;

/** For what a worker does not have. @param {{children: any}} props */
export const Absent = ({ children }) => html`<p class="absent">${children}</p>`;

export const Loading = () => html`<p class="loading" role="status">Loading…</p>`;

/** @param {{title: string, hint?: any, actions?: any, level?: 2 | 3, id?: string, children: any}} props */
export const Card = ({ title, hint, actions, level = 2, id, children }) => html`
  <section class="card" aria-labelledby=${id}>
    <header class="card-head">
      ${level === 2 ? html`<h2 id=${id}>${title}</h2>` : html`<h3 id=${id}>${title}</h3>`}
      ${hint && html`<span class="card-hint">${hint}</span>`}
      ${actions && html`<div class="card-actions">${actions}</div>`}
    </header>
    ${children}
  </section>
`;

/**
 * Links as tabs: each has an address.
 * @param {{label: string, tabs: {id: string, label: string, href: string}[], current: string}} props
 */
export const Tabs = ({ label, tabs, current }) => {
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const tab = bar.current?.querySelector("[aria-current]");
    if (bar.current && tab instanceof HTMLElement) bar.current.scrollLeft = tab.offsetLeft - bar.current.clientWidth / 2;
  }, [current]);
  return html`
    <nav class="tabs" aria-label=${label} ref=${bar}>
      ${tabs.map(
        (tab) => html`<a key=${tab.id} href=${tab.href} aria-current=${tab.id === current ? "page" : undefined}>${tab.label}</a>`,
      )}
    </nav>
  `;
};

/** Copies a text. @param {{text: () => string, label?: string}} props */
export function CopyButton({ text, label = "Copy" }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    const timer = said ? setTimeout(() => setSaid(""), 2000) : 0;
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => setSaid((await copyText(text())) ? "Copied" : "Select and copy by hand");
  return html`<button type="button" class="button small" onClick=${copy}><span aria-live="polite">${said || label}</span></button>`;
}

/** @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers allow it only over HTTPS and on this machine; this works everywhere.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "visually-hidden";
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

/** Key and value, one per line. @param {{facts: [string, any][]}} props */
export const Facts = ({ facts }) => html`
  <dl class="facts">
    ${facts.map(([label, value]) => html`<div key=${label}><dt>${label}</dt><dd>${value}</dd></div>`)}
  </dl>
`;

/** Differences of two configurations. @param {{diff: ReturnType<import("../lib/config_files.js").diffConfigs>, show: (key: string, value: string) => string, all?: boolean}} props */
export function ConfigDiff({ diff, show, all = false }) {
  const rows = diff.filter((row) => all || row.mark !== " ");
  if (!rows.length) return html`<p class="muted">No difference.</p>`;
  const line = (mark, key, value) => html`
    <tr class=${mark === "+" ? "added" : mark === "-" ? "removed" : ""}>
      <td class="mark"><span aria-hidden="true">${mark}</span><span class="visually-hidden">${MARKS[mark]}</span></td>
      <th scope="row">${key}</th>
      <td>${show(key, value)}</td>
    </tr>
  `;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Changed keys">
      <table class="diff">
        <tbody>
          ${rows.map((row) => [
            row.mark === "~" || row.mark === "-" ? line("-", row.key, row.before ?? "") : null,
            row.mark === "~" || row.mark === "+" ? line("+", row.key, row.after ?? "") : null,
            row.mark === " " ? line(" ", row.key, row.before ?? "") : null,
          ])}
        </tbody>
      </table>
    </div>
  `;
}

const MARKS = { "+": "added:", "-": "removed:", " ": "" };
