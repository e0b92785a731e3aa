/** Results of the last verification of a connector's data. */
import { optional, path, send } from "../lib/api.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html } from "../lib/preact.js";
import { Absent, Card, ErrorNote, Facts, Loading } from "../parts/basics.js";

const REFRESH_MS = 15_000;

/** @param {import("./page.js").PanelProps} props */
export function VerificationPanel({ name }) {
  const { value, error } = usePolling(
    async () => (await optional("verification", () => send("GET", `sluice/${path("connectors", name, "verification")}`))) ?? null,
    REFRESH_MS,
    [name],
  );
  if (value === undefined) return error ? html`<${ErrorNote} error=${error} />` : html`<${Loading} />`;
  if (value === null) return html`<${Absent}>This worker has no results of verifications. Run <code>sluice verify</code>.<//>`;
  const tables = Array.isArray(value.tables) ? value.tables : [];
  const simple = Object.entries(value).filter(([, one]) => one === null || typeof one !== "object");
  return html`
    <${ErrorNote} error=${error} />
    <${Card} title="Verification" id="verification">
      <div class="pad"><${Facts} facts=${simple.map(([key, one]) => [name_(key), key.endsWith("_ms") && one ? format.dateTime(one) : String(one ?? "–")])} /></div>
    <//>
    ${tables.length > 0 && html`
      <${Card} title="Tables" id="verified-tables" hint=${format.plural(tables.length, "table")}>
        ${tables.map((/** @type {any} */ table, /** @type {number} */ at) => html`<details class="letter" key=${at}><summary>${table.table ?? table.name ?? `Table ${at + 1}`} <span class="sub">${table.state ?? table.status ?? (table.equal === true ? "equal" : "")}</span></summary><pre class="trace" tabindex="0">${JSON.stringify(table, null, 2)}</pre></details>`)}
      <//>
    `}
  `;
}

/** @param {string} key */
const name_ = (key) => key.charAt(0).toUpperCase() + key.slice(1).replaceAll("_", " ");
