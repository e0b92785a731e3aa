/** The overview: failures first, counts as filters, search, actions on several connectors. */
import { send } from "./lib/api.js";
import { useWorker } from "./lib/context.js";
import { RateReader } from "./lib/figures.js";
import * as format from "./lib/format.js";
import { usePolling } from "./lib/polling.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib/preact.js";
import { href, navigate } from "./lib/router.js";
import { STATES, stateLabel } from "./lib/state.js";
import { useConnectors } from "./lib/store.js";
import { ACTIONS, question } from "./parts/actions.js";
import { Badge, Loading, Note } from "./parts/basics.js";
import { Confirm } from "./parts/dialog.js";

const PAGE_SIZE = 50;
const FIGURES_MS = 3000;
/** @type {import("./parts/actions.js").Action[]} */
const BULK = ["restart", "restartFailed", "pause", "resume", "stop", "remove"];

/** @typedef {import("./lib/state.js").Summary} Summary */

/** @param {URLSearchParams} query */
const filterOf = (query) => ({
  state: query.get("state") ?? "",
  type: query.get("type") ?? "",
  q: query.get("q") ?? "",
  worker: query.get("worker") ?? "",
  page: Math.max(1, Number(query.get("page")) || 1),
});

/** @param {Summary} one @param {ReturnType<typeof filterOf>} filter */
const matches = (one, filter) => matchesButState(one, filter) && (!filter.state || one.state === filter.state);

/** @param {Summary} one @param {ReturnType<typeof filterOf>} filter */
function matchesButState(one, filter) {
  const words = filter.q.toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${one.name} ${one.className}`.toLowerCase();
  return (
    (!filter.type || one.type === filter.type) &&
    (!filter.worker || one.workers.includes(filter.worker)) &&
    words.every((word) => text.includes(word))
  );
}

/** @param {{route: import("./lib/router.js").Route}} props */
export function Overview({ route }) {
  const worker = useWorker();
  const { list, loaded, error } = useConnectors();
  const filter = filterOf(route.query);
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [asked, setAsked] = useState(/** @type {import("./parts/dialog.js").Question | null} */ (null));
  const found = useMemo(() => list.filter((one) => matches(one, filter)), [list, route]);
  const pages = Math.max(1, Math.ceil(found.length / PAGE_SIZE));
  const page = Math.min(filter.page, pages);
  const visible = found.slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE);
  const figures = useFigures(worker.isSluice, visible.map((one) => one.name));
  useEffect(() => {
    document.title = "Connectors – Sluice";
  }, []);

  const address = (/** @type {Record<string, any>} */ changes) => {
    const { page: _, ...rest } = filter;
    return href([], { ...rest, ...changes });
  };
  const chosen = [...selected].filter((name) => found.some((one) => one.name === name));
  const isAll = visible.length > 0 && visible.every((one) => selected.has(one.name));
  const toggle = (/** @type {string[]} */ names, /** @type {boolean} */ on) =>
    setSelected((before) => {
      const next = new Set(before);
      for (const name of names) on ? next.add(name) : next.delete(name);
      return next;
    });
  const ask = (/** @type {import("./parts/actions.js").Action} */ action) => {
    const wanted = question(action, chosen);
    setAsked({ ...wanted, run: async () => { await wanted.run(); setSelected(new Set()); } });
  };

  if (!loaded) return error ? html`<${Note} kind="error" title="The connectors cannot be read">${error}<//>` : html`<${Loading} />`;
  const others = list.filter((one) => matchesButState(one, filter));
  return html`
    <div class="page-head">
      <h1>Connectors</h1>
      ${!worker.readOnly && html`<a class="button primary" href="#/new">New connector</a>`}
    </div>
    ${error && html`<${Note} kind="warning" title="This list is not up to date">${error}<//>`}
    ${list.length === 0
      ? html`<${Empty} readOnly=${worker.readOnly} />`
      : html`
        <nav class="counts" aria-label="States">
          <${Count} label="All" count=${others.length} to=${address({ state: "" })} current=${!filter.state} />
          ${STATES.map((state) => {
            const count = others.filter((one) => one.state === state).length;
            return (count > 0 || state === filter.state || state === "FAILED") &&
              html`<${Count} key=${state} label=${stateLabel(state)} state=${state} count=${count} to=${address({ state })} current=${filter.state === state} />`;
          })}
        </nav>
        <${Filters} filter=${filter} list=${list} address=${address} />
        ${chosen.length > 0 && !worker.readOnly && html`
          <div class="bulk" role="toolbar" aria-label="Selected connectors">
            <strong>${format.plural(chosen.length, "connector")} selected</strong>
            ${BULK.map((action) => html`<button key=${action} type="button" class="button small ${action === "remove" ? "danger-text" : ""}" onClick=${() => ask(action)}>${ACTIONS[action].label}</button>`)}
            <button type="button" class="button small quiet" onClick=${() => setSelected(new Set())}>Clear</button>
          </div>
        `}
        ${found.length === 0
          ? html`<p class="nothing">No connector matches. <a href="#/">Show all</a></p>`
          : html`
            <${Table} rows=${visible} figures=${figures} hasFigures=${worker.isSluice} selectable=${!worker.readOnly}
              selected=${selected} isAll=${isAll} toggle=${toggle} />
            <${Pages} page=${page} pages=${pages} count=${found.length} address=${(/** @type {number} */ to) => address({ page: to > 1 ? String(to) : "" })} />
          `}
        ${!worker.isSluice && html`<p class="absent">Rates and lag are missing: a worker of Apache Kafka Connect does not report them over REST.</p>`}
      `}
    ${asked && html`<${Confirm} question=${asked} onClose=${() => setAsked(null)} />`}
  `;
}

/** Rates and lag of the connectors that are shown. @param {boolean} isSluice @param {string[]} names */
function useFigures(isSluice, names) {
  const reader = useRef(new RateReader());
  const query = JSON.stringify(names);
  const { value } = usePolling(async (signal) => {
    if (!isSluice || names.length === 0) return {};
    const found = await send("GET", `sluice/progress?scope=cluster&connectors=${encodeURIComponent(query)}`, { signal });
    const now = performance.now();
    return Object.fromEntries(
      Object.entries(found.connectors).map(([name, totals]) => [name, reader.current.read(name, /** @type {any} */ (totals), now)]),
    );
  }, isSluice ? FIGURES_MS : 0, [query]);
  return /** @type {Record<string, import("./lib/figures.js").Figures>} */ (value ?? {});
}

const Count = ({ label, state, count, to, current }) => html`
  <a class="count ${state === "FAILED" && count > 0 ? "count-failed" : ""}" href=${to} aria-current=${current ? "true" : undefined}>
    <strong>${format.number(count)}</strong> <span>${state && html`<i class="dot dot-${state.toLowerCase()}" aria-hidden="true"></i>`}${label}</span>
  </a>
`;

function Filters({ filter, list, address }) {
  const workers = useMemo(() => [...new Set(list.flatMap((one) => one.workers))].sort(), [list]);
  const change = (/** @type {string} */ key) => (/** @type {Event} */ event) =>
    navigate(address({ [key]: /** @type {HTMLInputElement} */ (event.target).value }), { replace: true });
  return html`
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <input type="search" placeholder="Search by name or class" aria-label="Search by name or class" value=${filter.q} onInput=${change("q")} autocomplete="off" spellcheck=${false} />
      <select aria-label="Type" value=${filter.type} onChange=${change("type")}>
        <option value="">All types</option><option value="source">Sources</option><option value="sink">Sinks</option>
      </select>
      ${workers.length > 1 && html`
        <select aria-label="Worker" value=${filter.worker} onChange=${change("worker")}>
          <option value="">All workers</option>
          ${workers.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
        </select>
      `}
    </form>
  `;
}

function Table({ rows, figures, hasFigures, selectable, selected, isAll, toggle }) {
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  useRowKeys(body);
  return html`
    <table class="list">
      <caption class="visually-hidden">Connectors, failures first</caption>
      <thead>
        <tr>
          ${selectable && html`<th class="select"><input type="checkbox" aria-label="Select all that are shown" checked=${isAll} onChange=${(event) => toggle(rows.map((one) => one.name), event.target.checked)} /></th>`}
          <th scope="col">Name</th>
          <th scope="col">State</th>
          <th scope="col" class="figure">Tasks</th>
          ${hasFigures && html`<th scope="col" class="figure">Records/s</th><th scope="col" class="figure">Lag</th>`}
          <th scope="col">Worker</th>
        </tr>
      </thead>
      <tbody ref=${body}>
        ${rows.map((one) => html`<${Row} key=${one.name} one=${one} figures=${figures[one.name]} hasFigures=${hasFigures} selectable=${selectable} isSelected=${selected.has(one.name)} toggle=${toggle} />`)}
      </tbody>
    </table>
  `;
}

/** @param {{one: Summary, figures?: import("./lib/figures.js").Figures, hasFigures: boolean, selectable: boolean, isSelected: boolean, toggle: (names: string[], on: boolean) => void}} props */
function Row({ one, figures, hasFigures, selectable, isSelected, toggle }) {
  const restarts = one.status.tasks.find((task) => task.restarts)?.restarts ?? one.status.connector.restarts;
  return html`
    <tr class=${one.state === "FAILED" ? "failed" : ""}>
      ${selectable && html`<td class="select"><input type="checkbox" aria-label="Select ${one.name}" checked=${isSelected} onChange=${(event) => toggle([one.name], event.target.checked)} /></td>`}
      <th scope="row" class="name">
        <a href=${href(["connectors", one.name])}>${one.name}</a>
        <span class="sub">${one.type}${one.className && ` · ${format.shortClass(one.className)}`}</span>
        ${one.failure && html`<span class="failure" title=${one.failure.what}>${one.failure.cause ?? one.failure.what}</span>`}
      </th>
      <td class="state"><${Badge} state=${one.state} />${restarts && restarts.count > 0 && html`<span class="sub">${format.plural(restarts.count, "restart")}</span>`}</td>
      <td class="figure" data-label="Tasks">${one.running}/${one.tasks}${one.failed.length > 0 && html`<span class="sub bad">${one.failed[0] === "connector" ? "connector failed" : `${one.failed.length} failed`}</span>`}</td>
      ${hasFigures && html`
        <td class="figure" data-label="Records/s">${format.rate(figures?.recordsPerS)}</td>
        <td class="figure" data-label="Lag">${format.short(figures?.lag)}</td>
      `}
      <td class="worker" data-label="Worker">${one.workers.length > 1 ? `${one.workers[0]} +${one.workers.length - 1}` : one.workers[0] ?? "–"}</td>
    </tr>
  `;
}

/** j, k, and x move and select in the list. @param {{current: HTMLElement | null}} body */
function useRowKeys(body) {
  // Before the rows are painted, so that no key is lost.
  useLayoutEffect(() => {
    function onKey(/** @type {KeyboardEvent} */ event) {
      const target = /** @type {HTMLElement} */ (event.target);
      const isField = /^(TEXTAREA|SELECT)$/.test(target.tagName) || (target instanceof HTMLInputElement && target.type !== "checkbox");
      if (isField || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
      const links = [...(body.current?.querySelectorAll("th.name a") ?? [])];
      const row = document.activeElement?.closest("tr");
      const at = links.findIndex((link) => link.closest("tr") === row);
      if (event.key === "j") /** @type {HTMLElement} */ (links[Math.min(at + 1, links.length - 1)])?.focus();
      else if (event.key === "k") /** @type {HTMLElement} */ (links[Math.max(at - 1, 0)])?.focus();
      else if (event.key === "x" && at >= 0) /** @type {HTMLElement} */ (row?.querySelector("input[type=checkbox]"))?.click();
    }
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

const Pages = ({ page, pages, count, address }) => html`
  <nav class="pages" aria-label="Pages">
    <span>${pages === 1 ? format.plural(count, "connector") : `${format.number((page - 1) * PAGE_SIZE + 1)}–${format.number(Math.min(page * PAGE_SIZE, count))} of ${format.number(count)}`}</span>
    ${page > 1 && html`<a class="button small" href=${address(page - 1)} rel="prev">Previous</a>`}
    ${page < pages && html`<a class="button small" href=${address(page + 1)} rel="next">Next</a>`}
  </nav>
`;

const Empty = ({ readOnly }) => html`
  <div class="empty">
    <h2>No connectors yet</h2>
    <p>A source connector writes records of another system into Kafka topics; a sink connector writes records of topics into another system.</p>
    ${!readOnly && html`<p><a class="button primary" href="#/new">Create a connector</a></p>`}
    <p class="muted">Or from a file: <code>sluice apply connectors/</code></p>
  </div>
`;
