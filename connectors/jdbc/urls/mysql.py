"""Parses ``jdbc:mysql:`` and ``jdbc:mariadb:`` URLs and maps both drivers' properties to PyMySQL's arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import URL

from connect.errors import ConfigError
from connectors.jdbc.urls import authority, java_properties, mysql_tls
from connectors.jdbc.urls.authority import Decode, Host
from connectors.jdbc.urls.driver_properties import DriverProperties
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput, ZeroDates, format_label

DRIVER = "PyMySQL"
_PORT = 3306
_NO_LIMIT_S = 31_536_000
"""PyMySQL's maximum connect timeout; it cannot be disabled."""

_MODES = frozenset(
    {"", "loadbalance", "load-balance", "load-balance-read", "replication", "sequential", "failover", "aurora", "aws"}
)
_NUMBERS = ("read_timeout", "write_timeout", "max_allowed_packet", "client_flag")
_TEXTS = ("bind_address", "unix_socket", "program_name", "sql_mode", "read_default_file", "read_default_group", "init_command")

_OTHER_ZONE = re.compile(r"(SESSION\s+|@@)(session[\s.]+)?time_zone\b(?!\s*=\s*'\+00:00')", re.I)
_OF_ADDRESS = "cannot be a property; set it in the URL"
_IN_BRACKETS = re.compile(r"(?:address\s*=\s*)?\(", re.I)


@dataclass(frozen=True, slots=True)
class _Server:
    host: Host | None
    user: str | None = None
    password: str | None = None
    properties: tuple[tuple[str, str], ...] = ()


def url_parser(sub_protocol: str, decode: Decode) -> Callable[[UrlInput], ConnectionTarget]:
    """Returns the parser of such URLs. MySQL's driver has escapes in all parts, MariaDB's in none."""

    def read(request: UrlInput) -> ConnectionTarget:
        fragment = ""
        found = re.fullmatch(r"(?:([\w+-]*):)?//([^/?#]*)(?:/([^?#]*))?(?:\?(.*))?", request.text, re.S)
        query = (found[4] or "") if found else ""
        if sub_protocol == "mysql":
            query, _, fragment = query.partition("#")
        if found is None:
            raise ConfigError(f"expected the form jdbc:{sub_protocol}://host:port/database?name=value&name=value")
        if (found[1] or "").lower() not in _MODES:
            raise ConfigError(
                f"the text before // is not a known failover mode; supported are {', '.join(sorted(_MODES - {''}))}"
            )
        servers = _servers(found[2], decode)
        first = servers[0]
        # Parameters of all servers take precedence over those of one.
        properties = DriverProperties([*first.properties, *authority.parse_parameters(query, decode)], request.properties)
        if fragment:
            properties.notice("text after a # in the URL is ignored, as by MySQL's driver; write %23 for a #")
        if len(servers) > 1:
            others = ", ".join(str(one.host) for one in servers[1:])
            properties.notice(f"{DRIVER} only connects to one server, {first.host}; {others} is never tried")
        user, password = authority.resolve_credentials(request, properties, (first.user, first.password))
        # SQLAlchemy's mysql dialect detects MariaDB; its mariadb dialect rejects MySQL, which MariaDB's JDBC driver accepts.
        return build_pymysql_target(
            URL.create("mysql+pymysql", user, password, database=authority.parse_database_name((found[3] or "").strip(), decode)),
            first.host,
            properties,
            sub_protocol,
        )

    return read


def build_pymysql_target(url: URL, host: Host | None, properties: DriverProperties, kind: str) -> ConnectionTarget:
    """Builds the target for a URL without host."""
    arguments = pymysql_arguments(properties, kind)
    if "unix_socket" in arguments:
        shown = arguments["unix_socket"]
    else:
        address = host or Host("localhost")
        url = url.set(host=address.name, port=address.port or _PORT)
        shown = str(Host(address.name, address.port or _PORT))
    arguments.update(password_argument(url))
    zeros, shown = _zero_dates(properties), format_label(kind, shown, url.database)
    current = bool(properties.flag("nullDatabaseMeansCurrent", "nullCatalogMeansCurrent"))
    return ConnectionTarget(
        url, arguments, properties.finish(DRIVER, java_properties.MYSQL), shown, zero_dates=zeros, current_database_only=current
    )


def _zero_dates(properties: DriverProperties) -> ZeroDates:
    text = properties.text("zeroDateTimeBehavior")
    try:
        return ZeroDates((text or ZeroDates.REFUSED.value).strip().lower().replace("_", ""))
    except ValueError as e:
        raise ConfigError("its zeroDateTimeBehavior is none of EXCEPTION, CONVERT_TO_NULL and ROUND") from e


def password_argument(url: URL) -> dict[str, Any]:
    """Encodes a password as UTF-8, as servers and other clients expect; PyMySQL would encode text as Latin-1."""
    password = "" if url.password is None else str(url.password)
    return {} if password.isascii() else {"password": password.encode()}


def _servers(text: str, decode: Decode) -> list[_Server]:
    entries = _entries(text)
    users = {entry.rpartition("@")[0] for entry in entries if "@" in entry and not _IN_BRACKETS.match(entry.strip())}
    if len(users) > 1:
        # Possibly a password with a comma and an @, part of which would be parsed as a host.
        raise ConfigError(
            "its servers have different users; use one user and password for all, and write %40 for an @ and %2C for a comma"
        )
    found = [_server(entry.strip(), decode) for entry in entries]
    return [one for some in found for one in some] or [_Server(None)]


def _entries(text: str) -> list[str]:
    return [part for part in authority.split_unquoted(text, ",") if part.strip()]


def _server(text: str, decode: Decode) -> list[_Server]:
    in_brackets = re.fullmatch(r"(?:(.*)@)?((?:address=\s*)?\(.*\)|\[.*\])", text, re.I)
    info, rest = (f"{in_brackets[1] or ''}@", in_brackets[2]) if in_brackets else (text, text)
    user, password, after = authority.split_credentials(info, decode)
    rest = (rest if in_brackets else after).strip()
    if rest.startswith("[") and not re.fullmatch(r"\[[0-9A-Fa-f:.]+\]", rest) and rest.endswith("]"):
        inner = [one for part in _entries(rest[1:-1]) for one in _server(part.strip(), decode)]
        return [_Server(one.host, one.user or user, one.password or password, one.properties) for one in inner]
    if rest.lower().startswith("address="):
        pairs = re.findall(r"\(\s*([\w.%-]+)\s*=([^)]*)\)", rest)
    elif rest.startswith("(") and rest.endswith(")"):
        pairs = [(name, value) for part in _entries(rest[1:-1]) for name, _, value in [part.partition("=")]]
    else:
        return [_Server(authority.parse_host(rest) if rest else None, user, password)]
    named = {decode(name).strip().lower(): decode(value).strip() for name, value in pairs}
    host = Host(named.pop("host", "localhost").strip("[]"), authority.parse_port(named.pop("port", None)))
    for word in ("type", "priority", "protocol"):
        named.pop(word, None)
    return [_Server(host, named.pop("user", user), named.pop("password", password), tuple(named.items()))]


def pymysql_arguments(properties: DriverProperties, kind: str) -> dict[str, Any]:
    """Maps the properties of MySQL's and MariaDB's drivers, and PyMySQL's own arguments, to PyMySQL's arguments."""
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
    properties.leave_out(f"has no effect with {DRIVER}, which requests the server's key when needed", "allowPublicKeyRetrieval")
    properties.leave_out(f"is ignored: {DRIVER} requests the server's key", "serverRSAPublicKeyFile")
    properties.leave_out(_OF_ADDRESS, "host", "port", "dbname")
    return found


def _characters(properties: DriverProperties, found: dict[str, Any]) -> None:
    charset = properties.text("charset")
    if charset and charset.lower() != "utf8mb4":
        properties.notice("charset is ignored: text is always sent as utf8mb4")
    for name in ("characterEncoding", "characterSetResults"):
        value = properties.text(name)
        if value and value.lower().replace("-", "") not in ("utf8", "utf8mb4", "null"):
            properties.notice(f"{name} is ignored: text is always sent as utf8mb4")
    collation = properties.text("connectionCollation", "collation")
    if collation and collation.lower().startswith("utf8mb4_"):
        found["collation"] = collation
    elif collation:
        properties.notice("connectionCollation is ignored: it is not a collation of utf8mb4, in which text is sent")


def _limits(properties: DriverProperties, found: dict[str, Any]) -> None:
    # Java's drivers use milliseconds, Python's seconds.
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


def _sockets(properties: DriverProperties, found: dict[str, Any]) -> None:
    factory = properties.text("socketFactory")
    path = properties.text("localSocket", "junixsocket.file")
    if factory and "unix" not in factory.lower():
        raise ConfigError(
            "its socketFactory is a Java class, which cannot run here: set the host to connect to, or for a Unix socket its "
            "path as localSocket="
        )
    if path:
        found.setdefault("unix_socket", path)
    local = properties.text("localSocketAddress")
    if local:
        found.setdefault("bind_address", local)
    if properties.text("pipe"):
        raise ConfigError("named pipes (pipe=) are not supported; connect over TCP")


def _session(properties: DriverProperties, found: dict[str, Any]) -> None:
    """Returns the statements that start a session."""
    settings = [
        part.strip() if part.strip().startswith("@") else f"SESSION {part.strip()}"
        for part in authority.split_unquoted(properties.text("sessionVariables") or "", ",;")
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
            "the time zone of the connection is ignored: times without a zone are read and written in db.timezone, and "
            "TIMESTAMP columns are instants" + ("; the session is in UTC, and so is NOW() in the server" if forced else "")
        )
    first = properties.text("initSql")
    if settings and (first or "init_command" in found):
        raise ConfigError("sessionVariables cannot be combined with initSql or init_command: set only one of them")
    if settings:
        found["init_command"] = f"SET {', '.join(settings)}"
    elif first:
        found.setdefault("init_command", first)


def with_properties(url: URL, given: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns arguments and notices for a SQLAlchemy URL of PyMySQL with extra properties."""
    properties = DriverProperties((), given)
    properties.text("user", "username")
    properties.text("password")
    arguments = {**pymysql_arguments(properties, url.get_backend_name()), **password_argument(url)}
    return arguments, properties.finish(DRIVER, java_properties.MYSQL)
