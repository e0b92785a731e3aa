"""Cross-origin requests: which web pages may call REST (``access.control.allow.*``), answered as Jetty does it."""

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
    """Who may call, and with which methods."""

    origins: tuple[re.Pattern[str], ...] | None
    """Expressions for whole origins; None lets everyone in."""
    methods: tuple[str, ...] = _DEFAULT_METHODS

    @classmethod
    def of(cls, origins: str, methods: str) -> CorsRules | None:
        """The rules of the two keys; None when no origin is set. Raises ConfigError for an expression that is none."""
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
            raise ConfigError.invalid(key, origins, f"an origin is a regular expression, or * for all: {e}") from e

    def lets_in(self, origin: str) -> bool:
        """Whether one of the origins that a request names, mostly one, is allowed."""
        if self.origins is None:
            return True
        return any(pattern.fullmatch(one) for one in origin.split() for pattern in self.origins)

    def headers_for(self, method: str, request: Headers) -> list[tuple[str, str]]:
        """The headers that the answer gets."""
        found = [("vary", "Origin")]
        origin = request.get("origin")
        if origin is None or not self.lets_in(origin):
            return found
        found.append(("access-control-allow-origin", origin))
        if method == "OPTIONS" and "access-control-request-method" in request:
            # All methods, whether or not the one asked for is among them: browsers look (recording cors-preflight-bad-method).
            found += [
                ("access-control-allow-methods", ",".join(self.methods)),
                ("access-control-allow-headers", _ALLOWED_HEADERS),
                ("access-control-max-age", _MAX_AGE_S),
            ]
        return found


def _words(text: str) -> Sequence[str]:
    return [word for part in text.split(",") if (word := part.strip())]


class Cors:
    """Adds the headers to every answer. A preflight is answered by the app too, as any OPTIONS (recording cors-preflight)."""

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
