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
from collections import Counter
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
MAX_ENDED = 1000
"""How many ended sessions of one user a worker remembers one by one."""
_User = tuple[str, str]
"""Method of authentication and subject."""


@dataclass(frozen=True, slots=True)
class Session:
    """What a session cookie says."""

    identity: Identity
    id: str
    credential: str | None
    """What the session remembers of the password or token that it started with; None for a provider's users."""
    started_s: float
    """By the clock of the worker that started it."""


class EndedSessions:
    """Sessions that users ended, until their cookies would end. Safe for use from any thread.

    Of a user with more than :data:`MAX_ENDED` of them, all sessions that began before the last end have ended: the list must not
    grow with every sign-in of a script, and must not forget.
    """

    def __init__(self, ttl_s: int, clock: Callable[[], float]) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        # Both in the order of their ends, which all are one time to live after the entry.
        self._ids: dict[str, tuple[float, _User]] = {}
        self._all_until: dict[_User, float] = {}
        self._counts: Counter[_User] = Counter()

    def __contains__(self, session: Session) -> bool:
        with self._lock:
            return session.id in self._ids or session.started_s <= self._all_until.get(_user_of(session), float("-inf"))

    def add(self, session: Session) -> None:
        now, user = self._clock(), _user_of(session)
        with self._lock:
            while self._ids and next(iter(self._ids.values()))[0] <= now:
                _, owner = self._ids.pop(next(iter(self._ids)))
                self._counts[owner] -= 1
                if not self._counts[owner]:
                    del self._counts[owner]
            while self._all_until and next(iter(self._all_until.values())) + self._ttl_s <= now:
                del self._all_until[next(iter(self._all_until))]
            if self._counts[user] >= MAX_ENDED:
                self._all_until.pop(user, None)
                self._all_until[user] = now
            elif session.id not in self._ids:
                self._ids[session.id] = (now + self._ttl_s, user)
                self._counts[user] += 1


def _user_of(session: Session) -> _User:
    return session.identity.method, session.identity.subject


class SessionCookies:
    """Seals and opens cookies. Safe for use from any thread."""

    def __init__(self, secret: str | None, ttl_s: int, clock: Callable[[], float] = time.time) -> None:
        """Without a secret, cookies are valid as long as this object lives."""
        self._key = AESGCM(hashlib.sha256(b"sluice-session\0" + secret.encode()).digest() if secret else os.urandom(32))
        self._ttl_s = ttl_s
        self._clock = clock
        self._ended = EndedSessions(ttl_s, clock)

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
        own = {"id": secrets.token_hex(16), "credential": credential, "started": self._clock()}
        content = {**identity.as_json(), "expires": None, **own}
        return set_cookie(SESSION_COOKIE, self.seal(SESSION_COOKIE, content, self._ttl_s), self._ttl_s, is_secure=is_secure)

    def session_of(self, cookie_header: str) -> Session | None:
        """Returns the session of a request's cookie, unless it has ended."""
        value = read_cookie(cookie_header, SESSION_COOKIE)
        content = None if value is None else self.open(SESSION_COOKIE, value)
        if content is None or not {"id", "started"} <= content.keys():  # a cookie of an earlier version
            return None
        identity = Identity.from_json(content, is_ambient=True)
        session = Session(identity, content["id"], content["credential"], float(content["started"]))
        return None if session in self._ended else session

    def end_session(self, cookie_header: str) -> Session | None:
        """Ends the session of a request's cookie, if it has one, and returns it: copies of the cookie are not accepted any more
        here."""
        session = self.session_of(cookie_header)
        if session is not None:
            self._ended.add(session)
        return session
