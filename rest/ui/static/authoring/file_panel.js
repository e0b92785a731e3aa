/** The configuration as a file: to copy, to download, to keep in version control. */
import { download, forFile, toJson, toProperties } from "../lib/config_files.js";
import { html, useState } from "../lib/preact.js";
import { shown } from "../lib/secrets.js";
import { CopyButton } from "../parts/basics.js";

/** @param {{name: string, config: Record<string, string>, passwordKeys: Set<string>}} props */
export function FilePanel({ name, config, passwordKeys }) {
  const [kind, setKind] = useState("properties");
  const [secrets, setSecrets] = useState(false);
  const whole = { name: name || "new-connector", ...config };
  const file = forFile(whole, { secrets, passwordKeys });
  const masked = Object.fromEntries(Object.entries(file.config).map(([key, value]) => [key, shown(key, value, passwordKeys)]));
  const render = (/** @type {Record<string, string>} */ content) => (kind === "json" ? toJson(content) : toProperties(content, file.omitted));
  const fileName = `${(name || "connector").replace(/[^\w.-]+/g, "_")}.${kind}`;
  return html`
    <section class="card" aria-labelledby="file">
      <header class="card-head">
        <h2 id="file">File</h2>
        <div class="card-actions">
          <span class="segmented" role="group" aria-label="Form of the file">
            ${["properties", "json"].map((each) => html`<button key=${each} type="button" aria-pressed=${kind === each} onClick=${() => setKind(each)}>.${each}</button>`)}
          </span>
        </div>
      </header>
      <pre class="file" tabindex="0" aria-label="The file">${render(masked)}</pre>
      <div class="pad inline">
        <${CopyButton} text=${() => render(file.config)} />
        <button type="button" class="button small" onClick=${() => download(fileName, render(file.config), kind === "json" ? "application/json" : "text/plain")}>Download</button>
        ${(file.omitted.length > 0 || secrets) && html`<label class="check-label"><input type="checkbox" checked=${secrets} onChange=${(event) => setSecrets(event.target.checked)} /> with secrets</label>`}
      </div>
      ${file.omitted.length > 0 && kind === "json" && html`<p class="help pad">Left out, because it is secret: ${file.omitted.join(", ")}.</p>`}
    </section>
  `;
}
