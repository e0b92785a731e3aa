/** Repeated requests of one component, while the page is visible. */
import { useEffect, useRef, useState } from "./preact.js";

/**
 * Calls `ask` now, and again `intervalMs` after each answer, until the component goes.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} ask
 * @param {number} intervalMs 0 for once
 * @param {unknown[]} keys asks again at once when these change
 * @returns {{value: T | undefined, error: Error | null, again: () => void}} the last answer; the error of the last request
 */
export function usePolling(ask, intervalMs, keys) {
  const [found, setFound] = useState(/** @type {{value: any, error: Error | null}} */ ({ value: undefined, error: null }));
  const [turn, setTurn] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    const controller = new AbortController();
    let timer = 0;
    const isOver = () => controller.signal.aborted;
    async function step() {
      if (!document.hidden || intervalMs === 0) {
        try {
          const value = await latest.current(controller.signal);
          if (!isOver()) setFound({ value, error: null });
        } catch (error) {
          if (!isOver()) setFound((before) => ({ value: before.value, error: /** @type {Error} */ (error) }));
        }
      }
      if (!isOver() && intervalMs) timer = setTimeout(step, intervalMs);
    }
    step();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [...keys, turn]);
  return { ...found, again: () => setTurn((before) => before + 1) };
}
