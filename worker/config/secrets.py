"""Masks secrets in log lines, stack traces, and error messages (promise 9).

A value is secret if its key has type PASSWORD or a name such as ``db.password``. It is masked in any text, wherever an exception
or a library may have put it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from typing import Any

from connect.config.parsing import HIDDEN
from connect.config.providers.references import is_reference
from connect.config.url_secrets import find_secrets

_SECRET_NAME = re.compile(
    r"passw|secret|token$|\.token\.(?!endpoint\.url$)|jaas|credential(?!s\.client\.id$)|api[._-]?key|private[._-]?key|keystore\.key$|"
    r"basic\.auth\.user\.info",
    re.I,
)
_ASSIGNED = re.compile(
    r"""((?:password|passwd|pwd|secret|token)\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s&;,'"})\]]+)""",
    re.I,
)
_USER_INFO = re.compile(r"(://[^/\s:@]+:)[^/\s@]+@")
_URL = re.compile(r"\s*(?:jdbc:|[\w.+-]+://)", re.I)
_JAAS_VALUE = re.compile(r"""(?:([\w.-]+)\s*=\s*)?(?:"((?:[^"\\]|\\.)+)"|'((?:[^'\\]|\\.)+)')|([\w.-]+)\s*=\s*([^\s;"']+)""")
_JAAS_OPEN = frozenset({"username", "clientid", "scope", "principal", "servicename", "keytab"})
"""JAAS options that are not secret. A user may be named worker, and logs must stay readable."""
_SHORT_LENGTH = 4
"""A shorter value is masked only as a whole word, or parts of many words would be."""


def is_secret_name(key: str) -> bool:
    """Returns whether a key's name indicates a secret."""
    return _SECRET_NAME.search(key) is not None


def secrets_in_url(value: str) -> list[str]:
    """Returns the secrets in a value that is a URL, without references to config providers."""
    return [part for part in find_secrets(value) if "${" not in part] if _URL.match(value) else []


class SecretMask:
    """Learns secrets and masks them in texts. Safe for use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._listeners: list[Callable[[Set[str]], None]] = []

    def on_learned(self, listener: Callable[[Set[str]], None]) -> frozenset[str]:
        """Calls ``listener`` with new secrets before the call that adds them returns. Returns the secrets known so far.

        Executor processes use it, because they must mask the same secrets.
        """
        with self._lock:
            self._listeners.append(listener)
            return frozenset(self._values)

    def learn(self, values: Collection[str]) -> None:
        """Adds secrets that another mask has learned."""
        self._learn(set(values))

    def add(self, config: Mapping[str, str | None], secret_keys: Collection[str] = ()) -> None:
        """Adds the secrets of a configuration; ``secret_keys`` are its keys of type PASSWORD."""
        found = {value.strip() for key, value in config.items() if value and (key in secret_keys or is_secret_name(key))}
        # A reference to a secret is not secret, and users need to see it.
        found -= {value for value in found if is_reference(value)}
        # A JAAS line contains the password in an option.
        found |= {part for value in found if "LoginModule" in value for part in _jaas_secrets(value)}
        # URLs are shown, except for the secrets in them.
        found |= {part for value in config.values() if value for part in secrets_in_url(value)}
        self._learn(found)

    def add_provided(self, values: Collection[str]) -> None:
        """Adds values from config providers, which are all secret regardless of their keys.

        Numbers of up to three digits are skipped: masking them everywhere would make logs unreadable.
        """
        self._learn({text for value in values if not ((text := value.strip()).isdigit() and len(text) < _SHORT_LENGTH)})

    def _learn(self, found: Set[str]) -> None:
        found = found - {"", "true", "false"}
        with self._lock:
            if found <= self._values:
                return
            fresh = found - self._values
            self._values |= found
            longest_first = sorted(self._values, key=len, reverse=True)
            self._pattern = re.compile("|".join(_expression(value) for value in longest_first))
            for listener in self._listeners:
                listener(fresh)

    def mask(self, text: str) -> str:
        """Masks every known secret, and everything that looks like one."""
        pattern = self._pattern
        if pattern is not None:
            text = pattern.sub(HIDDEN, text)
        text = _USER_INFO.sub(rf"\1{HIDDEN}@", text)
        return _ASSIGNED.sub(rf"\1{HIDDEN}", text)

    def mask_json(self, node: Any) -> Any:
        """Returns a JSON value with its texts masked; keys stay."""
        match node:
            case str():
                return self.mask(node)
            case Mapping():
                return {key: self.mask_json(member) for key, member in node.items()}
            case list() | tuple():
                return [self.mask_json(member) for member in node]
            case _:
                return node


def _jaas_secrets(line: str) -> Iterator[str]:
    for name, double, single, bare_name, bare in _JAAS_VALUE.findall(line):
        value = double or single or bare
        if (name or bare_name).lower() not in _JAAS_OPEN and value.lower() not in ("true", "false"):
            yield value
            yield re.sub(r"\\(.)", r"\1", value)  # as the client parses it


def _expression(value: str) -> str:
    escaped = re.escape(value)
    return escaped if len(value) >= _SHORT_LENGTH else rf"(?<!\w){escaped}(?!\w)"
