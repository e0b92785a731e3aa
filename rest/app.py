"""The FastAPI app over a herder, and the layers in front of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from rest.extensions import ClusterView
from rest.forwarding.forwarder import Forwarder
from rest.forwarding.worker_client import Outgoing
from rest.middleware.cors import Cors
from rest.middleware.jetty_compat import Front
from rest.middleware.request_body import RequestBody
from rest.middleware.response_headers import ResponseHeaders
from rest.openapi import ConnectApi
from rest.responses import http_error
from rest.routes.connectors import add_connectors_routes
from rest.routes.history import add_history_routes
from rest.routes.internal import add_internal_routes
from rest.routes.loggers import add_loggers_routes
from rest.routes.plugins import add_plugins_routes
from rest.routes.progress import add_progress_routes
from rest.routes.root import add_root_routes
from rest.routes.routing import add_options_routes, route_class
from rest.routes.tasks import add_tasks_routes
from rest.server.thread_pools import Lanes
from rest.settings import DoorSettings
from worker.herder import Herder

TITLE = "Sluice"

AddRoutes = Callable[[APIRouter, Herder], None]

PUBLIC: tuple[AddRoutes, ...] = (
    add_root_routes,
    add_connectors_routes,
    add_tasks_routes,
    add_plugins_routes,
    add_progress_routes,
    add_history_routes,
    add_internal_routes,
)
ADMIN: tuple[AddRoutes, ...] = (add_loggers_routes,)


def build_api(
    herder: Herder,
    parts: Sequence[AddRoutes] = (*PUBLIC, *ADMIN),
    lanes: Lanes | None = None,
    outgoing: Outgoing | None = None,
) -> FastAPI:
    """The FastAPI app: routes, OpenAPI document, Apache's answers for what no route takes. Whoever gives lanes closes them."""
    api = ConnectApi(
        title=TITLE,
        description="Kafka Connect's REST API, and a few calls of Sluice's own under /sluice.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    lanes = lanes or Lanes()
    api.state.forwarder = Forwarder(outgoing or Outgoing(), lanes)
    stages: Any = getattr(herder, "stages", None)
    api.router.route_class = route_class(lanes, None if stages is None else stages.timed_out)
    for add_routes in parts:
        add_routes(api.router, herder)
    add_options_routes(api.router)
    api.add_exception_handler(HTTPException, _protocol_error)
    return api


def build_app(
    herder: Herder,
    settings: DoorSettings | None = None,
    lanes: Lanes | None = None,
    parts: Sequence[AddRoutes] = (*PUBLIC, *ADMIN),
) -> ASGIApp:
    """The whole door as an ASGI app: :func:`build_api` behind its layers."""
    settings = settings or DoorSettings()
    app: ASGIApp = RequestBody(build_api(herder, parts, lanes, settings.outgoing), settings.max_request_bytes)
    for extension in reversed(settings.extensions):
        app = extension.wrap(app, ClusterView(herder))
    if settings.cors is not None:
        app = Cors(app, settings.cors)
    if settings.headers:
        app = ResponseHeaders(app, settings.headers)
    return Front(app)


def build_admin_app(herder: Herder, settings: DoorSettings, lanes: Lanes) -> ASGIApp:
    """What listeners of ``admin.listeners`` serve. As in Apache's worker neither headers, cross-origin rules nor extensions are
    in front of it."""
    return build_app(herder, DoorSettings(settings.max_request_bytes), lanes, ADMIN)


async def _protocol_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return http_error(status)
