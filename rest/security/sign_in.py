"""Sign-in on the web page with an OpenID Connect provider: authorization code flow with PKCE (RFC 6749, 7636, 9207)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from connect.errors import ConnectError
from rest.security.cookies import SIGN_IN_COOKIE, set_cookie
from rest.security.identity import AuthenticationError, Identity
from rest.security.oidc_tokens import Provider, TokenVerifier
from rest.security.sessions import SessionCookies
from worker.config.rest_security_config import OidcConfig

CALLBACK_PATH = "sluice/auth/callback"
SIGN_IN_S = 600
"""How long a user may take at the provider."""


@dataclass(frozen=True, slots=True)
class StartedSignIn:
    """Where to send the browser, and the cookie that its return is checked with."""

    location: str
    cookie: str


@dataclass(frozen=True, slots=True)
class CompletedSignIn:
    """Who has signed in, and the page to continue with."""

    identity: Identity
    next_path: str


class SignIn:
    """Carries out sign-ins. Blocks while it asks the provider. Safe for use from any thread."""

    def __init__(
        self, config: OidcConfig, provider: Provider, verifier: TokenVerifier, cookies: SessionCookies, own_url: str
    ) -> None:
        """``own_url`` is the worker's advertised URL, with a trailing slash."""
        self._config = config
        self._provider = provider
        self._verifier = verifier
        self._cookies = cookies
        self.redirect_url = config.redirect_url or f"{own_url}{CALLBACK_PATH}"

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the worker with https, perhaps through a proxy."""
        return urlsplit(self.redirect_url).scheme == "https"

    def start(self, next_path: str) -> StartedSignIn:
        """Begins a sign-in. Raises ConnectError if the provider does not answer or supports no sign-in."""
        endpoint = self._provider.endpoints().authorization_endpoint
        if endpoint is None or self._config.client_id is None:
            raise ConnectError(
                "Sign-in is not available: it needs rest.authentication.oidc.client.id and a provider that supports it"
            )
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._config.client_id,
                "redirect_uri": self.redirect_url,
                "scope": " ".join(self._config.scopes),
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        content = {"state": state, "nonce": nonce, "verifier": verifier, "next": local_path(next_path)}
        sealed = self._cookies.seal(SIGN_IN_COOKIE, content, SIGN_IN_S)
        cookie = set_cookie(SIGN_IN_COOKIE, sealed, SIGN_IN_S, is_secure=self.is_secure)
        return StartedSignIn(f"{endpoint}{'&' if '?' in endpoint else '?'}{query}", cookie)

    def complete(self, cookie: str | None, *, code: str, state: str, issuer: str | None) -> CompletedSignIn:
        """Ends a sign-in with what the browser brought back. Raises AuthenticationError if anything does not fit."""
        started = None if cookie is None else self._cookies.open(SIGN_IN_COOKIE, cookie)
        if started is None:
            raise AuthenticationError("The sign-in took too long or began in another browser; start again")
        if not hmac.compare_digest(str(started["state"]).encode(), state.encode()):
            raise AuthenticationError("The answer belongs to another sign-in; start again")
        if issuer is not None and issuer != self._config.issuer:
            raise AuthenticationError("The answer is of another provider")
        if not code:
            raise AuthenticationError("The provider refused the sign-in")
        id_token = self._exchange(code, str(started["verifier"]))
        return CompletedSignIn(self._verifier.identify_signed_in(id_token, str(started["nonce"])), str(started["next"]))

    def _exchange(self, code: str, verifier: str) -> str:
        endpoint, client_id, secret = (
            self._provider.endpoints().token_endpoint,
            self._config.client_id,
            self._config.client_secret,
        )
        if endpoint is None or client_id is None:
            raise ConnectError("The provider has no token endpoint")
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_url,
            "code_verifier": verifier,
            "client_id": client_id,
        }
        answer = self._provider.http.post_form(endpoint, fields, (client_id, secret) if secret else None)
        id_token = answer.get("id_token")
        if not isinstance(id_token, str):
            raise AuthenticationError("The provider returned no ID token")
        return id_token


def local_path(path: str) -> str:
    """Returns the path if it is one of this host, else that of the page: a link must not lead elsewhere after the sign-in."""
    is_local = path.startswith("/") and not path.startswith("//") and path.isprintable() and "\\" not in path
    return path if is_local else "/ui/"
