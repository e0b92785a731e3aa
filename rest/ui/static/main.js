/** The frame of the page: header, routes, keyboard, and what the worker is. */
import { Overview } from "./overview.js";
import { worker as api } from "./lib/api.js";
import { WorkerContext } from "./lib/context.js";
import { html, render, useEffect, useRef, useState } from "./lib/preact.js";
import { currentRoute, navigate, useRoute } from "./lib/router.js";
import { refresh } from "./lib/store.js";
import { Dialog } from "./parts/dialog.js";
import { Loading, Note } from "./parts/basics.js";
import { ThemeButton } from "./parts/theme_button.js";
import { Toasts } from "./parts/toasts.js";

const RETRY_MS = 3000;

const SHORTCUTS = [
  ["/", "Search connectors"],
  ["j / k", "Next / previous connector in the list"],
  ["Enter", "Open the connector that has the focus"],
  ["x", "Select the connector that has the focus"],
  ["n", "New connector"],
  ["g then o", "Overview"],
  ["g then d", "Diagnosis"],
  ["1 … 9", "Tab of a connector"],
  ["Escape", "Close a dialog"],
  ["?", "This list"],
];

/** @returns {{worker: import("./lib/context.js").Worker | null, error: string, unauthorized: boolean}} */
function useWorkerInformation() {
  const [found, setFound] = useState({ worker: null, error: "", unauthorized: false });
  useEffect(() => {
    let timer = 0;
    async function ask() {
      try {
        const [info, settings, isSluice] = await Promise.all([api.info(), api.settings(), api.isSluice()]);
        setFound({
          worker: {
            isSluice, readOnly: settings.read_only, target: settings.target, version: info.version,
            clusterId: info.kafka_cluster_id,
          },
          error: "", unauthorized: false,
        });
      } catch (error) {
        setFound((before) => ({ ...before, error: error.message, unauthorized: error.status === 401 }));
        timer = setTimeout(ask, RETRY_MS);
      }
    }
    ask();
    const onUnauthorized = () => setFound((before) => ({ ...before, unauthorized: true }));
    document.addEventListener("sluice:unauthorized", onUnauthorized);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("sluice:unauthorized", onUnauthorized);
    };
  }, []);
  return found;
}

/** Whether a key belongs to what has the focus. @param {KeyboardEvent} event */
function isTyping(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  return event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable;
}

function useShortcuts(isReadOnly, showHelp) {
  const state = useRef({ isReadOnly, showHelp, isGoing: false });
  state.current.isReadOnly = isReadOnly;
  useEffect(() => {
    function onKey(/** @type {KeyboardEvent} */ event) {
      if (isTyping(event) || document.querySelector("dialog[open]")) return;
      const isGoing = state.current.isGoing;
      state.current.isGoing = event.key === "g";
      if (isGoing && event.key === "o") navigate("#/");
      else if (isGoing && event.key === "d") navigate("#/diagnosis");
      else if (event.key === "?") state.current.showHelp();
      else if (event.key === "n" && !state.current.isReadOnly) navigate("#/new");
      else if (event.key === "/") {
        event.preventDefault();
        const search = document.querySelector("input[type=search]");
        if (search instanceof HTMLElement) search.focus();
        else navigate("#/");
      } else if (/^[1-9]$/.test(event.key)) {
        const tab = document.querySelectorAll(".tabs a")[Number(event.key) - 1];
        if (tab instanceof HTMLElement) tab.click();
      }
    }
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

const Help = ({ onClose }) => html`
  <${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
    <dl class="shortcuts">
      ${SHORTCUTS.map(([keys, what]) => html`<div key=${keys}><dt>${keys.split(" ").map((key) => (/^(then|\/|…)$/.test(key) && key !== keys ? ` ${key} ` : html`<kbd>${key}</kbd>`))}</dt><dd>${what}</dd></div>`)}
    </dl>
    <div class="dialog-buttons"><button type="button" class="button" onClick=${onClose} autofocus>Close</button></div>
  <//>
`;

/** Pages other than the overview are loaded when they are needed, or when the browser is idle. */
const LOADERS = {
  connector: async () => (await import("./connector/page.js")).ConnectorPage,
  diagnosis: async () => (await import("./connector/diagnosis.js")).DiagnosisPage,
  edit: async () => (await import("./authoring/page.js")).EditPage,
};
const IDLE_AFTER_MS = 2000;
/** @type {Record<string, any>} */
const loaded = {};

/** @param {{page: keyof typeof LOADERS} & Record<string, any>} props */
function Lazy({ page, ...props }) {
  const [failure, setFailure] = useState("");
  const [, setLoaded] = useState("");
  const part = loaded[page];
  useEffect(() => {
    // What was rendered decides: the part may have been loaded in advance meanwhile.
    if (!part) load(page).then(() => setLoaded(page), () => setFailure("A part of the page could not be loaded. Reload the page."));
  }, [page]);
  if (part) return html`<${part} ...${props} />`;
  return failure ? html`<${Note} kind="error">${failure}<//>` : html`<${Loading} />`;
}

/** @param {string} page */
async function load(page) {
  loaded[page] = await LOADERS[/** @type {keyof typeof LOADERS} */ (page)]();
}

setTimeout(() => Object.keys(LOADERS).forEach((page) => load(page).catch(() => {})), IDLE_AFTER_MS);

/** @param {{route: import("./lib/router.js").Route}} props */
function Page({ route }) {
  const [first, name, tab] = route.parts;
  if (first === "connectors" && name !== undefined && tab === "edit") return html`<${Lazy} page="edit" key=${`edit ${name}`} name=${name} />`;
  if (first === "connectors" && name !== undefined) return html`<${Lazy} page="connector" key=${name} name=${name} tab=${tab ?? "tasks"} route=${route} />`;
  if (first === "new") return html`<${Lazy} page="edit" key="new" plugin=${route.query.get("class")} />`;
  if (first === "diagnosis") return html`<${Lazy} page="diagnosis" key="diagnosis" />`;
  return html`<${Overview} route=${route} />`;
}

function App() {
  const { worker, error, unauthorized } = useWorkerInformation();
  const [helps, setHelps] = useState(false);
  const route = useRoute();
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  useShortcuts(worker?.readOnly ?? true, () => setHelps(true));
  const place = route.parts.join("/");
  const firstPlace = useRef(place);
  useEffect(() => {
    // After a change of page, screen readers and the keyboard start at its content.
    if (place !== firstPlace.current) {
      firstPlace.current = place;
      if (!main.current?.contains(document.activeElement)) main.current?.focus({ preventScroll: true });
    }
  }, [place]);
  const at = route.parts[0] ?? "";
  const current = (/** @type {boolean} */ here) => (here ? "page" : undefined);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to content</a>
    <header class="top">
      <a class="brand" href="#/"><${Logo} /><span>Sluice</span></a>
      <nav aria-label="Main">
        <a href="#/" aria-current=${current(at === "" || at === "connectors")}>Connectors</a>
        ${worker?.isSluice && html`<a href="#/diagnosis" aria-current=${current(at === "diagnosis")}>Diagnosis</a>`}
        ${worker && !worker.readOnly && html`<a href="#/new" aria-current=${current(at === "new")}>New connector</a>`}
      </nav>
      <div class="top-end">
        ${worker && html`<span class="cluster" title=${worker.clusterId ? `Kafka cluster ${worker.clusterId}` : ""}>
          ${worker.isSluice ? "" : `Apache Kafka Connect ${worker.version} at `}${(worker.target ?? location.host).replace(/^https?:\/\//, "")}
        </span>`}
        ${worker?.readOnly && html`<span class="badge badge-paused">Read-only</span>`}
        <${ThemeButton} />
        <button type="button" class="icon-button" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick=${() => setHelps(true)}>?</button>
      </div>
    </header>
    <main id="main" tabindex="-1" ref=${main}>
      ${unauthorized && html`<${Note} kind="warning" title="Sign in">This worker asks who you are. <a href="ui/login">Sign in</a>, or reload the page.<//>`}
      ${!unauthorized && error && html`<${Note} kind="error" title="No connection">${error}<//>`}
      ${worker ? html`<${WorkerContext.Provider} value=${worker}><${Page} route=${route} /><//>` : !error && !unauthorized && html`<${Loading} />`}
    </main>
    <${Toasts} />
    ${helps && html`<${Help} onClose=${() => setHelps(false)} />`}
  `;
}

const Logo = () => html`
  <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
    <rect width="32" height="32" rx="7" class="logo-ground" />
    <path d="M7 11c3-3 6-3 9 0s6 3 9 0M7 17c3-3 6-3 9 0s6 3 9 0M7 23c3-3 6-3 9 0s6 3 9 0" class="logo-lines" />
  </svg>
`;

// The list is asked for before it is known which kind of worker answers.
if (currentRoute().parts.length === 0) refresh();
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren();
render(html`<${App} />`, root);
