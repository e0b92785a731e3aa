/** The list of all connectors, refreshed while the page is visible. One for the page. */
import { connectors as api } from "./api.js";
import { useLayoutEffect, useState } from "./preact.js";
import { compare, summarize } from "./state.js";

const REFRESH_MS = 4000;
const RETRY_MS = 3000;

/**
 * @typedef {import("./state.js").Summary} Summary
 * @typedef {{list: Summary[], byName: Map<string, Summary>, loaded: boolean, error: string | null, at: number}} Snapshot
 */

/** @type {Snapshot} */
let snapshot = { list: [], byName: new Map(), loaded: false, error: null, at: 0 };
/** @type {Map<string, string>} */
const classes = new Map();
/** @type {Set<(snapshot: Snapshot) => void>} */
const listeners = new Set();
let lastText = "";
let timer = 0;
/** @type {Promise<void> | null} */
let running = null;

/** @param {Partial<Snapshot>} changes */
function publish(changes) {
  snapshot = { ...snapshot, ...changes };
  for (const listener of listeners) listener(snapshot);
}

async function read() {
  const needsClasses = classes.size === 0;
  let text = await (needsClasses ? api.both() : api.statuses());
  let parsed = text === lastText ? null : JSON.parse(text);
  if (parsed && !needsClasses && Object.keys(parsed).some((name) => !classes.has(name))) {
    text = await api.both(); // there are new ones
    parsed = JSON.parse(text);
  }
  lastText = text;
  if (!parsed) {
    if (snapshot.error) publish({ error: null });
    return;
  }
  for (const [name, one] of Object.entries(parsed)) {
    if (one.info) classes.set(name, one.info.config["connector.class"] ?? "");
  }
  const list = Object.entries(parsed)
    .filter(([, one]) => one.status)
    .map(([name, one]) => summarize(one.status, classes.get(name) ?? ""))
    .sort(compare);
  publish({ list, byName: new Map(list.map((one) => [one.name, one])), loaded: true, error: null, at: Date.now() });
}

/** Reads the list now. @returns {Promise<void>} */
export function refresh() {
  running ??= read()
    .catch((error) => publish({ error: error.message }))
    .finally(() => {
      running = null;
      schedule();
    });
  return running;
}

function schedule() {
  clearTimeout(timer);
  if (listeners.size && !document.hidden) timer = setTimeout(refresh, snapshot.error ? RETRY_MS : REFRESH_MS);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && listeners.size) refresh();
});

/** @returns {Snapshot} */
export function useConnectors() {
  const [current, setCurrent] = useState(snapshot);
  // With rendering: other effects run later, and a list that arrives in between would be lost.
  useLayoutEffect(() => {
    listeners.add(setCurrent);
    if (Date.now() - snapshot.at > REFRESH_MS / 2) refresh();
    else schedule();
    return () => {
      listeners.delete(setCurrent);
      schedule();
    };
  }, []);
  return current;
}

/** A name's class may have changed. @param {string} name */
export function forgetClass(name) {
  classes.delete(name);
  lastText = "";
}
