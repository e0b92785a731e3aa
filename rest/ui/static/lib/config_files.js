/** Configurations as files, and their differences. */
import { shown } from "./secrets.js";

/** @typedef {Record<string, string>} Config */

/** First what says which connector it is; then as it was entered. @param {Config} config */
function ordered(config) {
  const first = ["name", "connector.class", "tasks.max"];
  const known = first.filter((key) => key in config);
  return [...known, ...Object.keys(config).filter((key) => !first.includes(key))];
}

/**
 * @param {Config} config
 * @param {{secrets: boolean, passwordKeys?: Set<string>}} options without secrets, keys whose values are secret or contain one are left out
 * @returns {{config: Config, omitted: string[]}}
 */
export function forFile(config, { secrets, passwordKeys }) {
  const omitted = secrets
    ? []
    : Object.keys(config).filter((key) => config[key] && shown(key, config[key], passwordKeys) !== config[key]);
  return {
    config: Object.fromEntries(ordered(config).filter((key) => !omitted.includes(key)).map((key) => [key, config[key]])),
    omitted,
  };
}

/** @param {Config} config @param {string[]} omitted */
export function toProperties(config, omitted = []) {
  const lines = Object.entries(config).map(([key, value]) => `${escapeKey(key)}=${escapeValue(value)}`);
  return [...lines, ...omitted.map((key) => `# ${key}: a secret; use a reference such as \${file:/run/secrets/db:${key}}`), ""].join("\n");
}

/** @param {Config} config */
export function toJson(config) {
  const { name = "", ...rest } = config;
  return `${JSON.stringify({ name, config: { name, ...rest } }, null, 2)}\n`;
}

/** @param {string} key */
const escapeKey = (key) => escapeText(key).replace(/[ =:]/g, "\\$&").replace(/^[#!]/, "\\$&");

/** @param {string} value */
const escapeValue = (value) => escapeText(String(value)).replace(/^ /, "\\ ");

/** @param {string} text */
const escapeText = (text) =>
  text.replace(/\\/g, "\\\\").replace(/\n/g, "\\n").replace(/\r/g, "\\r").replace(/\t/g, "\\t").replace(/\f/g, "\\f");

/**
 * @param {Config | null} before
 * @param {Config | null} after
 * @returns {{key: string, mark: "+" | "-" | "~" | " ", before: string | undefined, after: string | undefined}[]}
 */
export function diffConfigs(before, after) {
  const keys = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].sort();
  return keys.map((key) => {
    const one = before?.[key];
    const two = after?.[key];
    const mark = one === two ? " " : one === undefined ? "+" : two === undefined ? "-" : "~";
    return { key, mark, before: one, after: two };
  });
}

/** Offers a text as a download. @param {string} fileName @param {string} text @param {string} type */
export function download(fileName, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
