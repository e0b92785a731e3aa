"""How a request finds its handler, with the manners of JAX-RS.

Order of checks, as recorded: the path (404), the method (405), the Content-Type (415), the Accept header (406), then the body.
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
from rest.errors import answer_failure
from rest.requests import UntypedBodyError, media_type
from rest.responses import JSON_TYPE, error_answer, http_error
from rest.server.thread_pools import Kind, Lanes, kind_of
from worker.observability.herder_activity import TIMED_OUT

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 90.0
"""Apache's, which has no key either."""

# The order in which Java's hash set gives the methods of a resource (recordings connector-options, plugins-options).
_ALLOW_ORDER = ("HEAD", "DELETE", "POST", "GET", "OPTIONS", "PUT", "PATCH")

_LIST_PARAMETER = b"expand"
"""The one parameter of which all values count."""

_ANY_TYPE = ("/", "/health")
"""Where a Content-Type may be whatever it likes: Apache's root takes no bodies."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ConnectRoute(APIRoute):
    """A route that refuses what JAX-RS refuses, turns errors into Apache's bodies and ends after the request timeout.

    Its handler, a plain function that may block, runs on a thread of the lane for such calls. :func:`route_class` makes the class
    of one server.
    """

    timeout_s = REQUEST_TIMEOUT_S
    lanes: ClassVar[Lanes]

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        if not inspect.iscoroutinefunction(endpoint):
            method = next(iter(more.get("methods") or ("GET",)))
            endpoint = _in_lane(self.lanes, kind_of(method, path), endpoint)
        super().__init__(path, endpoint, **more)

    @staticmethod
    def timed_out() -> str:
        """What an answer says after the request timeout."""
        return TIMED_OUT

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()
        timeout_s, timed_out = self.timeout_s, self.timed_out
        any_type = self.path in _ANY_TYPE

        async def handle(request: Request) -> Response:
            content_type = request.headers.get("content-type")
            if not any_type and not _is_json(content_type):
                return http_error(415)
            if not _accepts_json(request.headers.get("accept")):
                return http_error(406)
            request.scope["query_string"] = _first_of_each(request.scope["query_string"])
            return await _within(timeout_s, _guarded(handler, request), timed_out)

        return handle


def route_class(lanes: Lanes, timed_out: Callable[[], str] | None = None) -> type[ConnectRoute]:
    """The routes of a server with these threads; ``timed_out`` tells what an answer says after the request timeout."""
    members: dict[str, Any] = {"lanes": lanes}
    if timed_out is not None:
        members["timed_out"] = staticmethod(timed_out)
    return type("ServerRoute", (ConnectRoute,), members)


def _in_lane(lanes: Lanes, kind: Kind, endpoint: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
    @functools.wraps(endpoint)
    async def on_a_thread(*args: Any, **kwargs: Any) -> Response:
        future = lanes.submit(kind, functools.partial(endpoint, *args, **kwargs))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(_tell_late_failure)
            raise

    return on_a_thread


def _tell_late_failure(future: Future[Response]) -> None:
    """Nobody waits for the answer any more; what became of the call is in the log at least."""
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("A REST call that had timed out has failed: %s", error)


async def _guarded(handler: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
    try:
        return await handler(request)
    except UntypedBodyError:
        return http_error(415, typed=True)
    except NotLeaderError as e:
        try:
            answer: Response = await request.app.state.forwarder.forward(request, e)
        except Exception as failure:
            return answer_failure(failure)
        return answer
    except Exception as e:
        return answer_failure(e)


async def _within(timeout_s: float, work: Coroutine[Any, Any, Response], timed_out: Callable[[], str]) -> Response:
    """The answer, or the time-out's. A handler that is late keeps its thread, for it may be in the middle of a change; one that
    has not had its turn does not run any more, for its caller has been told that it failed."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
        if done:
            return task.result()
        message = timed_out()
        # What waits for its turn is out of the queue before the caller is told.
        task.cancel()
        await asyncio.wait({task})
        return error_answer(500, message)
    finally:
        task.cancel()


def _first_of_each(query: bytes) -> bytes:
    """A query without the later values of a parameter: in JAX-RS the first counts, here the last would."""
    kept: dict[bytes, list[bytes]] = {}
    for pair in query.split(b"&"):
        name = pair.partition(b"=")[0]
        if name == _LIST_PARAMETER or name not in kept:
            kept.setdefault(name, []).append(pair)
    return b"&".join(pair for pairs in kept.values() for pair in pairs)


def _is_json(content_type: str | None) -> bool:
    # None or empty is looked at when a body is read: a call without a body needs no type.
    # Nor does a range say what a body is.
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
    """Answers OPTIONS on every path so far with its methods, as JAX-RS does by itself."""
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
        # Set as a header, so that no charset is added: Apache says text/plain.
        return Response(", ".join(ordered), headers={"Content-Type": "text/plain", "Allow": ",".join(ordered)})

    return options
