/** The editor of the transformation chain and its predicates. */
import { keysOf, pluginList } from "../lib/definitions.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html, useState } from "../lib/preact.js";
import { Field } from "./field.js";

/** @typedef {Record<string, string>} Config */
/** @typedef {(changes: Record<string, string | undefined>) => void} Change */

/** @param {Config} config @param {string} list `transforms` or `predicates` */
const aliasesOf = (config, list) => (config[list] ?? "").split(",").map((one) => one.trim()).filter(Boolean);

/** An alias that is not taken. @param {string} className @param {string[]} taken */
function newAlias(className, taken) {
  const stem = format.shortClass(className).replace(/\W+/g, "").replace(/^./, (letter) => letter.toLowerCase()) || "step";
  let alias = stem;
  for (let at = 2; taken.includes(alias); at += 1) alias = `${stem}${at}`;
  return alias;
}

/** @param {{config: Config, original: Config | null, change: Change, validation: import("./editor.js").Validation | null}} props */
export function ChainEditor({ config, original, change, validation }) {
  const { value: all } = usePolling(pluginList, 0, []);
  const classes = (/** @type {string} */ type) => [...new Set((all ?? []).filter((one) => one.type === type).map((one) => one.class))].sort();
  return html`
    <${Stages} list="transforms" title="Transformations" one="transformation" classes=${classes("transformation")} config=${config} original=${original} change=${change} validation=${validation}
      help="Each record passes these from top to bottom, before a source's records are written to Kafka or after a sink's records are read from it." />
    <${Stages} list="predicates" title="Predicates" one="predicate" classes=${classes("predicate")} config=${config} original=${original} change=${change} validation=${validation}
      help="A transformation with a predicate runs only for records for which it is true, or with negate, false." />
  `;
}

/** @param {{list: "transforms" | "predicates", title: string, one: string, classes: string[], help: string, config: Config, original: Config | null, change: Change, validation: any}} props */
function Stages({ list, title, one, classes, help, config, original, change, validation }) {
  const [chosen, setChosen] = useState("");
  const aliases = aliasesOf(config, list);
  const write = (/** @type {string[]} */ next, /** @type {Record<string, string | undefined>} */ more = {}) => change({ [list]: next.length ? next.join(",") : undefined, ...more });
  const add = () => {
    if (!chosen) return;
    const alias = newAlias(chosen, aliases);
    write([...aliases, alias], { [`${list}.${alias}.type`]: chosen });
    setChosen("");
  };
  const remove = (/** @type {string} */ alias) => {
    const own = Object.keys(config).filter((key) => key.startsWith(`${list}.${alias}.`));
    const users = list === "predicates" ? Object.keys(config).filter((key) => /^transforms\..+\.predicate$/.test(key) && config[key] === alias) : [];
    write(aliases.filter((each) => each !== alias), Object.fromEntries([...own, ...users].map((key) => [key, undefined])));
  };
  const move = (/** @type {number} */ from, /** @type {number} */ by) => {
    const next = [...aliases];
    const [alias] = next.splice(from, 1);
    next.splice(from + by, 0, alias);
    write(next);
  };
  return html`
    <section class="card" aria-labelledby=${list}>
      <header class="card-head"><h2 id=${list}>${title}</h2><span class="card-hint">${aliases.length || "none"}</span></header>
      <div class="pad">
        <p class="help">${help}</p>
        <ol class="stages">
          ${aliases.map((alias, at) => html`
            <${Stage} key=${alias} list=${list} alias=${alias} at=${at} count=${aliases.length} classes=${classes} config=${config} original=${original} change=${change}
              validation=${validation} move=${move} remove=${remove} />
          `)}
        </ol>
        <div class="inline">
          <select aria-label="Class of the ${one} to add" value=${chosen} onChange=${(event) => setChosen(event.target.value)}>
            <option value="">Choose a ${one}…</option>
            ${classes.map((each) => html`<option key=${each} value=${each}>${nameOf(each)}</option>`)}
          </select>
          <button type="button" class="button small" disabled=${!chosen} onClick=${add}>Add ${one}</button>
        </div>
      </div>
    </section>
  `;
}

/** @param {string} className `org...InsertField$Value` -> `InsertField$Value` */
const nameOf = (className) => className.split(/[.:]/).pop() ?? className;

function Stage({ list, alias, at, count, classes, config, original, change, validation, move, remove }) {
  const prefix = `${list}.${alias}.`;
  const type = config[`${prefix}type`] ?? "";
  const { value: keys } = usePolling(() => (type ? keysOf(type) : Promise.resolve([])), 0, [type]);
  const predicates = aliasesOf(config, "predicates");
  const typeErrors = validation?.keys.get(`${prefix}type`)?.value?.errors ?? [];
  const known = new Set(["type", "predicate", "negate", ...(keys ?? []).map((key) => key.name)]);
  const unknown = Object.keys(config).filter((key) => key.startsWith(prefix) && !known.has(key.slice(prefix.length)));
  const isShown = (/** @type {any} */ key) => key.required || key.importance !== "LOW" || `${prefix}${key.name}` in config;
  const isStored = (/** @type {string} */ key) => Boolean(original && original[key]);
  const field = (/** @type {any} */ key) => html`
    <${Field} key=${key.name} definition=${{ ...key, name: `${prefix}${key.name}` }} label=${key.name} checked=${validation?.keys.get(`${prefix}${key.name}`)?.value ?? null}
      value=${config[`${prefix}${key.name}`]} isStored=${isStored(`${prefix}${key.name}`)} showsErrors=${true} change=${change} />
  `;
  const own = (keys ?? []).filter((key) => !["predicate", "negate"].includes(key.name));
  const more = own.filter((key) => !isShown(key));
  return html`
    <li class="stage">
      <div class="stage-head">
        <span class="stage-number" aria-hidden="true">${at + 1}</span>
        <strong>${alias}</strong>
        <span class="sub">${nameOf(type)}</span>
        <span class="stage-actions">
          ${list === "transforms" && html`
            <button type="button" class="icon-button" disabled=${at === 0} aria-label="Move ${alias} up" onClick=${() => move(at, -1)}>↑</button>
            <button type="button" class="icon-button" disabled=${at === count - 1} aria-label="Move ${alias} down" onClick=${() => move(at, 1)}>↓</button>
          `}
          <button type="button" class="icon-button" aria-label="Remove ${alias}" onClick=${() => remove(alias)}>×</button>
        </span>
      </div>
      <div class="fields">
        <div class="field">
          <label for="f-${prefix}type">Class</label>
          <select id="f-${prefix}type" value=${type} onChange=${(event) => change({ [`${prefix}type`]: event.target.value })}>
            ${!classes.includes(type) && html`<option value=${type}>${type}</option>`}
            ${classes.map((each) => html`<option key=${each} value=${each}>${nameOf(each)}</option>`)}
          </select>
          ${typeErrors.map((error) => html`<p class="field-error" key=${error}>${error}</p>`)}
        </div>
        ${own.filter(isShown).map(field)}
        ${unknown.map((key) => html`<${Field} key=${key} definition=${{ name: key, type: "STRING", required: false, default_value: null, documentation: null }} label=${key.slice(prefix.length)} checked=${null} value=${config[key]} isStored=${isStored(key)} showsErrors=${true} change=${change} removable=${true} />`)}
        ${list === "transforms" && (predicates.length > 0 || config[`${prefix}predicate`]) && html`
          <div class="field">
            <label for="f-${prefix}predicate">Predicate</label>
            <div class="inline">
              <select id="f-${prefix}predicate" value=${config[`${prefix}predicate`] ?? ""} onChange=${(event) => change({ [`${prefix}predicate`]: event.target.value || undefined, ...(event.target.value ? {} : { [`${prefix}negate`]: undefined }) })}>
                <option value="">none: runs for every record</option>
                ${predicates.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
              </select>
              <label class="check-label"><input type="checkbox" disabled=${!config[`${prefix}predicate`]} checked=${config[`${prefix}negate`] === "true"} onChange=${(event) => change({ [`${prefix}negate`]: event.target.checked ? "true" : undefined })} /> negate</label>
            </div>
          </div>
        `}
        ${more.length > 0 && html`<details class="more"><summary>${format.plural(more.length, "more key")}</summary><div class="fields">${more.map(field)}</div></details>`}
      </div>
    </li>
  `;
}
