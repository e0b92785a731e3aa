/** What is wrong, of one connector or of all: cause, and what fixes it. */
import { optional, path, send } from "../lib/api.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html, useEffect } from "../lib/preact.js";
import { href } from "../lib/router.js";
import { Absent, Card, CopyButton, ErrorNote, Loading } from "../parts/basics.js";

const REFRESH_MS = 15_000;

/**
 * @typedef {{code: string, severity: string, message: string, cause: string | null, suggestion: string | null, command: string | null,
 *   since_ms: number | null, connector: string | null, task: number | null}} Problem
 */

/** @param {any} answer @returns {Problem[]} */
export const problemsOf = (answer) => answer?.problems ?? [];

/** @param {string} address */
function useProblems(address) {
  return usePolling(async () => (await optional("diagnosis", () => send("GET", address))) ?? null, REFRESH_MS, [address]);
}

/** @param {{value: any, error: Error | null, where: string}} props */
const Problems = ({ value, error, where }) => {
  if (value === undefined) return error ? html`<${ErrorNote} error=${error} />` : html`<${Loading} />`;
  if (value === null) return html`<${Absent}>This worker does not diagnose.<//>`;
  const problems = problemsOf(value);
  return html`
    <${ErrorNote} error=${error} />
    <${Card} title="Problems" id="problems" hint=${problems.length ? format.number(problems.length) : "none"}>
      ${problems.length === 0
        ? html`<p class="muted pad">Nothing is wrong with ${where} as far as the worker can see.</p>`
        : problems.map((problem, at) => html`<${ProblemView} key=${`${problem.code}/${problem.connector}/${problem.task}/${at}`} problem=${problem} />`)}
    <//>
    ${value.unseen?.length > 0 && html`<${Card} title="Not examined" id="unseen"><ul class="pad">${value.unseen.map((/** @type {string} */ one) => html`<li key=${one}>${one}</li>`)}</ul><//>`}
  `;
};

/** @param {import("./page.js").PanelProps} props */
export function DiagnosisPanel({ name }) {
  const { value, error } = useProblems(`sluice/${path("connectors", name, "diagnosis")}`);
  return html`<${Problems} value=${value} error=${error} where=${name} />`;
}

export function DiagnosisPage() {
  const { value, error } = useProblems("sluice/diagnosis");
  useEffect(() => {
    document.title = "Diagnosis – Sluice";
  }, []);
  return html`<div class="page-head"><h1>Diagnosis</h1></div><${Problems} value=${value} error=${error} where="this cluster" />`;
}

const BADGES = { error: "failed", warning: "restarting" };

/** @param {{problem: Problem}} props */
export const ProblemView = ({ problem }) => html`
  <article class="finding">
    <h3><span class="badge badge-${BADGES[problem.severity] ?? "stopped"}">${problem.severity}</span> ${problem.message}</h3>
    <p class="sub">
      ${problem.connector ? html`<a href=${href(["connectors", problem.connector])}>${problem.connector}</a>` : "worker"}${problem.task === null || problem.task === undefined ? "" : `, task ${problem.task}`}
      ${problem.since_ms ? ` · since ${format.dateTime(problem.since_ms)} (${format.ago(problem.since_ms)})` : ""}
      ${` · ${problem.code}`}
    </p>
    ${problem.cause && html`<p><strong>Cause:</strong> ${problem.cause}</p>`}
    ${problem.suggestion && html`<p><strong>What to do:</strong> ${problem.suggestion}</p>`}
    ${problem.command && html`<p class="command"><code>${problem.command}</code> <${CopyButton} text=${() => problem.command ?? ""} /></p>`}
  </article>
`;
