/** Earlier configurations: what changed, and rollback. */
import { path, send } from "../lib/api.js";
import { diffConfigs } from "../lib/config_files.js";
import { useWorker } from "../lib/context.js";
import { passwordKeysOf } from "../lib/definitions.js";
import * as format from "../lib/format.js";
import { usePolling } from "../lib/polling.js";
import { html } from "../lib/preact.js";
import { href } from "../lib/router.js";
import { shown } from "../lib/secrets.js";
import { follow } from "../parts/actions.js";
import { Card, ConfigDiff, ErrorNote, Loading } from "../parts/basics.js";

/** @typedef {{version: number, at: string, origin: string, deleted: boolean, changes: {added: string[], changed: string[], removed: string[]}}} Version */

/** @param {import("./page.js").PanelProps & {route: import("../lib/router.js").Route}} props */
export function HistoryPanel({ name, config, again, ask, route }) {
  const worker = useWorker();
  const root = `sluice/${path("connectors", name)}`;
  const history = usePolling(() => send("GET", `${root}/history`), 0, [name]);
  const chosen = Number(route.query.get("version")) || null;
  const plugin = config["connector.class"];
  const found = usePolling(
    async () => {
      const [then, secret] = await Promise.all([chosen ? send("GET", `${root}/history/${chosen}`) : null, passwordKeysOf(plugin)]);
      return { name, plugin, version: chosen, then, secret };
    },
    0,
    [name, chosen, plugin],
  );
  if (!history.value) return history.error ? html`<${ErrorNote} error=${history.error} />` : html`<${Loading} />`;
  /** @type {Version[]} */
  const versions = [...history.value].reverse();
  // The last answer may be about the version or connector that the page showed before.
  const isReady = chosen && found.value?.version === chosen && found.value.name === name && found.value.plugin === plugin;
  const diff = isReady ? diffConfigs(found.value.then, config) : [];
  const rollBack = () =>
    ask({
      title: `Restore version ${chosen} of ${name}?`,
      text: html`<p>The configuration of ${name} becomes that of version ${chosen}, and the connector restarts with it.</p>`,
      action: `Restore version ${chosen}`,
      run: async () => {
        await send("POST", `${root}/rollback?version=${chosen}`);
        follow(name, null);
        again();
        history.again();
      },
    });
  return html`
    <div class="split">
      <${Card} title="Versions" id="versions" hint=${format.plural(versions.length, "version")}>
        <ol class="versions">
          ${versions.map((one, at) => html`
            <li key=${one.version}>
              <a href=${href(["connectors", name, "history"], { version: String(one.version) })} aria-current=${one.version === chosen ? "true" : undefined}>
                <strong>Version ${one.version}${at === 0 ? " (current)" : ""}</strong>
                <span class="sub">${format.dateTime(one.at)} · ${one.origin}</span>
                <span class="sub">${one.deleted ? "deleted" : summary(one)}</span>
              </a>
            </li>
          `)}
        </ol>
      <//>
      <${Card} title=${chosen ? `From version ${chosen} to the current configuration` : "Differences"} id="differences"
          actions=${isReady && !worker.readOnly && found.value.then && diff.some((row) => row.mark !== " ") && html`<button type="button" class="button small" onClick=${rollBack}>Restore version ${chosen}</button>`}>
        <div class="pad">
          ${!chosen && html`<p class="muted">Select a version to compare it with the current configuration.</p>`}
          ${chosen && found.error && html`<${ErrorNote} error=${found.error} />`}
          ${isReady && html`<${ConfigDiff} diff=${diff} show=${(/** @type {string} */ key, /** @type {string} */ value) => shown(key, value, found.value.secret)} />`}
        </div>
      <//>
    </div>
  `;
}

/** @param {Version} version */
function summary({ changes }) {
  const parts = [["+", changes.added], ["~", changes.changed], ["−", changes.removed]].filter(([, keys]) => keys?.length);
  const text = parts.map(([mark, keys]) => `${mark} ${/** @type {string[]} */ (keys).slice(0, 3).join(", ")}${keys.length > 3 ? ` and ${keys.length - 3} more` : ""}`).join("; ");
  return text || "no change";
}
