"""Keeps secrets out of what is shown (promise 9): log lines, traces, error messages.

A secret is known by its key: one whose table calls it PASSWORD, or whose name says so. Its value is then taken out of any text,
wherever an exception or a library may have put it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping, Set

from connect.config.parsing import HIDDEN
from connect.config.providers.references import is_reference

_SECRET_NAME = re.compile(
    r"passw|secret|token$|\.token\.|jaas|credential|api[._-]?key|private[._-]?key|keystore\.key$|basic\.auth\.user\.info", re.I
)
_ASSIGNED = re.compile(
    r"""((?:password|passwd|pwd|secret|token)\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s&;,'"})\]]+)""",
    re.I,
)
_USER_INFO = re.compile(r"(://[^/\s:@]+:)[^/\s@]+@")
_SHORT = 4
"""A value shorter than this is hidden only where it stands alone, or every other word would be."""


def is_secret_name(key: str) -> bool:
    """Whether a key's name alone says that its value is secret."""
    return _SECRET_NAME.search(key) is not None


class SecretMask:
    """Secrets seen so far, and what takes them out of a text. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, config: Mapping[str, str | None], secret_keys: Collection[str] = ()) -> None:
        """Learns the secrets of a configuration; ``secret_keys`` are those that its tables call PASSWORD."""
        found = {value.strip() for key, value in config.items() if value and (key in secret_keys or is_secret_name(key))}
        # What refers to a secret is none, and is what a user has to see.
        found -= {value for value in found if is_reference(value)}
        # Of a JAAS line the quoted parts count too: that is where the password is.
        found |= {part for value in found if "LoginModule" in value for part in re.findall(r"""["']([^"']+)["']""", value)}
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
            self._values |= found
            longest_first = sorted(self._values, key=len, reverse=True)
            self._pattern = re.compile("|".join(_expression(value) for value in longest_first))

    def mask(self, text: str) -> str:
        """The text with every known secret, and everything that looks like one, hidden."""
        pattern = self._pattern
        if pattern is not None:
            text = pattern.sub(HIDDEN, text)
        text = _USER_INFO.sub(rf"\1{HIDDEN}@", text)
        return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def _expression(value: str) -> str:
    escaped = re.escape(value)
    return escaped if len(value) >= _SHORT else rf"(?<!\w){escaped}(?!\w)"
