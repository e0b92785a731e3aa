"""Parses the parts of a URL: hosts, credentials, and parameters, with their escapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote, unquote_plus

from connect.errors import ConfigError
from connectors.jdbc.urls.driver_properties import DriverProperties
from connectors.jdbc.urls.target import UrlInput

Decode = Callable[[str], str]
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_VARIABLE = re.compile(r"(?<=[=,;\s])@@?[\w.]+\s*:?=")
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Host:
    """Host and port of a server. An IPv6 address has no brackets here."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Authority:
    """The part of a URL between ``//`` and the next ``/``."""

    hosts: tuple[Host, ...]
    user: str | None
    password: str | None


def unescaped(text: str) -> str:
    """Returns the text unchanged, for drivers without escapes."""
    return text


def percent_decoded(text: str) -> str:
    """Decodes ``%41`` to A; ``+`` does not change."""
    return _decoded(text, unquote)


def form_decoded(text: str) -> str:
    """Decodes like Java's URLDecoder: ``%41`` is an A, ``+`` a space."""
    return _decoded(text, unquote_plus)


def _decoded(text: str, decode: Callable[..., str]) -> str:
    if _BROKEN_ESCAPE.search(text):
        raise ConfigError("it has a % that does not start an escape; write %25 for a %")
    try:
        return decode(text, errors="strict")
    except UnicodeDecodeError:
        raise ConfigError("it has escapes (%..) that are not valid UTF-8; write %25 for a %") from None


def split_unquoted(text: str, separators: str) -> Iterator[str]:
    """Splits a text at separators outside brackets and quotes."""
    depth, start, quote = 0, 0, ""
    for at, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in _OPEN:
            depth += 1
        elif c in _CLOSE:
            depth = max(0, depth - 1)
        elif c in separators and not depth:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def parse_parameters(text: str, decode: Decode, separator: str = "&") -> list[tuple[str, str]]:
    """Parses ``a=1&b`` into pairs; a name without a value gets an empty one."""
    pairs = [part.partition("=") for part in text.split(separator)]
    if any("@" in name for name, _, _ in pairs):
        raise ConfigError("it has an @ in the name of a parameter: in a user or password, write %3F for a ? and %40 for an @")
    return [(decode(name).strip(), decode(value)) for name, _, value in pairs if name.strip()]


def parse_braced_parameters(text: str) -> list[tuple[str, str]]:
    """Parses ``a=1;b={x;y}``: a value in braces may contain semicolons and doubled closing braces."""
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        equals, end = text.find("=", at), text.find(";", at)
        if equals < 0 or 0 <= end < equals:
            name, value, at = text[at : end if end >= 0 else len(text)], "", end + 1 if end >= 0 else len(text)
        else:
            name = text[at:equals]
            value, at = _braced_value(text, equals + 1)
        if name.strip():
            pairs.append((name.strip(), value))
    return pairs


def _braced_value(text: str, at: int) -> tuple[str, int]:
    start = len(text) - len(text[at:].lstrip())
    if text[start : start + 1] != "{":
        end = text.find(";", at)
        end = len(text) if end < 0 else end
        return text[at:end].strip(), end + 1
    found = re.compile(r"\{((?:[^}]|\}\})*)\}\s*(?:;|$)").match(text, start)
    if found is None:
        raise ConfigError("it has a value that starts with { but does not end with }; write }} for a } inside")
    return found[1].replace("}}", "}"), found.end()


def check_at_signs(text: str) -> None:
    """Raises ConfigError if an @ among the parameters may end an unescaped password, part of which would be parsed, and shown, as
    a host. ``text`` starts before ``//``."""
    head, _, query = text.partition("?")
    servers, slash, _ = head.partition("//")[2].partition("/")
    in_front = re.search(":.*@", servers, re.S) is not None
    # sessionVariables=@a=1 is valid.
    if "@" in _VARIABLE.sub("", query) and (in_front or ("//" in head and not slash)):
        raise ConfigError("it has an extra @: outside user:password@ write %40; inside, write %2F for a / and %3F for a ?")
    if in_front and servers.endswith("@"):
        raise ConfigError("it has no host after its @; write %40 for an @ in a user or password")


def split_credentials(text: str, decode: Decode) -> tuple[str | None, str | None, str]:
    """Splits ``user:password@rest`` into user, password, and rest."""
    info, at, rest = text.rpartition("@")
    if not at:
        return None, None, rest
    user, colon, password = info.partition(":")
    return decode(user) or None, decode(password) if colon else None, rest


def parse_authority(text: str, decode: Decode = percent_decoded) -> Authority:
    """Parses ``user:password@host1:1,host2:2``. Raises ConfigError that does not quote it."""
    user, password, rest = split_credentials(text, decode)
    hosts = tuple(parse_host(part) for part in split_unquoted(rest, ",") if part.strip())
    return Authority(hosts, user, password)


def parse_host(text: str) -> Host:
    """Parses ``name``, ``name:port``, ``[address]``, or ``[address]:port``; the default name is localhost."""
    text = text.strip()
    found = re.fullmatch(r"\[([0-9A-Fa-f:.%\w]+)\](?::(.*))?|([^:\[\]]*)(?::([^:]*))?", text)
    if found is None:
        raise ConfigError(
            "its host is not valid: write an IPv6 address in brackets, and escape characters such as : / @ of a user or "
            "password (%3A %2F %40)"
        )
    address, port_1, name, port_2 = found.groups()
    return Host(address or name or "localhost", parse_port(port_1 if address else port_2))


def parse_port(text: str | None) -> int | None:
    """Parses a port; None if there is none."""
    if text is None or not text.strip():
        return None
    if not re.fullmatch(r"[0-9]{1,5}", text.strip()) or not 0 < int(text) < 65536:
        raise ConfigError(
            "its port is not a number from 1 to 65535; if the URL has a user or password, escape characters "
            "such as : / @ in it (%3A %2F %40)"
        )
    return int(text)


def parse_database_name(text: str, decode: Decode) -> str | None:
    """Parses the database name after the hosts; None if it is empty."""
    if "@" in text:
        # Probably a password with a /, which must not be shown as the name. A name can escape its @.
        raise ConfigError("it has an @ after its host: write %2F for a / in a user or password, %40 for an @ in a database name")
    return decode(text) or None


def resolve_credentials(
    request: UrlInput,
    properties: DriverProperties,
    of_url: tuple[str | None, str | None] = (None, None),
    users: tuple[str, ...] = ("user", "username"),
    passwords: tuple[str, ...] = ("password",),
) -> tuple[str | None, str | None]:
    """Returns user and password by precedence; empty ones are ignored."""
    user, password = properties.text(*users), properties.text(*passwords)
    return request.user or user or of_url[0] or None, request.password or password or of_url[1] or None
