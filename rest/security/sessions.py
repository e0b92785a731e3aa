"""Session cookies of the web page: the identity, encrypted and authenticated (AES-GCM), so that workers store no sessions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
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

from connect.errors import ConnectError, NotReadyError
from rest.security.cookies import SESSION_COOKIE, read_cookie, set_cookie
from rest.security.identity import Identity
from worker.storage.documents import Documents

log = logging.getLogger(__name__)

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
        self._shared: SharedEnds | None = None
        self._lock = threading.Lock()
        # Both in the order of their ends, which all are one time to live after the entry.
        self._ids: dict[str, tuple[float, _User]] = {}
        self._all_until: dict[_User, float] = {}
        self._counts: Counter[_User] = Counter()

    def share(self, documents: Documents) -> None:
        """Stores the ends there from now on, and considers those of other workers and of earlier runs of this one."""
        self._shared = SharedEnds(documents, self._ttl_s, self._clock)

    def __contains__(self, session: Session) -> bool:
        """Raises NotReadyError while the worker starts and does not know yet, ConnectError if it cannot read what it stored."""
        with self._lock:
            if session.id in self._ids or session.started_s <= self._all_until.get(_user_of(session), float("-inf")):
                return True
        return self._shared is not None and session in self._shared

    def add(self, session: Session) -> None:
        """Returns once all workers can know of it. Raises ConnectError if only this one does."""
        self._add_here(session)
        if self._shared is not None:
            self._shared.add(session)

    def _add_here(self, session: Session) -> None:
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


class SharedEnds:
    """Sessions that users ended, in documents by the ID of the session. Of a user with :data:`MAX_ENDED` of them, one more end
    makes them one document for all that the user had begun before."""

    def __init__(self, documents: Documents, ttl_s: int, clock: Callable[[], float]) -> None:
        self._documents = documents
        self._ttl_s = ttl_s
        self._clock = clock

    def __contains__(self, session: Session) -> bool:
        if not self._documents.is_read:
            raise NotReadyError(
                "This worker is still starting up and has not been able to read yet which sessions have ended; use a password or "
                "a token, or wait a moment"
            )
        ended = self._documents.all()
        return session.id in ended or session.started_s * 1000 <= _number(ended.get(_user_key(session), {}), "at_ms")

    def add(self, session: Session) -> None:
        ended, user, now_ms = self._documents.all(), _user_key(session), int(self._clock() * 1000)
        self._documents.discard([name for name, one in ended.items() if _number(one, "until_ms") <= now_ms])
        own = [name for name, one in ended.items() if one.get("user") == user and name != user]
        is_too_many = len(own) >= MAX_ENDED
        end = {"user": user, "at_ms": now_ms, "until_ms": now_ms + self._ttl_s * 1000}
        self._documents.put(user if is_too_many else session.id, end)
        if is_too_many:
            self._documents.discard(own)


def _number(document: Mapping[str, Any], member: str) -> float:
    found = document.get(member)
    return found if isinstance(found, int | float) else float("-inf")


def _user_key(session: Session) -> str:
    """Names a user in documents without telling who it is."""
    return hashlib.sha256("\0".join(("sluice-session-user", *_user_of(session))).encode()).hexdigest()


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

    def share(self, documents: Documents) -> None:
        """Shares the ends of sessions with the other workers that have the same secret."""
        self._ended.share(documents)

    def session_of(self, cookie_header: str) -> Session | None:
        """Returns the session of a request's cookie, unless it has ended. Raises NotReadyError while that is not known,
        ConnectError if it cannot be read."""
        session = self._sealed_session(cookie_header)
        return None if session is None or session in self._ended else session

    def _sealed_session(self, cookie_header: str) -> Session | None:
        value = read_cookie(cookie_header, SESSION_COOKIE)
        content = None if value is None else self.open(SESSION_COOKIE, value)
        if content is None or not {"id", "started"} <= content.keys():  # a cookie of an earlier version
            return None
        identity = Identity.from_json(content, is_ambient=True)
        return Session(identity, content["id"], content["credential"], float(content["started"]))

    def end_session(self, cookie_header: str) -> None:
        """Ends the session of a request's cookie, if it has one: copies of the cookie are not accepted any more."""
        session = self._sealed_session(cookie_header)
        if session is None:
            return
        try:
            self._ended.add(session)
        except ConnectError as e:
            log.warning("A session that a user has ended here may still be valid on other workers, and after a restart: %s", e)
