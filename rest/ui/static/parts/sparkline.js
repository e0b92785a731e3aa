/** A line of recent values. */
import { html } from "../lib/preact.js";

const WIDTH = 240;
const HEIGHT = 48;

/**
 * @param {{label: string, values: (number | null)[], format: (value: number) => string}} props null: unknown at that time
 */
export function Sparkline({ label, values, format }) {
  const known = values.filter((value) => value !== null);
  const top = Math.max(1e-9, ...known);
  const step = WIDTH / Math.max(1, values.length - 1);
  let path = "";
  let wasKnown = false;
  values.forEach((value, at) => {
    if (value !== null) {
      const y = HEIGHT - 3 - (value / top) * (HEIGHT - 8);
      path += `${wasKnown ? "L" : "M"}${(at * step).toFixed(1)} ${y.toFixed(1)}`;
    }
    wasKnown = value !== null;
  });
  const now = values.length ? values[values.length - 1] : null;
  const text = known.length
    ? `${label}: now ${now === null ? "unknown" : format(now)}, at most ${format(Math.max(...known))} in the last ${known.length} readings`
    : `${label}: no readings yet`;
  return html`
    <figure class="spark">
      <figcaption><span>${label}</span><strong>${now === null ? "–" : format(now)}</strong></figcaption>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${text}>
        <line x1="0" x2=${WIDTH} y1=${HEIGHT - 3} y2=${HEIGHT - 3} class="spark-axis" />
        ${path && html`<path d=${path} class="spark-line" vector-effect="non-scaling-stroke" />`}
      </svg>
    </figure>
  `;
}
