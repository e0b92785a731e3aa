/** Dialogs: the browser's own, which keep the focus and close with Escape. */
import { html, useEffect, useRef, useState } from "../lib/preact.js";

/** @param {{title: string, onClose: () => void, children: any, wide?: boolean}} props */
export function Dialog({ title, onClose, children, wide = false }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const onCancel = (/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  };
  const onBackdrop = (/** @type {MouseEvent} */ event) => event.target === element.current && onClose();
  return html`
    <dialog ref=${element} class=${wide ? "dialog wide" : "dialog"} aria-labelledby="dialog-title" onCancel=${onCancel}
        onMouseDown=${onBackdrop}>
      <div class="dialog-body">
        <h2 id="dialog-title">${title}</h2>
        ${children}
      </div>
    </dialog>
  `;
}

/**
 * @typedef {{title: string, text: any, action: string, dangerous?: boolean, wide?: boolean, run: () => Promise<unknown>}} Question
 */

/** Asks before something is done, and shows why it failed. @param {{question: Question, onClose: () => void}} props */
export function Confirm({ question, onClose }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  async function run(/** @type {Event} */ event) {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await question.run();
      onClose();
    } catch (failure) {
      setError(/** @type {Error} */ (failure).message);
      setBusy(false);
    }
  }
  return html`
    <${Dialog} title=${question.title} onClose=${onClose} wide=${question.wide}>
      <form onSubmit=${run}>
        <div class="dialog-text">${question.text}</div>
        ${error && html`<p class="note note-error" role="alert">${error}</p>`}
        <div class="dialog-buttons">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button type="submit" class=${question.dangerous ? "button danger" : "button primary"} disabled=${busy} autofocus>
            ${busy ? "Working…" : question.action}
          </button>
        </div>
      </form>
    <//>
  `;
}
