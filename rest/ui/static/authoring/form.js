/** The form of a connector's keys, by group, from its ConfigDef. */
import * as format from "../lib/format.js";
import { html, useMemo, useState } from "../lib/preact.js";
import { Field } from "./field.js";

/** @typedef {import("./editor.js").Validation} Validation */
/** @typedef {import("./editor.js").Checked} Checked */

const HIDDEN_KEYS = new Set(["name", "connector.class"]);
/** The editor of the chain shows these. @param {string} key */
const isOfChain = (key) => /^(transforms|predicates)(\.|$)/.test(key);

/** Groups of keys that every connector has, in the worker's words. */
const FRAMEWORK = ["Common", "Transforms", "Predicates", "Error Handling", "Topic Creation", "Exactly Once Support", "offsets.topic"];

/** Titles of groups whose names are none. @type {Record<string, string>} */
const TITLES = { "offsets.topic": "Offsets topic", Common: "Tasks and converters" };

/** Groups of keys, the connector's own first. @param {Validation} validation @returns {[string, Checked[]][]} */
function byGroup(validation) {
  /** @type {Map<string, Checked[]>} */
  const groups = new Map();
  for (const one of validation.keys.values()) {
    const { definition } = one;
    if (!definition || HIDDEN_KEYS.has(definition.name) || isOfChain(definition.name)) continue;
    const group = definition.group || "Connector";
    groups.set(group, [...(groups.get(group) ?? []), one]);
  }
  const order = (/** @type {Checked} */ one) => one.definition?.order_in_group ?? one.definition?.order ?? 0;
  for (const keys of groups.values()) keys.sort((a, b) => order(a) - order(b));
  const rank = new Map(validation.groups.map((group, at) => [group, at]));
  const framework = (/** @type {string} */ group) => FRAMEWORK.indexOf(group) + 1;
  return [...groups].sort(([a], [b]) => framework(a) - framework(b) || (rank.get(a) ?? -1) - (rank.get(b) ?? -1));
}

/** Whether a key is shown at once. @param {Checked} one @param {Record<string, string>} config */
const isProminent = (one, config) =>
  one.definition?.required || one.definition?.importance === "HIGH" || (one.definition?.name ?? "") in config;

/**
 * @param {{validation: Validation, config: Record<string, string>, given: Record<string, string>, original: Record<string, string> | null,
 *   collectionKeys: import("./connection_test.js").CollectionKey[],
 *   change: (changes: Record<string, string | undefined>) => void, showsErrorsOf: (key: string) => boolean}} props
 */
export function GroupedForm({ validation, config, given, original, collectionKeys, change, showsErrorsOf }) {
  const [search, setSearch] = useState("");
  const groups = useMemo(() => byGroup(validation), [validation]);
  const words = search.toLowerCase();
  const isFound = (/** @type {Checked} */ one) => {
    const { name = "", display_name: label, documentation } = one.definition ?? {};
    return `${name} ${label ?? ""} ${documentation ?? ""}`.toLowerCase().includes(words);
  };
  const pickerOf = (/** @type {string | undefined} */ key) => {
    const found = collectionKeys.find((one) => one.name === key);
    return found ? { form: found.form, config: given } : null;
  };
  const field = (/** @type {Checked} */ one) => html`
    <${Field} key=${one.definition?.name} definition=${one.definition} checked=${one.value} value=${config[one.definition?.name ?? ""]} picker=${pickerOf(one.definition?.name)}
      isStored=${Boolean(original && (one.definition?.name ?? "") in original)} showsErrors=${showsErrorsOf(one.definition?.name ?? "")} change=${change} />
  `;
  return html`
    <div class="filters form-search"><input type="search" placeholder="Search keys" aria-label="Search keys" value=${search} onInput=${(event) => setSearch(event.target.value)} /></div>
    ${groups.map(([group, all]) => {
      const keys = all.filter((one) => one.value?.visible !== false && (!words || isFound(one)));
      if (!keys.length) return null;
      const first = words ? keys : keys.filter((one) => isProminent(one, config));
      const more = keys.filter((one) => !first.includes(one));
      const id = `group-${group.replace(/\W+/g, "-")}`;
      if (!first.length) {
        return html`
          <details class="card folded" key=${group}>
            <summary class="card-head"><h2 id=${id}>${TITLES[group] ?? group}</h2><span class="card-hint">${format.plural(keys.length, "key")}</span></summary>
            <div class="pad fields">${keys.map(field)}</div>
          </details>
        `;
      }
      return html`
        <section class="card" key=${group} aria-labelledby=${id}>
          <header class="card-head"><h2 id=${id}>${TITLES[group] ?? group}</h2></header>
          <div class="pad fields">
            ${first.map(field)}
            ${more.length > 0 && html`
              <details class="more">
                <summary>${format.plural(more.length, "more key")}</summary>
                <div class="fields">${more.map(field)}</div>
              </details>
            `}
          </div>
        </section>
      `;
    })}
    <${OtherKeys} config=${config} original=${original} isDefined=${(/** @type {string} */ key) => validation.keys.has(key)} change=${change} />
  `;
}

/** Keys that no definition has: settings of clients and converters, Sluice's own. */
function OtherKeys({ config, original, isDefined, change }) {
  const [typed, setTyped] = useState("");
  const keys = Object.keys(config).filter((key) => !isDefined(key) && !HIDDEN_KEYS.has(key) && !isOfChain(key));
  const add = (/** @type {Event} */ event) => {
    event.preventDefault();
    const key = typed.trim();
    if (key && !(key in config)) change({ [key]: "" });
    setTyped("");
  };
  return html`
    <section class="card" aria-labelledby="other-keys">
      <header class="card-head"><h2 id="other-keys">Additional keys</h2></header>
      <div class="pad fields">
        <p class="help">For settings of clients (<code>consumer.override.*</code>), of converters, and others that the form does not list.</p>
        ${keys.map((key) => html`
          <${Field} key=${key} definition=${{ name: key, type: "STRING", required: false, default_value: null, importance: "LOW", documentation: null, group: null, width: "LONG", display_name: null, dependents: [] }}
            checked=${null} value=${config[key]} isStored=${Boolean(original && original[key])} showsErrors=${true} change=${change} removable=${true} />
        `)}
        <form class="inline" onSubmit=${add}>
          <input aria-label="Key to add" placeholder="key" value=${typed} onInput=${(event) => setTyped(event.target.value)} spellcheck=${false} />
          <button type="submit" class="button small">Add key</button>
        </form>
      </div>
    </section>
  `;
}
