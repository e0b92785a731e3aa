/** The entries of a key that selects tables, and which tables they select. */

/**
 * @typedef {{name: string, entry: string}} Named
 * @typedef {{chosen: Set<string>, patterns: string[]}} Selection `chosen` has entries of single tables, `patterns` the others
 */

/** Splits a value at its commas; an escaped comma separates nothing, as in the worker. @param {string} value */
export const entriesOf = (value) => value.split(/(?<!\\),/).map((one) => one.trim()).filter(Boolean);

/** @param {Named} one @param {"name" | "regex"} form */
export const entryOf = (one, form) => (form === "regex" ? one.entry : one.name);

/** @param {string} value @param {Named[]} tables @param {"name" | "regex"} form @returns {Selection} */
export function readSelection(value, tables, form) {
  const known = new Set(tables.map((one) => entryOf(one, form)));
  const entries = entriesOf(value);
  return { chosen: new Set(entries.filter((one) => known.has(one))), patterns: entries.filter((one) => !known.has(one)) };
}

/** Writes the patterns first, as they were typed, then the tables in their order. @param {Selection} selection @param {Named[]} tables @param {"name" | "regex"} form */
export const writeSelection = ({ chosen, patterns }, tables, form) =>
  [...patterns, ...tables.map((one) => entryOf(one, form)).filter((one) => chosen.has(one))].join(",");

/**
 * Tells which tables the patterns select. Java's and Python's expressions differ from the browser's in rare cases; what the browser
 * cannot read selects nothing here, and the worker decides.
 * @param {string[]} patterns @param {"name" | "regex"} form
 * @returns {(name: string) => string | null} the pattern that selects a table
 */
export function matcher(patterns, form) {
  if (form !== "regex") return () => null;
  const compiled = patterns.flatMap((text) => {
    try {
      return [{ text, expression: new RegExp(`^(?:${text})$`, "i") }];
    } catch {
      return [];
    }
  });
  return (name) => compiled.find(({ expression }) => expression.test(name))?.text ?? null;
}
