"""CORS: which web pages may call the REST API (``access.control.allow.*``), with Jetty's responses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connect.errors import ConfigError

_DEFAULT_METHODS = ("GET", "POST", "HEAD")
_ALLOWED_HEADERS = "Content-Type"
_MAX_AGE_S = "60"
_ANY = "*"


@dataclass(frozen=True, slots=True)
class CorsRules:
    """Allowed origins and methods."""

    origins: tuple[re.Pattern[str], ...] | None
    """Regular expressions for whole origins; None allows every origin."""
    methods: tuple[str, ...] = _DEFAULT_METHODS

    @classmethod
    def parse(cls, origins: str, methods: str) -> CorsRules | None:
        """Returns the rules of the two keys, or None when no origin is set. Raises ConfigError for an invalid expression."""
        if not origins.strip():
            return None
        allowed = tuple(_words(methods)) or _DEFAULT_METHODS
        patterns = _words(origins)
        if _ANY in patterns:
            return cls(None, allowed)
        try:
            return cls(tuple(re.compile(pattern) for pattern in patterns), allowed)
        except re.error as e:
            key = "access.control.allow.origin"
            raise ConfigError.invalid(key, origins, f"each origin is a regular expression, or * for all: {e}") from e

    def allows(self, origin: str) -> bool:
        """Returns whether any of the origins in a request's Origin header is allowed."""
        if self.origins is None:
            return True
        return any(pattern.fullmatch(one) for one in origin.split() for pattern in self.origins)

    def headers_for(self, method: str, request: Headers) -> list[tuple[str, str]]:
        """Returns the headers to add to the response."""
        found = [("vary", "Origin")]
        origin = request.get("origin")
        if origin is None or not self.allows(origin):
            return found
        found.append(("access-control-allow-origin", origin))
        if method == "OPTIONS" and "access-control-request-method" in request:
            # All methods, even if the requested one is not allowed: browsers check (recording cors-preflight-bad-method).
            found += [
                ("access-control-allow-methods", ",".join(self.methods)),
                ("access-control-allow-headers", _ALLOWED_HEADERS),
                ("access-control-max-age", _MAX_AGE_S),
            ]
        return found


def _words(text: str) -> Sequence[str]:
    return [word for part in text.split(",") if (word := part.strip())]


class CorsMiddleware:
    """Adds the headers to every response. The app answers preflights, like any OPTIONS request (recording cors-preflight)."""

    def __init__(self, app: ASGIApp, rules: CorsRules) -> None:
        self.app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        added = self._rules.headers_for(scope["method"], Headers(scope=scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in added:
                    headers.append(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)
