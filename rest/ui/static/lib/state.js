/** States of connectors and tasks, and what failed. */

/**
 * @typedef {{state: string, worker_id: string, version?: string, trace?: string, restarts?: {count: number, next_ms: number | null}}} State
 * @typedef {{name: string, connector: State, tasks: (State & {id: number})[], type: string}} Status
 * @typedef {{name: string, type: string, state: string, running: number, tasks: number, failed: (number | "connector")[],
 *   failure: Failure | null, workers: string[], className: string, status: Status}} Summary
 * @typedef {{what: string, cause: string | null, trace: string}} Failure
 */

/** In the order of the overview: failures first. */
export const STATES = ["FAILED", "RESTARTING", "UNASSIGNED", "RUNNING", "PAUSED", "STOPPED"];

const LABELS = {
  FAILED: "Failed", RESTARTING: "Restarting", UNASSIGNED: "Unassigned", RUNNING: "Running", PAUSED: "Paused", STOPPED: "Stopped",
};

/** @param {string} state */
export const stateLabel = (state) => LABELS[state] ?? state;

/**
 * @param {Status} status
 * @param {string} className
 * @returns {Summary}
 */
export function summarize(status, className) {
  const { connector, tasks } = status;
  const failed = [
    ...(connector.state === "FAILED" ? [/** @type {const} */ ("connector")] : []),
    ...tasks.filter((task) => task.state === "FAILED").map((task) => task.id),
  ];
  const trace = connector.state === "FAILED" ? connector.trace : tasks.find((task) => task.state === "FAILED")?.trace;
  const inFlux = tasks.some((task) => task.state === "RESTARTING") || connector.state === "RESTARTING";
  return {
    name: status.name,
    type: status.type,
    state: failed.length ? "FAILED" : inFlux ? "RESTARTING" : connector.state,
    running: tasks.filter((task) => task.state === "RUNNING").length,
    tasks: tasks.length,
    failed,
    failure: failed.length ? readTrace(trace) : null,
    workers: [...new Set([connector.worker_id, ...tasks.map((task) => task.worker_id)])].filter(Boolean),
    className,
    status,
  };
}

const byName = new Intl.Collator("en", { numeric: true });

/** Failures first, then by name. @param {Summary} a @param {Summary} b */
export function compare(a, b) {
  const order = STATES.indexOf(a.state) - STATES.indexOf(b.state);
  const isUrgent = (/** @type {Summary} */ one) => STATES.indexOf(one.state) < STATES.indexOf("RUNNING");
  return (isUrgent(a) || isUrgent(b) ? order : 0) || byName.compare(a.name, b.name);
}

/**
 * Finds in a trace what happened and why: its first line, and the innermost cause.
 * @param {string | undefined} trace
 * @returns {Failure}
 */
export function readTrace(trace) {
  const text = trace ?? "";
  const lines = text.split("\n");
  const causes = lines.filter((line) => line.startsWith("Caused by: ")).map((line) => withoutClass(line.slice(11)));
  const what = withoutClass(lines[0] ?? "") || "It failed without a trace.";
  const cause = causes.length ? causes[causes.length - 1] : null;
  return { what, cause: cause && !what.includes(cause) ? cause : null, trace: text };
}

/** @param {string} line `org.apache.kafka.connect.errors.ConnectException: text` -> `text` */
function withoutClass(line) {
  const found = /^[\w$.]+(?:Exception|Error|Throwable): (.+)/s.exec(line.trim());
  return found ? found[1] : line.trim();
}

/** The parts of a connector that have reached a state. @param {Status} status @param {string} state */
export function hasReached(status, state) {
  if (status.connector.state !== state) return false;
  if (state === "STOPPED") return true;
  return status.tasks.every((task) => task.state === state);
}
