"""Builds the FastAPI app over a herder and the middleware around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from rest.extensions import ClusterView
from rest.forwarding.forwarder import Forwarder
from rest.forwarding.peers import Peers
from rest.forwarding.worker_client import WorkerClient
from rest.middleware.cors import CorsMiddleware
from rest.middleware.jetty_compat import JettyCompatMiddleware
from rest.middleware.request_body import RequestBodyLimit
from rest.middleware.response_headers import ResponseHeadersMiddleware
from rest.openapi import ConnectApi
from rest.responses import http_error_response
from rest.routes.connectors import add_connectors_routes
from rest.routes.dead_letters import add_dead_letters_routes
from rest.routes.diagnosis import add_diagnosis_routes
from rest.routes.external_systems import add_external_system_routes
from rest.routes.history import add_history_routes
from rest.routes.internal import add_internal_routes
from rest.routes.loggers import add_loggers_routes
from rest.routes.logs import add_logs_routes
from rest.routes.metrics import add_metrics_routes
from rest.routes.plugins import add_plugins_routes
from rest.routes.preview import add_preview_routes
from rest.routes.probes import add_probes_routes
from rest.routes.progress import add_progress_routes
from rest.routes.root import add_root_routes
from rest.routes.routing import add_options_routes, route_class
from rest.routes.session import add_session_routes
from rest.routes.signals import add_signals_routes
from rest.routes.tasks import add_tasks_routes
from rest.routes.verification import add_verification_routes
from rest.security.config_mask import ConfigMask
from rest.server.thread_pools import ThreadPools
from rest.settings import RestSettings
from rest.ui.web_page import WebPage
from worker.herder import Herder

if TYPE_CHECKING:
    from rest.security.service import RestSecurity

TITLE = "Sluice"

AddRoutes = Callable[[APIRouter, Herder], None]

MONITORING: tuple[AddRoutes, ...] = (add_metrics_routes, add_probes_routes)
"""Served by all listeners, so that a network that reaches ``admin.listeners`` only can watch the worker."""
PUBLIC: tuple[AddRoutes, ...] = (
    add_root_routes,
    *MONITORING,
    add_connectors_routes,
    add_tasks_routes,
    add_plugins_routes,
    add_progress_routes,
    add_preview_routes,
    add_external_system_routes,
    add_diagnosis_routes,
    add_signals_routes,
    add_verification_routes,
    add_history_routes,
    add_logs_routes,
    add_dead_letters_routes,
    add_internal_routes,
)
ADMIN: tuple[AddRoutes, ...] = (add_loggers_routes,)


def build_api(
    herder: Herder,
    routes: Sequence[AddRoutes] = (*PUBLIC, *ADMIN),
    pools: ThreadPools | None = None,
    worker_client: WorkerClient | None = None,
    security: RestSecurity | None = None,
    own_url: str = "/",
    peer_scheme: str = "http",
) -> FastAPI:
    """Returns the FastAPI app: routes, OpenAPI document, and Apache's error responses for unknown paths. The caller closes
    ``pools``. ``own_url`` is the worker's advertised URL, with a trailing slash."""
    api = ConnectApi(
        title=TITLE,
        description="Kafka Connect's REST API, and Sluice's own resources under /sluice.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    pools = pools or ThreadPools()
    worker_client = worker_client or WorkerClient()
    api.state.mask = ConfigMask(herder)
    api.state.forwarder = Forwarder(worker_client, pools, herder)
    api.state.peers = Peers(worker_client, peer_scheme, pools, api.state.forwarder)
    api.router.route_class = route_class(pools, lambda: herder.timeout_message())
    for add_routes in routes:
        add_routes(api.router, herder)
    if add_root_routes in routes:
        add_session_routes(api.router, security, own_url)
    add_options_routes(api.router)
    api.add_exception_handler(HTTPException, _protocol_error)
    return api


def build_app(
    herder: Herder,
    settings: RestSettings | None = None,
    pools: ThreadPools | None = None,
    routes: Sequence[AddRoutes] = (*PUBLIC, *ADMIN),
    own_url: str = "/",
) -> ASGIApp:
    """Returns the complete REST API: :func:`build_api` behind its middleware and extensions."""
    settings, pools = settings or RestSettings(), pools or ThreadPools()
    security = settings.security
    api = build_api(herder, routes, pools, settings.worker_client, security, own_url, settings.peer_scheme)
    app: ASGIApp = api
    if security is not None:
        from rest.security.middleware import SecurityMiddleware

        security.share_sessions(herder.ended_sessions)
        app = SecurityMiddleware(api, api.routes, security, herder, pools)
    app = RequestBodyLimit(app, settings.max_request_bytes)
    if settings.ui is not None:
        app = WebPage(app, settings.ui)
    for extension in reversed(settings.extensions):
        app = extension.wrap(app, ClusterView(herder))
    if settings.cors is not None:
        app = CorsMiddleware(app, settings.cors)
    if settings.headers:
        app = ResponseHeadersMiddleware(app, settings.headers)
    return JettyCompatMiddleware(app)


def build_admin_app(herder: Herder, settings: RestSettings, pools: ThreadPools, own_url: str = "/") -> ASGIApp:
    """Returns the app of ``admin.listeners``, as in Apache's worker without response headers, CORS rules, and extensions."""
    settings = RestSettings(settings.max_request_bytes, security=settings.security)
    return build_app(herder, settings, pools, (*ADMIN, *MONITORING), own_url)


async def _protocol_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return http_error_response(status)
