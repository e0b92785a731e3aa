/** Records before and after each transformation, while the chain is edited. */
import { send } from "../lib/api.js";
import { useWorker } from "../lib/context.js";
import * as format from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { Absent, Note } from "../parts/basics.js";

const DEBOUNCE_MS = 500;
const LIMIT = 5;

/**
 * @typedef {{type: string, value: string}} Side
 * @typedef {{path: string} & Side} FieldOf
 * @typedef {{path: string, before: Side | null, after: Side | null}} ChangeOf
 * @typedef {{class: string, message: string, stage: string, transform: string | null}} FailureOf
 * @typedef {{input: any, fields: FieldOf[], stages: {transform: string, class: string, predicate: string | null, ran: boolean, changes: ChangeOf[]}[],
 *   result: FieldOf[] | null, dropped: boolean, error: FailureOf | null}} Previewed
 * @typedef {{source: {kind: string, topic: string | null, skipped: number}, error: FailureOf | null, records: Previewed[]}} Preview
 */

/** @param {{config: Record<string, string>, isSink: boolean}} props */
export function PreviewPanel({ config, isSink }) {
  const worker = useWorker();
  const [source, setSource] = useState("sample");
  const [topic, setTopic] = useState("");
  const [given, setGiven] = useState('{"id": 1, "name": "Ada"}');
  const [result, setResult] = useState(/** @type {Preview | null} */ (null));
  const [pinned, setPinned] = useState(/** @type {any[] | null} */ (null));
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [at, setAt] = useState(0);
  const turn = useRef(0);
  const text = JSON.stringify(config);

  async function run(/** @type {any[] | null} */ records) {
    turn.current += 1;
    const mine = turn.current;
    setBusy(true);
    try {
      /** @type {Record<string, any>} */
      const body = { config };
      if (records) body.records = records;
      else if (source === "given") body.records = parseRecords(given);
      else body.sample = { limit: LIMIT, ...(source === "topic" ? { topic } : {}) };
      /** @type {Preview} */
      const answer = await send("POST", "sluice/preview", { body });
      if (mine !== turn.current) return; // the chain has changed since
      setResult((before) => (records && before ? { ...answer, source: before.source } : answer));
      setFailure("");
      if (!records) {
        // The same records again while the chain changes, so that only its effect is seen.
        const inputs = answer.records.map((one) => one.input);
        setPinned(inputs.every(Boolean) ? inputs : null);
        setAt(0);
      }
    } catch (error) {
      if (mine !== turn.current) return;
      setFailure(/** @type {Error} */ (error).message);
    }
    setBusy(false);
  }
  useEffect(() => {
    if (!pinned) return undefined;
    const timer = setTimeout(() => run(pinned), DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [text]);

  if (!worker.isSluice) {
    return html`<section class="card"><div class="pad"><${Absent}>No preview of records: a worker of Apache Kafka Connect has no REST resource for it. <code>sluice preview</code> does it offline.<//></div></section>`;
  }
  const one = result?.records[Math.min(at, result.records.length - 1)];
  return html`
    <section class="card" aria-labelledby="preview">
      <header class="card-head">
        <h2 id="preview">Preview</h2>
        <span class="card-hint" role="status">${isBusy ? "running…" : result ? describe(result) : ""}</span>
      </header>
      <div class="pad">
        <p class="help">Real records before and after each transformation. Nothing is written.</p>
        <div class="inline">
          <select aria-label="Records" value=${source} onChange=${(event) => setSource(event.target.value)}>
            <option value="sample">${isSink ? "From its topics" : "Samples of the connector"}</option>
            <option value="topic">From a topic…</option>
            <option value="given">JSON that I type</option>
          </select>
          ${source === "topic" && html`<input aria-label="Topic" placeholder="topic" value=${topic} spellcheck=${false} onInput=${(event) => setTopic(event.target.value.trim())} />`}
          <button type="button" class="button small primary" disabled=${isBusy || (source === "topic" && !topic)} onClick=${() => run(null)}>Run</button>
        </div>
        ${source === "given" && html`<textarea class="wide-input" rows="4" aria-label="Records, one JSON value per line" value=${given} spellcheck=${false} onInput=${(event) => setGiven(event.target.value)}></textarea>`}
        ${failure && html`<${Note} kind="error">${failure}<//>`}
        ${result?.error && html`<${Note} kind="error" title="The transformations cannot be created">${result.error.message}<//>`}
        ${result && result.records.length === 0 && html`<p class="muted">There are no records.</p>`}
        ${result && result.records.length > 1 && html`
          <div class="segmented records" role="group" aria-label="Record">
            ${result.records.map((each, index) => html`<button key=${index} type="button" aria-pressed=${index === at} class=${each.error ? "bad" : each.dropped ? "quiet" : ""} onClick=${() => setAt(index)}>${index + 1}<span class="visually-hidden">${each.error ? ", fails" : each.dropped ? ", dropped" : ""}</span></button>`)}
          </div>
        `}
        ${one && html`<${Record} one=${one} />`}
      </div>
    </section>
  `;
}

/** @param {string} text one JSON value a line, or one array */
function parseRecords(text) {
  const trimmed = text.trim();
  if (trimmed.startsWith("[")) {
    try {
      const list = JSON.parse(trimmed);
      if (Array.isArray(list)) return list;
    } catch {
      // Then it is lines.
    }
  }
  return trimmed.split("\n").filter((line) => line.trim()).map((line, at) => {
    try {
      return JSON.parse(line);
    } catch (error) {
      throw new Error(`Line ${at + 1} is not JSON: ${/** @type {Error} */ (error).message}`);
    }
  });
}

/** @param {Preview} preview */
function describe({ source, records }) {
  const count = format.plural(records.length, "record");
  const where = source.kind === "topic" ? ` of topic ${source.topic}` : source.kind === "connector" ? " generated by the connector" : "";
  return `${count}${where}${source.skipped ? `, ${source.skipped} too large` : ""}`;
}

/** @param {{one: Previewed}} props */
const Record = ({ one }) => html`
  <ol class="flow">
    <li><h3>Before</h3><${Fields} fields=${one.fields} /></li>
    ${one.stages.map((stage, at) => html`
      <li key=${at}>
        <h3>${stage.transform} <span class="sub">${stage.class}${stage.predicate ? ` if ${stage.predicate}` : ""}</span></h3>
        ${!stage.ran
          ? html`<p class="muted">Skipped: the predicate is false.</p>`
          : one.error?.transform === stage.transform
            ? html`<${Note} kind="error" title=${one.error.class}>${one.error.message}<//>`
            : at === one.stages.length - 1 && one.dropped
              ? html`<p class="dropped">Drops the record.</p>`
              : stage.changes.length ? html`<${Changes} changes=${stage.changes} />` : html`<p class="muted">No change.</p>`}
      </li>
    `)}
    ${one.error && !one.stages.some((stage) => stage.transform === one.error?.transform) && html`<li><h3>${one.error.stage}</h3><${Note} kind="error" title=${one.error.class}>${one.error.message}<//></li>`}
    ${one.result && one.stages.length > 0 && html`<li><h3>After</h3><details><summary>${format.plural(one.result.length, "field")}</summary><${Fields} fields=${one.result} /></details></li>`}
  </ol>
`;

/** @param {{fields: FieldOf[]}} props */
const Fields = ({ fields }) => html`
  <div class="scroll" tabindex="0" role="region" aria-label="Fields">
    <table class="data fields-table"><tbody>
      ${fields.map((field) => html`<tr key=${field.path}><th scope="row">${field.path}</th><td class="type">${field.type}</td><td>${field.value}</td></tr>`)}
    </tbody></table>
  </div>
`;

/** @param {{changes: ChangeOf[]}} props */
const Changes = ({ changes }) => html`
  <div class="scroll" tabindex="0" role="region" aria-label="Changes">
    <table class="diff"><tbody>
      ${changes.map(({ path, before, after }) => [
        before && html`<tr key=${`-${path}`} class="removed"><td class="mark"><span aria-hidden="true">−</span><span class="visually-hidden">${after ? "before:" : "removed:"}</span></td><th scope="row">${path}</th><td class="type">${before.type}</td><td>${before.value}</td></tr>`,
        after && html`<tr key=${`+${path}`} class="added"><td class="mark"><span aria-hidden="true">+</span><span class="visually-hidden">${before ? "after:" : "added:"}</span></td><th scope="row">${path}</th><td class="type">${after.type}</td><td>${after.value}</td></tr>`,
      ])}
    </tbody></table>
  </div>
`;
