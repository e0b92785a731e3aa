"""Finds the secrets in a URL without parsing it completely: a malformed URL has secrets too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, unquote_plus

from connect.config.parsing import HIDDEN

_SECRET = re.compile(
    r"passw|passphrase|passcode|pwd|secret|token|credential|private_?key|hexkey|(?:access|account|api|encryption)_?key$|^key$",
    re.I,
)
_NO_SECRET = re.compile(
    r"(?:encoding|file|path|location|callback|provider|class|url|type|passwords|accesskeyid|authenticator|expir\w*)$", re.I
)
_NOT_SECRET = frozenset({"", "true", "false", "yes", "no", "on", "off"})

_URL_START = re.compile(r"jdbc:[a-z0-9_+-]{1,24}:|[a-z0-9_+]{1,40}://", re.I)
_JDBC_USER_INFO = re.compile(r"//[^:/?]*:([^?;]*)@")
_USER_INFO = re.compile(r"//[^:/?]*:([^?]*)@|//[^:/?]*:([^@]*)@")
_NEXT_SERVER = re.compile(r"@[^@,]*,[^:@,]*:")
_PORT_AND_PATH = re.compile(r"[0-9]{1,5}/[^?]*\?")
_ORACLE = re.compile(r'jdbc:oracle:\w+:(?:"[^"]*"|[^/"@(]*)/(.*)@', re.I | re.S)

_NAME = r"(?:^|[?&;:,(])\s*([\w.$-]+)\s*="
_TO_AMPERSAND = re.compile(_NAME + r"([^&]*)")
_TO_SEMICOLON = re.compile(_NAME + r"\s*(\{(?:[^}]|\}\})*\}(?!\})|\{.*|[^;]*)", re.S)
_TO_BRACKET = re.compile(_NAME + r"([^),]*)")
_SEMICOLONS = ("jdbc:sqlserver:", "jdbc:jtds:", "jdbc:db2:", "jdbc:duckdb:", "jdbc:redshift:")


def is_secret_name(name: str) -> bool:
    """Returns whether a parameter of that name holds a secret."""
    return _SECRET.search(name) is not None and _NO_SECRET.search(name) is None


def redact_url(url: str) -> str:
    """Returns the scheme of a URL that cannot be parsed, with the rest hidden."""
    begin = _URL_START.match(url)
    return f"{begin[0]}{HIDDEN}" if begin else HIDDEN


def find_secrets(url: str) -> list[str]:
    """Returns every secret in a URL, encoded and decoded, the longest first. Works for malformed URLs too."""
    found = set(_user_info_secrets(url))
    for text in (url, unquote_plus(url)):  # a whole connection string may be the value of one parameter
        found |= set(_parameter_secrets(text))
    meant = {form for raw in found for form in (raw, unquote(raw), unquote_plus(raw), _unquoted(raw))}
    return sorted({text.strip() for text in meant} - _NOT_SECRET, key=lambda text: (-len(text), text))


def _user_info_secrets(url: str) -> Iterator[str]:
    lower = url.lower()
    if lower.startswith("jdbc:oracle:"):
        yield from _ORACLE.findall(url)
    elif lower.startswith("jdbc:"):
        for several in _JDBC_USER_INFO.findall(url):
            yield from _NEXT_SERVER.split(several)
    else:
        for one, other in _USER_INFO.findall(url):
            text = one or other
            if not _PORT_AND_PATH.match(text):
                yield text


def _parameter_secrets(url: str) -> Iterator[str]:
    lower = url.lower()
    kinds = [_TO_SEMICOLON] if lower.startswith(_SEMICOLONS) or ";pwd=" in lower else [_TO_AMPERSAND]
    if lower.startswith(("jdbc:redshift:", "jdbc:duckdb:")):
        kinds.append(_TO_AMPERSAND)
    if "(" in lower:
        kinds.append(_TO_BRACKET)
    for kind in kinds:
        yield from (value for name, value in kind.findall(url) if is_secret_name(name))


def _unquoted(raw: str) -> str:
    text = raw.strip()
    if text.startswith("{") and text.endswith("}"):
        return text[1:-1].replace("}}", "}")
    return text.strip('"')
