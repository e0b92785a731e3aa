"""OAuth tokens for the member's connection: fetched with client credentials (RFC 6749, 4.4), renewed before they end."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

from connect.errors import ConnectError, UnreachableError

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_DEFAULT_LIFETIME_S = 300.0
_RENEW_AFTER = 0.8
_RETRY_S = 10.0


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """Where tokens come from, and who asks."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


class Tokens:
    """Keeps one token. Its renewal runs on a thread of its own, for the thread that logs in must not wait for a web server."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint
        self._token: str | None = None
        self._renew_at = 0.0
        self._renewal: threading.Thread | None = None

    def current(self) -> str:
        """The token. Raises ConnectError when none was ever fetched."""
        if self._token is None:
            raise ConnectError(f"there is no OAuth token yet from {self._endpoint.url}")
        return self._token

    def fetch(self) -> None:
        """Gets a token and waits for it. Raises UnreachableError or ConnectError, which never quote the secret."""
        import httpx  # takes a tenth of a worker's start, and hardly any needs it

        endpoint = self._endpoint
        form = {"grant_type": "client_credentials", **({"scope": endpoint.scope} if endpoint.scope else {})}
        try:
            answer = httpx.post(endpoint.url, data=form, auth=(endpoint.client_id, endpoint.client_secret), timeout=_TIMEOUT_S)
        except httpx.HTTPError as e:
            raise UnreachableError(
                f"no OAuth token: {endpoint.url} does not answer ({type(e).__name__}). Check sasl.oauthbearer.token.endpoint.url"
            ) from e
        try:
            body = answer.json()
            token, lifetime_s = str(body["access_token"]), float(body.get("expires_in", _DEFAULT_LIFETIME_S))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise ConnectError(
                f"no OAuth token: {endpoint.url} answers {answer.status_code} to client {endpoint.client_id}. Check clientId, "
                "clientSecret and scope in sasl.jaas.config"
            ) from e
        self._token = token
        self._renew_at = time.monotonic() + _RENEW_AFTER * lifetime_s

    def renew_if_due(self) -> None:
        """Begins a renewal when the token is near its end. Does not wait, and logs a failure."""
        if time.monotonic() < self._renew_at or (self._renewal is not None and self._renewal.is_alive()):
            return
        self._renew_at = time.monotonic() + _RETRY_S
        self._renewal = threading.Thread(target=self._renew, name="group-token", daemon=True)
        self._renewal.start()

    def close(self) -> None:
        """Waits for a renewal under way."""
        if self._renewal is not None:
            self._renewal.join(_TIMEOUT_S)

    def _renew(self) -> None:
        try:
            self.fetch()
        except ConnectError as e:
            log.warning("The OAuth token for the worker group could not be renewed: %s", e.message)
