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

/** The keys of a connector whose values are secret by type. @param {string | undefined} plugin */
export async function passwordKeysOf(plugin) {
  const keys = plugin ? await keysOf(plugin) : [];
  return new Set(keys.filter((key) => key.type === "PASSWORD").map((key) => key.name));
}

export function pluginList() {
  listed ??= plugins.all().catch((error) => {
    listed = null;
    throw error;
  });
  return listed;
}
