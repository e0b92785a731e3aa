/** One key of a form: label, input by type, documentation, errors. */
import { html, useState } from "../lib/preact.js";
import { isReference, isSecretKey } from "../lib/secrets.js";
import { TablePickerButton } from "./table_picker.js";

const LONG_DOC = 160;
const MANY = 12;

/**
 * @param {{definition: import("../lib/definitions.js").Definition, checked: {recommended_values: (string | null)[], errors: string[]} | null,
 *   value: string | undefined, isStored: boolean, showsErrors: boolean, removable?: boolean, label?: string,
 *   picker?: {form: "name" | "regex", config: Record<string, string>} | null,
 *   change: (changes: Record<string, string | undefined>) => void}} props
 */
export function Field({ definition, checked, value, isStored, showsErrors, change, removable = false, label, picker = null }) {
  const { name, type, required, default_value: byDefault, documentation } = definition;
  const id = `f-${name}`;
  const errors = showsErrors ? (checked?.errors ?? []) : [];
  const recommended = (checked?.recommended_values ?? []).filter((one) => one !== null && one !== "");
  const isSecret = isSecretKey(name, type === "PASSWORD" ? new Set([name]) : undefined);
  const set = (/** @type {string} */ text) => change({ [name]: text === "" && !removable ? undefined : text });
  const described = `${id}-help`;
  const shared = { id, "aria-describedby": described, "aria-invalid": errors.length ? "true" : undefined, "aria-required": required ? "true" : undefined };
  let input;
  if (isSecret && !(value !== undefined && isReference(value))) {
    input = html`<${SecretInput} shared=${shared} value=${value} isStored=${isStored} set=${set} />`;
  } else if (type === "BOOLEAN") {
    input = html`
      <select ...${shared} value=${value ?? ""} onChange=${(event) => set(event.target.value)}>
        <option value="">${byDefault === null ? "not set" : `default (${byDefault})`}</option><option value="true">true</option><option value="false">false</option>
        ${value && value !== "true" && value !== "false" && html`<option value=${value}>${value}</option>`}
      </select>
    `;
  } else if (type === "LIST" && recommended.length > 0 && !picker) {
    input = html`<${ListPicker} shared=${shared} value=${value ?? ""} values=${recommended} placeholder=${byDefault ?? ""} set=${set} label=${name} />`;
  } else {
    const isNumber = ["INT", "LONG", "SHORT", "DOUBLE"].includes(type);
    input = html`
      <input ...${shared} class=${isNumber ? "number-input" : "wide-input"} value=${value ?? ""} placeholder=${byDefault ?? ""} inputmode=${isNumber ? "decimal" : undefined}
        list=${recommended.length && !picker ? `${id}-values` : undefined} autocomplete="off" spellcheck=${false} onInput=${(event) => set(event.target.value)} />
      ${recommended.length > 0 && !picker && html`<datalist id="${id}-values">${recommended.map((one) => html`<option key=${one} value=${one}></option>`)}</datalist>`}
    `;
  }
  return html`
    <div class="field ${errors.length ? "field-bad" : ""}">
      <div class="field-head">
        <label for=${id}>${label ?? name}${required ? html` <span class="required">required</span>` : null}</label>
        ${removable && html`<button type="button" class="button small quiet" onClick=${() => change({ [name]: undefined })} aria-label="Remove ${name}">Remove</button>`}
      </div>
      ${input}
      ${picker && html`<${TablePickerButton} name=${name} form=${picker.form} value=${value ?? ""} config=${picker.config} set=${set} />`}
      <div class="help" id=${described}>
        ${errors.map((error) => html`<p class="field-error" key=${error}>${error}</p>`)}
        <${Documentation} text=${documentation} />
      </div>
    </div>
  `;
}

/** @param {{text: string | null}} props Apache's texts contain HTML */
function Documentation({ text: given }) {
  const [isOpen, setOpen] = useState(false);
  if (!given) return null;
  const text = given.replace(/<\/?(?:code|p|a|b|i|em|ul|ol|li|br|pre|strong)\b[^>]*>/gi, "");
  if (text.length <= LONG_DOC) return html`<p>${text}</p>`;
  const end = text.slice(0, LONG_DOC).lastIndexOf(". ");
  const short = end > 40 ? text.slice(0, end + 1) : `${text.slice(0, text.lastIndexOf(" ", LONG_DOC))}…`;
  return html`<p>${isOpen ? text : short} <button type="button" class="link" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? "less" : "more"}</button></p>`;
}

/** A stored secret is never put into the page; it stays unless a new one is typed. */
function SecretInput({ shared, value, isStored, set }) {
  const [replaces, setReplaces] = useState(!isStored);
  if (!replaces) {
    return html`
      <div class="inline">
        <input ...${shared} class="wide-input" disabled value="••••••••" aria-label="Stored secret" />
        <button type="button" class="button small" onClick=${() => { setReplaces(true); set(""); }}>Replace</button>
      </div>
    `;
  }
  return html`<input ...${shared} class="wide-input" type="password" autocomplete="new-password" value=${value ?? ""} placeholder="a value, or a reference such as \${file:path:key}" onInput=${(event) => set(event.target.value)} />`;
}

/** Choices for a list, such as tables of a database. Other values can be typed. */
function ListPicker({ shared, value, values, placeholder, set, label }) {
  const [search, setSearch] = useState("");
  const chosen = value.split(",").map((one) => one.trim()).filter(Boolean);
  const words = search.toLowerCase();
  const visible = values.filter((one) => String(one).toLowerCase().includes(words));
  const toggle = (/** @type {string} */ one, /** @type {boolean} */ on) => set((on ? [...chosen, one] : chosen.filter((each) => each !== one)).join(","));
  return html`
    <input ...${shared} class="wide-input" value=${value} placeholder=${placeholder} spellcheck=${false} onInput=${(event) => set(event.target.value)} />
    <fieldset class="picker">
      <legend>${chosen.length} of ${values.length} chosen</legend>
      ${values.length > MANY && html`<input type="search" placeholder="Search" aria-label="Search values of ${label}" value=${search} onInput=${(event) => setSearch(event.target.value)} />`}
      <div class="picker-values">
        ${visible.slice(0, 300).map((one) => html`<label key=${one}><input type="checkbox" checked=${chosen.includes(one)} onChange=${(event) => toggle(one, event.target.checked)} /> ${one}</label>`)}
        ${visible.length > 300 && html`<p class="muted">${visible.length - 300} more: search for them.</p>`}
      </div>
    </fieldset>
  `;
}
