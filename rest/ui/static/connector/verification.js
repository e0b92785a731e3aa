/** The last result of `sluice verify` for a connector. */
import { ApiError, optional, path, send } from "../lib/api.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html } from "../lib/preact.js";
import { Absent, Card, ErrorNote, Facts, Loading } from "../parts/basics.js";

const REFRESH_MS = 15_000;

/** @typedef {{source: string[], target: string, equal: boolean, rows: number, differences: number, unsettled: number, problem: string | null, notes: string[]}} TableResult */

/** @typedef {{interval_ms: number, paused: boolean, last_ms: number | null, error: string | null, worker_id: string | null, failing_since_ms: number | null, next_ms: number | null}} Schedule */

/** @param {Schedule} schedule */
function nextRun(schedule) {
  if (schedule.paused) return "when the connector is resumed";
  if (schedule.next_ms === null) return "soon";
  const seconds = (schedule.next_ms - Date.now()) / 1000;
  return seconds <= 0 ? "now" : `in ${format.duration(seconds)}`;
}

/** @param {{schedule: Schedule}} props */
function ScheduleCard({ schedule }) {
  return html`
    <${Card} title="Schedule" id="verification-schedule">
      <div class="pad">
        ${schedule.error && html`<p class="check check-error"><strong>The last run failed</strong> ${schedule.error}</p>`}
        <${Facts} facts=${[
          ["Interval", format.duration(schedule.interval_ms / 1000)],
          ["Last run", schedule.last_ms === null ? "none yet" : format.ago(schedule.last_ms)],
          ...(schedule.worker_id ? [["On worker", schedule.worker_id]] : []),
          ...(schedule.failing_since_ms ? [["Failing since", format.dateTime(schedule.failing_since_ms)]] : []),
          ["Next run", nextRun(schedule)],
        ]} />
      </div>
    <//>
  `;
}

/** @param {import("./page.js").PanelProps} props */
export function VerificationPanel({ name }) {
  const { value, error } = usePolling(
    async () => (await optional("verification", () => send("GET", `sluice/${path("connectors", name, "verification")}`))) ?? null,
    REFRESH_MS,
    [name],
  );
  if (error instanceof ApiError && error.status === 404) return html`<${Absent}>${error.message}<//>`;
  if (value === undefined) return error ? html`<${ErrorNote} error=${error} />` : html`<${Loading} />`;
  if (value === null) return html`<${Absent}>This worker has no results of verifications.<//>`;
  /** @type {TableResult[]} */
  const tables = value.tables ?? [];
  const hasResult = value.equal !== undefined;
  return html`
    <${ErrorNote} error=${error} />
    ${value.schedule && html`<${ScheduleCard} schedule=${value.schedule} />`}
    ${hasResult && html`<${Card} title="Verification" id="verification" hint=${value.stored_ms ? format.ago(value.stored_ms) : undefined}>
      <div class="pad">
        <p class=${value.equal ? "check check-good" : "check check-error"}><strong>${value.equal ? "Source and target are equal" : "Source and target differ"}</strong></p>
        <${Facts} facts=${[
          ["Rows compared", format.number(value.rows)],
          ["Differences", format.number(value.differences)],
          ["Unsettled", format.number(value.unsettled)],
          ["Took", format.duration(value.seconds)],
          ...(value.source ? [["Source", value.source], ["Sink", value.sink]] : []),
        ]} />
      </div>
    <//>`}
    ${tables.length > 0 && html`
      <${Card} title="Tables" id="verified-tables" hint=${format.plural(tables.length, "table")}>
        <div class="scroll" tabindex="0" role="region" aria-label="Results by table">
          <table class="data">
            <thead><tr><th scope="col">Table</th><th scope="col">Result</th><th scope="col" class="figure">Rows</th><th scope="col" class="figure">Differences</th><th scope="col">Notes</th></tr></thead>
            <tbody>
              ${tables.map((table) => html`
                <tr key=${table.target}>
                  <th scope="row">${table.target}</th>
                  <td><span class="badge badge-${table.equal ? "running" : "failed"}">${table.problem ? "not compared" : table.equal ? "equal" : "differs"}</span></td>
                  <td class="figure">${format.number(table.rows)}</td>
                  <td class="figure">${format.number(table.differences)}</td>
                  <td>${[table.problem, ...(table.notes ?? [])].filter(Boolean).join(" ")}</td>
                </tr>
              `)}
            </tbody>
          </table>
        </div>
      <//>
    `}
  `;
}
