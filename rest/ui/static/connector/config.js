/** The configuration of a connector, and as a file. */
import { download, forFile, toJson, toProperties } from "../lib/config_files.js";
import { passwordKeysOf } from "../lib/definitions.js";
import { useWorker } from "../lib/context.js";
import { usePolling } from "../lib/polling.js";
import { html, useState } from "../lib/preact.js";
import { href } from "../lib/router.js";
import { shown } from "../lib/secrets.js";
import { Card, CopyButton, ErrorNote, Loading } from "../parts/basics.js";


/** @param {import("./page.js").PanelProps & {configError: Error | null}} props */
export function ConfigPanel({ name, config, configError }) {
  const worker = useWorker();
  const [search, setSearch] = useState("");
  const plugin = config["connector.class"];
  const secret = usePolling(async () => ({ plugin, keys: await passwordKeysOf(plugin) }), 0, [plugin]);
  if (configError) return html`<${ErrorNote} error=${configError} />`;
  // The last answer may be about the connector that the page showed before.
  if (!plugin || secret.value?.plugin !== plugin) return secret.error ? html`<${ErrorNote} error=${secret.error} />` : html`<${Loading} />`;
  const passwordKeys = secret.value.keys;
  const keys = Object.keys(config).sort().filter((key) => `${key} ${shown(key, config[key], passwordKeys)}`.toLowerCase().includes(search.toLowerCase()));
  const edit = !worker.readOnly && html`<a class="button small" href=${href(["connectors", name, "edit"])}>Edit</a>`;
  return html`
    <${Card} title="Configuration" id="config" actions=${html`<${FileButtons} name=${name} config=${config} passwordKeys=${passwordKeys} />${edit}`}>
      <div class="pad"><input type="search" placeholder="Search keys and values" aria-label="Search keys and values" value=${search} onInput=${(event) => setSearch(event.target.value)} /></div>
      <div class="scroll" tabindex="0" role="region" aria-label="Keys and values">
        <table class="data config">
          <thead class="visually-hidden"><tr><th scope="col">Key</th><th scope="col">Value</th></tr></thead>
          <tbody>${keys.map((key) => html`<tr key=${key}><th scope="row">${key}</th><td>${shown(key, config[key], passwordKeys)}</td></tr>`)}</tbody>
        </table>
      </div>
    <//>
  `;
}

/** Copy and download; secrets are left out. @param {{name: string, config: Record<string, string>, passwordKeys: Set<string>}} props */
export function FileButtons({ name, config, passwordKeys }) {
  const file = () => forFile({ name, ...config }, { secrets: false, passwordKeys });
  const properties = () => toProperties(file().config, file().omitted);
  const fileName = name.replace(/[^\w.-]+/g, "_") || "connector";
  return html`
    <${CopyButton} text=${properties} label="Copy" />
    <button type="button" class="button small" onClick=${() => download(`${fileName}.properties`, properties(), "text/plain")}>.properties</button>
    <button type="button" class="button small" onClick=${() => download(`${fileName}.json`, toJson(file().config), "application/json")}>.json</button>
  `;
}
