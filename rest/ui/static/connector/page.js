/** The page of one connector: its state, actions, and a tab for each topic. */
import { connectors as api, ApiError, send, path } from "../lib/api.js";
import { useWorker } from "../lib/context.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html, useEffect, useState } from "../lib/preact.js";
import { href } from "../lib/router.js";
import { summarize } from "../lib/state.js";
import { ACTIONS, actionsFor, question } from "../parts/actions.js";
import { Badge, ErrorNote, Loading, Note, Tabs } from "../parts/basics.js";
import { Confirm } from "../parts/dialog.js";
import { ActivityPanel } from "./activity.js";
import { ConfigPanel } from "./config.js";
import { DeadLettersPanel } from "./dead_letters.js";
import { DiagnosisPanel } from "./diagnosis.js";
import { HistoryPanel } from "./history.js";
import { LogsPanel } from "./logs.js";
import { OffsetsPanel } from "./offsets.js";
import { TasksPanel } from "./tasks.js";
import { VerificationPanel } from "./verification.js";

const STATUS_MS = 2000;
const PROGRESS_MS = 2000;

/** `sluice`: needs a worker of Sluice, because Apache's has nothing like it. */
const TABS = [
  { id: "tasks", label: "Tasks", panel: TasksPanel },
  { id: "activity", label: "Activity", panel: ActivityPanel, sluice: true },
  { id: "config", label: "Configuration", panel: ConfigPanel },
  { id: "history", label: "History", panel: HistoryPanel, sluice: true },
  { id: "offsets", label: "Offsets", panel: OffsetsPanel },
  { id: "logs", label: "Log", panel: LogsPanel, sluice: true },
  { id: "dead-letters", label: "Dead letters", panel: DeadLettersPanel, sluice: true },
  { id: "diagnosis", label: "Diagnosis", panel: DiagnosisPanel, sluice: true },
  { id: "verification", label: "Verification", panel: VerificationPanel, sluice: true },
];

/**
 * @typedef {{name: string, one: import("../lib/state.js").Summary, config: Record<string, string>,
 *   readings: import("./activity.js").Reading[], again: () => void, ask: (question: import("../parts/dialog.js").Question) => void}} PanelProps
 */

/** @param {{name: string, tab: string, route: import("../lib/router.js").Route}} props */
export function ConnectorPage({ name, tab, route }) {
  const worker = useWorker();
  const [asked, setAsked] = useState(/** @type {import("../parts/dialog.js").Question | null} */ (null));
  const status = usePolling((signal) => api.status(name, signal), STATUS_MS, [name]);
  const config = usePolling(() => api.config(name), 0, [name]);
  const readings = useReadings(name, worker.isSluice);
  useEffect(() => {
    document.title = `${name} – Sluice`;
  }, [name]);

  const back = html`<p class="back"><a href="#/">← Connectors</a></p>`;
  if (!status.value) {
    const isUnknown = status.error instanceof ApiError && status.error.status === 404;
    if (isUnknown) return html`${back}<${Note} kind="warning" title="There is no connector ${name}">It may have been deleted, or it is about to start.<//>`;
    return html`${back}${status.error ? html`<${ErrorNote} error=${status.error} />` : html`<${Loading} />`}`;
  }
  const one = summarize(status.value, config.value?.["connector.class"] ?? "");
  const tabs = TABS.filter((each) => worker.isSluice || !each.sluice);
  const current = tabs.find((each) => each.id === tab) ?? tabs[0];
  const again = () => {
    status.again();
    config.again();
  };
  return html`
    ${back}
    <div class="page-head">
      <div class="title">
        <h1>${name}</h1>
        <p class="sub" aria-live="polite">
          <${Badge} state=${one.state} />
          <span>${one.type}${one.className && ` · ${format.shortClass(one.className)}`}</span>
          <span>${one.running} of ${format.plural(one.tasks, "task")} running</span>
          <span>connector on ${one.status.connector.worker_id || "no worker"}</span>
        </p>
      </div>
      ${!worker.readOnly && html`
        <div class="actions">
          <a class="button" href=${href(["connectors", name, "edit"])}>Edit</a>
          ${actionsFor(one).map((action) => html`
            <button key=${action} type="button" onClick=${() => setAsked(question(action, [name]))}
              class="button ${action === "remove" ? "danger-text" : action === "restartFailed" || (action === "resume") ? "primary" : ""}">
              ${ACTIONS[action].label}
            </button>
          `)}
        </div>
      `}
    </div>
    ${status.error && html`<${Note} kind="warning" title="This state is not up to date">${status.error.message}<//>`}
    <${Tabs} label="Parts of ${name}" current=${current.id}
      tabs=${tabs.map((each) => ({ id: each.id, label: each.label, href: href(["connectors", name, each.id]) }))} />
    <div class="panel">
      <${current.panel} key=${current.id} name=${name} one=${one} config=${config.value ?? {}} readings=${readings.list} progressError=${readings.error}
        again=${again} ask=${setAsked} route=${route} configError=${config.error} />
    </div>
    ${!worker.isSluice && html`<p class="absent">Activity, history, log, dead letters, diagnosis, and verification are missing: a worker of Apache Kafka Connect has no REST resources for them.</p>`}
    ${asked && html`<${Confirm} question=${asked} onClose=${() => { setAsked(null); again(); }} />`}
  `;
}

const MAX_READINGS = 90;

/** Readings of the progress, from when the page was opened. @param {string} name @param {boolean} isSluice */
function useReadings(name, isSluice) {
  const [list, setList] = useState(/** @type {import("./activity.js").Reading[]} */ ([]));
  const { value, error } = usePolling(
    async (signal) => (isSluice ? { ...(await send("GET", `sluice/${path("connectors", name, "progress")}?scope=cluster`, { signal })), at: Date.now() } : undefined),
    isSluice ? PROGRESS_MS : 0,
    [name],
  );
  useEffect(() => {
    if (value) setList((before) => [...before, value].slice(-MAX_READINGS));
  }, [value]);
  return { list, error };
}
