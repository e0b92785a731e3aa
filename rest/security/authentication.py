"""Finds out who sends a request, from its headers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.datastructures import Headers
from starlette.types import Scope

from rest.extensions import USER_KEY
from rest.middleware.basic_auth import basic_credentials
from rest.security.credential_files import TokensFile, UsersFile
from rest.security.identity import AuthenticationError, Identity
from rest.security.oidc_tokens import Provider, TokenVerifier, is_jwt
from rest.security.sessions import Session, SessionCookies
from rest.server.thread_pools import RequestKind, ThreadPools
from worker.config.rest_security_config import RestSecurityConfig

log = logging.getLogger(__name__)

_CACHE_S = 60.0
_CACHE_SIZE = 1000
_WRONG = "The credentials are not valid"


@dataclass(frozen=True, slots=True)
class _Verified:
    identity: Identity
    versions: tuple[int, ...]
    until: float


class CredentialCache:
    """Remembers credentials that were valid a moment ago, by a keyed hash: checking a password takes a tenth of a second.

    Used on the event loop only. ``versions`` are those of the files; a change of a file makes earlier entries invalid.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._key = secrets.token_bytes(32)
        self._clock = clock
        self._found: OrderedDict[bytes, _Verified] = OrderedDict()

    def get(self, credentials: str, versions: tuple[int, ...]) -> Identity | None:
        entry = self._found.get(self._digest(credentials))
        if entry is None or entry.versions != versions or self._clock() >= entry.until:
            return None
        return entry.identity

    def put(self, credentials: str, identity: Identity, versions: tuple[int, ...]) -> None:
        until = self._clock() + _CACHE_S
        if identity.expires_at_s is not None:
            until = min(until, identity.expires_at_s)
        self._found[self._digest(credentials)] = _Verified(identity, versions, until)
        if len(self._found) > _CACHE_SIZE:
            self._found.popitem(last=False)

    def _digest(self, credentials: str) -> bytes:
        return hashlib.blake2b(credentials.encode(errors="surrogateescape"), key=self._key).digest()


class Authentication:
    """Authenticates requests with the configured methods. ``identify`` is used on the event loop, and blocks it never: what takes
    long runs on a thread."""

    def __init__(self, config: RestSecurityConfig, cookies: SessionCookies, provider: Provider | None) -> None:
        """Raises ConfigError for files that cannot be read."""
        self.methods = config.methods
        self._cookies = cookies
        self._users = None if config.users_file is None else UsersFile(config.users_file)
        self._tokens = None if config.tokens_file is None else TokensFile(config.tokens_file)
        self.verifier = None if provider is None or config.oidc is None else TokenVerifier(config.oidc, provider)
        self._cache = CredentialCache()

    @property
    def challenges(self) -> list[str]:
        """The values of WWW-Authenticate for a request without valid credentials."""
        found = []
        if "basic" in self.methods or "extension" in self.methods:
            found.append('Basic realm="KafkaConnect"')
        if "bearer" in self.methods or "oidc" in self.methods:
            found.append('Bearer realm="KafkaConnect"')
        return found

    async def identify(self, scope: Scope, pools: ThreadPools) -> Identity | None:
        """Returns the caller; None without credentials. Raises AuthenticationError for wrong ones, ConnectError if they cannot be
        checked now."""
        headers = Headers(scope=scope)
        authorization = headers.get("authorization")
        if "extension" in self.methods and isinstance(user := scope.get(USER_KEY), str):
            return Identity(user, "extension", is_ambient=True)
        if authorization is not None:
            return await self._identify_header(authorization, pools)
        cookie = headers.get("cookie")
        session = None if cookie is None else self._cookies.session_of(cookie)
        return session.identity if session is not None and self._is_current(session) else None

    def credential_of(self, identity: Identity, authorization: str) -> str | None:
        """Returns what a session remembers of the credentials that it started with; None if they are in no file."""
        if identity.method == "basic" and self._users is not None:
            return self._users.credential_of(identity.subject)
        if identity.method == "bearer":
            return hashlib.sha256(authorization.partition(" ")[2].strip().encode()).hexdigest()
        return None

    def _is_current(self, session: Session) -> bool:
        """Returns whether the password or token of a session is still in its file."""
        subject, credential = session.identity.subject, session.credential
        match session.identity.method:
            case "basic":
                return self._users is not None and credential is not None and self._users.credential_of(subject) == credential
            case "bearer":
                if self._tokens is None or credential is None:
                    return False
                return self._tokens.owner_of(bytes.fromhex(credential)) == subject
        return True

    async def _identify_header(self, authorization: str, pools: ThreadPools) -> Identity:
        versions = self._versions()
        cached = self._cache.get(authorization, versions)
        if cached is not None:
            return cached
        check = self._check_of(authorization)
        identity = await asyncio.wrap_future(pools.submit(RequestKind.AUTHENTICATE, check))
        if identity is None:
            raise AuthenticationError(_WRONG)
        self._cache.put(authorization, identity, versions)
        return identity

    def _versions(self) -> tuple[int, ...]:
        return tuple(file.version for file in (self._users, self._tokens) if file is not None)

    def _check_of(self, authorization: str) -> Callable[[], Identity | None]:
        scheme, _, credentials = authorization.partition(" ")
        scheme, credentials = scheme.lower(), credentials.strip()
        users, tokens, verifier = self._users, self._tokens, self.verifier
        if scheme == "basic" and users is not None:
            found = basic_credentials(authorization)
            if found is None:
                raise AuthenticationError(_WRONG)
            return partial(users.identify, *found)
        if scheme == "bearer" and verifier is not None and is_jwt(credentials):
            return lambda: verifier.identify(credentials)
        if scheme == "bearer" and tokens is not None:
            return lambda: tokens.identify(credentials)
        accepted = " or ".join(one.partition(" ")[0] for one in self.challenges)
        raise AuthenticationError(f"The worker does not accept this kind of credentials; expected {accepted}")
