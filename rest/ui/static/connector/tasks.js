/** The tasks of a connector: states, what failed and why, restarts. */
import { connectors as api, optional, path, send } from "../lib/api.js";
import { useWorker } from "../lib/context.js";
import { sumLag } from "../lib/figures.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html } from "../lib/preact.js";
import { readTrace } from "../lib/state.js";
import { follow } from "../parts/actions.js";
import { Badge, Card, CopyButton } from "../parts/basics.js";
import { problemsOf, ProblemView } from "./diagnosis.js";

const DIAGNOSIS_MS = 10_000;

/** @param {import("./page.js").PanelProps} props */
export function TasksPanel({ name, one, readings, again, ask }) {
  const worker = useWorker();
  const { connector, tasks } = one.status;
  const latest = readings[readings.length - 1];
  const failed = one.failed.length > 0;
  const diagnosis = usePolling(
    // A diagnosis asks Kafka and other workers: only for what has failed.
    async () => (worker.isSluice && failed ? optional("diagnosis", () => send("GET", `sluice/${path("connectors", name, "diagnosis")}`)) : undefined),
    worker.isSluice && failed ? DIAGNOSIS_MS : 0,
    [name, failed],
  );
  const problems = failed ? problemsOf(diagnosis.value) : [];
  const restart = (/** @type {number} */ id) =>
    ask({
      title: `Restart task ${id} of ${name}?`,
      text: html`<p>The task stops and starts again. It continues from its offsets.</p>`,
      action: `Restart task ${id}`,
      run: async () => {
        await api.restartTask(name, id);
        follow(name, null);
        again();
      },
    });
  return html`
    ${connector.state === "FAILED" && html`<${Failure} title="The connector failed" state=${connector} />`}
    ${problems.length > 0 && html`<${Card} title="Likely cause" id="cause">${problems.slice(0, 3).map((problem, at) => html`<${ProblemView} key=${`${problem.code}/${at}`} problem=${problem} />`)}<//>`}
    <${Card} title="Tasks" id="tasks" hint=${format.plural(tasks.length, "task")}>
      ${tasks.length === 0
        ? html`<p class="muted pad">${connector.state === "STOPPED" ? "A stopped connector has no tasks." : "There are no tasks yet: the connector is about to create them, or it has nothing to do."}</p>`
        : html`
          <table class="list tasks">
            <thead><tr>
              <th scope="col">Task</th><th scope="col">State</th><th scope="col">Worker</th>
              ${worker.isSluice && html`<th scope="col" class="figure">Records</th><th scope="col" class="figure">Lag</th><th scope="col" class="figure">Errors</th>`}
              ${!worker.readOnly && html`<th><span class="visually-hidden">Actions</span></th>`}
            </tr></thead>
            <tbody>
              ${tasks.map((task) => {
                const figures = latest?.tasks.find((each) => each.id === task.id);
                return html`
                  <tr key=${task.id} class=${task.state === "FAILED" ? "failed" : ""}>
                    <th scope="row" class="name">Task ${task.id}</th>
                    <td class="state"><${Badge} state=${task.state} /><${Restarts} state=${task} /></td>
                    <td class="worker" data-label="Worker">${task.worker_id || "–"}</td>
                    ${worker.isSluice && html`
                      <td class="figure" data-label="Records">${format.number(figures?.records)}</td>
                      <td class="figure" data-label="Lag">${format.short(sumLag(figures))}</td>
                      <td class="figure" data-label="Errors">${format.number(figures?.errors.errors)}</td>
                    `}
                    ${!worker.readOnly && html`<td class="row-actions"><button type="button" class="button small" onClick=${() => restart(task.id)} aria-label="Restart task ${task.id}">Restart</button></td>`}
                  </tr>
                `;
              })}
            </tbody>
          </table>
        `}
      ${latest?.missing_workers?.length > 0 && html`<p class="absent pad">No figures from ${latest.missing_workers.join(", ")}: the worker does not answer.</p>`}
    <//>
    ${tasks.filter((task) => task.state === "FAILED").map((task) => html`<${Failure} key=${task.id} title="Task ${task.id} failed" state=${task} />`)}
  `;
}

/** @param {{state: import("../lib/state.js").State}} props */
function Restarts({ state }) {
  const { restarts } = state;
  if (!restarts || (restarts.count === 0 && restarts.next_ms === null)) return null;
  const next = restarts.next_ms === null ? "" : `, next in ${format.duration(Math.max(0, (restarts.next_ms - Date.now()) / 1000))}`;
  return html`<span class="sub">restarted ${restarts.count}×${next}</span>`;
}

/** What failed and why; the trace is folded. @param {{title: string, state: import("../lib/state.js").State}} props */
function Failure({ title, state }) {
  const { what, cause, trace } = readTrace(state.trace);
  return html`
    <section class="card failure-card" aria-label=${title}>
      <header class="card-head"><h2>${title}</h2><span class="card-hint">on ${state.worker_id || "no worker"}</span></header>
      <div class="pad">
        <p class="failure-what">${what}</p>
        ${cause && html`<p><strong>Cause:</strong> ${cause}</p>`}
        ${trace && html`
          <details>
            <summary>Full trace</summary>
            <div class="trace-head"><${CopyButton} text=${() => trace} label="Copy trace" /></div>
            <pre class="trace" tabindex="0">${trace}</pre>
          </details>
        `}
      </div>
    </section>
  `;
}
