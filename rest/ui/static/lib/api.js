/** Requests to the worker. Everything that the page changes goes through here. */

/** What the server says to a request, if it is an error. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }

  /** Whether the worker has no such resource at all, in contrast to one that has no such connector. */
  get isNoResource() {
    return (this.status === 404 && /^HTTP 404/.test(this.message)) || this.status === 405 || this.status === 501;
  }
}

/** The address of the worker: the page may be served below a prefix. */
const ROOT = new URL("./", document.baseURI).href;

/**
 * Sends a request.
 * @param {string} method
 * @param {string} path encoded, without a leading slash
 * @param {{body?: unknown, signal?: AbortSignal}} [options]
 * @returns {Promise<any>} the JSON of the answer; null without a body
 */
export async function send(method, path, options = {}) {
  const text = await sendForText(method, path, options);
  return text === "" ? null : JSON.parse(text);
}

/** As {@link send}, with the answer as text, so that equal answers need no parsing. */
export async function sendForText(method, path, { body, signal } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", "X-Requested-With": "sluice-ui" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(ROOT + path, {
      method, headers, signal, cache: "no-store", credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The worker does not answer. The page tries again by itself.");
  }
  const text = await answer.text();
  if (answer.status === 401) {
    document.dispatchEvent(new CustomEvent("sluice:unauthorized"));
    throw new ApiError(401, "Sign in to see this worker.");
  }
  if (!answer.ok) throw new ApiError(answer.status, messageOf(answer.status, text));
  return text;
}

/** @param {number} status @param {string} text */
function messageOf(status, text) {
  try {
    const parsed = JSON.parse(text);
    if (parsed && typeof parsed.message === "string") return parsed.message;
  } catch {
    // Not JSON: an intermediary answered.
  }
  return `HTTP ${status}`;
}

/** @param {...(string | number)} parts */
export const path = (...parts) => parts.map((part) => encodeURIComponent(part)).join("/");

/** @param {string} name */
const of = (name, ...rest) => path("connectors", name, ...rest);

export const connectors = {
  /** @returns {Promise<string>} statuses of all connectors, as text */
  statuses: () => sendForText("GET", "connectors?expand=status"),
  both: () => sendForText("GET", "connectors?expand=status&expand=info"),
  status: (name, signal) => send("GET", of(name, "status"), { signal }),
  config: (name) => send("GET", of(name, "config")),
  create: (name, config, initialState) =>
    send("POST", "connectors", { body: { name, config, ...(initialState ? { initial_state: initialState } : {}) } }),
  /** Changes single keys; null removes one. Keys that are not named keep their values, so secrets that were not typed do. */
  async change(name, changes) {
    try {
      return await send("PATCH", of(name, "config"), { body: changes });
    } catch (error) {
      if (!(error instanceof ApiError) || !error.isNoResource) throw error;
      const config = { ...(await this.config(name)), ...changes }; // workers before Kafka 3.8
      for (const [key, value] of Object.entries(config)) if (value === null) delete config[key];
      return send("PUT", of(name, "config"), { body: config });
    }
  },
  pause: (name) => send("PUT", of(name, "pause")),
  resume: (name) => send("PUT", of(name, "resume")),
  stop: (name) => send("PUT", of(name, "stop")),
  restart: (name, onlyFailed = false) => send("POST", `${of(name, "restart")}?includeTasks=true&onlyFailed=${onlyFailed}`),
  restartTask: (name, task) => send("POST", of(name, "tasks", task, "restart")),
  remove: (name) => send("DELETE", of(name)),
};

export const plugins = {
  all: () => send("GET", "connector-plugins?connectorsOnly=false"),
  keys: (plugin) => send("GET", `${path("connector-plugins", plugin, "config")}`),
  validate: (plugin, config, signal) =>
    send("PUT", path("connector-plugins", plugin, "config", "validate"), { body: config, signal }),
};

export const worker = {
  info: () => send("GET", ""),
  settings: () => send("GET", "ui/settings.json"),
  /** Whether the worker is one of Sluice: Apache's has no resource /sluice. */
  async isSluice() {
    try {
      await send("GET", "sluice/connectors-dir");
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.isNoResource) return false;
      throw error;
    }
  },
};

const absent = new Set();

/**
 * Asks for a resource that a worker may not have. Asks only once for one that is missing.
 * @param {string} feature
 * @param {() => Promise<any>} ask
 * @returns {Promise<any | undefined>} undefined if the worker has no such resource
 */
export async function optional(feature, ask) {
  if (absent.has(feature)) return undefined;
  try {
    return await ask();
  } catch (error) {
    if (error instanceof ApiError && error.isNoResource) {
      absent.add(feature);
      return undefined;
    }
    throw error;
  }
}
