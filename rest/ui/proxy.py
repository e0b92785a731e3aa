"""Serves the web page for a worker elsewhere, of Sluice or of Apache Kafka Connect: ``sluice ui``.

The page's requests go through here to the worker, so that the browser sees one origin. The proxy is meant for one person on the
machine where it runs: it answers only for its own host names, and passes on a change only if the page sent it.
"""

from __future__ import annotations

import asyncio
from functools import partial

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from connect.errors import ConnectError, UnreachableError
from rest.disconnection import calling_on_disconnect
from rest.forwarding.forwarder import encoded_path
from rest.forwarding.worker_client import Abort, WorkerClient, WorkerResponse
from rest.middleware.request_body import DEFAULT_MAX_BYTES, RequestBodyLimit
from rest.responses import error_response
from rest.security.masking import KEPT_HEADER
from rest.server.thread_pools import RequestKind, ThreadPools
from rest.ui.settings import UiSettings
from rest.ui.web_page import PAGE_HEADER, PAGE_NAME, READS, WebPage

_REQUEST_HEADERS = ("accept", "authorization", "content-type", "cookie", PAGE_HEADER)
_RESPONSE_HEADERS = ("content-type", "location", "set-cookie", "www-authenticate", KEPT_HEADER.lower())
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


def build_ui_proxy(target_url: str, pools: ThreadPools, *, host: str, read_only: bool) -> ASGIApp:
    """Returns the app of the page and its proxy. ``host`` is the name or address at which browsers reach it, besides loopback."""
    proxy = RequestBodyLimit(WorkerProxy(target_url, pools), DEFAULT_MAX_BYTES)
    return HostCheck(WebPage(proxy, UiSettings(read_only, target_url)), _LOOPBACK | {host.lower()})


class HostCheck:
    """Refuses requests for other host names: a page elsewhere could have its name resolve to this machine (DNS rebinding)."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self.app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = Headers(scope=scope).get("host", "")
            name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
            if name.lower() not in self._hosts:
                message = f"This page is served for {', '.join(sorted(self._hosts))}, not for {name}: start it with --host {name}"
                await error_response(403, message)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class WorkerProxy:
    """Passes requests to one worker, each on a thread."""

    def __init__(self, target_url: str, pools: ThreadPools) -> None:
        self._target_url = target_url
        self._pools = pools
        self._client = WorkerClient()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method not in READS and request.headers.get(PAGE_HEADER) != PAGE_NAME:
            return error_response(403, "Only the web page may make changes here; other clients call the worker itself")
        try:
            answer = await self._send(request)
        except UnreachableError as e:
            return error_response(503, f"No worker answers at {self._target_url}: {e.message}")
        except ConnectError as e:
            return error_response(502, e.message)
        response = answer.passed_on(_RESPONSE_HEADERS)
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _send(self, request: Request) -> WorkerResponse:
        path = encoded_path(request)
        if request.url.query:
            path = f"{path}?{request.url.query}"
        headers = {name: value for name in _REQUEST_HEADERS if (value := request.headers.get(name)) is not None}
        body, abort = await request.body(), Abort()
        send = partial(self._client.send, request.method, self._target_url, path, headers, body or None, abort=abort)
        async with calling_on_disconnect(request, abort.abort):  # so that the worker notices it
            return await asyncio.wrap_future(self._pools.submit(RequestKind.FORWARD, send))
