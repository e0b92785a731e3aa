/** Definitions of plugins' keys, read once per plugin. */
import { ApiError, plugins } from "./api.js";

/**
 * @typedef {{name: string, type: string, required: boolean, default_value: string | null, importance: string,
 *   documentation: string | null, group: string | null, order_in_group?: number, order?: number, width: string,
 *   display_name: string | null, dependents: string[]}} Definition
 */

/** @type {Map<string, Promise<Definition[]>>} */
const found = new Map();
/** @type {Promise<{class: string, type: string, version?: string}[]> | null} */
let listed = null;

/** @param {string} plugin @returns {Promise<Definition[]>} none for an unknown plugin */
export function keysOf(plugin) {
  let keys = found.get(plugin);
  if (!keys) {
    keys = plugins.keys(plugin).catch((error) => {
      found.delete(plugin);
      if (error instanceof ApiError && error.status >= 400 && error.status !== 401) return [];
      throw error;
    });
    found.set(plugin, keys);
  }
  return keys;
}

const COMMON = new Set(["name", "connector.class", "tasks.max", "topics", "topics.regex", "config.action.reload", "transforms", "predicates"]);

/** The keys of a class that the worker does not know: any of them but the common ones may be secret. @extends {Set<string>} */
class UnknownKeys extends Set {
  /** @param {string} key */
  has(key) {
    return !COMMON.has(key) && !key.startsWith("errors.");
  }
}

/** While the keys of a class are not known yet. */
export const UNKNOWN_KEYS = new UnknownKeys();

/** The keys of a connector whose values are secret by type. @param {string | undefined} plugin @returns {Promise<Set<string>>} */
export async function passwordKeysOf(plugin) {
  const keys = plugin ? await keysOf(plugin) : [];
  if (plugin && keys.length === 0) return UNKNOWN_KEYS;
  return new Set(keys.filter((key) => key.type === "PASSWORD").map((key) => key.name));
}

export function pluginList() {
  listed ??= plugins.all().catch((error) => {
    listed = null;
    throw error;
  });
  return listed;
}
