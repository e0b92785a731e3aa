"""How a request finds its handler, with the manners of JAX-RS.

Order of checks, as recorded: the path (404), the method (405), the Content-Type (415), the Accept header (406), then the body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rest.answers import JSON_TYPE, error_answer, http_error
from rest.bodies import UntypedBodyError
from rest.failures import answer_failure

REQUEST_TIMEOUT_S = 90.0
"""Apache's, which has no key either."""

TIMED_OUT = "Request timed out"

# The order in which Java's hash set gives the methods of a resource (recordings connector-options, plugins-options).
_ALLOW_ORDER = ("HEAD", "DELETE", "POST", "GET", "OPTIONS", "PUT", "PATCH")

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ConnectRoute(APIRoute):
    """A route that refuses what JAX-RS refuses, turns errors into Apache's bodies and ends after the request timeout."""

    timeout_s = REQUEST_TIMEOUT_S

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()
        timeout_s = self.timeout_s

        async def handle(request: Request) -> Response:
            if not _is_json(request.headers.get("content-type")):
                return http_error(415)
            if not _accepts_json(request.headers.get("accept")):
                return http_error(406)
            return await _within(timeout_s, _guarded(handler, request))

        return handle


async def _guarded(handler: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
    try:
        return await handler(request)
    except UntypedBodyError:
        return http_error(415, typed=True)
    except Exception as e:
        return answer_failure(e)


async def _within(timeout_s: float, work: Coroutine[Any, Any, Response]) -> Response:
    """The answer, or the time-out's. A handler that is late keeps its thread: it may be in the middle of a change."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=timeout_s)
    return task.result() if done else error_answer(500, TIMED_OUT)


def _is_json(content_type: str | None) -> bool:
    # None or empty is looked at when a body is read: a call without a body needs no type.
    return not content_type or content_type.split(";", 1)[0].strip().lower() == JSON_TYPE


def _accepts_json(accept: str | None) -> bool:
    if not accept:
        return True
    for part in accept.split(","):
        media, *parameters = (p.strip().lower() for p in part.split(";"))
        if media in ("*/*", "application/*", JSON_TYPE) and "q=0" not in parameters and "q=0.0" not in parameters:
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
