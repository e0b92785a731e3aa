"""The files of users and of tokens (``rest.authentication.users.file``, ``.tokens.file``).

Each line is ``NAME:HASH``, and for tokens optionally ``NAME:HASH:GROUP,GROUP``. Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from connect.errors import ConfigError
from rest.security.identity import Identity
from rest.security.passwords import UNKNOWN_USER_HASH, check_hash, check_token_hash, is_password
from rest.security.reloading_file import ReloadingFile
from worker.config.rest_security_config import TOKENS_FILE, USERS_FILE


class UsersFile:
    """Users with hashed passwords."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError that names the line."""
        self._file: ReloadingFile[Mapping[str, str]] = ReloadingFile(path, USERS_FILE, parse_users)
        self._key = secrets.token_bytes(32)

    @property
    def version(self) -> int:
        self._file.content()
        return self._file.version

    def identify(self, user: str, password: str) -> Identity | None:
        """Returns the user; None for a wrong name or password, which take equally long. Takes from a tenth of a second to a
        second."""
        users = self._file.content() or {}
        hashed = users.get(user)
        if not is_password(password, self._stand_in(user, users) if hashed is None else hashed) or hashed is None:
            return None
        return Identity(user, "basic", is_ambient=True)

    def _stand_in(self, user: str, users: Mapping[str, str]) -> str:
        """Returns a hash to check the password of an unknown user against, always the same one. It is that of a user, because
        algorithm and cost, and so the time, may differ from one user to the next."""
        hashes = sorted(users.values())
        if not hashes:
            return UNKNOWN_USER_HASH
        digest = hashlib.blake2b(user.encode(errors="surrogateescape"), key=self._key).digest()
        return hashes[int.from_bytes(digest[:8], "big") % len(hashes)]

    def credential_of(self, user: str) -> str | None:
        """Returns what tells a user's password from the next one, without saying anything about it; None for an unknown user."""
        hashed = (self._file.content() or {}).get(user)
        return None if hashed is None else hashlib.sha256(b"sluice-user\0" + hashed.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """One line of a tokens file."""

    name: str
    groups: frozenset[str] = field(default=frozenset())


class TokensFile:
    """Names of tokens by their hashes."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError that names the line."""
        self._file: ReloadingFile[Mapping[bytes, TokenEntry]] = ReloadingFile(path, TOKENS_FILE, parse_tokens)

    @property
    def version(self) -> int:
        self._file.content()
        return self._file.version

    def identify(self, token: str) -> Identity | None:
        """Returns the owner of a token, or None. The search is for its hash, so its time says nothing about tokens."""
        entry = (self._file.content() or {}).get(hashlib.sha256(token.encode()).digest())
        return None if entry is None else Identity(entry.name, "bearer", entry.groups)

    def owner_of(self, digest: bytes) -> str | None:
        """Returns the owner of the token with this SHA-256 hash, or None."""
        entry = (self._file.content() or {}).get(digest)
        return None if entry is None else entry.name


def parse_users(text: str) -> dict[str, str]:
    """Returns hashes by name. Raises ConfigError."""
    users: dict[str, str] = {}
    for number, name, (hashed, *more) in _lines(text):
        if more:
            raise ConfigError(f"line {number} has more than NAME:HASH")
        _checked(number, check_hash, hashed)
        if name in users:
            raise ConfigError(f"line {number}: there is a user {name} already")
        users[name] = hashed
    return users


def parse_tokens(text: str) -> dict[bytes, TokenEntry]:
    """Returns entries by the digest of the token. Raises ConfigError."""
    tokens: dict[bytes, TokenEntry] = {}
    for number, name, (kind, *more) in _lines(text):
        hashed = f"{kind}:{more[0]}" if more else kind
        _checked(number, check_token_hash, hashed)
        groups = more[1].split(",") if len(more) > 1 else []
        if len(more) > 2:
            raise ConfigError(f"line {number} has more than NAME:HASH:GROUPS")
        digest = bytes.fromhex(more[0])
        if digest in tokens:
            raise ConfigError(f"line {number}: the token is that of {tokens[digest].name}")
        tokens[digest] = TokenEntry(name, frozenset(group.strip() for group in groups if group.strip()))
    return tokens


def _checked(number: int, check: Callable[[str], None], text: str) -> None:
    try:
        check(text)
    except ConfigError as e:
        # Without the text, which may be a password that somebody has written there.
        raise ConfigError(f"line {number}: {e.message}") from e


def _lines(text: str) -> Iterator[tuple[int, str, list[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, *fields = stripped.split(":")
        if not name or not fields:
            raise ConfigError(f"line {number} is not NAME:HASH")
        yield number, name, fields
