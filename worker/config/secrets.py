"""Masks secrets in log lines, stack traces, and error messages (promise 9).

A value is secret if its key has type PASSWORD or a name such as ``db.password``. It is masked in any text, wherever an exception
or a library may have put it.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, quote_plus

from connect.config.parsing import HIDDEN
from connect.config.providers.references import is_reference
from connect.config.url_secrets import find_secrets
from connect.errors import BadRequestError, ConfigError, ConnectError, NotFoundError

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
_AUTHORIZATION = re.compile(r"""(authorization["']?\s*[:=,]\s*b?["']?(?:basic|bearer|digest)\s+)[^\s"']+""", re.I)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_TO_URL_SAFE = str.maketrans("+/", "-_")
_ENCODED_LENGTH = 6
"""The base64 text of a shorter value may be in any word by chance."""
_PRIVATE_KEY_LINE_LENGTH = 24
_URL = re.compile(r"\s*(?:jdbc:|[\w.+-]+://)", re.I)
_AFTER_SCHEME = re.compile(r"(?:jdbc:[\w+-]+:(?://)?|[\w.+-]+://)(.+)", re.I | re.S)
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


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Expressions for some of the secrets."""

    values: frozenset[str]
    plain: re.Pattern[str]
    encoded: re.Pattern[str] | None
    """What every base64 text of something with a secret contains. None if all secrets are too short for that."""

    @classmethod
    def of(cls, values: Set[str]) -> Self:
        longest_first = sorted({form for value in values for form in _forms(value)}, key=len, reverse=True)
        encoded = sorted({form for value in values for form in _base64_forms(value)})
        return cls(
            frozenset(values),
            re.compile("|".join(map(_expression, longest_first))),
            re.compile("|".join(map(re.escape, encoded))) if encoded else None,
        )


class SecretMask:
    """Learns secrets and masks them in texts. Safe for use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: set[str] = set()
        self._patterns: tuple[_Patterns, ...] = ()
        """Each is for more secrets than all after it, so that learning them one by one compiles each a few times only."""
        self._listeners: list[Callable[[Set[str]], None]] = []

    @property
    def learned(self) -> frozenset[str]:
        """The secrets known so far."""
        with self._lock:
            return frozenset(self._values)

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
        """Adds values from config providers, which are all secret regardless of their keys, and of URLs also what follows the
        scheme: a connector may show it alone.

        Numbers of up to three digits are skipped: masking them everywhere would make logs unreadable.
        """
        found = {text for value in values if not ((text := value.strip()).isdigit() and len(text) < _SHORT_LENGTH)}
        rests = {url[1] for value in found if (url := _AFTER_SCHEME.fullmatch(value))}
        self._learn(found | {rest for rest in rests if len(rest) >= _SHORT_LENGTH})

    def _learn(self, found: Set[str]) -> None:
        found = found - {"", "true", "false"}
        with self._lock:
            if found <= self._values:
                return
            fresh = found - self._values
            self._values |= fresh
            kept, merged = list(self._patterns), set(fresh)
            while kept and len(kept[-1].values) <= len(merged):
                merged |= kept.pop().values
            self._patterns = (*kept, _Patterns.of(merged))
            for listener in self._listeners:
                listener(fresh)

    def mask(self, text: str) -> str:
        """Masks every known secret, also as URLs, JSON, Python, and base64 write it, and everything that looks like one."""
        patterns = self._patterns
        text = _hide([found.span() for one in patterns for found in one.plain.finditer(text)], text)
        encoded = [one.encoded for one in patterns if one.encoded is not None and one.encoded.search(text)]
        if encoded:
            words = (word for word in _BASE64.finditer(text) if any(one.search(word[0]) for one in encoded))
            text = _hide([word.span() for word in words], text)
        text = _USER_INFO.sub(rf"\1{HIDDEN}@", text)
        text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", text)
        return _ASSIGNED.sub(rf"\1{HIDDEN}", text)

    def mask_json(self, node: Any) -> Any:
        """Returns a JSON value with its texts masked, and the names of its members."""
        match node:
            case str():
                return self.mask(node)
            case Mapping():
                return {self.mask_json(key): self.mask_json(member) for key, member in node.items()}
            case list() | tuple():
                return [self.mask_json(member) for member in node]
            case _:
                return node


def mask_error(error: Exception, mask: SecretMask) -> Exception:
    """Returns the error, or, if its message contains a secret, a new error of the same REST status without it (promise 9)."""
    original = error.message if isinstance(error, ConnectError) else str(error) or type(error).__name__
    message = mask.mask(original)
    if message == original:
        return error
    error_class = next((cls for cls in (BadRequestError, ConfigError, NotFoundError) if isinstance(error, cls)), ConnectError)
    return error_class(message)


def _jaas_secrets(line: str) -> Iterator[str]:
    for name, double, single, bare_name, bare in _JAAS_VALUE.findall(line):
        value = double or single or bare
        if (name or bare_name).lower() not in _JAAS_OPEN and value.lower() not in ("true", "false"):
            yield value
            yield re.sub(r"\\(.)", r"\1", value)  # as the client parses it


def _forms(value: str) -> Iterator[str]:
    """Returns the texts in which a program may print a value. Most values look the same in all of them."""
    yield value
    if value.isalnum() and value.isascii():
        return
    yield from (quote(value, "", errors="replace"), quote(value, errors="replace"), quote_plus(value, errors="replace"))
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1], ascii(value)[1:-1])
    if "PRIVATE KEY" in value:  # which may be printed line by line
        yield from (line for line in map(str.strip, value.splitlines()) if len(line) >= _PRIVATE_KEY_LINE_LENGTH)


def _base64_forms(value: str) -> Iterator[str]:
    """Returns a text for each position at which a value may begin in three bytes that base64 writes as four characters, without
    the characters that depend on what surrounds the value."""
    data = value.encode(errors="replace")
    if len(data) < _ENCODED_LENGTH:
        return
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode()
        found = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield from (found, found.translate(_TO_URL_SAFE))


def _hide(spans: Collection[tuple[int, int]], text: str) -> str:
    """Replaces parts of a text, each group of those that overlap by one word."""
    parts, end = list[str](), 0
    for first, last in sorted(spans):
        if first >= end:
            parts += [text[end:first], HIDDEN]
        end = max(end, last)
    return "".join([*parts, text[end:]])


def _expression(value: str) -> str:
    escaped = re.escape(value)
    return escaped if len(value) >= _SHORT_LENGTH else rf"(?<!\w){escaped}(?!\w)"
