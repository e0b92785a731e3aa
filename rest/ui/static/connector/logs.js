/** The log of a connector, live, from all workers. */
import { ApiError, path, send } from "../lib/api.js";
import * as format from "../lib/format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/preact.js";
import { Absent, Card, ErrorNote } from "../parts/basics.js";

const MAX_LINES = 500;
const WAIT_MS = 10_000;
const MIN_PAUSE_MS = 250;
const RETRY_MS = 3000;
const LEVELS = ["DEBUG", "INFO", "WARN", "ERROR"];

/** @typedef {{seq: number, at_ms: number, level: string, logger: string, task: number | null, message: string, trace: string | null, worker_id: string}} Line */

/** Follows the log. @param {string} name @param {string} level @param {string} task @param {boolean} isPaused */
function useLines(name, level, task, isPaused) {
  const [found, setFound] = useState({ lines: /** @type {Line[]} */ ([]), error: /** @type {Error | null} */ (null), loaded: false, unavailable: [] });
  const cursor = useRef("");
  useEffect(() => {
    cursor.current = "";
    setFound({ lines: [], error: null, loaded: false, unavailable: [] });
  }, [name, level, task]);
  useEffect(() => {
    if (isPaused) return undefined;
    const controller = new AbortController();
    let timer = 0;
    async function step() {
      // The lines that come meanwhile are read when the page is visible again.
      if (document.hidden && cursor.current) {
        timer = setTimeout(step, RETRY_MS);
        return;
      }
      const query = new URLSearchParams({
        scope: "cluster", limit: "200", level, task, after: cursor.current, wait_ms: cursor.current ? String(WAIT_MS) : "0",
      });
      let pause = MIN_PAUSE_MS;
      try {
        const answer = await send("GET", `sluice/${path("connectors", name, "logs")}?${query}`, { signal: controller.signal });
        cursor.current = String(answer.next ?? "");
        setFound((before) => ({
          lines: answer.lines.length ? [...before.lines, ...answer.lines].slice(-MAX_LINES) : before.lines,
          error: null, loaded: true, unavailable: answer.unavailable ?? [],
        }));
      } catch (error) {
        if (controller.signal.aborted) return;
        setFound((before) => ({ ...before, error: /** @type {Error} */ (error), loaded: true }));
        if (error instanceof ApiError && error.isNoResource) return;
        pause = RETRY_MS;
      }
      timer = setTimeout(step, pause);
    }
    step();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [name, level, task, isPaused]);
  return found;
}

/** @param {import("./page.js").PanelProps} props */
export function LogsPanel({ name, one }) {
  const [level, setLevel] = useState("INFO");
  const [task, setTask] = useState("");
  const [search, setSearch] = useState("");
  const [isPaused, setPaused] = useState(false);
  const { lines, error, loaded, unavailable } = useLines(name, level, task, isPaused);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  if (error instanceof ApiError && error.isNoResource) return html`<${Absent}>This worker does not serve logs.<//>`;
  const words = search.toLowerCase();
  const visible = words ? lines.filter((line) => `${line.message} ${line.logger} ${line.trace ?? ""}`.toLowerCase().includes(words)) : lines;
  const onScroll = () => {
    if (box.current) isAtEnd.current = box.current.scrollHeight - box.current.scrollTop - box.current.clientHeight < 40;
  };
  return html`
    <${Card} title="Log" id="log" hint=${isPaused ? "paused" : "live"}
        actions=${html`<button type="button" class="button small" aria-pressed=${isPaused} onClick=${() => setPaused(!isPaused)}>${isPaused ? "Continue" : "Pause"}</button>`}>
      <div class="pad filters">
        <input type="search" placeholder="Search these lines" aria-label="Search these lines" value=${search} onInput=${(event) => setSearch(event.target.value)} />
        <select aria-label="Lowest level" value=${level} onChange=${(event) => setLevel(event.target.value)}>
          ${LEVELS.map((each) => html`<option key=${each} value=${each}>${each}${each === "ERROR" ? "" : " and above"}</option>`)}
        </select>
        <select aria-label="Task" value=${task} onChange=${(event) => setTask(event.target.value)}>
          <option value="">All tasks</option>
          ${one.status.tasks.map((each) => html`<option key=${each.id} value=${String(each.id)}>Task ${each.id}</option>`)}
        </select>
      </div>
      <${ErrorNote} error=${error} />
      ${unavailable.length > 0 && html`<${Absent}>No lines from ${unavailable.join(", ")}: the worker does not answer.<//>`}
      <div class="log" role="log" aria-live="off" tabindex="0" aria-label="Log of ${name}" ref=${box} onScroll=${onScroll}>
        ${!loaded ? html`<p class="muted pad">Loading…</p>` : visible.length === 0 && html`<p class="muted pad">No lines${words ? " match" : " yet"}.</p>`}
        ${visible.map((line) => html`<${LogLine} key=${`${line.worker_id}/${line.seq}`} line=${line} />`)}
      </div>
    <//>
  `;
}

/** @param {{line: Line}} props */
const LogLine = ({ line }) => html`
  <div class="line line-${/^(WARN|ERROR|FATAL)$/.test(line.level) ? line.level.toLowerCase() : "info"}">
    <time datetime=${new Date(line.at_ms).toISOString()} title=${`${format.dateTime(line.at_ms)} on ${line.worker_id}`}>${format.time(line.at_ms)}</time>
    <span class="level">${line.level}</span>
    <span class="where">${line.task === null || line.task === undefined ? "" : `task ${line.task}`}</span>
    <span class="message">${line.message}${line.trace && html`<details><summary>Trace</summary><pre class="trace" tabindex="0">${line.trace}</pre></details>`}</span>
  </div>
`;
