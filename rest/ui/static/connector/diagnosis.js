/** Findings about what is wrong, of one connector or of all. */
import { optional, path, send } from "../lib/api.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html, useEffect } from "../lib/preact.js";
import { href } from "../lib/router.js";
import { Absent, Card, CopyButton, ErrorNote, Loading } from "../parts/basics.js";

const REFRESH_MS = 15_000;

/** @typedef {{code: string, severity: string, what: string, since_ms: number | null, cause: string | null, fix: string | null, command: string | null, connector?: string, task?: number | null}} FindingOf */

/** @param {any} answer @returns {FindingOf[]} */
const findingsOf = (answer) => (Array.isArray(answer) ? answer : (answer?.findings ?? []));

/** @param {string} address */
function useFindings(address) {
  return usePolling(async () => (await optional("diagnosis", () => send("GET", address))) ?? null, REFRESH_MS, [address]);
}

/** @param {{value: any, error: Error | null, where: string}} props */
const Findings = ({ value, error, where }) => {
  if (value === undefined) return error ? html`<${ErrorNote} error=${error} />` : html`<${Loading} />`;
  if (value === null) return html`<${Absent}>This worker does not diagnose.<//>`;
  const findings = findingsOf(value);
  return html`
    <${ErrorNote} error=${error} />
    <${Card} title="Findings" id="findings" hint=${format.plural(findings.length, "finding")}>
      ${findings.length === 0
        ? html`<p class="muted pad">Nothing is wrong with ${where} as far as the worker can see.</p>`
        : findings.map((finding, at) => html`<${Finding} key=${`${finding.code}/${finding.connector}/${at}`} finding=${finding} />`)}
    <//>
  `;
};

/** @param {import("./page.js").PanelProps} props */
export function DiagnosisPanel({ name }) {
  const { value, error } = useFindings(`sluice/${path("connectors", name, "diagnosis")}`);
  return html`<${Findings} value=${value} error=${error} where=${name} />`;
}

export function DiagnosisPage() {
  const { value, error } = useFindings("sluice/diagnosis");
  useEffect(() => {
    document.title = "Diagnosis – Sluice";
  }, []);
  return html`<div class="page-head"><h1>Diagnosis</h1></div><${Findings} value=${value} error=${error} where="this cluster" />`;
}

/** @param {{finding: FindingOf}} props */
export const Finding = ({ finding }) => html`
  <article class="finding finding-${String(finding.severity).toLowerCase()}">
    <h3><span class="badge badge-${/error|critical/i.test(finding.severity) ? "failed" : "restarting"}">${finding.severity}</span> ${finding.what}</h3>
    ${finding.connector && html`<p><a href=${href(["connectors", finding.connector])}>${finding.connector}</a>${finding.task === null || finding.task === undefined ? "" : `, task ${finding.task}`}</p>`}
    ${finding.since_ms && html`<p class="sub">since ${format.dateTime(finding.since_ms)} (${format.ago(finding.since_ms)})</p>`}
    ${finding.cause && html`<p><strong>Cause:</strong> ${finding.cause}</p>`}
    ${finding.fix && html`<p><strong>What to do:</strong> ${finding.fix}</p>`}
    ${finding.command && html`<p class="command"><code>${finding.command}</code> <${CopyButton} text=${() => finding.command ?? ""} /></p>`}
  </article>
`;
