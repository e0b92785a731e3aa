/** Which values of a configuration the page never shows. */

/** As the worker decides by name; keys of type PASSWORD are secret besides. */
const NAME = new RegExp(
  "passw|secret|token$|\\.token\\.(?!endpoint\\.url$)|jaas|credential(?!s\\.client\\.id$)|api[._-]?key|private[._-]?key|" +
    "keystore\\.key$|basic\\.auth\\.user\\.info",
  "i",
);
const IN_ORACLE_URL = /^(\s*jdbc:oracle:\w+:[^/"@(]*\/)(?!\$\{).*@/i;
// Secrets in a text of another key; references to config providers are none.
const IN_URL = /(:\/\/[^/\s:@]+:)(?!\$\{)[^/\s@]+@/g;
const IN_PARAMETER = /((?:password|passwd|pwd|secret|token|(?:access|account|api)[_-]?key)\s*[=:]\s*)(?!["']?\$\{)("[^"]*"|'[^']*'|[^\s&;,'"})\]]+)/gi;

export const HIDDEN = "[hidden]";

/** @param {string} key @param {Set<string>} [passwordKeys] */
export const isSecretKey = (key, passwordKeys) => NAME.test(key) || (passwordKeys?.has(key) ?? false);

/** Whether a value is a reference to a config provider and nothing else, so that it is shown. @param {string} value */
export const isReference = (value) => /^\$\{[^}:]*:[^}]*\}$/.test(value);

/**
 * A value as it may be shown.
 * @param {string} key
 * @param {string | null | undefined} value
 * @param {Set<string>} [passwordKeys] keys of type PASSWORD
 */
export function shown(key, value, passwordKeys) {
  if (value === null || value === undefined || value === "") return value ?? "";
  const text = String(value);
  if (isSecretKey(key, passwordKeys) && !isReference(text)) return HIDDEN;
  return text.replace(IN_ORACLE_URL, `$1${HIDDEN}@`).replace(IN_URL, `$1${HIDDEN}@`).replace(IN_PARAMETER, `$1${HIDDEN}`);
}
