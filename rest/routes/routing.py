"""Routes requests to handlers by JAX-RS's rules.

The checks run in the recorded order: path (404), method (405), Content-Type (415), Accept (406), body.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, ClassVar

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connect.errors import NotLeaderError
from rest.errors import error_to_response
from rest.requests import UntypedBodyError, media_type
from rest.responses import JSON_TYPE, error_response, http_error_response
from rest.server.thread_pools import RequestKind, ThreadPools, request_kind
from worker.observability.herder_activity import TIMED_OUT

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 90.0
"""Fixed, as in Apache's worker."""

# The iteration order of Java's hash set of methods (recordings connector-options, plugins-options).
_ALLOW_ORDER = ("HEAD", "DELETE", "POST", "GET", "OPTIONS", "PUT", "PATCH")

_LIST_PARAMETER = b"expand"
"""The only parameter with several values."""

_ANY_TYPE = ("/", "/health", "/health/live", "/health/ready", "/metrics")
"""Paths that accept any Content-Type: Apache's root resource reads no bodies."""
_NOT_JSON = ("/metrics",)
"""Paths whose response is not JSON, and does not depend on JSON being acceptable."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ConnectRoute(APIRoute):
    """A route that rejects what JAX-RS rejects, turns errors into Apache's error responses, and enforces the request timeout.

    Handlers are plain functions that may block; each runs on the thread pool of its kind of request. :func:`route_class` creates
    the class for one server.
    """

    timeout_s = REQUEST_TIMEOUT_S
    pools: ClassVar[ThreadPools]

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        if not inspect.iscoroutinefunction(endpoint):
            method = next(iter(more.get("methods") or ("GET",)))
            endpoint = _run_in_pool(self.pools, request_kind(method, path), endpoint)
        super().__init__(path, endpoint, **more)

    @staticmethod
    def timeout_message() -> str:
        """Returns the error message for a request that exceeds the timeout."""
        return TIMED_OUT

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()
        timeout_s, timeout_message = self.timeout_s, self.timeout_message
        accepts_any_type, is_json = self.path in _ANY_TYPE, self.path not in _NOT_JSON

        async def handle(request: Request) -> Response:
            content_type = request.headers.get("content-type")
            if not accepts_any_type and not _is_json(content_type):
                return http_error_response(415)
            if is_json and not _accepts_json(request.headers.get("accept")):
                return http_error_response(406)
            request.scope["query_string"] = _drop_repeated_parameters(request.scope["query_string"])
            return await _with_timeout(timeout_s, _handle_errors(handler, request), timeout_message)

        return handle


def route_class(pools: ThreadPools, timeout_message: Callable[[], str]) -> type[ConnectRoute]:
    """Returns the route class of a server with these thread pools."""
    return type("ServerRoute", (ConnectRoute,), {"pools": pools, "timeout_message": staticmethod(timeout_message)})


def _run_in_pool(pools: ThreadPools, kind: RequestKind, endpoint: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
    @functools.wraps(endpoint)
    async def run_on_thread(*args: Any, **kwargs: Any) -> Response:
        future = pools.submit(kind, functools.partial(endpoint, *args, **kwargs))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(_log_late_failure)
            raise

    return run_on_thread


def _log_late_failure(future: Future[Response]) -> None:
    """Logs the failure of a call whose client is no longer waiting."""
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("A REST call failed after it had timed out: %s", error)


async def _handle_errors(handler: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
    try:
        return await handler(request)
    except UntypedBodyError:
        return http_error_response(415, typed=True)
    except NotLeaderError as e:
        try:
            answer: Response = await request.app.state.forwarder.forward(request, e)
        except Exception as failure:
            return error_to_response(failure)
        return answer
    except Exception as e:
        return error_to_response(e)


async def _with_timeout(timeout_s: float, work: Coroutine[Any, Any, Response], timeout_message: Callable[[], str]) -> Response:
    """Returns the response, or the timeout error. A running handler keeps its thread: it may be in the middle of a change.
    A queued one is cancelled, since its client is told that it failed."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
        if done:
            return task.result()
        message = timeout_message()
        # A queued call is cancelled before the client gets the response.
        task.cancel()
        await asyncio.wait({task})
        return error_response(500, message)
    finally:
        task.cancel()


def _drop_repeated_parameters(query: bytes) -> bytes:
    """Returns the query with only the first value of each parameter: JAX-RS uses the first, FastAPI the last."""
    retained: dict[bytes, list[bytes]] = {}
    for pair in query.split(b"&"):
        name = pair.partition(b"=")[0]
        if name == _LIST_PARAMETER or name not in retained:
            retained.setdefault(name, []).append(pair)
    return b"&".join(pair for pairs in retained.values() for pair in pairs)


def _is_json(content_type: str | None) -> bool:
    # Requests without a body need no type, and ranges name none; both are checked when a body is read.
    return not content_type or media_type(content_type) in (JSON_TYPE, "application/*", "*/*")


def _accepts_json(accept: str | None) -> bool:
    if not accept:
        return True
    for part in accept.split(","):
        media, *parameters = (p.strip().lower() for p in part.split(";"))
        if media in ("*", "*/*", "application/*", JSON_TYPE) and "q=0" not in parameters and "q=0.0" not in parameters:
            return True
    return False


def add_options_routes(router: APIRouter) -> None:
    """Adds OPTIONS to every path so far, as JAX-RS does."""
    methods: dict[str, set[str]] = {}
    for route in router.routes:
        if isinstance(route, Route) and route.methods:
            methods.setdefault(route.path, {"OPTIONS"}).update(route.methods)
    for path, found in methods.items():
        if "GET" in found:
            found.add("HEAD")
        router.add_route(path, _options_handler(found), methods=["OPTIONS"], include_in_schema=False)


def _options_handler(methods: set[str]) -> Callable[[Request], Awaitable[Response]]:
    ordered = [m for m in _ALLOW_ORDER if m in methods]

    async def options(request: Request) -> Response:
        # Set as a header, so that no charset is added: Apache sends text/plain.
        return Response(", ".join(ordered), headers={"Content-Type": "text/plain", "Allow": ",".join(ordered)})

    return options
