/** The editor of one configuration: form, transformations, checks, and the resulting file. */
import { connectors as api, plugins } from "../lib/api.js";
import { diffConfigs } from "../lib/config_files.js";
import { UNKNOWN_KEYS, passwordKeysOf } from "../lib/definitions.js";
import * as format from "../lib/format.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/preact.js";
import { navigate, href } from "../lib/router.js";
import { shown } from "../lib/secrets.js";
import { forgetClass, refresh } from "../lib/store.js";
import { follow } from "../parts/actions.js";
import { ConfigDiff } from "../parts/basics.js";
import { Confirm } from "../parts/dialog.js";
import { say } from "../parts/toasts.js";
import { ChainEditor } from "./chain.js";
import { ConnectionTestPanel, useCapabilities } from "./connection_test.js";
import { FilePanel } from "./file_panel.js";
import { GroupedForm } from "./form.js";
import { PreviewPanel } from "./preview_panel.js";

const DEBOUNCE_MS = 350;

/** @typedef {import("../lib/config_files.js").Config} Config */
/** @typedef {{definition: import("../lib/definitions.js").Definition | null, value: {name: string, value: string | null, recommended_values: (string | null)[], errors: string[], visible: boolean}}} Checked */
/** @typedef {{groups: string[], keys: Map<string, Checked>, errorCount: number}} Validation */

/** @param {any} answer @returns {Validation} */
function readValidation(answer) {
  const keys = new Map();
  for (const one of answer.configs) {
    const name = one.value?.name ?? one.definition?.name;
    if (name) keys.set(name, one);
  }
  return { groups: answer.groups, keys, errorCount: answer.error_count };
}

/**
 * Has the worker validate the configuration whenever it has changed.
 * @param {string} plugin @param {Config} config
 */
function useValidation(plugin, config) {
  const [found, setFound] = useState({ validation: /** @type {Validation | null} */ (null), error: "", isBusy: true });
  const [turn, setTurn] = useState(0);
  const isFirst = useRef(true);
  const text = JSON.stringify(config);
  useEffect(() => {
    const controller = new AbortController();
    setFound((before) => ({ ...before, isBusy: true }));
    const check = async () => {
      try {
        const validation = readValidation(await plugins.validate(plugin, config, controller.signal));
        if (!controller.signal.aborted) setFound({ validation, error: "", isBusy: false });
      } catch (error) {
        if (!controller.signal.aborted) setFound((before) => ({ ...before, error: /** @type {Error} */ (error).message, isBusy: false }));
      }
    };
    const timer = setTimeout(check, isFirst.current ? 0 : DEBOUNCE_MS);
    isFirst.current = false;
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [plugin, text, turn]);
  return { ...found, again: () => setTurn((before) => before + 1) };
}

/** @param {{plugin: string, original: Config | null, name?: string}} props `original`: the configuration that is edited */
export function Editor({ plugin, original, name: fixedName }) {
  const [config, setConfig] = useState(/** @type {Config} */ (original ?? { "connector.class": plugin }));
  const [typedName, setTypedName] = useState("");
  const [touched, setTouched] = useState(/** @type {Set<string>} */ (new Set()));
  const [showsAll, setShowsAll] = useState(false);
  const [asked, setAsked] = useState(/** @type {import("../parts/dialog.js").Question | null} */ (null));
  const [passwordKeys, setPasswordKeys] = useState(UNKNOWN_KEYS);
  const name = fixedName ?? typedName;
  const given = useMemo(() => ({ ...config, name: name || "new-connector" }), [config, name]);
  const { validation, error, isBusy, again } = useValidation(plugin, given);
  const capabilities = useCapabilities(plugin);
  useEffect(() => {
    setPasswordKeys(UNKNOWN_KEYS);
    passwordKeysOf(plugin).then(setPasswordKeys, () => {});
  }, [plugin]);

  /** Sets keys; undefined removes one. @param {Record<string, string | undefined>} changes */
  const change = (changes) => {
    setConfig((before) => {
      const next = { ...before, .../** @type {Config} */ (changes) };
      for (const [key, value] of Object.entries(changes)) if (value === undefined) delete next[key];
      return next;
    });
    setTouched((before) => new Set([...before, ...Object.keys(changes)]));
  };
  const isSink = (validation?.keys.has("topics") ?? false) && (validation?.keys.has("topics.regex") ?? false);
  const problems = validation ? [...validation.keys.values()].filter((one) => one.value?.errors?.length) : [];
  // What is not filled in yet is no error before somebody wants to save.
  const shownProblems = problems.filter((one) => showsAll || original || touched.has(one.value.name) || one.value.name in config);
  const unnamed = !name;

  const save = () => {
    setShowsAll(true);
    const first = problems[0];
    if (unnamed || first) {
      focusField(unnamed ? "connector-name" : `f-${first.value.name}`);
      return;
    }
    setAsked(original ? saveQuestion(name, original, config, passwordKeys) : createQuestion(name, config, passwordKeys));
  };

  return html`
    <div class="page-head">
      <div class="title">
        <h1>${original ? `Edit ${name}` : `New ${format.shortClass(plugin)}`}</h1>
        <p class="sub">${plugin}</p>
      </div>
    </div>
    <div class="editor">
      <div class="editor-form">
        ${!original && html`
          <section class="card"><div class="pad">
            <div class="field">
              <label for="connector-name">Name <span class="required">required</span></label>
              <input id="connector-name" class="wide-input" value=${typedName} onInput=${(event) => setTypedName(event.target.value.trim())} autocomplete="off" spellcheck=${false}
                aria-invalid=${unnamed && showsAll ? "true" : undefined} aria-describedby="connector-name-help" placeholder="orders-source" />
              <p class="help" id="connector-name-help">${unnamed && showsAll ? html`<span class="field-error">Give the connector a name.</span>` : "The name of the connector in this cluster."}</p>
            </div>
          </div></section>
        `}
        ${validation
          ? html`<${GroupedForm} validation=${validation} config=${config} given=${given} collectionKeys=${capabilities?.collection_keys ?? []} original=${original} change=${change} showsErrorsOf=${(/** @type {string} */ key) => showsAll || Boolean(original) || touched.has(key) || key in config} />`
          : !error && html`<p class="loading" role="status">Reading the keys of ${format.shortClass(plugin)}…</p>`}
        <${ChainEditor} config=${config} original=${original} change=${change} validation=${validation} />
        <${PreviewPanel} config=${given} isSink=${isSink} />
      </div>
      <div class="editor-side">
        <${ConnectionTestPanel} config=${given} capabilities=${capabilities} jump=${(/** @type {string} */ key) => focusField(`f-${key}`)} />
        <${Checks} validation=${validation} problems=${shownProblems} pending=${problems.length - shownProblems.length} error=${error} isBusy=${isBusy} again=${() => { setShowsAll(true); again(); }} />
        <${FilePanel} name=${name} config=${config} passwordKeys=${passwordKeys} />
        <div class="save">
          <button type="button" class="button primary" disabled=${isBusy && !validation} onClick=${save}>${original ? "Review and save" : "Create connector"}</button>
          <a class="button" href=${original ? href(["connectors", name, "config"]) : "#/new"}>Cancel</a>
        </div>
      </div>
    </div>
    ${asked && html`<${Confirm} question=${asked} onClose=${() => setAsked(null)} />`}
  `;
}

/** Focuses a field, also one in a fold. @param {string} id */
function focusField(id) {
  const field = document.getElementById(id);
  for (let fold = field?.closest("details"); fold; fold = fold.parentElement?.closest("details")) fold.open = true;
  field?.focus();
}

/** What the worker says about the configuration. */
function Checks({ validation, problems, pending, error, isBusy, again }) {
  const state = error ? "error" : problems.length ? "warning" : pending ? "info" : "good";
  const title = error
    ? "The worker cannot check it"
    : problems.length
      ? format.plural(problems.length, "problem")
      : pending ? `${format.plural(pending, "required value")} to fill in` : "The configuration is valid";
  const jump = (/** @type {string} */ key) => (/** @type {Event} */ event) => {
    event.preventDefault();
    focusField(`f-${key}`);
  };
  return html`
    <section class="card" aria-labelledby="checks">
      <header class="card-head">
        <h2 id="checks">Check</h2><span class="card-hint" role="status">${isBusy ? "checking…" : ""}</span>
        <div class="card-actions"><button type="button" class="button small" onClick=${again}>Check again</button></div>
      </header>
      ${validation || error
        ? html`
          <div class="pad" aria-live="polite">
            <p class="check check-${state}"><strong>${title}</strong></p>
            ${error && html`<p>${error}</p>`}
            ${problems.length > 0 && html`
              <ul class="problems">
                ${problems.map((/** @type {Checked} */ one) => html`<li key=${one.value.name}><a href="#" onClick=${jump(one.value.name)}>${one.value.name}</a>: ${one.value.errors.join(" ")}</li>`)}
              </ul>
            `}
            ${!error && !problems.length && !pending && html`<p class="muted">The worker validated every key of it.</p>`}
          </div>
        `
        : html`<p class="loading">Checking…</p>`}
    </section>
  `;
}

/** @param {string} name @param {Config} config @param {Set<string>} passwordKeys @returns {import("../parts/dialog.js").Question} */
function createQuestion(name, config, passwordKeys) {
  let initial = "RUNNING";
  const choose = (/** @type {Event} */ event) => {
    initial = /** @type {HTMLSelectElement} */ (event.target).value;
  };
  return {
    title: `Create ${name}?`, action: "Create", wide: true,
    text: html`
      <p><label>Start as <select onChange=${choose}><option value="RUNNING">running</option><option value="PAUSED">paused</option><option value="STOPPED">stopped</option></select></label></p>
      <${ConfigDiff} diff=${diffConfigs(null, config)} show=${(/** @type {string} */ key, /** @type {string} */ value) => shown(key, value, passwordKeys)} />
    `,
    run: async () => {
      await api.create(name, config, initial === "RUNNING" ? undefined : initial);
      finish(name, initial, `${name} was created`);
    },
  };
}

/** @param {string} name @param {Config} original @param {Config} config @param {Set<string>} passwordKeys @returns {import("../parts/dialog.js").Question} */
function saveQuestion(name, original, config, passwordKeys) {
  const diff = diffConfigs(original, config);
  const changes = Object.fromEntries(diff.filter((row) => row.mark !== " ").map((row) => [row.key, row.after ?? null]));
  return {
    title: `Save the configuration of ${name}?`, action: "Save and restart", wide: true,
    text: html`
      ${Object.keys(changes).length > 0 && html`<p>The connector restarts with the new configuration.</p>`}
      <${ConfigDiff} diff=${diff} show=${(/** @type {string} */ key, /** @type {string} */ value) => shown(key, value, passwordKeys)} />
    `,
    run: async () => {
      if (Object.keys(changes).length === 0) throw new Error("Nothing has changed.");
      await api.change(name, changes);
      const status = await api.status(name);
      finish(name, status.connector.state === "FAILED" ? "RUNNING" : status.connector.state, `${name} was saved`);
    },
  };
}

/** @param {string} name @param {string} state @param {string} message */
function finish(name, state, message) {
  forgetClass(name);
  say(message, "good");
  if (["RUNNING", "PAUSED", "STOPPED"].includes(state)) follow(name, state);
  refresh();
  navigate(href(["connectors", name]));
}
