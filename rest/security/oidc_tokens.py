"""Verifies JSON Web Tokens of an OpenID Connect provider: signature, issuer, audience, times, and type (RFC 7519, 8725, 9068).

The discovery document of the provider names its keys. A token signed with an unknown key makes them load again, so that the
provider may rotate them at any time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jws
from joserfc import jwt as jose
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from connect.errors import ConnectError, NotReadyError
from rest.security.identity import AuthenticationError, Identity
from rest.security.provider_http import ProviderHttp
from worker.config.rest_security_config import OidcConfig

log = logging.getLogger(__name__)

_REFRESH_S = 3600.0
"""Keys are loaded again after this time even if no token needs it: a provider revokes keys by removing them."""
_MIN_RELOAD_S = 10.0
"""Between two loads, so that tokens with invented key IDs cannot flood the provider."""
_MAX_TOKEN_BYTES = 16 * 1024
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt", "application/jwt"})
_MAX_CLAIMS, _MAX_CLAIM_LENGTH, _MAX_GROUPS = 32, 200, 200
_TECHNICAL = frozenset({"iss", "aud", "exp", "nbf", "iat", "jti", "nonce", "at_hash", "c_hash", "sid", "auth_time"})


@dataclass(frozen=True, slots=True)
class ProviderEndpoints:
    """What a discovery document says."""

    jwks_uri: str
    authorization_endpoint: str | None
    token_endpoint: str | None


@dataclass(frozen=True, slots=True)
class _CachedKeys:
    """The keys that may have signed a token, among those loaded so far."""

    keys: list[Key]
    is_loaded: bool
    is_fresh: bool


class Provider:
    """Discovery document and keys of a provider, loaded at first use. Blocks while it loads. Safe for use from any thread."""

    def __init__(self, config: OidcConfig, http: ProviderHttp | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises ConfigError for an unusable file of authorities."""
        self._config = config
        self.http = http or ProviderHttp(config.ca_file)
        self._clock = clock
        self._lock = threading.Lock()  # guards the fields, and is never held during a request
        # Held by the one thread that asks the provider. Others wait for it only while there are no keys at all.
        self._loading = threading.Lock()
        self._endpoints: ProviderEndpoints | None = None
        self._keys: tuple[Key, ...] = ()
        self._loaded_at: float | None = None
        self._discovered_at: float | None = None
        """The end of the last request for the discovery document."""
        self._tried_at: float | None = None
        """The end of the last attempt to load the keys."""

    def endpoints(self) -> ProviderEndpoints:
        """Returns the provider's addresses. Raises UnreachableError or ConnectError."""
        with self._lock:
            found = self._endpoints
        if found is not None:
            return found
        with self._loading:
            return self._discovered()

    def _discovered(self) -> ProviderEndpoints:
        with self._lock:
            found, tried_at = self._endpoints, self._discovered_at
        if found is not None:
            return found
        if self._is_recent(tried_at):
            raise ConnectError(f"The provider at {self._config.issuer} could not be asked a moment ago; try again later")
        try:
            found = self._discover()
        finally:
            with self._lock:
                self._endpoints, self._discovered_at = found, self._clock()
        return found

    def _discover(self) -> ProviderEndpoints:
        issuer = self._config.issuer
        found = self.http.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise ConnectError(f"The provider at {issuer} says that its issuer is {found.get('issuer')}; they must be equal")
        jwks_uri = found.get("jwks_uri")
        if not isinstance(jwks_uri, str):
            raise ConnectError(f"The discovery document of {issuer} has no jwks_uri")
        return ProviderEndpoints(jwks_uri, _text(found, "authorization_endpoint"), _text(found, "token_endpoint"))

    def candidates(self, key_id: str | None, algorithm: str) -> list[Key]:
        """Returns the keys that may have signed a token, after loading them if none may. Raises UnreachableError without any,
        and NotReadyError if another thread is loading keys that may include one."""
        cached = self._cached(key_id, algorithm)
        if cached.keys and cached.is_fresh:
            return cached.keys
        # An outage of the provider, or tokens with invented key IDs, must not hold up every thread that authenticates.
        if not self._loading.acquire(blocking=not cached.is_loaded):
            if cached.keys:
                return cached.keys
            raise NotReadyError(f"The keys of {self._config.issuer} are being loaded; try again")
        try:
            cached = self._cached(key_id, algorithm)
            if not cached.keys or not cached.is_fresh:
                self._load()
                cached = self._cached(key_id, algorithm)
            return cached.keys
        finally:
            self._loading.release()

    def _cached(self, key_id: str | None, algorithm: str) -> _CachedKeys:
        with self._lock:
            keys, loaded_at = self._keys, self._loaded_at
        is_fresh = loaded_at is not None and self._clock() - loaded_at <= _REFRESH_S
        return _CachedKeys(_matching(keys, key_id, algorithm), loaded_at is not None, is_fresh)

    def _load(self) -> None:
        with self._lock:
            is_loaded, tried_at = self._loaded_at is not None, self._tried_at
        if self._is_recent(tried_at):
            if not is_loaded:
                raise ConnectError(f"The keys of {self._config.issuer} could not be loaded a moment ago; see the log")
            return
        try:
            keys = tuple(_import_keys(self.http.get(self._discovered().jwks_uri)))
            with self._lock:
                self._keys, self._loaded_at = keys, self._clock()
        except ConnectError as e:
            log.error("Cannot load the keys of %s: %s", self._config.issuer, e.message)
            if not is_loaded:
                raise
        finally:
            # Counted from the end: a request may take as long as the time between two.
            with self._lock:
                self._tried_at = self._clock()

    def _is_recent(self, tried_at: float | None) -> bool:
        return tried_at is not None and self._clock() - tried_at < _MIN_RELOAD_S


def _text(found: Mapping[str, Any], name: str) -> str | None:
    value = found.get(name)
    return value if isinstance(value, str) else None


def _import_keys(document: Mapping[str, Any]) -> list[Key]:
    keys = []
    for entry in document.get("keys") or ():
        # Only public keys: a shared secret (oct) would let everyone who reads the document sign tokens.
        if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC", "OKP") or entry.get("use", "sig") != "sig":
            continue
        try:
            keys.append(JWKRegistry.import_key({name: value for name, value in entry.items() if name != "key_ops"}))
        except (JoseError, ValueError, TypeError, KeyError) as e:
            log.warning("Ignoring a key of the provider that cannot be read: %s", type(e).__name__)
    if not keys:
        raise ConnectError("The provider's key set has no public key for signatures")
    return keys


_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def _matching(keys: Collection[Key], key_id: str | None, algorithm: str) -> list[Key]:
    wanted = _KEY_TYPES.get(algorithm[:2])
    return [
        key
        for key in keys
        if key.key_type == wanted and (key_id is None or key.kid == key_id) and key.get("alg") in (None, algorithm)
    ]


class TokenVerifier:
    """Verifies tokens of one provider. Safe for use from any thread."""

    def __init__(self, config: OidcConfig, provider: Provider, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._provider = provider
        self._clock = clock

    def identify(self, token: str) -> Identity:
        """Returns the caller of an access token. Raises AuthenticationError for an invalid token, ConnectError while the keys
        cannot be loaded."""
        return self.identity_of(self.claims_of(token, self._config.audience))

    def identify_signed_in(self, id_token: str, nonce: str) -> Identity:
        """Returns the user of an ID token, whose audience is this client and whose nonce is that of the sign-in. Raises like
        :meth:`identify`."""
        client_id = self._config.client_id or ""
        claims = self.claims_of(id_token, (client_id,))
        if claims.get("nonce") != nonce:
            raise AuthenticationError("The ID token belongs to another sign-in")
        if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != client_id:
            raise AuthenticationError("The ID token was issued to another client")
        return self.identity_of(claims)

    def claims_of(self, token: str, audience: Collection[str]) -> dict[str, Any]:
        """Returns the claims of a valid token."""
        if not audience:
            raise AuthenticationError("Access tokens are not accepted: the worker has no rest.authentication.oidc.audience")
        header = _header(token)
        algorithm, kind = header.get("alg"), header.get("typ", "JWT")
        if algorithm not in self._config.algorithms:
            raise AuthenticationError("The token is signed with an algorithm that is not accepted")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise AuthenticationError("The token is not of a type that is accepted: expected JWT or at+jwt")
        key_id = header.get("kid")
        if key_id is not None and not isinstance(key_id, str):
            raise AuthenticationError("The token's key ID is not a text")
        claims = self._decode(token, self._provider.candidates(key_id, algorithm), algorithm)
        self._check(claims, audience)
        return claims

    def _decode(self, token: str, keys: Collection[Key], algorithm: str) -> dict[str, Any]:
        for key in keys:
            try:
                return dict(jose.decode(token, key, algorithms=[algorithm]).claims)
            except (JoseError, ValueError):
                continue
        raise AuthenticationError("The token's signature is not that of a key of the provider")

    def _check(self, claims: Mapping[str, Any], audience: Collection[str]) -> None:
        if claims.get("iss") != self._config.issuer:
            raise AuthenticationError("The token is of another issuer")
        given = claims.get("aud")
        listed = given if isinstance(given, list) else [given]
        if not any(isinstance(one, str) and one in audience for one in listed):
            raise AuthenticationError("The token is for another audience")
        now, skew = self._clock(), self._config.clock_skew_s
        expires, begins, issued = (_time(claims, name) for name in ("exp", "nbf", "iat"))
        if expires is None:
            raise AuthenticationError("The token never expires; that is not accepted")
        if now >= expires + skew:
            raise AuthenticationError("The token has expired")
        if any(at is not None and at > now + skew for at in (begins, issued)):
            raise AuthenticationError("The token is not valid yet; compare the clocks of provider and worker")

    def identity_of(self, claims: Mapping[str, Any]) -> Identity:
        """Returns the identity that claims describe."""
        subject = claims.get(self._config.subject_claim)
        if not isinstance(subject, str) or not subject or len(subject) > _MAX_CLAIM_LENGTH:
            raise AuthenticationError(f"The token has no claim {self._config.subject_claim} that names a user")
        groups: Any = claims
        for name in self._config.groups_claim.split("."):
            groups = groups.get(name) if isinstance(groups, Mapping) else None
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        named = frozenset(one for one in listed[:_MAX_GROUPS] if isinstance(one, str))
        expires = _time(claims, "exp")
        return Identity(subject, "oidc", named, _simple_claims(claims), None if expires is None else float(expires))


def _header(token: str) -> Mapping[str, Any]:
    if len(token) > _MAX_TOKEN_BYTES:
        raise AuthenticationError("The token is too long")
    try:
        # Parsed only, to find the key. Nothing of it is trusted before the signature has been checked.
        return jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError, TypeError, AttributeError) as e:
        raise AuthenticationError("The token is not a signed JSON Web Token") from e


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise AuthenticationError(f"The token's {name} is not a time")
    return float(value)


def _simple_claims(claims: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in claims.items():
        if name in _TECHNICAL or not isinstance(value, str | int | bool) or len(found) == _MAX_CLAIMS:
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if len(text) <= _MAX_CLAIM_LENGTH:
            found[name] = text
    return found


def is_jwt(token: str) -> bool:
    """Returns whether a bearer token has the form of a JSON Web Token."""
    return token.count(".") == 2 and token.startswith("eyJ")
