/** Numbers, times, and names as people read them. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** @param {number | null | undefined} value */
export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));

/** @param {number | null | undefined} value */
export function short(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);
}

/** @param {number | null | undefined} value records or bytes per second */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 10) return value.toFixed(1);
  return short(value);
}

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** @param {number | null | undefined} size */
export function bytes(size) {
  if (size === null || size === undefined) return "–";
  let at = 0;
  let value = size;
  while (value >= 1000 && at < UNITS.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[at]}`;
}

/** @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1).replace(/\.0$/, "") : Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

/** @param {number} ms since 1970 */
export function ago(ms) {
  const seconds = (Date.now() - ms) / 1000;
  return seconds < 2 ? "just now" : `${duration(Math.round(seconds))} ago`;
}

/** @param {number} ms since 1970 */
export const time = (ms) => new Date(ms).toLocaleTimeString("en-US", { hour12: false });

/** @param {number | string} at */
export const dateTime = (at) => new Date(at).toLocaleString("en-US", { dateStyle: "medium", timeStyle: "medium", hour12: false });

/** @param {string | null | undefined} name `org.apache...FileStreamSourceConnector` -> `FileStreamSourceConnector` */
export function shortClass(name) {
  if (!name) return "";
  const last = name.split(/[.:]/).pop() ?? name;
  return last.replace(/Connector$/, "") || last;
}

/** @param {number} count @param {string} one @param {string} [many] */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
