"""The parts of an address: hosts, users, parameters and what is escaped in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote, unquote_plus

from connect.errors import ConfigError
from connectors.jdbc.urls.driver_properties import Properties
from connectors.jdbc.urls.target import UrlInput

Decode = Callable[[str], str]
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_VARIABLE = re.compile(r"(?<=[=,;\s])@@?[\w.]+\s*:?=")
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Host:
    """Where a server listens. An IPv6 address has no brackets here."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Authority:
    """What stands between ``//`` and the next ``/``."""

    hosts: tuple[Host, ...]
    user: str | None
    password: str | None


def as_written(text: str) -> str:
    """For drivers that know no escapes."""
    return text


def percent_decoded(text: str) -> str:
    """``%41`` is an A, ``+`` stays."""
    return _decoded(text, unquote)


def form_decoded(text: str) -> str:
    """As Java's URLDecoder: ``%41`` is an A, ``+`` a space."""
    return _decoded(text, unquote_plus)


def _decoded(text: str, decode: Callable[..., str]) -> str:
    if _BROKEN_ESCAPE.search(text):
        raise ConfigError("it has a % that begins no escape; a % itself is written %25")
    try:
        return decode(text, errors="strict")
    except UnicodeDecodeError:
        raise ConfigError("it has escapes (%..) that are no UTF-8; a % itself is written %25") from None


def split_outside(text: str, separators: str) -> Iterator[str]:
    """The parts between separators that are not inside of brackets or quotes."""
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


def parameters(text: str, decode: Decode, separator: str = "&") -> list[tuple[str, str]]:
    """``a=1&b`` as pairs; a name without value has the empty one."""
    pairs = [part.partition("=") for part in text.split(separator)]
    if any("@" in name for name, _, _ in pairs):
        raise ConfigError("it has an @ where the name of a parameter stands: a ? in a user or password is written %3F, an @ %40")
    return [(decode(name).strip(), decode(value)) for name, _, value in pairs if name.strip()]


def braced_parameters(text: str) -> list[tuple[str, str]]:
    """``a=1;b={x;y}``: a value in braces may hold a semicolon, and a closing brace twice."""
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
        raise ConfigError("it has a value that begins with { and does not end with }; a } inside of one is written }}")
    return found[1].replace("}}", "}"), found.end()


def check_at_signs(text: str) -> None:
    """Raises ConfigError where an @ among the parameters may end a password that was not escaped, so that what stands before it
    would be taken, and shown, for a host. ``text`` begins with what stands before ``//``."""
    head, _, query = text.partition("?")
    servers, slash, _ = head.partition("//")[2].partition("/")
    in_front = re.search(":.*@", servers, re.S) is not None
    # sessionVariables=@a=1 is none of them.
    if "@" in _VARIABLE.sub("", query) and (in_front or ("//" in head and not slash)):
        raise ConfigError("it has an @ too many: outside of user:password@ it is written %40, as are / %2F and ? %3F inside")
    if in_front and servers.endswith("@"):
        raise ConfigError("it has no host after its @; an @ in a user or password is written %40")


def user_info(text: str, decode: Decode) -> tuple[str | None, str | None, str]:
    """User, password and what follows the ``@``."""
    info, at, rest = text.rpartition("@")
    if not at:
        return None, None, rest
    user, colon, password = info.partition(":")
    return decode(user) or None, decode(password) if colon else None, rest


def authority(text: str, decode: Decode = percent_decoded) -> Authority:
    """``user:password@host1:1,host2:2``. Raises ConfigError that repeats nothing of it."""
    user, password, rest = user_info(text, decode)
    hosts = tuple(host(part) for part in split_outside(rest, ",") if part.strip())
    return Authority(hosts, user, password)


def host(text: str) -> Host:
    """``name``, ``name:port``, ``[address]`` or ``[address]:port``; without a name it is localhost."""
    text = text.strip()
    found = re.fullmatch(r"\[([0-9A-Fa-f:.%\w]+)\](?::(.*))?|([^:\[\]]*)(?::([^:]*))?", text)
    if found is None:
        raise ConfigError(
            "its host is not understood: an IPv6 address stands in brackets, and characters such as : / @ of a user or "
            "password are escaped (%3A %2F %40)"
        )
    address, port_1, name, port_2 = found.groups()
    return Host(address or name or "localhost", port(port_1 if address else port_2))


def port(text: str | None) -> int | None:
    """A port's number. None when there is none."""
    if text is None or not text.strip():
        return None
    if not re.fullmatch(r"[0-9]{1,5}", text.strip()) or not 0 < int(text) < 65536:
        raise ConfigError(
            "its port is not a number from 1 to 65535; where a user or password stands in the URL, characters such as "
            ": / @ of it are escaped (%3A %2F %40)"
        )
    return int(text)


def database_name(text: str, decode: Decode) -> str | None:
    """The name after the hosts. None when it is empty."""
    if "@" in text:
        # Rather than a name with an @, which can be escaped: a password with a /, which must not be shown as the name.
        raise ConfigError("it has an @ after its host: a / in a user or password is written %2F, an @ in a name %40")
    return decode(text) or None


def login(
    request: UrlInput,
    properties: Properties,
    of_url: tuple[str | None, str | None] = (None, None),
    users: tuple[str, ...] = ("user", "username"),
    passwords: tuple[str, ...] = ("password",),
) -> tuple[str | None, str | None]:
    """User and password by their precedence; empty ones do not count."""
    user, password = properties.text(*users), properties.text(*passwords)
    return request.user or user or of_url[0] or None, request.password or password or of_url[1] or None
