"""Keeps secrets out of what is shown (promise 9): log lines, traces, error messages.

A secret is known by its key: one whose table calls it PASSWORD, or whose name says so. Its value is then taken out of any text,
wherever an exception or a library may have put it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Set

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
"""Options of a JAAS line that are no secrets: who logs in may be called worker, and logs shall stay readable."""
_SHORT = 4
"""A value shorter than this is hidden only where it stands alone, or every other word would be."""


def is_secret_name(key: str) -> bool:
    """Whether a key's name alone says that its value is secret."""
    return _SECRET_NAME.search(key) is not None


def secrets_in_url(value: str) -> list[str]:
    """What a value lets in with, when it is a URL that says so itself; without references to secrets that are elsewhere."""
    return [part for part in find_secrets(value) if "${" not in part] if _URL.match(value) else []


class SecretMask:
    """Secrets seen so far, and what takes them out of a text. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._listeners: list[Callable[[Set[str]], None]] = []

    def on_learned(self, listener: Callable[[Set[str]], None]) -> frozenset[str]:
        """Has every secret told to ``listener`` that is learned from now on, before whoever learned it goes on. Returns those
        that are known: another process that says things on the worker's behalf has to know them too."""
        with self._lock:
            self._listeners.append(listener)
            return frozenset(self._values)

    def learn(self, values: Collection[str]) -> None:
        """Learns secrets that another mask has learned."""
        self._learn(set(values))

    def add(self, config: Mapping[str, str | None], secret_keys: Collection[str] = ()) -> None:
        """Learns the secrets of a configuration; ``secret_keys`` are those that its tables call PASSWORD."""
        found = {value.strip() for key, value in config.items() if value and (key in secret_keys or is_secret_name(key))}
        # What refers to a secret is none, and is what a user has to see.
        found -= {value for value in found if is_reference(value)}
        # Of a JAAS line the values of options count too: that is where the password is.
        found |= {part for value in found if "LoginModule" in value for part in _jaas_secrets(value)}
        # A URL is shown, but not what it lets in with, by whatever way that gets into a message.
        found |= {part for value in config.values() if value for part in secrets_in_url(value)}
        self._learn(found)

    def add_provided(self, values: Collection[str]) -> None:
        """Learns values that came out of config providers: each is secret, whatever its key is called.

        A number of up to three digits is not one: to hide it wherever it stands would make every log unreadable.
        """
        self._learn({text for value in values if not ((text := value.strip()).isdigit() and len(text) < _SHORT)})

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
        """The text with every known secret, and everything that looks like one, hidden."""
        pattern = self._pattern
        if pattern is not None:
            text = pattern.sub(HIDDEN, text)
        text = _USER_INFO.sub(rf"\1{HIDDEN}@", text)
        return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def _jaas_secrets(line: str) -> Iterator[str]:
    for name, double, single, bare_name, bare in _JAAS_VALUE.findall(line):
        value = double or single or bare
        if (name or bare_name).lower() not in _JAAS_OPEN and value.lower() not in ("true", "false"):
            yield value
            yield re.sub(r"\\(.)", r"\1", value)  # as the client gets it


def _expression(value: str) -> str:
    escaped = re.escape(value)
    return escaped if len(value) >= _SHORT else rf"(?<!\w){escaped}(?!\w)"
