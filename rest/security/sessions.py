"""Session cookies of the web page: the identity, encrypted and authenticated (AES-GCM), so that workers store no sessions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from connect.errors import ConnectError
from rest.security.cookies import SESSION_COOKIE, read_cookie, set_cookie
from rest.security.identity import Identity

_MAX_BYTES = 3800
"""Browsers refuse cookies of more than 4096 bytes with their attributes."""
_NONCE_BYTES = 12


class SessionCookies:
    """Seals and opens cookies. Safe for use from any thread."""

    def __init__(self, secret: str | None, ttl_s: int, clock: Callable[[], float] = time.time) -> None:
        """Without a secret, cookies are valid as long as this object lives."""
        self._key = AESGCM(hashlib.sha256(b"sluice-session\0" + secret.encode()).digest() if secret else os.urandom(32))
        self._ttl_s = ttl_s
        self._clock = clock

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

    def start_session(self, identity: Identity, *, is_secure: bool) -> str:
        """Returns the Set-Cookie header of a new session, which ends at the latest with the time to live."""
        value = self.seal(SESSION_COOKIE, {**identity.as_json(), "expires": None}, self._ttl_s)
        return set_cookie(SESSION_COOKIE, value, self._ttl_s, is_secure=is_secure)

    def identify(self, cookie_header: str) -> Identity | None:
        """Returns the identity of a request's session cookie, if it has a valid one."""
        value = read_cookie(cookie_header, SESSION_COOKIE)
        content = None if value is None else self.open(SESSION_COOKIE, value)
        return None if content is None else Identity.from_json(content, is_ambient=True)
