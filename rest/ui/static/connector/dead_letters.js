/** Dead letters of a connector: causes, records, replay. */
import { ApiError, optional, path, send } from "../lib/api.js";
import { useWorker } from "../lib/context.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html, useState } from "../lib/preact.js";
import { Absent, Card, ErrorNote, Facts, Loading } from "../parts/basics.js";
import { say } from "../parts/toasts.js";

const LIMIT = 20;

/**
 * @typedef {{id: string, count: number, last_ms: number | null, stage: string | null, transform: string | null, exception_class: string | null,
 *   field: string | null, message: string | null, hint: string | null}} Cause
 * @typedef {{size: number, text?: string, hex?: string, is_truncated?: boolean, decoded?: any} | null} Bytes
 * @typedef {{partition: number, offset: number, timestamp_ms: number | null, cause: string, replayed: boolean,
 *   context: Record<string, any>, key: Bytes, value: Bytes}} Letter
 */

/** @param {import("./page.js").PanelProps} props */
export function DeadLettersPanel({ name, ask }) {
  const worker = useWorker();
  const [cause, setCause] = useState("");
  const root = `sluice/${path("connectors", name, "dead-letters")}`;
  const read = (/** @type {string} */ address) => async () => (await optional("dead letters", () => send("GET", address))) ?? null;
  const causes = usePolling(read(`${root}/causes`), 0, [name]);
  const letters = usePolling(read(`${root}?${new URLSearchParams({ limit: String(LIMIT), cause, trace: "true" })}`), 0, [name, cause]);
  if (causes.error instanceof ApiError && causes.error.status === 400) return html`<${Absent}>${causes.error.message}<//>`;
  if (causes.error) return html`<${ErrorNote} error=${causes.error} what="The dead letters cannot be read" />`;
  if (causes.value === undefined) return html`<${Loading} />`;
  if (causes.value === null) return html`<${Absent}>This worker does not read dead letter queues.<//>`;
  /** @type {Cause[]} */
  const list = causes.value.causes;
  /** @type {Letter[]} */
  const records = letters.value?.letters ?? [];
  const replay = () =>
    ask({
      title: `Replay dead letters of ${name}?`, action: "Replay", wide: true,
      text: html`<${DryRun} root=${root} cause=${cause} />`,
      run: async () => {
        const answer = await send("POST", `${root}/replay`, { body: replayBody(cause, false) });
        say(`${format.plural(answer.replayed ?? 0, "dead letter was", "dead letters were")} replayed`, "good");
        causes.again();
        letters.again();
      },
    });
  const again = () => {
    causes.again();
    letters.again();
  };
  const actions = html`
    <button type="button" class="button small" onClick=${again}>Read again</button>
    ${!worker.readOnly && list.length > 0 && html`<button type="button" class="button small" onClick=${replay}>Replay ${cause ? "this cause" : "all"}</button>`}
  `;
  return html`
    <${Card} title="Causes" id="causes" hint=${causes.value.topic ? `${format.plural(causes.value.letters ?? 0, "dead letter")} in ${causes.value.topic}` : undefined} actions=${actions}>
      ${list.length === 0
        ? html`<p class="muted pad">There are no dead letters${letters.value?.records ? " left: all were replayed" : ""}.</p>`
        : html`
          <ul class="causes">
            ${list.map((one) => html`
              <li key=${one.id}>
                <button type="button" class="cause" aria-pressed=${cause === one.id} onClick=${() => setCause(cause === one.id ? "" : one.id)}>
                  <strong>${format.number(one.count)}</strong>
                  <span>${one.message ?? one.exception_class ?? one.id}</span>
                  <span class="sub">${[one.stage, one.transform, one.field && `field ${one.field}`, one.last_ms && `last ${format.ago(one.last_ms)}`].filter(Boolean).join(" · ")}</span>
                  ${one.hint && html`<span class="sub">${one.hint}</span>`}
                </button>
              </li>
            `)}
          </ul>
        `}
    <//>
    <${ErrorNote} error=${letters.error} />
    ${records.length > 0 && html`
      <${Card} title="Newest dead letters" id="letters" hint=${`${records.length}${cause ? " of this cause" : ""}`}>
        ${records.map((letter) => html`<${LetterView} key=${`${letter.partition}/${letter.offset}`} letter=${letter} />`)}
      <//>
    `}
  `;
}

/** @param {string} cause @param {boolean} isDry */
const replayBody = (cause, isDry) => ({ dry_run: isDry, selection: cause ? { cause } : {} });

/** @param {{letter: Letter}} props */
function LetterView({ letter }) {
  const { topic, partition, offset, message, stage, trace } = letter.context;
  return html`
    <details class="letter">
      <summary>${message ?? stage ?? "No reason stored"} <span class="sub">${topic === null || topic === undefined ? `offset ${letter.offset}` : `${topic}-${partition} @ ${offset}`}${letter.replayed ? " · replayed" : ""}</span></summary>
      <${Facts} facts=${[
        ["In the queue", `partition ${letter.partition}, offset ${letter.offset}`],
        ["Written", letter.timestamp_ms ? format.dateTime(letter.timestamp_ms) : "–"],
        ["Stage", stage ?? "–"],
        ["Class", letter.context.class ?? "–"],
      ]} />
      ${["key", "value"].map((part) => html`<h3 key=${part}>${part === "key" ? "Key" : "Value"}</h3><pre class="trace" tabindex="0">${bytesText(letter[/** @type {"key" | "value"} */ (part)])}</pre>`)}
      ${trace && html`<details><summary>Trace</summary><pre class="trace" tabindex="0">${trace}</pre></details>`}
    </details>
  `;
}

/** @param {Bytes | undefined} bytes */
function bytesText(bytes) {
  if (!bytes) return "null";
  if (bytes.decoded !== undefined) return JSON.stringify(bytes.decoded, null, 2);
  return `${bytes.text ?? bytes.hex ?? ""}${bytes.is_truncated ? "…" : ""}`;
}

/** What a replay would do. @param {{root: string, cause: string}} props */
function DryRun({ root, cause }) {
  const { value, error } = usePolling(() => send("POST", `${root}/replay`, { body: replayBody(cause, true) }), 0, [root, cause]);
  if (error) return html`<${ErrorNote} error=${error} />`;
  const verdicts = Object.entries(value?.verdicts ?? {}).filter(([, count]) => count);
  return html`
    <p>The records are written again to the topics from which they came. Those that would fail again are left.</p>
    ${value
      ? html`
        <p><strong>Dry run:</strong> ${format.plural(value.checked ?? 0, "dead letter")} checked${value.complete === false ? ", more follow" : ""}.</p>
        <${Facts} facts=${verdicts.map(([verdict, count]) => [verdict.replaceAll("_", " "), format.number(/** @type {number} */ (count))])} />
      `
      : html`<p class="muted" role="status">Dry run…</p>`}
  `;
}
