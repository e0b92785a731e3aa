"""Apache's basic authentication extension: users and passwords from a file that a JAAS configuration names.

The JAAS file has an entry ``KafkaConnect`` with ``PropertyFileLoginModule`` and its option ``file``: a properties file with a
user and password on each line. Changes to that file apply from the next request.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from connect.config.properties import read_properties
from connect.errors import ConfigError, ConnectError
from rest.extensions import USER_KEY, ClusterView
from rest.middleware.jaas import LoginModule, parse_jaas

FILE_KEY = "rest.basic.auth.jaas.config.file"
ENTRY = "KafkaConnect"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"

_UNAUTHORIZED = "User cannot access the resource."
_JAVA_OPTION = "-Djava.security.auth.login.config="
_INTERNAL = {
    "POST": re.compile(r"/?connectors/[^/]+/tasks/?"),
    "PUT": re.compile(r"/?(connectors/[^/]+/fence|sluice/connectors/[^/]+/reload-turn)/?"),
}
"""Requests between workers, which are signed instead."""


class PasswordFile:
    """Users and passwords, reloaded when the file changes."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError for a file that cannot be read or has no users."""
        self._path = path
        self._users: dict[str, str] = {}
        self._seen: tuple[int, int, int] | None = None
        self._refresh()

    def is_valid(self, user: str, password: str) -> bool:
        """Returns whether this is the user's password. False if the file has become unreadable."""
        try:
            self._refresh()
        except ConnectError:
            return False
        expected = self._users.get(user)
        # Takes as long for an unknown user.
        same = hmac.compare_digest(password.encode(), (expected if expected is not None else password + "x").encode())
        return same and expected is not None

    def _refresh(self) -> None:
        try:
            found = os.stat(self._path)
        except OSError as e:
            raise ConfigError(f"Cannot read the user file {self._path}: {e.strerror}", key=FILE_KEY) from e
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen == self._seen:
            return
        users = dict(read_properties(self._path))
        if not users:
            # Apache's module would then allow everyone, which nobody wants who enables authentication.
            raise ConfigError(f"The user file {self._path} has no users: add a line user=password", key=FILE_KEY)
        self._users, self._seen = users, seen


class BasicAuth:
    """The extension ``BasicAuthSecurityRestExtension``."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._modules: list[tuple[str, PasswordFile]] = []

    def configure(self, settings: Mapping[str, str]) -> None:
        path = settings.get(FILE_KEY) or _file_from_java_options(self._environment)
        if path is None:
            raise ConfigError(
                f"Basic authentication needs a JAAS file: set {FILE_KEY}, or KAFKA_OPTS={_JAVA_OPTION}FILE in the environment",
                key=FILE_KEY,
            )
        self._modules = [(module.flag, PasswordFile(_password_file(module, path))) for module in _read_modules(path)]

    def wrap(self, app: ASGIApp, cluster: ClusterView) -> ASGIApp:
        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            allowed, user = self._check(scope) if scope["type"] == "http" else (True, None)
            if not allowed:
                # Apache's text and types: labeled JSON although it is not, except for OPTIONS.
                media_type = "text/plain" if scope["method"] == "OPTIONS" else "application/json"
                headers = {"Content-Type": media_type, "WWW-Authenticate": 'Basic realm="KafkaConnect"'}
                await Response(_UNAUTHORIZED, 401, headers)(scope, receive, send)
                return
            # For rest.authentication=extension, which gives the user roles.
            await app(scope if user is None else {**scope, USER_KEY: user}, receive, send)

        return guarded

    def close(self) -> None:
        """Nothing to close."""

    def _check(self, scope: Scope) -> tuple[bool, str | None]:
        """Returns whether a request is allowed, and its user."""
        internal = _INTERNAL.get(scope["method"])
        if internal is not None and internal.fullmatch(scope["path"]):
            return True, None
        credentials = basic_credentials(Headers(scope=scope).get("authorization", ""))
        if credentials is None or not _authenticate(self._modules, *credentials):
            return False, None
        return True, credentials[0]


def _file_from_java_options(environment: Mapping[str, str]) -> str | None:
    """Returns the JAAS file named in KAFKA_OPTS."""
    try:
        options = shlex.split(environment.get("KAFKA_OPTS", ""))
    except ValueError:
        return None
    found = [option.removeprefix(_JAVA_OPTION) for option in options if option.startswith(_JAVA_OPTION)]
    return found[-1].removeprefix("file:") if found else None


def _read_modules(path: str) -> Sequence[LoginModule]:
    try:
        entries = parse_jaas(Path(path).read_text("utf-8"))
    except OSError as e:
        raise ConfigError.invalid(FILE_KEY, path, f"the JAAS file cannot be read: {e.strerror}") from e
    except ConfigError as e:
        raise ConfigError.invalid(FILE_KEY, path, f"the JAAS file is invalid: {e.message}") from e
    if not entries.get(ENTRY):
        listed = f"; it has {', '.join(sorted(entries))}" if entries else ""
        raise ConfigError.invalid(FILE_KEY, path, f"the JAAS file has no entry {ENTRY} with a login module{listed}")
    return entries[ENTRY]


def _password_file(module: LoginModule, path: str) -> str:
    if module.class_name != MODULE:
        raise ConfigError.invalid(FILE_KEY, path, f"login module {module.class_name} is not supported; use {MODULE}")
    file = module.options.get("file")
    if not file:
        raise ConfigError.invalid(FILE_KEY, path, 'Property Credentials file must be specified: file="..." of the login module')
    return file


def basic_credentials(authorization: str) -> tuple[str, str] | None:
    """Returns user and password of a header ``Authorization``; None if it has none of basic authentication (RFC 7617)."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except ValueError:  # not ASCII, not base64, or not UTF-8
        return None
    return (user, password) if colon else None


def _authenticate(modules: Sequence[tuple[str, PasswordFile]], user: str, password: str) -> bool:
    """Applies JAAS's rules: every required module must succeed, a sufficient one ends the check, one must succeed."""
    required_failed = succeeded = False
    for flag, users in modules:
        ok = users.is_valid(user, password)
        succeeded |= ok
        if flag == "sufficient" and ok:
            return not required_failed
        if flag in ("required", "requisite") and not ok:
            required_failed = True
            if flag == "requisite":
                break
    return succeeded and not required_failed
