"""MySQL and MariaDB: ``jdbc:mysql:`` and ``jdbc:mariadb:`` URLs, and PyMySQL's arguments from both drivers' properties."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import URL

from connect.errors import ConfigError
from connectors.jdbc.urls import authority, java_properties, mysql_tls
from connectors.jdbc.urls.authority import Decode, Host
from connectors.jdbc.urls.driver_properties import Properties
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput, ZeroDates, label

DRIVER = "PyMySQL"
_PORT = 3306
_NO_LIMIT_S = 31_536_000
"""PyMySQL knows no connecting without limit; this is the longest it takes."""

_MODES = frozenset(
    {"", "loadbalance", "load-balance", "load-balance-read", "replication", "sequential", "failover", "aurora", "aws"}
)
_NUMBERS = ("read_timeout", "write_timeout", "max_allowed_packet", "client_flag")
_TEXTS = ("bind_address", "unix_socket", "program_name", "sql_mode", "read_default_file", "read_default_group", "init_command")

_OTHER_ZONE = re.compile(r"(SESSION\s+|@@)(session[\s.]+)?time_zone\b(?!\s*=\s*'\+00:00')", re.I)
_OF_ADDRESS = "is not read from the properties; it stands in the URL"
_IN_BRACKETS = re.compile(r"(?:address\s*=\s*)?\(", re.I)


@dataclass(frozen=True, slots=True)
class _Server:
    host: Host | None
    user: str | None = None
    password: str | None = None
    properties: tuple[tuple[str, str], ...] = ()


def target(sub_protocol: str, decode: Decode) -> Callable[[UrlInput], ConnectionTarget]:
    """The reader of such URLs. MySQL's driver knows escapes in all parts, MariaDB's in none."""

    def read(request: UrlInput) -> ConnectionTarget:
        fragment = ""
        found = re.fullmatch(r"(?:([\w+-]*):)?//([^/?#]*)(?:/([^?#]*))?(?:\?(.*))?", request.text, re.S)
        query = (found[4] or "") if found else ""
        if sub_protocol == "mysql":
            query, _, fragment = query.partition("#")
        if found is None:
            raise ConfigError(f"it has not the form jdbc:{sub_protocol}://host:port/database?name=value&name=value")
        if (found[1] or "").lower() not in _MODES:
            raise ConfigError(f"what stands before // is no way to choose a server; known are {', '.join(sorted(_MODES - {''}))}")
        servers = _servers(found[2], decode)
        first = servers[0]
        # What is said for one server gives way to what is said for all.
        properties = Properties([*first.properties, *authority.parameters(query, decode)], request.properties)
        if fragment:
            properties.notice("what follows a # in the URL is left out, as by MySQL's own driver; a # itself is written %23")
        if len(servers) > 1:
            others = ", ".join(str(one.host) for one in servers[1:])
            properties.notice(f"{DRIVER} connects to one server, {first.host}: {others} is not tried when it is down")
        user, password = authority.login(request, properties, (first.user, first.password))
        # SQLAlchemy's mysql finds out by itself that a server is MariaDB; its mariadb refuses MySQL, which MariaDB's JDBC driver
        # does not.
        return pymysql_target(
            URL.create("mysql+pymysql", user, password, database=authority.database_name((found[3] or "").strip(), decode)),
            first.host,
            properties,
            sub_protocol,
        )

    return read


def pymysql_target(url: URL, host: Host | None, properties: Properties, kind: str) -> ConnectionTarget:
    """The target for a URL that lacks its host."""
    arguments = pymysql_arguments(properties, kind)
    if "unix_socket" in arguments:
        shown = arguments["unix_socket"]
    else:
        address = host or Host("localhost")
        url = url.set(host=address.name, port=address.port or _PORT)
        shown = str(Host(address.name, address.port or _PORT))
    arguments.update(password_argument(url))
    zeros, shown = _zero_dates(properties), label(kind, shown, url.database)
    current = bool(properties.flag("nullDatabaseMeansCurrent", "nullCatalogMeansCurrent"))
    return ConnectionTarget(
        url, arguments, properties.finish(DRIVER, java_properties.MYSQL), shown, zero_dates=zeros, current_database_only=current
    )


def _zero_dates(properties: Properties) -> ZeroDates:
    text = properties.text("zeroDateTimeBehavior")
    try:
        return ZeroDates((text or ZeroDates.REFUSED.value).strip().lower().replace("_", ""))
    except ValueError as e:
        raise ConfigError("its zeroDateTimeBehavior is none of EXCEPTION, CONVERT_TO_NULL and ROUND") from e


def password_argument(url: URL) -> dict[str, Any]:
    """PyMySQL sends text as Latin-1, where servers and all other clients have UTF-8."""
    password = "" if url.password is None else str(url.password)
    return {} if password.isascii() else {"password": password.encode()}


def _servers(text: str, decode: Decode) -> list[_Server]:
    entries = _entries(text)
    users = {entry.rpartition("@")[0] for entry in entries if "@" in entry and not _IN_BRACKETS.match(entry.strip())}
    if len(users) > 1:
        # Perhaps a password with a comma and an @, of which a part would be taken for a host.
        raise ConfigError(
            "its servers have different users; give one user and password for all, with @ written %40 and a comma %2C"
        )
    found = [_server(entry.strip(), decode) for entry in entries]
    return [one for some in found for one in some] or [_Server(None)]


def _entries(text: str) -> list[str]:
    return [part for part in authority.split_outside(text, ",") if part.strip()]


def _server(text: str, decode: Decode) -> list[_Server]:
    in_brackets = re.fullmatch(r"(?:(.*)@)?((?:address=\s*)?\(.*\)|\[.*\])", text, re.I)
    info, rest = (f"{in_brackets[1] or ''}@", in_brackets[2]) if in_brackets else (text, text)
    user, password, after = authority.user_info(info, decode)
    rest = (rest if in_brackets else after).strip()
    if rest.startswith("[") and not re.fullmatch(r"\[[0-9A-Fa-f:.]+\]", rest) and rest.endswith("]"):
        inner = [one for part in _entries(rest[1:-1]) for one in _server(part.strip(), decode)]
        return [_Server(one.host, one.user or user, one.password or password, one.properties) for one in inner]
    if rest.lower().startswith("address="):
        pairs = re.findall(r"\(\s*([\w.%-]+)\s*=([^)]*)\)", rest)
    elif rest.startswith("(") and rest.endswith(")"):
        pairs = [(name, value) for part in _entries(rest[1:-1]) for name, _, value in [part.partition("=")]]
    else:
        return [_Server(authority.host(rest) if rest else None, user, password)]
    named = {decode(name).strip().lower(): decode(value).strip() for name, value in pairs}
    host = Host(named.pop("host", "localhost").strip("[]"), authority.port(named.pop("port", None)))
    for word in ("type", "priority", "protocol"):
        named.pop(word, None)
    return [_Server(host, named.pop("user", user), named.pop("password", password), tuple(named.items()))]


def pymysql_arguments(properties: Properties, kind: str) -> dict[str, Any]:
    """What the properties of MySQL's and MariaDB's drivers, and PyMySQL's own arguments, are for PyMySQL."""
    found: dict[str, Any] = {"charset": "utf8mb4"}
    found.update({name: text for name in _TEXTS if (text := properties.text(name)) is not None})
    found.update({name: number for name in _NUMBERS if (number := properties.number(name)) is not None})
    _characters(properties, found)
    _limits(properties, found)
    _sockets(properties, found)
    infile = properties.flag("allowLoadLocalInfile", "allowLocalInfile", "local_infile")
    if infile is not None:
        found["local_infile"] = infile
    packet = properties.number("maxAllowedPacket")
    if packet:
        found.setdefault("max_allowed_packet", packet)
    found.update(mysql_tls.arguments(properties, kind))
    _session(properties, found)
    properties.leave_out(
        f"means nothing to {DRIVER}, which asks the server for its key when it needs it", "allowPublicKeyRetrieval"
    )
    properties.leave_out(f"is left out: {DRIVER} asks the server for its key", "serverRSAPublicKeyFile")
    properties.leave_out(_OF_ADDRESS, "host", "port", "dbname")
    return found


def _characters(properties: Properties, found: dict[str, Any]) -> None:
    charset = properties.text("charset")
    if charset and charset.lower() != "utf8mb4":
        properties.notice("charset is left out: text always travels as utf8mb4")
    for name in ("characterEncoding", "characterSetResults"):
        value = properties.text(name)
        if value and value.lower().replace("-", "") not in ("utf8", "utf8mb4", "null"):
            properties.notice(f"{name} is left out: text always travels as utf8mb4")
    collation = properties.text("connectionCollation", "collation")
    if collation and collation.lower().startswith("utf8mb4_"):
        found["collation"] = collation
    elif collation:
        properties.notice("connectionCollation is left out: it is not one of utf8mb4, in which text travels")


def _limits(properties: Properties, found: dict[str, Any]) -> None:
    # Java's drivers count in milliseconds, Python's in seconds.
    java, own = properties.number("connectTimeout"), properties.number("connect_timeout")
    if own is not None or java is not None:
        seconds = own if own is not None else _seconds(java or 0)
        found["connect_timeout"] = min(seconds, _NO_LIMIT_S) or _NO_LIMIT_S
    silence = properties.number("socketTimeout")
    if silence:
        found.setdefault("read_timeout", _seconds(silence))
    for name in ("read_timeout", "write_timeout"):
        if found.get(name) == 0:
            del found[name]


def _seconds(milliseconds: float) -> float:
    seconds = milliseconds / 1000
    return int(seconds) if seconds.is_integer() else seconds


def _sockets(properties: Properties, found: dict[str, Any]) -> None:
    factory = properties.text("socketFactory")
    path = properties.text("localSocket", "junixsocket.file")
    if factory and "unix" not in factory.lower():
        raise ConfigError(
            "its socketFactory is a Java class, which cannot run here: give the host to connect to, or for a Unix socket its "
            "path as localSocket="
        )
    if path:
        found.setdefault("unix_socket", path)
    local = properties.text("localSocketAddress")
    if local:
        found.setdefault("bind_address", local)
    if properties.text("pipe"):
        raise ConfigError("named pipes (pipe=) are not supported; connect over TCP")


def _session(properties: Properties, found: dict[str, Any]) -> None:
    """What is set at the beginning of a session."""
    settings = [
        part.strip() if part.strip().startswith("@") else f"SESSION {part.strip()}"
        for part in authority.split_outside(properties.text("sessionVariables") or "", ",;")
        if part.strip()
    ]
    zone = properties.text("connectionTimeZone", "serverTimezone", "timezone") or "UTC"
    forced = properties.flag("forceConnectionTimeZoneToSession")
    if forced and zone.upper() == "UTC":
        settings.append("SESSION time_zone = '+00:00'")
    kept = [one for one in settings if not _OTHER_ZONE.match(one)]
    if len(kept) < len(settings):
        settings, forced, zone = kept, True, "another"
    if zone.upper() not in ("UTC", "LOCAL", "SERVER"):
        properties.notice(
            "the time zone of the connection is left out: times without a zone are read and written in db.timezone, as with "
            "the originals, and TIMESTAMP columns are instants"
            + ("; the session is in UTC, and so is what the server itself makes of NOW()" if forced else "")
        )
    first = properties.text("initSql")
    if settings and (first or "init_command" in found):
        raise ConfigError("sessionVariables goes with neither initSql nor init_command: give one of them, with everything in it")
    if settings:
        found["init_command"] = f"SET {', '.join(settings)}"
    elif first:
        found.setdefault("init_command", first)


def with_properties(url: URL, given: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Arguments and notices for an SQLAlchemy URL of PyMySQL with properties beside it."""
    properties = Properties((), given)
    properties.text("user", "username")
    properties.text("password")
    arguments = {**pymysql_arguments(properties, url.get_backend_name()), **password_argument(url)}
    return arguments, properties.finish(DRIVER, java_properties.MYSQL)
