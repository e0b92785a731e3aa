"""Requests that another worker has to answer are passed on to it.

Twice at most: the first worker adds ``forward=true``, so that the next one knows, and that one ``forward=false``, after which no
worker passes the request on.
"""

from __future__ import annotations

import asyncio
from functools import partial
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from connect.errors import IllegalStateError, NotLeaderError
from rest.forwarding.worker_client import Outgoing
from rest.server.thread_pools import Kind, Lanes

_COPIED = ("authorization", "content-type")
_RETURNED = ("content-type", "location")
_NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
_TOO_FAR = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


class Forwarder:
    """Passes requests on, on threads of a lane of their own."""

    def __init__(self, outgoing: Outgoing, lanes: Lanes) -> None:
        self._outgoing = outgoing
        self._lanes = lanes

    async def forward(self, request: Request, error: NotLeaderError) -> Response:
        """The other worker's answer. Raises IllegalStateError (409) when there is none to ask, or it was passed on too often."""
        if not error.forward_url:
            raise IllegalStateError(_NO_LEADER)
        query = parse_qsl(request.url.query, keep_blank_values=True)
        seen = next((value for name, value in query if name == "forward"), None)
        if seen is not None and seen.lower() != "true":
            raise IllegalStateError(_TOO_FAR)
        query = [pair for pair in query if pair[0] != "forward"] + [("forward", "true" if seen is None else "false")]
        path = f"{_path_of(request)}?{urlencode(query)}"
        body = await request.body()
        headers = {name: value for name in _COPIED if (value := request.headers.get(name)) is not None}
        send = partial(self._outgoing.send, request.method, error.forward_url, path, headers, body or None)
        reply = await asyncio.wrap_future(self._lanes.submit(Kind.FORWARD, send))
        return Response(reply.body, reply.status, {name: reply.headers[name] for name in _RETURNED if name in reply.headers})


def _path_of(request: Request) -> str:
    raw = request.scope.get("raw_path")
    return raw.decode("ascii") if isinstance(raw, bytes) and raw else quote(request.url.path)
