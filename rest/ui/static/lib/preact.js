// The one place that names the vendored file.
export {
  h, html, render, createContext, useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useContext,
} from "../vendor/preact-htm.js";
