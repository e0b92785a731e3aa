"""Parses ``jdbc:postgresql:`` URLs and maps pgjdbc's properties to libpq's arguments, for PostgreSQL and compatible databases."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.engine import URL

from connect.errors import ConfigError
from connectors.jdbc.urls import authority, java_properties
from connectors.jdbc.urls.authority import Host, form_decoded
from connectors.jdbc.urls.driver_properties import DriverProperties
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput, format_label

_RENAMED = {
    "ApplicationName": "application_name",
    "channelBinding": "channel_binding",
    "requireAuth": "require_auth",
    "kerberosServerName": "krbsrvname",
}
_SERVER_TYPES = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "prefersecondary": "prefer-standby",
    "preferslave": "prefer-standby",
    "preferprimary": "",
}

_UNIX_SOCKET = re.compile(r"(.*)/\.s\.PGSQL\.([0-9]{1,5})")


def url_parser(drivername: str, kind: str, default_port: int) -> Callable[[UrlInput], ConnectionTarget]:
    """Returns the parser of such URLs for one driver."""

    def read(request: UrlInput) -> ConnectionTarget:
        address, _, query = request.text.partition("?")
        properties = DriverProperties(authority.parse_parameters(query, form_decoded), request.properties)
        hosts, database, of_url = _address(address)
        user, password = authority.resolve_credentials(request, properties, of_url)
        hosts, database = _named_apart(properties, hosts, database)
        arguments = libpq_arguments(properties, drivername)
        url = URL.create(drivername, user, password, database=database)
        if len(hosts) == 1 and not hosts[0].name.startswith("/"):
            url = url.set(host=hosts[0].name, port=hosts[0].port or default_port)
        elif hosts:
            arguments["host"] = ",".join(one.name for one in hosts)
            arguments["port"] = ",".join(str(one.port or default_port) for one in hosts)
        elif "service" not in arguments:
            url = url.set(host="localhost", port=default_port)
        notices = properties.finish(_driver(drivername), java_properties.PGJDBC)
        return ConnectionTarget(url, arguments, notices, format_label(kind, _shown(url, hosts), database))

    return read


def _address(text: str) -> tuple[tuple[Host, ...], str | None, tuple[str | None, str | None]]:
    if not text.startswith("//"):
        return (), authority.parse_database_name(text.strip("/"), form_decoded), (None, None)
    servers, _, name = text[2:].partition("/")
    found = authority.parse_authority(servers)
    hosts = tuple(Host(authority.percent_decoded(one.name), one.port) for one in found.hosts)
    return hosts, authority.parse_database_name(name.strip("/"), form_decoded), (found.user, found.password)


def _named_apart(
    properties: DriverProperties, hosts: tuple[Host, ...], database: str | None
) -> tuple[tuple[Host, ...], str | None]:
    """Reads hosts, database, and Unix socket from the parameters, as libpq and pgjdbc do."""
    named, ports, name = (
        properties.text("host", "PGHOST"),
        properties.text("port", "PGPORT"),
        properties.text("dbname", "PGDBNAME"),
    )
    if named:
        several = named.split(",")
        numbers = (ports or "").split(",")
        numbers = numbers * len(several) if len(numbers) == 1 else numbers
        if len(numbers) != len(several):
            raise ConfigError("its numbers of hosts and ports differ")
        hosts = tuple(Host(one.strip("[] "), authority.parse_port(number)) for one, number in zip(several, numbers, strict=True))
    elif ports and len(hosts) <= 1:
        hosts = (Host(hosts[0].name if hosts else "localhost", authority.parse_port(ports)),)
    factory, argument = properties.text("socketFactory"), properties.text("socketFactoryArg")
    if factory:
        socket = _UNIX_SOCKET.fullmatch(argument or "") if "unix" in factory.lower() else None
        if socket is None:
            raise ConfigError(
                "its socketFactory is a Java class, which cannot run here: set the host to connect to, or for a Unix socket "
                "its directory as host= (host=/var/run/postgresql)"
            )
        hosts = (Host(socket[1] or "/", authority.parse_port(socket[2])),)
    return hosts, database or name


def _shown(url: URL, hosts: tuple[Host, ...]) -> str:
    return ",".join(map(str, hosts)) if hosts else str(Host(url.host or "", url.port))


def libpq_arguments(properties: DriverProperties, drivername: str) -> dict[str, Any]:
    """Maps pgjdbc's and libpq's own properties to arguments of libpq and psycopg."""
    found: dict[str, Any] = {name: value for name in java_properties.LIBPQ if (value := properties.text(name)) is not None}
    for java, name in _RENAMED.items():
        value = properties.text(java)
        if value is not None:
            found.setdefault(name, value)
    _tls(properties, found)
    _timeouts(properties, found)
    keep_alive = properties.flag("tcpKeepAlive")
    if keep_alive is not None:
        found.setdefault("keepalives", int(keep_alive))
    _choice_of_server(properties, found)
    # Values of pgjdbc that libpq lacks; its default is the closest.
    for name, word in (("gssencmode", "allow"), ("gsslib", "auto")):
        if found.get(name, "").lower() == word:
            del found[name]
    options = _options(properties)
    if options:
        found["options"] = options
    _prepared(properties, found, drivername)
    _text_type(properties)
    properties.leave_out(
        "is ignored: libpq has no such limit (statement.timeout.ms cancels a long statement)", "socketTimeout", "queryTimeout"
    )
    return found


def _text_type(properties: DriverProperties) -> None:
    """``stringtype=unspecified`` is the default of sinks: text is bound as the type of its column."""
    word = (properties.text("stringtype") or "unspecified").strip().lower()
    if word not in ("unspecified", "varchar"):
        raise ConfigError("the property stringtype is none of unspecified, varchar")
    if word == "varchar":
        properties.notice(
            "stringtype=varchar is ignored: text is written to columns of any type that PostgreSQL can parse from text"
        )


def _tls(properties: DriverProperties, found: dict[str, Any]) -> None:
    if "sslmode" in found:
        found["sslmode"] = found["sslmode"].lower()
    # ssl=true alone is pgjdbc's strictest mode, despite older examples.
    wanted = properties.flag("ssl")
    factory, argument = properties.text("sslfactory") or "", properties.text("sslfactoryarg") or ""
    name = factory.rpartition(".")[2]
    if wanted and "sslmode" not in found:
        found["sslmode"] = "verify-full"
        if name == "NonValidatingFactory":
            found["sslmode"] = "require"
            properties.notice(
                "sslfactory accepts any certificate: the connection is encrypted (sslmode=require) without verifying the server"
            )
    if not name or name in ("LibPQFactory", "NonValidatingFactory"):
        return
    if name in ("DefaultJavaSSLFactory", "SystemPropertySSLFactory"):
        # Java's default certificate authorities correspond to the system's, which libpq only uses with full verification.
        if found.get("sslmode") == "verify-full":
            found.setdefault("sslrootcert", "system")
    elif name == "SingleCertValidatingFactory" and argument.startswith("file:"):
        found.setdefault("sslrootcert", argument.removeprefix("file:"))
    else:
        properties.notice("sslfactory is a Java class and is ignored: set the authority's certificate with sslrootcert")


def _timeouts(properties: DriverProperties, found: dict[str, Any]) -> None:
    own = properties.number("connect_timeout")
    limits = [limit for limit in (properties.number("connectTimeout"), properties.number("loginTimeout")) if limit is not None]
    if own is not None:
        found["connect_timeout"] = math.ceil(own)
    elif limits:
        found["connect_timeout"] = math.ceil(min((limit for limit in limits if limit), default=0))


def _choice_of_server(properties: DriverProperties, found: dict[str, Any]) -> None:
    kind = properties.choice(_SERVER_TYPES, "targetServerType")
    if kind == "":
        properties.notice("targetServerType=preferPrimary is ignored: hosts are tried in order, so name the primary first")
    elif kind is not None:
        found.setdefault("target_session_attrs", kind)
    if properties.flag("loadBalanceHosts"):
        found.setdefault("load_balance_hosts", "random")


def _options(properties: DriverProperties) -> str:
    """Returns the ``options`` of a session: the configured ones, and settings that pgjdbc has properties for."""
    options = [given] if (given := properties.text("options")) else []
    schemas = properties.text("currentSchema")
    if schemas:
        options.append(f"-csearch_path={_escaped(schemas)}")
    if properties.flag("readOnly"):
        options.append("-cdefault_transaction_read_only=on")
    return " ".join(options)


def _escaped(value: str) -> str:
    """Escapes a value for libpq's options, which end at blanks."""
    return re.sub(r"([\\\s])", r"\\\1", value)


def _prepared(properties: DriverProperties, found: dict[str, Any], drivername: str) -> None:
    threshold, mode = properties.text("prepareThreshold"), (properties.text("preferQueryMode") or "").lower()
    own = properties.number("prepare_threshold")
    if not drivername.endswith("+psycopg"):
        return  # only psycopg 3 prepares statements
    if own is not None:
        found["prepare_threshold"] = own
    elif mode == "simple":
        found["prepare_threshold"] = None
    elif threshold is not None:
        if not re.fullmatch(r"-?[0-9]{1,9}", threshold.strip()):
            raise ConfigError("the property prepareThreshold is not a whole number")
        # Java counts executions including the prepared one, psycopg those before it. In Java, 0 means never.
        found["prepare_threshold"] = None if int(threshold) == 0 else max(0, int(threshold) - 1)


def _driver(drivername: str) -> str:
    return drivername.rpartition("+")[2]


def with_properties(url: URL, given: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns arguments and notices for a SQLAlchemy URL of a libpq driver with extra properties."""
    properties = DriverProperties((), given)
    properties.text("user", "username")
    properties.text("password")
    arguments = libpq_arguments(properties, url.drivername)
    return arguments, properties.finish(_driver(url.drivername), java_properties.PGJDBC)
