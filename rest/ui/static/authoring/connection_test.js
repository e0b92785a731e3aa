/** The connection test: its steps, what is wrong, and what to do. */
import { optional, send } from "../lib/api.js";
import { useWorker } from "../lib/context.js";
import * as format from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { Absent, Note } from "../parts/basics.js";

/**
 * @typedef {{code: string, severity: "error" | "warning" | "note", message: string, path: string | null, suggestion: string | null}} Finding
 * @typedef {{name: string, state: "passed" | "warning" | "failed" | "skipped", detail: string, findings: Finding[]}} Step
 * @typedef {{state: "passed" | "warning" | "failed" | "skipped", duration_ms: number, steps: Step[]}} ConnectionTest
 * @typedef {{name: string, form: "name" | "regex"}} CollectionKey
 * @typedef {{connection_test: boolean, collection_keys: CollectionKey[]}} Capabilities
 */

const SYMBOLS = { passed: "✓", warning: "!", failed: "✗", skipped: "–" };
const TITLES = { passed: "The connection works", warning: "The connection works, with warnings", failed: "The connection does not work", skipped: "Nothing was tested" };

/**
 * What the plugin can do: undefined while it is unknown, null if the worker has no such resource.
 * @param {string} plugin @returns {Capabilities | null | undefined}
 */
export function useCapabilities(plugin) {
  const worker = useWorker();
  const [found, setFound] = useState(/** @type {Capabilities | null | undefined} */ (undefined));
  useEffect(() => {
    let isCurrent = true;
    const ask = () => send("GET", `sluice/connector-plugins/${encodeURIComponent(plugin)}/external-system`);
    const answer = worker.isSluice && plugin ? optional("external-system", ask) : Promise.resolve(undefined);
    answer.then((one) => isCurrent && setFound(one ?? null), () => isCurrent && setFound(null));
    return () => {
      isCurrent = false;
    };
  }, [plugin, worker.isSluice]);
  return found;
}

/** @param {{config: Record<string, string>, capabilities: Capabilities | null | undefined, jump: (key: string) => void}} props */
export function ConnectionTestPanel({ config, capabilities, jump }) {
  const worker = useWorker();
  const [result, setResult] = useState(/** @type {ConnectionTest | null} */ (null));
  const [tested, setTested] = useState("");
  const [failure, setFailure] = useState("");
  const running = useRef(/** @type {AbortController | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  useEffect(() => () => running.current?.abort(), []);
  const text = JSON.stringify(config);

  async function run() {
    const controller = new AbortController();
    running.current = controller;
    setBusy(true);
    setFailure("");
    try {
      const answer = await send("POST", "sluice/connection-test", { body: { config }, signal: controller.signal });
      setResult(answer);
      setTested(text);
    } catch (error) {
      if (!controller.signal.aborted) setFailure(/** @type {Error} */ (error).message);
      setResult(null);
    }
    if (running.current === controller) setBusy(false);
  }
  const cancel = () => {
    running.current?.abort();
    setBusy(false);
  };

  if (!worker.isSluice) {
    return html`<section class="card" aria-labelledby="connection-test"><header class="card-head"><h2 id="connection-test">Connection test</h2></header><div class="pad">
      <${Absent}>No connection test and no list of tables: a worker of Apache Kafka Connect has no REST resource for them. The check below is all that the plugin itself checks.<//>
    </div></section>`;
  }
  if (!capabilities) return null;
  if (!capabilities.connection_test) {
    return html`<section class="card" aria-labelledby="connection-test"><header class="card-head"><h2 id="connection-test">Connection test</h2></header><div class="pad">
      <${Absent}>This plugin has no connection test. The check below is all that it checks.<//>
    </div></section>`;
  }
  return html`
    <section class="card" aria-labelledby="connection-test">
      <header class="card-head">
        <h2 id="connection-test">Connection test</h2>
        <span class="card-hint" role="status">${isBusy ? "testing…" : result ? `${format.duration(result.duration_ms / 1000)}${tested === text ? "" : ", before your last change"}` : ""}</span>
        <div class="card-actions">
          ${isBusy
            ? html`<button type="button" class="button small" onClick=${cancel}>Cancel</button>`
            : html`<button type="button" class="button small" onClick=${run}>Test connection</button>`}
        </div>
      </header>
      <div class="pad" aria-live="polite">
        ${failure && html`<${Note} kind="error" title="The worker could not test it">${failure}<//>`}
        ${!result && !failure && html`<p class="muted">Connects from the worker as the connector would, and creates nothing.</p>`}
        ${result && html`
          <p class="check check-${result.state === "passed" ? "good" : result.state === "warning" || result.state === "skipped" ? "warned" : "error"}"><strong>${TITLES[result.state]}</strong></p>
          <ol class="steps">
            ${result.steps.map((step) => html`
              <li key=${step.name} class="step step-${step.state}">
                <span class="step-symbol" aria-hidden="true">${SYMBOLS[step.state]}</span>
                <div>
                  <strong>${step.name}</strong><span class="visually-hidden">: ${step.state}</span>
                  ${step.detail && html`<p class="sub">${step.detail}</p>`}
                  <${Findings} findings=${step.findings} jump=${jump} />
                </div>
              </li>
            `)}
          </ol>
        `}
      </div>
    </section>
  `;
}

/** @param {{findings: Finding[], jump: (key: string) => void}} props */
const Findings = ({ findings, jump }) => findings.map((one, at) => html`
  <div class="step-finding" key=${at}>
    <p>${one.message}${one.path ? html` <a href="#" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); jump(one.path ?? ""); }}>${one.path}</a>` : null}</p>
    ${one.suggestion && html`<p class="step-advice"><span class="visually-hidden">What to do: </span>${one.suggestion}</p>`}
  </div>
`);
