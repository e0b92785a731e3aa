"""Lets a request through if its caller may make it, and writes the audit log."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connect.errors import ConnectError, ForbiddenError
from rest.errors import error_status
from rest.responses import error_response
from rest.security.access import SCOPE_KEY, Access, Grant, missing_role
from rest.security.audit import AuditEntry
from rest.security.forwarded_identity import IDENTITY_HEADER, ForwardedRequest, RequestSigner, verify_identity
from rest.security.identity import ANONYMOUS, AuthenticationError, Identity, Role
from rest.security.permissions import Needs, Permission, permission_of
from rest.server.thread_pools import ThreadPools

if TYPE_CHECKING:
    from rest.security.service import RestSecurity

log = logging.getLogger(__name__)

REQUEST_ID_KEY = "sluice.request_id"
REQUEST_ID_HEADER = "X-Request-ID"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_CSRF_HEADERS = ("x-requested-with", "x-sluice-csrf")
"""Pages of other origins cannot send either without asking first, and CORS does not allow them to."""


@dataclass(slots=True)
class _Call:
    """What is known of a request, for the audit log."""

    request_id: str
    client: str | None
    access: Access
    via: str | None = None
    connector: str | None = None


class SecurityMiddleware:
    """Authenticates, checks roles, protects against forged requests of other pages, and writes the audit log.

    It stands directly in front of the routes, so that it judges the route that will answer.
    """

    def __init__(
        self, app: ASGIApp, routes: Sequence[BaseRoute], security: RestSecurity, signer: RequestSigner, pools: ThreadPools
    ) -> None:
        self.app = app
        self._routes = routes
        self._security = security
        self._signer = signer
        self._pools = pools

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(REQUEST_ID_HEADER, "")
        client = scope.get("client")
        call = _Call(
            given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex, client[0] if client else None, Access(ANONYMOUS, ())
        )
        scope = {**scope, REQUEST_ID_KEY: call.request_id}
        send = self._audited(scope, call, send)
        try:
            receive = await self._admit(scope, headers, receive, call)
        except ConnectError as e:
            await self._refusal(e)(scope, receive, send)
            return
        scope[SCOPE_KEY] = call.access
        await self.app(scope, receive, send)

    async def _admit(self, scope: Scope, headers: Headers, receive: Receive, call: _Call) -> Receive:
        """Returns the ASGI channel to continue with. Raises the error for a request that is refused."""
        if scope["method"] == "OPTIONS" or self._security.authentication is None:
            call.access = self._security.access_for(ANONYMOUS)
            return receive
        route, permission, call.connector = self._match(scope)
        if permission.is_signed:
            return receive  # the herder verifies the signature
        if IDENTITY_HEADER.lower() in headers:
            identity, receive = await self._forwarded(scope, headers, receive, call)
        else:
            identity = await self._identify(scope, permission)
            _reject_forged(scope, headers, identity, self._security)
        call.access = self._security.access_for(identity)
        if self._security.is_exempt(scope["method"], scope["path"]):
            if not call.access.allows_all(Role.VIEWER):
                call.access = Access(identity, (Grant(Role.VIEWER),))
            return receive
        if route is not None:
            self._check(permission, call)
        return receive

    async def _identify(self, scope: Scope, permission: Permission) -> Identity:
        authentication = self._security.authentication
        assert authentication is not None
        is_open = permission.role is None or self._security.is_exempt(scope["method"], scope["path"])
        try:
            found = await authentication.identify(scope, self._pools)
        except ConnectError:
            if is_open:
                return ANONYMOUS
            raise
        if found is not None:
            return found
        if is_open or self._security.access_for(ANONYMOUS).grants:
            return ANONYMOUS
        raise AuthenticationError("The request has no credentials")

    def _match(self, scope: Scope) -> tuple[str | None, Permission, str | None]:
        """Returns path and permission of the route that will answer, and the connector in the path. A path without route needs
        authentication only: its answer is 404 or 405."""
        for route in self._routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                path = str(getattr(route, "path", ""))
                connector = child.get("path_params", {}).get("connector")
                return path, permission_of(scope["method"], path), connector
        return None, Permission(Role.VIEWER, Needs.ANY), None

    async def _forwarded(self, scope: Scope, headers: Headers, receive: Receive, call: _Call) -> tuple[Identity, Receive]:
        body, receive = await _buffered(receive)
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        found = verify_identity(self._signer, ForwardedRequest(scope["method"], target, body), headers)
        call.via, call.client = call.client, found.client
        if found.request_id is not None and _REQUEST_ID.fullmatch(found.request_id):
            call.request_id = scope[REQUEST_ID_KEY] = found.request_id
        return found.identity, receive

    def _check(self, permission: Permission, call: _Call) -> None:
        role = permission.role
        if role is None:
            return
        access, identity = call.access, call.access.identity
        if permission.needs is Needs.CONNECTOR and call.connector is not None:
            allowed, of = access.allows(role, call.connector), f"connector {call.connector}"
        elif permission.needs is Needs.ANY:
            allowed, of = access.allows_any(role), "any connector"
        else:
            allowed, of = access.allows_all(role), "all connectors"
        if allowed:
            return
        if identity is ANONYMOUS:
            raise AuthenticationError("The request has no credentials")
        raise ForbiddenError(missing_role(identity, role, of))

    def _refusal(self, error: ConnectError) -> Response:
        authentication = self._security.authentication
        if isinstance(error, AuthenticationError) and authentication is not None:
            response = error_response(401, error.message)
            for challenge in authentication.challenges:
                response.headers.append("WWW-Authenticate", challenge)
            return response
        # Credentials that cannot be checked now, because the provider does not answer, say nothing about the caller.
        status = error_status(error)
        if status == 500:
            log.error("Cannot authenticate a request: %s", error.message)
            return error_response(503, "The credentials cannot be checked at the moment; the worker's log says why")
        return error_response(status, error.message)

    def _audited(self, scope: Scope, call: _Call, send: Send) -> Send:
        audit = self._security.audit

        async def send_audited(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault(REQUEST_ID_HEADER, call.request_id)
                status = int(message["status"])
                if audit is not None and (scope["method"] not in _SAFE_METHODS or status in (401, 403)):
                    identity = call.access.identity
                    connector = call.access.connector or call.connector
                    audit.write(
                        AuditEntry(
                            call.request_id, identity.subject, identity.method, call.client, call.via, scope["method"],
                            scope["path"], connector, status,
                        )
                    )  # fmt: skip
            await send(message)

        return send_audited


def _reject_forged(scope: Scope, headers: Headers, identity: Identity, security: RestSecurity) -> None:
    """Raises ForbiddenError for a change that a page of another origin had a browser send with the user's credentials."""
    if scope["method"] in _SAFE_METHODS or not identity.is_ambient:
        return
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and security.cors is not None and security.cors.allows(origin):
        return
    is_foreign = site not in ("same-origin", "none") if site is not None else _is_other_host(origin, headers.get("host"))
    if is_foreign:
        raise ForbiddenError("The request comes from a page of another origin; see access.control.allow.origin")
    has_cookie_only = "authorization" not in headers and identity is not ANONYMOUS and identity.method != "extension"
    if has_cookie_only and not any(headers.get(name) for name in _CSRF_HEADERS):
        raise ForbiddenError("A change with a session cookie needs the header X-Requested-With")


def _is_other_host(origin: str | None, host: str | None) -> bool:
    return origin is not None and urlsplit(origin).netloc.lower() != (host or "").lower()


async def _buffered(receive: Receive) -> tuple[bytes, Receive]:
    """Returns a request's body, and a channel that delivers it again."""
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            break
    body = b"".join(parts)
    is_delivered = False

    async def receive_again() -> Message:
        nonlocal is_delivered
        if is_delivered:
            return await receive()
        is_delivered = True
        return {"type": "http.request", "body": body, "more_body": False}

    return body, receive_again
