"""Credentials and TLS settings with which a client calls a worker."""

from __future__ import annotations

import base64
import os
import shlex
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from connect.errors import ConfigError

_COMMAND_TIMEOUT_S = 60.0
PREFIX = "SLUICE_CONNECT_"


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """How to authenticate: a user with a password, or a token; secrets themselves, or where they are."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    token_command: str | None = None
    """A command that prints a token, such as that of a provider's own tool."""
    ca_file: str | None = None
    certificate_file: str | None = None
    """PEM: a client certificate, with its key if there is no key file."""
    key_file: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ClientCredentials:
        """Reads ``SLUICE_CONNECT_USER``, ``_PASSWORD``, ``_PASSWORD_FILE``, ``_TOKEN``, ``_TOKEN_FILE``, ``_TOKEN_COMMAND``,
        ``_CA_FILE``, ``_CERTIFICATE_FILE``, and ``_KEY_FILE``."""
        return cls(**{name: environment.get(f"{PREFIX}{name.upper()}") or None for name in FIELDS})

    def over(self, others: ClientCredentials) -> ClientCredentials:
        """Returns these credentials, completed by others. A token here replaces user and token of the others, a user theirs."""
        kept: tuple[str, ...] = ()
        if any(getattr(self, name) for name in _TOKEN_FIELDS):
            kept = (*_TOKEN_FIELDS, *_USER_FIELDS)
        elif self.user:
            kept = (*_TOKEN_FIELDS, *(_USER_FIELDS if self.password or self.password_file else ()))
        return ClientCredentials(
            **{name: getattr(self, name) or (None if name in kept else getattr(others, name)) for name in FIELDS}
        )

    def authorization(self) -> str | None:
        """Returns the value of the header Authorization; None without credentials. Runs the token command, if there is one.

        Raises ConfigError for a file or command that yields no secret.
        """
        if self.token or self.token_file or self.token_command:
            token = self.token or self._token()
            if not token.isascii() or not token.isprintable() or " " in token:
                raise ConfigError("The token has characters that no token has, such as a blank or a line break")
            return f"Bearer {token}"
        if not self.user:
            return None
        password = self.password if self.password is not None else _read_secret(self.password_file, "password")
        return f"Basic {base64.b64encode(f'{self.user}:{password}'.encode()).decode()}"

    def _token(self) -> str:
        if self.token_file:
            return _read_secret(self.token_file, "token")
        try:
            words = shlex.split(self.token_command or "")
        except ValueError as e:
            raise ConfigError(f"The token command is not a command line: {e}") from e
        if not words:
            raise ConfigError("The token command is empty")
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise ConfigError(f"The token command {words[0]} cannot be run: {e}") from e
        if done.returncode != 0 or not done.stdout.strip():
            said = done.stderr.strip().splitlines()
            raise ConfigError(
                f"The token command {words[0]} ended with {done.returncode} and no token{': ' + said[-1] if said else ''}"
            )
        return done.stdout.strip()

    def tls_context(self) -> ssl.SSLContext | None:
        """Returns the TLS settings for https addresses; None for the defaults. Raises ConfigError for unusable files."""
        if not self.ca_file and not self.certificate_file:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file)
        except (OSError, ssl.SSLError) as e:
            raise ConfigError(f"Cannot read {self.ca_file or self.certificate_file} or the client certificate: {e}") from e
        return context


FIELDS = ClientCredentials.__slots__
_USER_FIELDS = ("user", "password", "password_file")
_TOKEN_FIELDS = ("token", "token_file", "token_command")


def _read_secret(path: str | None, what: str) -> str:
    if path is None:
        raise ConfigError(f"There is no {what} for the user: set {PREFIX}{what.upper()}, or a {what} file")
    try:
        return Path(path).expanduser().read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"Cannot read the {what} file {path}: {e}") from e
