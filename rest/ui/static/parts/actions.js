/** What can be done with connectors, with confirmation and with news of how it ends. */
import { connectors as api } from "../lib/api.js";
import { navigate } from "../lib/router.js";
import { hasReached, stateLabel } from "../lib/state.js";
import { refresh } from "../lib/store.js";
import { html } from "../lib/preact.js";
import { say } from "./toasts.js";

const FOLLOW_MS = 30_000;
const LOOK_MS = 500;
const PARALLEL = 6;
const SETTLED = ["RUNNING", "PAUSED", "STOPPED"];

/** @typedef {"restart" | "restartFailed" | "pause" | "resume" | "stop" | "remove"} Action */

/** @type {Record<Action, {label: string, verb: string, done: string, state: string | null, dangerous?: boolean, text: any, call: (name: string) => Promise<unknown>}>} */
export const ACTIONS = {
  restart: {
    label: "Restart", verb: "Restart", done: "restarted", state: null,
    text: "The connector and all its tasks stop and start again. They continue from their offsets.",
    call: (name) => api.restart(name),
  },
  restartFailed: {
    label: "Restart failed", verb: "Restart what failed of", done: "restarted", state: null,
    text: "Only what has failed starts again.",
    call: (name) => api.restart(name, true),
  },
  pause: {
    label: "Pause", verb: "Pause", done: "paused", state: "PAUSED",
    text: "Tasks stay where they are and do nothing until the connector is resumed.",
    call: (name) => api.pause(name),
  },
  resume: {
    label: "Resume", verb: "Resume", done: "resumed", state: "RUNNING",
    text: "Tasks continue from their offsets.",
    call: (name) => api.resume(name),
  },
  stop: {
    label: "Stop", verb: "Stop", done: "stopped", state: "STOPPED",
    text: "All tasks shut down. Offsets of a stopped connector can be changed. Resume starts it again.",
    call: (name) => api.stop(name),
  },
  remove: {
    label: "Delete", verb: "Delete", done: "deleted", state: null, dangerous: true,
    text: "The connector and its configuration are deleted. Its stored offsets and its topics stay.",
    call: (name) => api.remove(name),
  },
};

/** The actions that make sense for a connector. @param {import("../lib/state.js").Summary} one @returns {Action[]} */
export function actionsFor(one) {
  const target = one.status.connector.state;
  if (target === "STOPPED") return ["resume", "remove"];
  if (target === "PAUSED") return ["resume", "restart", "stop", "remove"];
  return [...(one.failed.length ? /** @type {Action[]} */ (["restartFailed"]) : []), "restart", "pause", "stop", "remove"];
}

/**
 * @param {Action} action @param {string[]} names
 * @returns {import("./dialog.js").Question}
 */
export function question(action, names) {
  const { label, verb, text, dangerous } = ACTIONS[action];
  const many = names.length > 1;
  return {
    title: many ? `${verb} ${names.length} connectors?` : `${verb} ${names[0]}?`,
    text: html`
      <p>${text}</p>
      ${many && html`<ul class="name-list" tabindex="0" aria-label="Connectors">${names.map((name) => html`<li key=${name}>${name}</li>`)}</ul>`}
    `,
    action: many ? `${label} ${names.length}` : `${label} ${names[0].length > 24 ? "connector" : names[0]}`,
    dangerous,
    run: () => perform(action, names),
  };
}

/** @param {Action} action @param {string[]} names */
async function perform(action, names) {
  const { call, state, done } = ACTIONS[action];
  /** @type {string[]} */
  const failed = [];
  const queue = [...names];
  const work = async () => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
      try {
        await call(name);
      } catch (error) {
        if (names.length === 1) throw error;
        failed.push(`${name}: ${/** @type {Error} */ (error).message}`);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL, names.length) }, work));
  if (failed.length) say(`${failed.length} of ${names.length} failed. ${failed[0]}`, "error");
  if (action === "remove") {
    say(names.length === 1 ? `${names[0]} was deleted` : `${names.length - failed.length} connectors were deleted`, "good");
    if (names.length === 1) navigate("#/");
  } else if (names.length === 1) {
    follow(names[0], state);
  } else {
    say(`${names.length - failed.length} connectors are being ${done}`, "info");
  }
  refresh();
}

/**
 * Tells how a change of state goes on, so that nobody has to guess whether it worked.
 * @param {string} name @param {string | null} wanted null after a restart, which keeps a connector paused or stopped
 */
export async function follow(name, wanted) {
  const toast = say(`${name}: waiting until it ${wanted ? `is ${stateLabel(wanted).toLowerCase()}` : "has restarted"}…`);
  const starts = wanted === null || wanted === "RUNNING";
  const until = Date.now() + FOLLOW_MS;
  // A restart may not have begun at the first look.
  for (let looks = 0; Date.now() < until; looks += 1) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    let status;
    try {
      status = await api.status(name);
    } catch {
      continue;
    }
    const failed = status.connector.state === "FAILED" || status.tasks.some((/** @type {any} */ task) => task.state === "FAILED");
    if (failed && starts && looks >= 2) {
      say(`${name} failed`, "error", toast);
      refresh();
      return;
    }
    const reached = (wanted ? [wanted] : SETTLED).find((state) => hasReached(status, state));
    if (reached && (looks >= 1 || !starts)) {
      say(`${name} is ${stateLabel(reached).toLowerCase()}`, "good", toast);
      refresh();
      return;
    }
    if (looks % 4 === 3) refresh();
  }
  say(`${name} ${wanted ? `is not ${stateLabel(wanted).toLowerCase()}` : "has not restarted"} yet. Look at its tasks and its log.`, "error", toast);
}
