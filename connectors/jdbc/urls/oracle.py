"""Parses ``jdbc:oracle:thin:`` and ``jdbc:oracle:oci:`` URLs for python-oracledb."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.engine import URL

from connect.errors import ConfigError
from connectors.jdbc.urls import authority, java_properties
from connectors.jdbc.urls.authority import Host, unescaped
from connectors.jdbc.urls.driver_properties import DriverProperties
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput, format_label

_PORT = 1521
_FORMS = (
    "supported are jdbc:oracle:thin:@//host:1521/service, @host:1521/service, @host:1521:SID, @(DESCRIPTION=...), "
    "@tcps://host:port/service and @name?TNS_ADMIN=folder"
)

_LOGIN = re.compile(r'\s*("[^"]*"|[^/"]*)?\s*(?:/("[^"]*"|.*))?', re.S)
_SID = re.compile(r"([^:/@()\[\],\s]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5}):([\w$#.]+)")
_SERVICE = re.compile(r"(?://)?([^:/@()\[\],\s]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/([\w$#.-]+)")
_TEXTS = {
    "oracle.net.tns_admin": "config_dir",
    "TNS_ADMIN": "config_dir",
    "oracle.net.ssl_server_cert_dn": "ssl_server_cert_dn",
    "v$session.program": "program",
    "v$session.machine": "machine",
    "v$session.osuser": "osuser",
    "v$session.terminal": "terminal",
    "oracle.jdbc.editionName": "edition",
    "oracle.jdbc.DRCPConnectionClass": "cclass",
    "config_dir": "config_dir",
    "wallet_location": "wallet_location",
    "wallet_password": "wallet_password",
    "oracle.net.wallet_password": "wallet_password",
}


def parse_url(request: UrlInput) -> ConnectionTarget:
    """Parses simple addresses into host, port, and service or SID; passes others to the driver unchanged."""
    found = re.fullmatch(r"(thin|oci8?):(.*)", request.text, re.I | re.S)
    if found is None:
        raise ConfigError(f"expected thin: after jdbc:oracle: ({_FORMS})")
    of_url, address = _login(found[2])
    address, query = _without_query(address)
    own, rest = _of_driver(query)
    properties = DriverProperties(own, request.properties)
    if found[1].lower() != "thin":
        properties.notice("oci is ignored: connections do not use Oracle's client libraries, as with thin")
    user, password = authority.resolve_credentials(request, properties, of_url)
    arguments = _arguments(properties)
    url = URL.create("oracle+oracledb", user, password, query=_query(properties))
    sid, service = _SID.fullmatch(address), _SERVICE.fullmatch(address)
    if sid is not None and not rest:
        host = Host(sid[1].strip("[]"), authority.parse_port(sid[2]))
        url = url.set(host=host.name, port=host.port, database=sid[3])
        shown = format_label("oracle", str(host), sid[3])
    elif service is not None and not rest:
        host = Host(service[1].strip("[]"), authority.parse_port(service[2]) or _PORT)
        url = url.update_query_dict({"service_name": service[3]}).set(host=host.name, port=host.port)
        shown = format_label("oracle", str(host), service[3])
    else:
        arguments["dsn"] = address + (f"?{rest}" if rest else "")
        shown = _label(address)
    return ConnectionTarget(url, arguments, properties.finish("python-oracledb", java_properties.ORACLE), shown)


def _login(text: str) -> tuple[tuple[str | None, str | None], str]:
    """Splits off user and password, each optionally quoted, before the ``@``."""
    # The last @: a password may contain one, an address cannot.
    head, at, address = text.rpartition("@")
    if not at:
        raise ConfigError(f"it has no @ before its address; {_FORMS}")
    found = _LOGIN.fullmatch(head)
    if found is None:
        raise ConfigError("the text before its @ is not user/password")
    user, password = (None if part is None else part.strip().strip('"') or None for part in found.groups())
    address = address.strip()
    if not address:
        raise ConfigError(f"it has no address after its @; {_FORMS}")
    if address.lower().startswith(("ldap:", "ldaps:")):
        raise ConfigError(f"directory names (ldap) are not supported; {_FORMS}")
    return (user, password), address


def _without_query(address: str) -> tuple[str, str]:
    if address.startswith("("):
        return address, ""
    address, _, query = address.partition("?")
    return address, query


def _of_driver(query: str) -> tuple[list[tuple[str, str]], str]:
    """Splits the parameters into driver properties and those of the address."""
    pairs = authority.parse_parameters(query, unescaped)
    own = [
        (name, value) for name, value in pairs if name.startswith("oracle.") or name.lower() in ("tns_admin", "user", "password")
    ]
    return own, "&".join(f"{name}={value}" for name, value in pairs if (name, value) not in own)


def _query(properties: DriverProperties) -> dict[str, str]:
    role = properties.text("internal_logon", "mode")
    if role is None:
        return {}
    if not re.fullmatch(r"SYS[A-Z]{2,4}", role.strip().upper()):
        raise ConfigError("the property internal_logon is none of sysdba, sysoper, sysasm, sysbackup, sysdg, syskm")
    return {"mode": {"SYSBACKUP": "SYSBKP", "SYSDG": "SYSDGD", "SYSKM": "SYSKMT"}.get(role.upper(), role.strip().upper())}


def _arguments(properties: DriverProperties) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for java, name in _TEXTS.items():
        value = properties.text(java)
        if value is not None:
            found.setdefault(name, value)
    wallet = properties.text("oracle.net.wallet_location")
    if wallet is not None:
        # A directory, or a parameter in the form of sqlnet.ora.
        inner = re.search(r"DIRECTORY\s*=\s*([^)]+)\)", wallet, re.I)
        found.setdefault("wallet_location", (inner[1] if inner else wallet.removeprefix("file:")).strip())
    milliseconds = properties.number("oracle.net.CONNECT_TIMEOUT")
    if milliseconds:
        found["tcp_connect_timeout"] = milliseconds / 1000
    match = properties.flag("oracle.net.ssl_server_dn_match")
    if match is not None:
        found["ssl_server_dn_match"] = match
    return found


def _label(address: str) -> str:
    """Returns host and service of a description, or the name of an alias."""
    if address.startswith("("):
        host, port, service = (
            re.search(rf"\(\s*{word}\s*=\s*([\w$#.:-]+)\s*\)", address, re.I) for word in ("HOST", "PORT", "(?:SERVICE_NAME|SID)")
        )
        at = (host[1] if host else "") + (f":{port[1]}" if port else "")
        return format_label("oracle", at, service[1] if service else None)
    hosts, _, name = re.sub(r"^\w*:?//", "", address).partition("/")
    return format_label("oracle", hosts, name)
