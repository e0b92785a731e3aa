/** What all parts of the page know about the worker. */
import { createContext, useContext } from "./preact.js";

/**
 * @typedef {{isSluice: boolean, readOnly: boolean, version: string, clusterId: string | null, target: string | null}} Worker
 */

export const WorkerContext = createContext(
  /** @type {Worker} */ ({ isSluice: true, readOnly: true, version: "", clusterId: null, target: null }),
);

/** @returns {Worker} */
export const useWorker = () => useContext(WorkerContext);
