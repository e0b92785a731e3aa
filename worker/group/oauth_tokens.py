"""OAuth tokens for the member's connection: fetched with client credentials (RFC 6749, 4.4), renewed before they expire."""

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
    """The URL of the token server, and the client's credentials."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


class OAuthTokens:
    """Holds one token. Renewal runs on its own thread, because the thread that authenticates must not wait for a web server."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint
        self._token: str | None = None
        self._renew_at = 0.0
        self._renewal: threading.Thread | None = None

    def current(self) -> str:
        """Returns the token. Raises ConnectError if none was ever fetched."""
        if self._token is None:
            raise ConnectError(f"there is no OAuth token yet from {self._endpoint.url}")
        return self._token

    def fetch(self) -> None:
        """Fetches a token; blocks. Raises UnreachableError or ConnectError, which never contain the secret."""
        import httpx  # its import takes a tenth of a worker's startup, and is rarely needed

        endpoint = self._endpoint
        form = {"grant_type": "client_credentials", **({"scope": endpoint.scope} if endpoint.scope else {})}
        try:
            response = httpx.post(endpoint.url, data=form, auth=(endpoint.client_id, endpoint.client_secret), timeout=_TIMEOUT_S)
        except httpx.HTTPError as e:
            raise UnreachableError(
                f"no OAuth token: {endpoint.url} does not respond ({type(e).__name__}). Check sasl.oauthbearer.token.endpoint.url"
            ) from e
        try:
            body = response.json()
            token, lifetime_s = str(body["access_token"]), float(body.get("expires_in", _DEFAULT_LIFETIME_S))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise ConnectError(
                f"no OAuth token: {endpoint.url} returned {response.status_code} to client {endpoint.client_id}. Check clientId, "
                "clientSecret and scope in sasl.jaas.config"
            ) from e
        self._token = token
        self._renew_at = time.monotonic() + _RENEW_AFTER * lifetime_s

    def renew_if_due(self) -> None:
        """Starts a renewal if the token expires soon. Does not block; logs a failure."""
        if time.monotonic() < self._renew_at or (self._renewal is not None and self._renewal.is_alive()):
            return
        self._renew_at = time.monotonic() + _RETRY_S
        self._renewal = threading.Thread(target=self._renew, name="group-token", daemon=True)
        self._renewal.start()

    def close(self) -> None:
        """Waits for a renewal in progress."""
        if self._renewal is not None:
            self._renewal.join(_TIMEOUT_S)

    def _renew(self) -> None:
        try:
            self.fetch()
        except ConnectError as e:
            log.warning("The OAuth token for the worker group could not be renewed: %s", e.message)
