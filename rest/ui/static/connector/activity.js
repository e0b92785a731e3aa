/** What a connector is doing: rates, lag, snapshot, freshness of tables, errors. */
import { sumLag } from "../lib/figures.js";
import * as format from "../lib/format.js";
import { html } from "../lib/preact.js";
import { Absent, Card, ErrorNote, Facts, Loading } from "../parts/basics.js";
import { Sparkline } from "../parts/sparkline.js";

/**
 * @typedef {{id: number, records: number, bytes: number, lag: Record<string, number> | null, details: Record<string, any>, errors: Record<string, number | null>}} TaskReading
 * @typedef {{at: number, tasks: TaskReading[], missing_workers?: string[]}} Reading
 */

/** @param {Reading[]} readings @param {"records" | "bytes"} what */
function rates(readings, what) {
  return readings.map((reading, at) => {
    const before = readings[at - 1];
    if (!before) return null;
    const seconds = (reading.at - before.at) / 1000;
    let sum = 0;
    for (const task of reading.tasks) {
      const earlier = before.tasks.find((one) => one.id === task.id);
      if (!earlier || task[what] < earlier[what]) return null; // it has restarted
      sum += task[what] - earlier[what];
    }
    return seconds > 0 && reading.tasks.length ? sum / seconds : null;
  });
}

/** @param {import("./page.js").PanelProps & {progressError: Error | null}} props */
export function ActivityPanel({ readings, one, progressError }) {
  const latest = readings[readings.length - 1];
  if (!latest) return progressError ? html`<${ErrorNote} error=${progressError} />` : html`<${Loading} />`;
  if (!latest.tasks.length) return html`<p class="nothing">No task is running${one.state === "STOPPED" ? ": the connector is stopped" : ""}.</p>`;
  const lags = readings.map((reading) => sumLag(...reading.tasks));
  return html`
    <${Card} title="Throughput" id="throughput" hint="since this page was opened">
      <div class="sparks">
        <${Sparkline} label="Records/s" values=${rates(readings, "records")} format=${format.rate} />
        <${Sparkline} label="Bytes/s" values=${rates(readings, "bytes")} format=${(value) => `${format.bytes(value)}/s`} />
        ${lags.some((value) => value !== null) && html`<${Sparkline} label="Lag" values=${lags} format=${format.short} />`}
      </div>
    <//>
    ${latest.tasks.map((task) => html`<${TaskDetails} key=${task.id} task=${task} many=${latest.tasks.length > 1} />`)}
    ${latest.missing_workers?.length ? html`<${Absent}>No figures from ${latest.missing_workers.join(", ")}: the worker does not answer.<//>` : null}
  `;
}

/** @param {{task: TaskReading, many: boolean}} props */
function TaskDetails({ task, many }) {
  const { details, errors } = task;
  const where = many ? ` of task ${task.id}` : "";
  const isSnapshot = typeof details.tables_total === "number" && details.seconds_left !== undefined;
  const tables = isRecord(details.tables) ? details.tables : isRecord(details.table_progress) ? details.table_progress : null;
  const shown = new Set(["tables", "table_progress", ...(isSnapshot ? SNAPSHOT : [])]);
  const simple = Object.entries(details).filter(([key, value]) => !shown.has(key) && !isRecord(value) && !Array.isArray(value));
  const counted = Object.entries(errors).filter(([key, value]) => key !== "last_error_ms" && value);
  return html`
    ${isSnapshot && html`<${Snapshot} details=${details} where=${where} />`}
    ${tables && html`<${Tables} tables=${tables} where=${where} />`}
    <${Card} title="Task ${task.id}" id="task-${task.id}">
      <div class="pad">
        <${Facts} facts=${[
          ["Records", format.number(task.records)],
          ["Bytes", format.bytes(task.bytes)],
          ...simple.map(([key, value]) => /** @type {[string, any]} */ ([label(key), fact(key, value)])),
          ...counted.map(([key, value]) => /** @type {[string, any]} */ ([`Errors: ${label(key).toLowerCase()}`, format.number(value)])),
          ...(errors.last_error_ms ? [/** @type {[string, any]} */ (["Last error", format.ago(errors.last_error_ms)])] : []),
        ]} />
        ${task.lag && Object.keys(task.lag).length > 0 && html`
          <details><summary>Lag by partition</summary>
            <${Facts} facts=${Object.entries(task.lag).sort((a, b) => b[1] - a[1]).map(([partition, value]) => [partition, format.number(value)])} />
          </details>
        `}
      </div>
    <//>
  `;
}

const SNAPSHOT = ["tables_done", "tables_total", "table", "rows", "rows_estimate", "bytes", "rate", "seconds_left"];

function Snapshot({ details, where }) {
  const share = details.rows_estimate ? Math.min(1, details.rows / details.rows_estimate) : details.tables_done / Math.max(1, details.tables_total);
  const reading = Array.isArray(details.tables) ? details.tables : details.table ? [details.table] : [];
  return html`
    <${Card} title=${`Snapshot${where}`} id="snapshot" hint=${details.phase}>
      <div class="pad">
        <progress max="1" value=${share} aria-label="Snapshot">${Math.round(share * 100)} %</progress>
        <${Facts} facts=${[
          ["Done", `${Math.floor(share * 100)} %`],
          ["Time left", details.seconds_left === null ? "–" : `about ${format.duration(details.seconds_left)}`],
          ["Tables", `${details.tables_done} of ${details.tables_total}`],
          ["Rows", `${format.number(details.rows)} of about ${format.number(details.rows_estimate)}`],
          ["Rows/s", format.rate(details.rate)],
          ["Reading", reading.join(", ") || "–"],
        ]} />
      </div>
    <//>
  `;
}

/** Figures per table: rows, freshness, whatever the connector reports. */
function Tables({ tables, where }) {
  const names = Object.keys(tables).sort();
  if (!names.length) return null;
  const preferred = ["rows", "freshness_ms", "oldest_ms", "pending", "commits", "version", "last_commit_ms", "lag_versions"];
  const all = new Set(names.flatMap((name) => (isRecord(tables[name]) ? Object.keys(tables[name]) : [])));
  const columns = preferred.filter((key) => all.has(key));
  return html`
    <${Card} title=${`Tables${where}`} id="tables" hint=${format.plural(names.length, "table")}>
      <div class="scroll" tabindex="0" role="region" aria-label="Figures by table">
        <table class="data">
          <thead><tr><th scope="col">Table</th>${columns.map((key) => html`<th key=${key} scope="col" class="figure">${label(key.replace(/_ms$/, ""))}</th>`)}</tr></thead>
          <tbody>
            ${names.map((name) => html`<tr key=${name}><th scope="row">${name}</th>${columns.map((key) => html`<td key=${key} class="figure">${fact(key, tables[name]?.[key])}</td>`)}</tr>`)}
          </tbody>
        </table>
      </div>
    <//>
  `;
}

/** @param {any} value */
const isRecord = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** @param {string} key `confirmed_lsn` -> `Confirmed lsn` */
const label = (key) => key.charAt(0).toUpperCase() + key.slice(1).replaceAll("_", " ");

/** @param {string} key @param {any} value */
function fact(key, value) {
  if (value === null || value === undefined) return "–";
  if (isRecord(value)) return Object.entries(value).map(([name, one]) => `${name} ${fact(key, one)}`).join(", ");
  if (key.startsWith("last_") && key.endsWith("_ms")) return format.ago(value);
  if (key.endsWith("_ms")) return format.duration(value / 1000);
  if (key.endsWith("bytes")) return format.bytes(value);
  return typeof value === "number" && key !== "version" ? format.number(value) : String(value);
}
