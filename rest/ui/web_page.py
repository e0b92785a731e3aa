"""ASGI middleware that serves the web page at ``/ui``, and refuses changes from a page that may only show."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import orjson
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rest.responses import error_response
from rest.ui.settings import UiSettings
from rest.ui.static_files import StaticFile, load

PREFIX = "/ui"
_STATIC = f"{PREFIX}/static/"
_SETTINGS = f"{PREFIX}/settings.json"
PAGE_HEADER, PAGE_NAME = "x-requested-with", "sluice-ui"
"""Sent by the page with each request. Pages of other origins cannot send it."""
READS = ("GET", "HEAD")
_SAFE = (*READS, "OPTIONS")
_TRIALS = re.compile(r"/sluice/(?:preview|data-collections|(?:connectors/[^/]+/)?connection-test)")
_SECURITY = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_FOREVER = "public, max-age=31536000, immutable"


class WebPage:
    """Serves the page; passes everything else to ``app``."""

    def __init__(self, app: ASGIApp, settings: UiSettings) -> None:
        self.app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            answer = self._answer(scope)
            if answer is not None:
                await answer(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        path: str = scope["path"]
        if path == PREFIX or path.startswith(f"{PREFIX}/"):
            return self._page(path, scope)
        if self._settings.read_only and changes_something(scope["method"], path) and is_from_page(Headers(scope=scope)):
            return error_response(403, "The web page may only show (ui.read.only=true): use the REST API or the sluice command")
        return None

    def _page(self, path: str, scope: Scope) -> Response | None:
        """The answer for a path below /ui; None for one that is not the page's."""
        headers = Headers(scope=scope)
        if path.startswith(_STATIC):
            digest, _, name = path.removeprefix(_STATIC).partition("/")
            files = load()
            file = files.files.get(name)
            if file is None or digest != files.digest:
                return error_response(404, f"The web page has no file {name} of version {digest}; reload the page")
            return _only_reads(scope) or _send(file, headers, _FOREVER)
        if path == _SETTINGS:
            content = {"read_only": self._settings.read_only, "target": self._settings.target}
            return _only_reads(scope) or Response(
                orjson.dumps(content), headers={**_SECURITY, "Cache-Control": "no-store"}, media_type="application/json"
            )
        # The addresses in the page are relative to /ui without a slash, so that a proxy may serve it below a prefix.
        if path == f"{PREFIX}/" or (path == PREFIX and (scope.get("raw_path") or b"").endswith(b"/")):
            return RedirectResponse("../ui", 308)
        if path == PREFIX:
            return _only_reads(scope) or _send(load().index, headers, "no-cache")
        return None


def changes_something(method: str, path: str) -> bool:
    """Whether a request may change something. Validation, previews, and connection tests change nothing."""
    is_validation = path.startswith("/connector-plugins/") and path.endswith("/config/validate")
    return method not in _SAFE and not is_validation and _TRIALS.fullmatch(path) is None


def is_from_page(headers: Headers) -> bool:
    """Whether a request comes from a page of this server: it says so, or the browser does."""
    if headers.get(PAGE_HEADER) == PAGE_NAME:
        return True
    origin = headers.get("origin")
    return headers.get("sec-fetch-site") == "same-origin" or (
        origin is not None and urlsplit(origin).netloc == headers.get("host")
    )


def _only_reads(scope: Scope) -> Response | None:
    if scope["method"] in READS:
        return None
    return error_response(405, "The web page is read with GET")


def _send(file: StaticFile, headers: Headers, cache_control: str) -> Response:
    shared = {**_SECURITY, "ETag": file.etag, "Cache-Control": cache_control, "Vary": "Accept-Encoding"}
    if file.etag in (headers.get("if-none-match") or ""):
        return Response(status_code=304, headers=shared)
    if "gzip" in (headers.get("accept-encoding") or ""):
        return Response(file.gzipped, headers={**shared, "Content-Encoding": "gzip"}, media_type=file.media_type)
    return Response(file.body, headers=shared, media_type=file.media_type)
