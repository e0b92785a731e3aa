"""What happens to a request before it is routed: an ASGI layer as thin as can be."""

from __future__ import annotations

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
<tr><th>URI:</th><td>/badURI</td></tr>
<tr><th>STATUS:</th><td>400</td></tr>
<tr><th>MESSAGE:</th><td>{reason}</td></tr>
</table>

</body>
</html>
"""


class Front:
    """Ends the ambiguous paths, takes one trailing slash off, and answers HEAD like GET without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        reason = _ambiguity(scope.get("raw_path") or b"")
        if reason is not None:
            page = _HTML.format(reason=reason)
            answer = Response(page, 400, headers={"Content-Type": "text/html;charset=iso-8859-1"})
            await answer(scope, receive, send)
            return
        path: str = scope["path"]
        if len(path) > 1 and path.endswith("/"):
            scope = {**scope, "path": path[:-1]}
        if scope["method"] == "HEAD":
            await self.app({**scope, "method": "GET"}, receive, _without_body(send))
            return
        await self.app(scope, receive, send)


def _ambiguity(raw_path: bytes) -> str | None:
    # A connector whose name holds / or % can be created but never addressed, as in Apache (recordings
    # connector-get-encoded-slash and connector-get-encoded-percent).
    lowered = raw_path.lower()
    if b"%2f" in lowered:
        return "Ambiguous URI path separator"
    if b"%25" in lowered:
        return "Ambiguous URI path encoding"
    return None


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_head
