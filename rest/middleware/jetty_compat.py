"""ASGI middleware that treats paths, Content-Type, and HEAD as Apache's Jetty server does."""

from __future__ import annotations

import re
from html import escape
from urllib.parse import unquote_to_bytes

from starlette.datastructures import URL, Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HTML = """<html>
<head>
<meta http-equiv="Content-Type" content="text/html;charset=ISO-8859-1"/>
<title>Error 400 {reason}</title>
</head>
<body>
<h2>HTTP ERROR 400 {reason}</h2>
<table>
<tr><th>URI:</th><td>{uri}</td></tr>
<tr><th>STATUS:</th><td>400</td></tr>
<tr><th>MESSAGE:</th><td>{reason}</td></tr>
</table>

</body>
</html>
"""


_METHODS_WITH_PAGE = ("GET", "POST", "HEAD")
"""Methods for which Jetty explains a rejected path in an HTML page."""


_MEDIA_TYPE = re.compile(r"[\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+[ \t]*(;.*)?", re.ASCII)


class JettyCompatMiddleware:
    """Rejects ambiguous paths and invalid media types, removes matrix parameters and one trailing slash, and answers HEAD like
    GET without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        raw: bytes = scope.get("raw_path") or b""
        reason = path_problem(raw)
        if reason is not None:
            await _bad_request(reason, scope["method"])(scope, receive, send)
            return
        content_type = Headers(scope=scope).get("content-type")
        # An empty Content-Type counts as absent (recording create-no-content-type).
        if content_type and not _MEDIA_TYPE.fullmatch(content_type.strip()):
            await _bad_request(MALFORMED, scope["method"], str(URL(scope=scope)))(scope, receive, send)
            return
        path: str = routed_path(raw) if b";" in raw else scope["path"]
        if len(path) > 1:
            path = path.removesuffix("/")
        if path != scope["path"]:
            scope = {**scope, "path": path}
        if scope["method"] == "HEAD":
            await self.app({**scope, "method": "GET"}, receive, _without_body(send))
            return
        await self.app(scope, receive, send)


def _bad_request(reason: str, method: str, uri: str | None = None) -> Response:
    headers = {"Cache-Control": "must-revalidate,no-cache,no-store"}
    if method not in _METHODS_WITH_PAGE and (reason != MALFORMED or uri is not None):
        return Response(status_code=400, headers=headers)
    shown = uri or ("/badMessage" if reason == MALFORMED else "/badURI")
    page = _HTML.format(reason=reason, uri=escape(shown).replace("&#x27;", "&apos;"))
    return Response(page, 400, headers={**headers, "Content-Type": "text/html;charset=iso-8859-1"})


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_head


MALFORMED = "Bad Request"
"""The reason for an invalid path: a percent sign without two digits, a NUL, more steps up than down."""

_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_UTF16 = re.compile(rb"%u[0-9a-fA-F]{4}")
_DOTS = re.compile(rb"(?:\.|%2e){1,2}", re.IGNORECASE)
_SUSPICIOUS = re.compile(rb"[\x01-\x1f\x7f\\]")
_ILLEGAL = re.compile(rb'["<>\[\\\]^`{|}]')


def path_problem(raw: bytes) -> str | None:
    """Returns the reason for rejecting a path, in Jetty's words, or None."""
    pieces = [segment.partition(b";") for segment in raw.split(b"/")]
    segments = [segment for segment, _, _ in pieces]
    path = b"/".join(segments)
    if _BAD_ESCAPE.search(_UTF16.sub(b"", path)) or b"%00" in path or _leaves_root(segments):
        return MALFORMED
    dots = [(b"%" in segment, bool(semicolon)) for segment, semicolon, _ in pieces if _DOTS.fullmatch(segment)]
    lowered = path.lower()
    decoded = unquote_to_bytes(path)
    found = {
        "Ambiguous URI path segment": any(escaped for escaped, _ in dots),
        "Ambiguous URI empty segment": b"" in segments[1:-1],
        "Ambiguous URI path separator": b"%2f" in lowered,
        "Ambiguous URI path parameter": any(parameter for _, parameter in dots),
        "Ambiguous URI path encoding": b"%25" in lowered,
        "UTF-16 encoding": _UTF16.search(path) is not None,
        "Bad UTF-8 encoding": not _is_utf8(decoded),
        "Suspicious Path Character": _SUSPICIOUS.search(decoded) is not None,
        "Illegal Path Character": _ILLEGAL.search(path) is not None,
    }
    return ", ".join(problem for problem, present in found.items() if present) or None


def routed_path(raw: bytes) -> str:
    """Returns the path for routing, without JAX-RS's matrix parameters (after a semicolon in a segment)."""
    return unquote_to_bytes(b"/".join(segment.partition(b";")[0] for segment in raw.split(b"/"))).decode(errors="replace")


def _leaves_root(segments: list[bytes]) -> bool:
    depth = 0
    for segment in segments[1:]:
        plain = segment.lower().replace(b"%2e", b".")
        depth += {b"..": -1, b".": 0, b"": 0}.get(plain, 1)
        if depth < 0:
            return True
    return False


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
