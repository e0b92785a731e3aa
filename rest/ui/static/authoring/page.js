/** Creating and changing a connector: choose a plugin, fill in its form, see the file. */
import { connectors as api } from "../lib/api.js";
import { useWorker } from "../lib/context.js";
import { pluginList } from "../lib/definitions.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html, useEffect, useState } from "../lib/preact.js";
import { href } from "../lib/router.js";
import { ErrorNote, Loading, Note } from "../parts/basics.js";
import { Editor } from "./editor.js";

/** @param {{name?: string, plugin?: string | null}} props with `name`, an existing connector is edited */
export function EditPage({ name, plugin }) {
  const worker = useWorker();
  useEffect(() => {
    document.title = name ? `Edit ${name} – Sluice` : "New connector – Sluice";
  }, [name]);
  if (worker.readOnly) return html`<${Note} kind="warning" title="Read-only">This page may only show (ui.read.only).<//>`;
  if (name) return html`<${Existing} name=${name} />`;
  if (!plugin) return html`<${PluginPicker} />`;
  return html`
    <p class="back"><a href="#/new">← All plugins</a></p>
    <${Editor} key=${plugin} plugin=${plugin} original=${null} />
  `;
}

/** @param {{name: string}} props */
function Existing({ name }) {
  const { value, error } = usePolling(() => api.config(name), 0, [name]);
  const back = html`<p class="back"><a href=${href(["connectors", name, "config"])}>← ${name}</a></p>`;
  if (!value) return html`${back}${error ? html`<${ErrorNote} error=${error} />` : html`<${Loading} />`}`;
  return html`${back}<${Editor} plugin=${value["connector.class"] ?? ""} original=${value} name=${name} />`;
}

function PluginPicker() {
  const { value, error } = usePolling(pluginList, 0, []);
  const [search, setSearch] = useState("");
  if (!value) return error ? html`<${ErrorNote} error=${error} />` : html`<${Loading} />`;
  const words = search.toLowerCase();
  const found = value.filter((one) => ["source", "sink"].includes(one.type) && one.class.toLowerCase().includes(words));
  return html`
    <div class="page-head"><h1>New connector</h1></div>
    <div class="filters"><input type="search" placeholder="Search plugins" aria-label="Search plugins" value=${search} onInput=${(event) => setSearch(event.target.value)} /></div>
    ${["source", "sink"].map((type) => {
      const ofType = found.filter((one) => one.type === type);
      return ofType.length > 0 && html`
        <h2 class="group-title">${type === "source" ? "Sources: from a system into Kafka" : "Sinks: from Kafka into a system"}</h2>
        <ul class="plugins">
          ${ofType.map((one) => html`
            <li key=${`${one.class} ${one.version}`}><a href=${href(["new"], { class: one.class })}>
              <strong>${format.shortClass(one.class)}</strong>
              <span class="sub">${one.class}${one.version ? ` · ${one.version}` : ""}</span>
            </a></li>
          `)}
        </ul>
      `;
    })}
    ${found.length === 0 && html`<p class="nothing">No plugin matches.</p>`}
  `;
}
