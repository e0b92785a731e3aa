/** Rates of counters that are read again and again. */

/**
 * @typedef {{tasks: number, records: number, lag: number | null}} Totals
 * @typedef {{recordsPerS: number | null, lag: number | null}} Figures
 */

/** Turns counts into rates. Counts start again with a task: then there is no rate for one reading. */
export class RateReader {
  /** @type {Map<string, {at: number, totals: Totals}>} */
  #before = new Map();

  /** @param {string} name @param {Totals} totals @param {number} at ms @returns {Figures} */
  read(name, totals, at) {
    const before = this.#before.get(name);
    this.#before.set(name, { at, totals });
    const seconds = before ? (at - before.at) / 1000 : 0;
    const isComparable = before && seconds > 0 && totals.records >= before.totals.records && totals.tasks === before.totals.tasks;
    return {
      recordsPerS: isComparable ? (totals.records - before.totals.records) / seconds : null,
      lag: totals.lag,
    };
  }
}

/** The records that a task, or several, have not delivered yet; null if none of them has a lag. @param {...({lag: Record<string, number> | null} | undefined)} tasks */
export function sumLag(...tasks) {
  const known = tasks.flatMap((task) => (task?.lag ? [task.lag] : []));
  return known.length ? known.flatMap((lag) => Object.values(lag)).reduce((sum, one) => sum + one, 0) : null;
}
