"""Forwards requests that another worker must answer.

A request is forwarded twice at most: the first worker adds ``forward=true``, the second one ``forward=false``, and a worker that
gets ``forward=false`` does not forward.
"""

from __future__ import annotations

import asyncio
from functools import partial
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from connect.errors import IllegalStateError, NotLeaderError
from rest.forwarding.worker_client import WorkerClient
from rest.security.access import SCOPE_KEY, Access
from rest.security.forwarded_identity import ForwardedRequest, RequestSigner, identity_headers
from rest.security.identity import ANONYMOUS
from rest.security.masking import KEPT_HEADER
from rest.server.thread_pools import RequestKind, ThreadPools

_RESPONSE_HEADERS = ("content-type", "location", KEPT_HEADER.lower())
_NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
_CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


class Forwarder:
    """Forwards requests on a thread pool of their own."""

    def __init__(self, worker_client: WorkerClient, pools: ThreadPools, signer: RequestSigner) -> None:
        self._worker_client = worker_client
        self._pools = pools
        self._signer = signer

    async def forward(self, request: Request, error: NotLeaderError) -> Response:
        """Returns the other worker's response. Raises IllegalStateError (409) for an unknown leader or too many forwards."""
        if not error.forward_url:
            raise IllegalStateError(_NO_LEADER)
        query = parse_qsl(request.url.query, keep_blank_values=True)
        seen = next((value for name, value in query if name == "forward"), None)
        if seen is not None and seen.lower() != "true":
            raise IllegalStateError(_CONFLICT)
        query = [pair for pair in query if pair[0] != "forward"] + [("forward", "true" if seen is None else "false")]
        path = f"{encoded_path(request)}?{urlencode(query)}"
        body = await request.body()
        headers = self.caller_headers(request, path, body)
        if (content_type := request.headers.get("content-type")) is not None:
            headers["content-type"] = content_type
        send = partial(self._worker_client.send, request.method, error.forward_url, path, headers, body or None)
        response = await asyncio.wrap_future(self._pools.submit(RequestKind.FORWARD, send))
        return response.passed_on(_RESPONSE_HEADERS)

    def caller_headers(self, request: Request, target: str, body: bytes = b"", method: str | None = None) -> dict[str, str]:
        """Returns the headers with which another worker accepts a request of the same caller.

        ``target`` is path and query as sent; ``method`` is by default that of the request.
        """
        credentials = request.headers.get("authorization")
        headers = {} if credentials is None else {"authorization": credentials}
        access = request.scope.get(SCOPE_KEY)
        if not isinstance(access, Access) or access.identity is ANONYMOUS:
            return headers
        client = request.client.host if request.client is not None else None
        signed = ForwardedRequest(method or request.method, target, body)
        return headers | identity_headers(self._signer, signed, access.identity, client, request.scope.get("sluice.request_id"))


def encoded_path(request: Request) -> str:
    """Returns the path of a request as it was sent: a name may contain an encoded slash."""
    raw = request.scope.get("raw_path")
    return raw.decode("ascii") if isinstance(raw, bytes) and raw else quote(request.url.path)
