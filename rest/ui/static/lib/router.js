/** Addresses of the page: `#/connectors/NAME/TAB?key=value`. In the fragment, so that names may contain anything. */
import { useLayoutEffect, useState } from "./preact.js";

/** @typedef {{parts: string[], query: URLSearchParams}} Route */

/** @returns {Route} */
export function currentRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // typed by hand
  }
}

/** @returns {Route} the route, also after it changes */
export function useRoute() {
  const [route, setRoute] = useState(currentRoute);
  // With rendering: other effects run later, and a change in between would be lost.
  useLayoutEffect(() => {
    const update = () => setRoute(currentRoute());
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}

/**
 * @param {string[]} parts
 * @param {Record<string, string | null | undefined>} [query] empty values are left out
 */
export function href(parts, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value);
  const text = new URLSearchParams(/** @type {[string, string][]} */ (set)).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** @param {string} address @param {{replace?: boolean}} [options] */
export function navigate(address, { replace = false } = {}) {
  if (!replace) {
    location.hash = address;
    return;
  }
  history.replaceState(null, "", address);
  dispatchEvent(new HashChangeEvent("hashchange"));
}
