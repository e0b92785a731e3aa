/** Dead letters of a connector: causes, records, replay. */
import { optional, path, send } from "../lib/api.js";
import { useWorker } from "../lib/context.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html, useState } from "../lib/preact.js";
import { Absent, Card, ErrorNote, Loading } from "../parts/basics.js";
import { say } from "../parts/toasts.js";

const LIMIT = 20;

/** The causes of an answer. @param {any} answer @returns {any[]} */
const causesOf = (answer) => (Array.isArray(answer) ? answer : (answer?.causes ?? []));

/** The records of an answer. @param {any} answer @returns {any[]} */
const recordsOf = (answer) => (Array.isArray(answer) ? answer : (answer?.records ?? answer?.dead_letters ?? []));

/** @param {any} cause */
const idOf = (cause) => String(cause.id ?? cause.cause ?? cause.message ?? "");

/** @param {import("./page.js").PanelProps} props */
export function DeadLettersPanel({ name, ask }) {
  const worker = useWorker();
  const [cause, setCause] = useState("");
  const root = `sluice/${path("connectors", name, "dead-letters")}`;
  const causes = usePolling(() => optional("dead letters", () => send("GET", `${root}/causes`)).then((found) => found ?? null), 0, [name]);
  const records = usePolling(
    () => optional("dead letters", () => send("GET", `${root}?${new URLSearchParams({ limit: String(LIMIT), ...(cause ? { cause } : {}) })}`)).then((found) => found ?? null),
    0,
    [name, cause],
  );
  if (causes.error) return html`<${ErrorNote} error=${causes.error} what="The dead letters cannot be read" />`;
  if (causes.value === undefined) return html`<${Loading} />`;
  if (causes.value === null) return html`<${Absent}>This worker does not read dead letter queues.<//>`;
  const list = causesOf(causes.value);
  const letters = recordsOf(records.value);
  const replay = () =>
    ask({
      title: `Replay dead letters of ${name}?`, action: "Replay", wide: true,
      text: html`<${DryRun} root=${root} cause=${cause} />`,
      run: async () => {
        const answer = await send("POST", `${root}/replay`, { body: { dry_run: false, ...(cause ? { cause } : {}) } });
        say(`Replayed: ${summaryOf(answer)}`, "good");
        causes.again();
        records.again();
      },
    });
  return html`
    <${Card} title="Causes" id="causes" hint=${list.length ? format.plural(list.length, "cause") : undefined}
        actions=${!worker.readOnly && list.length > 0 && html`<button type="button" class="button small" onClick=${replay}>Replay ${cause ? "this cause" : "all"}</button>`}>
      ${list.length === 0
        ? html`<p class="muted pad">There are no dead letters.</p>`
        : html`
          <ul class="causes">
            ${list.map((one) => html`
              <li key=${idOf(one)}>
                <button type="button" class="cause" aria-pressed=${cause === idOf(one)} onClick=${() => setCause(cause === idOf(one) ? "" : idOf(one))}>
                  <strong>${format.number(one.count)}</strong>
                  <span>${one.message ?? one.cause ?? idOf(one)}</span>
                  <span class="sub">${[one.class, one.stage, one.topic].filter(Boolean).join(" · ")}</span>
                </button>
              </li>
            `)}
          </ul>
        `}
    <//>
    ${letters.length > 0 && html`
      <${Card} title="Records" id="letters" hint=${`the last ${letters.length}${cause ? " of this cause" : ""}`}>
        ${letters.map((letter, at) => html`
          <details class="letter" key=${at}>
            <summary>${summaryOf(letter.error ?? letter)} <span class="sub">${[letter.topic, letter.partition, letter.offset].filter((part) => part !== undefined && part !== null).join(" · ")}</span></summary>
            <pre class="trace" tabindex="0">${JSON.stringify(letter, null, 2)}</pre>
          </details>
        `)}
      <//>
    `}
    <${ErrorNote} error=${records.error} />
  `;
}

/** What a replay would do. @param {{root: string, cause: string}} props */
function DryRun({ root, cause }) {
  const { value, error } = usePolling(() => send("POST", `${root}/replay`, { body: { dry_run: true, ...(cause ? { cause } : {}) } }), 0, [root, cause]);
  return html`
    <p>The records are written again to the topics from which they came.</p>
    ${error ? html`<${ErrorNote} error=${error} />` : value ? html`<p>Dry run: ${summaryOf(value)}</p>` : html`<p class="muted">Dry run…</p>`}
  `;
}

/** The simple members of an answer, as text. @param {any} node */
function summaryOf(node) {
  if (node === null || typeof node !== "object") return String(node ?? "done");
  if (typeof node.message === "string") return node.message;
  const simple = Object.entries(node).filter(([, value]) => typeof value === "number" || typeof value === "string");
  return simple.map(([key, value]) => `${key.replaceAll("_", " ")} ${value}`).join(", ") || "done";
}
