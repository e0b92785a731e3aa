/** The offsets of a connector: show, change with before and after, undo. */
import { connectors, path, send } from "../lib/api.js";
import { useWorker } from "../lib/context.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html, useState } from "../lib/preact.js";
import { question, follow } from "../parts/actions.js";
import { Card, ErrorNote, Loading, Note } from "../parts/basics.js";
import { say } from "../parts/toasts.js";

const REFRESH_MS = 5000;

/** @typedef {{partition: Record<string, any>, offset: Record<string, any> | null}} Entry */

/** @param {unknown} value */
const text = (value) => (value === null || value === undefined ? "" : JSON.stringify(value));

/** Where the offsets before the last change are stored. @param {string} name */
const undoKey = (name) => `sluice-offsets:${location.pathname}:${name}`;

/** @param {string} name @returns {Entry[] | null} */
function storedUndo(name) {
  try {
    return JSON.parse(sessionStorage.getItem(undoKey(name)) ?? "null");
  } catch {
    return null;
  }
}

/** @param {string} name @param {Entry[] | null} entries */
function storeUndo(name, entries) {
  try {
    if (entries) sessionStorage.setItem(undoKey(name), JSON.stringify(entries));
    else sessionStorage.removeItem(undoKey(name));
  } catch {
    // Then there is no undo.
  }
}

/** @param {import("./page.js").PanelProps} props */
export function OffsetsPanel({ name, one, ask }) {
  const worker = useWorker();
  const [edits, setEdits] = useState(/** @type {Record<string, string> | null} */ (null));
  const [undo, setUndo] = useState(() => storedUndo(name));
  const address = `${path("connectors", name, "offsets")}`;
  const { value, error, again } = usePolling((signal) => send("GET", address, { signal }), edits ? 0 : REFRESH_MS, [name, edits !== null]);
  if (!value) return error ? html`<${ErrorNote} error=${error} what="The offsets cannot be read" />` : html`<${Loading} />`;
  /** @type {Entry[]} */
  const entries = value.offsets;
  const isStopped = one.status.connector.state === "STOPPED" && one.tasks === 0;
  const isSink = one.type === "sink";

  async function change(/** @type {Entry[]} */ changes, /** @type {Entry[]} */ before) {
    await send("PATCH", address, { body: { offsets: changes } });
    storeUndo(name, before);
    setUndo(before);
    setEdits(null);
    again();
    say(`The offsets of ${name} were changed`, "good");
  }

  /** @param {string} title @param {Entry[]} changes */
  function review(title, changes) {
    const before = changes.map(({ partition }) => ({ partition, offset: offsetOf(entries, partition) }));
    ask({
      title, wide: true, action: `Change ${format.plural(changes.length, "offset")}`,
      text: html`<${Changes} changes=${changes} before=${before} />`,
      run: () => change(changes, before),
    });
  }

  const parsed = edits && parseEdits(entries, edits, isSink);
  const reset = () =>
    ask({
      title: `Reset all offsets of ${name}?`, dangerous: true, action: "Reset all offsets",
      text: html`<p>${isSink ? "The connector starts where auto.offset.reset says, as a new consumer group." : "The connector starts over: a source reads everything again."}</p>`,
      run: async () => {
        await send("DELETE", address);
        storeUndo(name, entries);
        setUndo(entries);
        again();
        say(`The offsets of ${name} were reset`, "good");
      },
    });
  const actions = !worker.readOnly && html`
    ${edits
      ? html`
        <button type="button" class="button small" onClick=${() => setEdits(null)}>Cancel</button>
        <button type="button" class="button small primary" disabled=${!parsed?.changes.length || parsed.errors.size > 0} onClick=${() => review(`Change offsets of ${name}?`, parsed.changes)}>Review change</button>
      `
      : html`
        ${undo && html`<button type="button" class="button small" disabled=${!isStopped} onClick=${() => review(`Undo the last change of ${name}?`, undo)}>Undo last change</button>`}
        <button type="button" class="button small" disabled=${!isStopped || !entries.length} onClick=${reset}>Reset all</button>
        <button type="button" class="button small" disabled=${!isStopped || !entries.length} onClick=${() => setEdits({})}>Edit</button>
      `}
  `;
  return html`
    ${!isStopped && !worker.readOnly && html`
      <${Note} kind="info" title="Offsets change only while the connector is stopped">
        Running tasks would overwrite them. <button type="button" class="button small" onClick=${() => ask(question("stop", [name]))}>Stop ${name}</button>
      <//>
    `}
    ${isStopped && !worker.readOnly && html`
      <${Note} kind="info" title="${name} is stopped">
        Change offsets now, then resume it. <button type="button" class="button small" onClick=${() => connectors.resume(name).then(() => follow(name, "RUNNING"), (failure) => say(failure.message, "error"))}>Resume ${name}</button>
      <//>
    `}
    <${ErrorNote} error=${error} />
    <${Card} title="Offsets" id="offsets" hint=${format.plural(entries.length, "partition")} actions=${actions}>
      ${entries.length === 0
        ? html`<p class="muted pad">There are no offsets yet.</p>`
        : html`
          <div class="scroll" tabindex="0" role="region" aria-label="Offsets by partition">
            <table class="data offsets">
              <thead><tr><th scope="col">Partition</th><th scope="col">${isSink ? "Next offset" : "Offset"}</th></tr></thead>
              <tbody>
                ${entries.map((entry) => {
                  const key = text(entry.partition);
                  const label = isSink ? `${entry.partition.kafka_topic}-${entry.partition.kafka_partition}` : key;
                  const now = isSink ? String(entry.offset?.kafka_offset ?? "") : text(entry.offset);
                  const failure = parsed?.errors.get(key);
                  return html`
                    <tr key=${key}>
                      <th scope="row"><code>${label}</code></th>
                      <td>
                        ${edits
                          ? html`
                            <input class="wide-input" spellcheck=${false} aria-label="Offset of ${label}" aria-invalid=${failure ? "true" : undefined}
                              inputmode=${isSink ? "numeric" : undefined} value=${edits[key] ?? now} onInput=${(event) => setEdits({ ...edits, [key]: event.target.value })} />
                            ${failure && html`<span class="field-error">${failure}</span>`}
                          `
                          : html`<code>${now || "none"}</code>`}
                      </td>
                    </tr>
                  `;
                })}
              </tbody>
            </table>
          </div>
          ${edits && html`<p class="muted pad">An empty offset removes the one of the partition.</p>`}
        `}
    <//>
  `;
}

/** @param {Entry[]} entries @param {Record<string, any>} partition */
const offsetOf = (entries, partition) => entries.find((entry) => text(entry.partition) === text(partition))?.offset ?? null;

/** @param {Entry[]} entries @param {Record<string, string>} edits @param {boolean} isSink */
function parseEdits(entries, edits, isSink) {
  /** @type {Entry[]} */
  const changes = [];
  /** @type {Map<string, string>} */
  const errors = new Map();
  for (const { partition, offset } of entries) {
    const key = text(partition);
    const typed = edits[key]?.trim();
    if (typed === undefined) continue;
    let wanted = null;
    if (typed !== "") {
      if (isSink) {
        if (!/^\d{1,18}$/.test(typed)) errors.set(key, "Expected a number of at least 0");
        else wanted = { kafka_offset: Number(typed) };
      } else {
        try {
          wanted = JSON.parse(typed);
          if (wanted === null || typeof wanted !== "object" || Array.isArray(wanted)) errors.set(key, 'Expected an object, such as {"position": 0}');
        } catch {
          errors.set(key, 'Not JSON. Expected an object, such as {"position": 0}');
        }
      }
    }
    if (!errors.has(key) && text(wanted) !== text(offset)) changes.push({ partition, offset: wanted });
  }
  return { changes, errors };
}

/** @param {{changes: Entry[], before: Entry[]}} props */
const Changes = ({ changes, before }) => html`
  <div class="scroll" tabindex="0" role="region" aria-label="Changes">
    <table class="data">
      <thead><tr><th scope="col">Partition</th><th scope="col">Before</th><th scope="col">After</th></tr></thead>
      <tbody>
        ${changes.map((one, at) => html`
          <tr key=${text(one.partition)}><th scope="row"><code>${text(one.partition)}</code></th><td><code>${text(before[at].offset) || "none"}</code></td><td><code>${text(one.offset) || "none"}</code></td></tr>
        `)}
      </tbody>
    </table>
  </div>
`;
