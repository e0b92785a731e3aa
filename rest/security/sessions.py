"""Session cookies of the web page: the identity, encrypted and authenticated (AES-GCM), so that workers store no sessions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from connect.errors import ConnectError
from rest.security.cookies import SESSION_COOKIE, read_cookie, set_cookie
from rest.security.identity import Identity

_MAX_BYTES = 3800
"""Browsers refuse cookies of more than 4096 bytes with their attributes."""
_NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class Session:
    """What a session cookie says."""

    identity: Identity
    id: str
    credential: str | None
    """What the session remembers of the password or token that it started with; None for a provider's users."""


class SessionCookies:
    """Seals and opens cookies. Safe for use from any thread."""

    def __init__(self, secret: str | None, ttl_s: int, clock: Callable[[], float] = time.time) -> None:
        """Without a secret, cookies are valid as long as this object lives."""
        self._key = AESGCM(hashlib.sha256(b"sluice-session\0" + secret.encode()).digest() if secret else os.urandom(32))
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._ended: dict[str, float] = {}
        """When the cookies of sessions that users ended would have ended, by the sessions' IDs."""

    def seal(self, purpose: str, content: Mapping[str, Any], ttl_s: int) -> str:
        """Returns the value of a cookie that :meth:`open` accepts for that purpose and time. Raises ConnectError if it is too
        large for browsers."""
        nonce = os.urandom(_NONCE_BYTES)
        plain = json.dumps({"until": self._clock() + ttl_s, "content": content}).encode()
        value = base64.urlsafe_b64encode(nonce + self._key.encrypt(nonce, plain, purpose.encode())).decode().rstrip("=")
        if len(value) > _MAX_BYTES:
            raise ConnectError("The user has too many groups and claims for a session cookie; use a token instead")
        return value

    def open(self, purpose: str, value: str) -> dict[str, Any] | None:
        """Returns the content of a cookie; None if it is not authentic, for another purpose, or too old."""
        try:
            sealed = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            plain = self._key.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], purpose.encode())
        except (binascii.Error, ValueError, InvalidTag):
            return None
        found = json.loads(plain)
        return dict(found["content"]) if self._clock() < found["until"] else None

    def start_session(self, identity: Identity, credential: str | None = None, *, is_secure: bool) -> str:
        """Returns the Set-Cookie header of a new session, which ends at the latest with the time to live. ``credential`` comes
        back in :attr:`Session.credential`."""
        content = {**identity.as_json(), "expires": None, "id": secrets.token_hex(16), "credential": credential}
        return set_cookie(SESSION_COOKIE, self.seal(SESSION_COOKIE, content, self._ttl_s), self._ttl_s, is_secure=is_secure)

    def session_of(self, cookie_header: str) -> Session | None:
        """Returns the session of a request's cookie, unless it has ended."""
        value = read_cookie(cookie_header, SESSION_COOKIE)
        content = None if value is None else self.open(SESSION_COOKIE, value)
        if content is None or (id := content.get("id")) is None:  # a cookie of a version without IDs
            return None
        with self._lock:
            if id in self._ended:
                return None
        return Session(Identity.from_json(content, is_ambient=True), id, content["credential"])

    def end_session(self, cookie_header: str) -> None:
        """Ends the session of a request's cookie, if it has one: copies of the cookie are not accepted any more here."""
        session = self.session_of(cookie_header)
        if session is None:
            return
        now = self._clock()
        with self._lock:
            # In the order of their ends, which all are one time to live after now.
            while self._ended and next(iter(self._ended.values())) <= now:
                del self._ended[next(iter(self._ended))]
            self._ended[session.id] = now + self._ttl_s
