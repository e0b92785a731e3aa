"""``/sluice/auth``: who is signed in, and sign-in for the web page. Not in Apache's worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from connect.errors import BadRequestError, ForbiddenError, NotFoundError
from rest.responses import empty_response, error_response, json_response
from rest.security.access import access_of
from rest.security.cookies import SESSION_COOKIE, SIGN_IN_COOKIE, read_cookie, set_cookie
from rest.security.identity import AuthenticationError

if TYPE_CHECKING:
    from rest.security.service import RestSecurity

_LOGIN = "/sluice/auth/login"
_NO_SIGN_IN = "Sign-in is not set up: it needs oidc in rest.authentication and rest.authentication.oidc.client.id"


def add_session_routes(router: APIRouter, security: RestSecurity | None, own_url: str) -> None:
    """Adds the session, and sign-in at a provider. ``own_url`` is the worker's advertised URL."""
    sign_in = None if security is None else security.sign_in(own_url)

    def is_secure(request: Request) -> bool:
        return request.url.scheme == "https" or (sign_in is not None and sign_in.is_secure)

    @router.get("/sluice/auth/session", tags=["sluice"], summary="Who sends the request, and what they may do")
    def session(request: Request) -> Response:
        access = access_of(request)
        is_authenticated = access.identity.method != "anonymous"
        return json_response(
            {
                "authentication": [] if security is None else list(security.methods),
                "subject": access.identity.subject if is_authenticated else None,
                "groups": sorted(access.identity.groups),
                "roles": [{"role": grant.role.name.lower(), "connectors": list(grant.connectors)} for grant in access.grants],
                "login": _LOGIN if sign_in is not None else None,
            }
        )

    @router.post(
        "/sluice/auth/session", tags=["sluice"], summary="Start a session of the web page with the request's credentials"
    )
    def start_session(request: Request) -> Response:
        identity = access_of(request).identity
        if security is None or not security.methods:
            raise BadRequestError("The worker has no authentication, so there are no sessions")
        authorization = request.headers.get("authorization")
        if identity.method == "anonymous" or authorization is None:
            raise ForbiddenError("A session starts with the header Authorization")
        response = empty_response(204)
        response.headers.append("Set-Cookie", security.start_session(identity, authorization, is_secure=is_secure(request)))
        return response

    @router.delete("/sluice/auth/session", tags=["sluice"], summary="End the session, and delete its cookie")
    def end_session(request: Request) -> Response:
        if security is not None:
            security.cookies.end_session(request.headers.get("cookie", ""))
        response = empty_response(204)
        response.headers.append("Set-Cookie", set_cookie(SESSION_COOKIE, "", 0, is_secure=is_secure(request)))
        return response

    def login(request: Request) -> Response:
        if sign_in is None:
            raise NotFoundError(_NO_SIGN_IN)
        started = sign_in.start(request.query_params.get("next", "/ui/"))
        return _redirect(started.location, started.cookie)

    def callback(request: Request) -> Response:
        if sign_in is None or security is None:
            raise NotFoundError(_NO_SIGN_IN)
        query = request.query_params
        cookie = read_cookie(request.headers.get("cookie", ""), SIGN_IN_COOKIE)
        try:
            done = sign_in.complete(cookie, code=query.get("code", ""), state=query.get("state", ""), issuer=query.get("iss"))
        except AuthenticationError as e:
            return error_response(401, e.message)
        secure = is_secure(request)
        return _redirect(
            done.next_path,
            security.cookies.start_session(done.identity, is_secure=secure),
            set_cookie(SIGN_IN_COOKIE, "", 0, is_secure=secure),
        )

    router.add_api_route(_LOGIN, login, methods=["GET"], include_in_schema=False)
    router.add_api_route("/sluice/auth/callback", callback, methods=["GET"], include_in_schema=False)


def _redirect(location: str, *cookies: str) -> Response:
    response = RedirectResponse(location, 302, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    for cookie in cookies:
        response.headers.append("Set-Cookie", cookie)
    return response
