"""The FastAPI app over a herder."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from rest.answers import http_error
from rest.connectors import add_connectors_routes
from rest.front import Front
from rest.plugins import add_plugins_routes
from rest.progress import add_progress_routes
from rest.root import add_root_routes
from rest.routing import ConnectRoute, add_options_routes
from rest.tasks import add_tasks_routes
from worker.herder import Herder

TITLE = "Sluice"


def build_api(herder: Herder) -> FastAPI:
    """The FastAPI app: routes, OpenAPI document, Apache's answers for what no route takes."""
    api = FastAPI(
        title=TITLE,
        description="Kafka Connect's REST API, and a few calls of Sluice's own under /sluice.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    api.router.route_class = ConnectRoute
    for add_routes in (
        add_root_routes,
        add_connectors_routes,
        add_tasks_routes,
        add_plugins_routes,
        add_progress_routes,
    ):
        add_routes(api.router, herder)
    add_options_routes(api.router)
    api.add_exception_handler(HTTPException, _protocol_error)
    return api


def build_app(herder: Herder) -> ASGIApp:
    """The whole door as an ASGI app: :func:`build_api` behind :class:`~rest.front.Front`."""
    return Front(build_api(herder))


async def _protocol_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return http_error(status)
