/** The table picker: the tables of the database, by schema, with a search box. */
import { send } from "../lib/api.js";
import * as format from "../lib/format.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/preact.js";
import { entryOf, matcher, readSelection, writeSelection } from "../lib/selections.js";
import { ErrorNote, Note } from "../parts/basics.js";
import { Dialog } from "../parts/dialog.js";

/**
 * @typedef {import("./connection_test.js").Finding} Finding
 * @typedef {{name: string, entry: string, kind: string, database: string | null, schema: string | null, rows: number | null, size_bytes: number | null,
 *   has_primary_key: boolean | null, details: Record<string, string>, findings: Finding[]}} Table
 * @typedef {{collections: Table[], hidden: number, is_truncated: boolean}} Listing
 */

const PAGE = 100;
const NO_SCHEMA = "Tables";

/**
 * A button that opens the picker for one key.
 * @param {{name: string, form: "name" | "regex", value: string, config: Record<string, string>, set: (value: string) => void}} props
 */
export function TablePickerButton({ name, form, value, config, set }) {
  const [isOpen, setOpen] = useState(false);
  return html`
    <button type="button" class="button small choose-tables" aria-haspopup="dialog" onClick=${() => setOpen(true)} aria-label="Choose tables for ${name}">Choose tables…</button>
    ${isOpen && html`<${TablePicker} name=${name} form=${form} value=${value} config=${config} set=${set} onClose=${() => setOpen(false)} />`}
  `;
}

function TablePicker({ name, form, value, config, set, onClose }) {
  const [listing, setListing] = useState(/** @type {Listing | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
  const [patterns, setPatterns] = useState(/** @type {string[]} */ ([]));
  const [search, setSearch] = useState("");
  const [onlyChosen, setOnlyChosen] = useState(false);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    setError(null);
    send("POST", "sluice/data-collections", { body: { config }, signal: controller.signal }).then(
      (/** @type {Listing} */ found) => {
        const selection = readSelection(value, found.collections, form);
        setListing(found);
        setChosen(selection.chosen);
        setPatterns(selection.patterns);
      },
      (failure) => controller.signal.aborted || setError(failure),
    );
    return () => controller.abort();
  }, [turn]);
  const box = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => box.current?.focus(), [listing]);
  const tables = listing?.collections ?? [];
  const matched = useMemo(() => {
    const find = matcher(patterns, form);
    return new Map(tables.flatMap((one) => {
      const pattern = find(one.name);
      return pattern === null ? [] : [[one.name, pattern]];
    }));
  }, [tables, patterns, form]);
  const isChosen = (/** @type {Table} */ one) => chosen.has(entryOf(one, form)) || matched.has(one.name);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = tables.filter((one) => words.every((word) => one.name.toLowerCase().includes(word)) && (!onlyChosen || isChosen(one)));
  const schemas = useMemo(() => groupBySchema(found), [tables, search, onlyChosen, chosen]);
  const count = tables.filter(isChosen).length;
  const unkeyed = tables.filter((one) => isChosen(one) && one.findings.some((finding) => finding.code === "no-primary-key")).length;

  /** @param {Table[]} some @param {boolean} on */
  const choose = (some, on) => setChosen((before) => {
    const next = new Set(before);
    for (const one of some) {
      if (on && !matched.has(one.name)) next.add(entryOf(one, form));
      else next.delete(entryOf(one, form));
    }
    return next;
  });
  const apply = (/** @type {Event} */ event) => {
    event.preventDefault();
    set(writeSelection({ chosen, patterns }, tables, form));
    onClose();
  };
  const isEvery = found.length > 0 && found.every(isChosen);
  return html`
    <${Dialog} title="Tables for ${name}" onClose=${onClose} wide=${true}>
      <form onSubmit=${apply} class="tables">
        ${error && html`<${ErrorNote} error=${error} what="The tables cannot be listed" /><p><button type="button" class="button small" onClick=${() => setTurn(turn + 1)}>Try again</button></p>`}
        ${!listing && !error && html`<p class="loading" role="status">Reading the tables of the database…</p>`}
        ${listing && html`
          <div class="tables-head">
            <input type="search" ref=${box} placeholder="Search tables" aria-label="Search tables" value=${search} onInput=${(event) => setSearch(event.target.value)} />
            <label class="check-label"><input type="checkbox" checked=${onlyChosen} onChange=${(event) => setOnlyChosen(event.target.checked)} /> only chosen</label>
            <button type="button" class="button small" disabled=${!found.length || isEvery} onClick=${() => choose(found, true)}>Select all matching (${format.number(found.length)})</button>
            <button type="button" class="button small" disabled=${!found.some((one) => chosen.has(entryOf(one, form)))} onClick=${() => choose(found, false)}>Clear matching</button>
          </div>
          <p class="sub" role="status">${format.number(count)} of ${format.plural(tables.length, "table")} chosen${found.length < tables.length ? `, ${format.number(found.length)} match` : ""}</p>
          ${unkeyed > 0 && html`<${Note} kind="warning">${format.plural(unkeyed, "chosen table has", "chosen tables have")} no key: ${unkeyed === 1 ? "its" : "their"} records have no key, so sinks cannot update or delete rows.<//>`}
          ${listing.is_truncated && html`<${Note} kind="warning">There are more tables than are shown. Type their names, or a regular expression, into the field.<//>`}
          ${listing.hidden > 0 && html`<p class="sub">${format.plural(listing.hidden, "table is", "tables are")} not shown: their names contain a secret of the configuration.</p>`}
          <div class="tables-list" tabindex="-1">
            ${schemas.map(([schema, ofSchema]) => html`<${Schema} key=${schema} schema=${schema} tables=${ofSchema} isAlone=${schemas.length === 1} isChosen=${isChosen} matched=${matched} choose=${choose} />`)}
            ${tables.length === 0 && html`<p class="nothing">The user sees no table.</p>`}
            ${tables.length > 0 && found.length === 0 && html`<p class="nothing">No table matches.</p>`}
          </div>
          ${patterns.length > 0 && html`<p class="sub">Kept as typed: <code>${patterns.join(",")}</code></p>`}
        `}
        <div class="dialog-buttons">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button type="submit" class="button primary" disabled=${!listing}>Use ${format.plural(chosen.size + patterns.length, "entry", "entries")}</button>
        </div>
      </form>
    <//>
  `;
}

/** @param {Table[]} tables @returns {[string, Table[]][]} */
function groupBySchema(tables) {
  /** @type {Map<string, Table[]>} */
  const groups = new Map();
  for (const one of tables) {
    const schema = one.schema ?? NO_SCHEMA;
    const list = groups.get(schema);
    if (list) list.push(one);
    else groups.set(schema, [one]);
  }
  return [...groups];
}

/** The tables of a schema, a page of them at a time: thousands of rows would make the browser slow. */
function Schema({ schema, tables, isAlone, isChosen, matched, choose }) {
  const [shown, setShown] = useState(PAGE);
  const [isOpen, setOpen] = useState(/** @type {boolean | null} */ (null));
  const all = useRef(/** @type {HTMLInputElement | null} */ (null));
  const count = tables.filter(isChosen).length;
  useEffect(() => {
    if (all.current) all.current.indeterminate = count > 0 && count < tables.length;
  }, [count, tables.length]);
  const open = isOpen ?? (isAlone || tables.length <= PAGE || count > 0);
  return html`
    <section class="schema" aria-label="Schema ${schema}">
      <div class="schema-head">
        <label class="check-label"><input type="checkbox" ref=${all} checked=${count === tables.length} aria-label="All tables of ${schema}" onChange=${(event) => choose(tables, event.target.checked)} /> <strong>${schema}</strong></label>
        <span class="sub">${format.number(count)} of ${format.number(tables.length)}</span>
        <button type="button" class="button small quiet" aria-expanded=${open} onClick=${() => setOpen(!open)} aria-label="${open ? "Hide" : "Show"} tables of ${schema}">${open ? "Hide" : "Show"}</button>
      </div>
      ${open && html`
        <ul>
          ${tables.slice(0, shown).map((/** @type {Table} */ one) => html`<${Row} key=${one.name} one=${one} isChosen=${isChosen(one)} pattern=${matched.get(one.name)} choose=${choose} />`)}
        </ul>
        ${tables.length > shown && html`<button type="button" class="button small" onClick=${() => setShown(shown + PAGE)}>Show ${format.number(Math.min(PAGE, tables.length - shown))} more of ${schema}</button>`}
      `}
    </section>
  `;
}

/** @param {{one: Table, isChosen: boolean, pattern: string | undefined, choose: (some: Table[], on: boolean) => void}} props */
function Row({ one, isChosen, pattern, choose }) {
  const facts = [
    one.kind === "table" ? null : one.kind,
    one.rows === null ? null : `about ${format.short(one.rows)} rows`,
    one.size_bytes ? format.bytes(one.size_bytes) : null,
    ...Object.entries(one.details).map(([key, value]) => `${key}: ${value}`),
  ].filter(Boolean);
  const short = one.schema && one.name.startsWith(`${one.schema}.`) ? one.name.slice(one.schema.length + 1) : one.name;
  return html`
    <li class="table-row">
      <label class="check-label table-choice">
        <input type="checkbox" checked=${isChosen} disabled=${pattern !== undefined} onChange=${(event) => choose([one], event.target.checked)} />
        <span><span class="table-name">${short}</span> <span class="sub">${facts.join(" · ")}${pattern === undefined ? "" : ` · chosen by ${pattern}`}</span></span>
      </label>
      ${one.findings.map((finding) => html`<p class="table-warning" key=${finding.code}><span aria-hidden="true">⚠</span> ${finding.message}${finding.suggestion ? html`. <span class="sub">${finding.suggestion}</span>` : null}</p>`)}
    </li>
  `;
}
