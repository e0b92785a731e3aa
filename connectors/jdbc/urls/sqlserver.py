"""Parses ``jdbc:sqlserver:`` and ``jdbc:jtds:sqlserver:`` URLs, with properties after semicolons.

They use pyodbc with Microsoft's driver, whose keywords correspond to the JDBC driver's properties, including TLS and Entra
authentication. To use another driver, write a SQLAlchemy URL (``mssql+pymssql://``, ``mssql+mssqlpython://``).
"""

from __future__ import annotations

import re

from sqlalchemy.engine import URL

from connect.errors import ConfigError
from connectors.jdbc.urls import authority, java_properties
from connectors.jdbc.urls.authority import Host, unescaped
from connectors.jdbc.urls.driver_properties import DriverProperties
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput, format_label

ODBC_DRIVER = "ODBC Driver 18 for SQL Server"
_PORT = 1433

_YES_NO = {"true": "yes", "false": "no", "yes": "yes", "no": "no", "": "yes", "1": "yes", "0": "no"}
_ENCRYPT = {**_YES_NO, "strict": "strict", "mandatory": "yes", "optional": "no"}
_JTDS_SSL = {word: word for word in ("off", "request", "require", "authenticate")}
_AUTHENTICATION = {
    "notspecified": "",
    "sqlpassword": "",
    "activedirectorypassword": "ActiveDirectoryPassword",
    "activedirectoryintegrated": "ActiveDirectoryIntegrated",
    "activedirectoryinteractive": "ActiveDirectoryInteractive",
    "activedirectoryserviceprincipal": "ActiveDirectoryServicePrincipal",
    "activedirectorymsi": "ActiveDirectoryMsi",
    "activedirectorymanagedidentity": "ActiveDirectoryMsi",
    "activedirectorydefault": "ActiveDirectoryDefault",
}
_SAME = {
    "applicationIntent": "ApplicationIntent",
    "serverCertificate": "ServerCertificate",
    "serverSpn": "ServerSPN",
    "workstationID": "WSID",
    "connectRetryCount": "ConnectRetryCount",
    "connectRetryInterval": "ConnectRetryInterval",
    "iPAddressPreference": "IpAddressPreference",
    "failoverPartner": "Failover_Partner",
}


def parse_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``//host\\instance:port;databaseName=d;user=u;password={p}``, the form of Microsoft's driver."""
    address, _, rest = request.text.partition(";")
    if address and not address.startswith("//"):
        raise ConfigError("expected the form jdbc:sqlserver://host:port;databaseName=name;name=value")
    return _target(
        address[2:].rstrip("/"), None, DriverProperties(authority.parse_braced_parameters(rest), request.properties), request
    )


def parse_jtds_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``sqlserver://host:port/database;instance=i``, the form of jTDS."""
    address, _, rest = request.text.partition(";")
    found = re.fullmatch(r"sqlserver://([^/]*)(?:/(.*))?", address, re.I | re.S)
    if found is None:
        raise ConfigError("expected the form jdbc:jtds:sqlserver://host:port/database;name=value")
    properties = DriverProperties(authority.parse_parameters(rest, unescaped, ";"), request.properties)
    return _target(found[1], authority.parse_database_name(found[2] or "", unescaped), properties, request)


def _target(server: str, database: str | None, properties: DriverProperties, request: UrlInput) -> ConnectionTarget:
    user, password, server = authority.split_credentials(server, authority.percent_decoded)
    user, password = authority.resolve_credentials(request, properties, (user, password), ("user", "userName"))
    name, _, instance = server.partition("\\")
    instance, colon, number = instance.partition(":")
    host = authority.parse_host(f"{name}:{number}" if colon else name)
    host = Host(
        properties.text("serverName", "server") or host.name,
        authority.parse_port(properties.text("portNumber", "port")) or host.port,
    )
    instance = properties.text("instanceName", "instance") or instance
    database = properties.text("databaseName", "database") or database
    query = {"driver": properties.text("driver") or ODBC_DRIVER, **_keywords(properties)}
    if database is None:
        query["database"] = ""  # otherwise, SQLAlchemy takes the host for the name of a data source
    if properties.text("domain"):
        raise ConfigError("NTLM with a domain is not supported; use SQL Server authentication, Kerberos, or Entra")
    timeout = properties.number("loginTimeout")
    # As in JDBC, a port makes the name of an instance unnecessary.
    at = host.name if host.port or not instance else f"{host.name}\\{instance}"
    port = host.port or (None if instance else _PORT)
    url = URL.create("mssql+pyodbc", user, password, at, port, database, query)
    notices = properties.finish("the ODBC driver", java_properties.SQL_SERVER)
    shown = format_label("mssql", str(Host(host.name, port)) + (f"\\{instance}" if instance and port is None else ""), database)
    return ConnectionTarget(url, {} if timeout is None else {"timeout": int(timeout)}, notices, shown)


def _keywords(properties: DriverProperties) -> dict[str, str]:
    """Maps properties to ODBC keywords."""
    found = {name: value for java, name in _SAME.items() if (value := properties.text(java)) is not None}
    application = properties.text("applicationName", "appName")
    if application is not None:
        found["APP"] = application
    encrypt = properties.choice(_ENCRYPT, "encrypt")
    if encrypt is not None:
        found["Encrypt"] = encrypt
    trust = properties.choice(_YES_NO, "trustServerCertificate")
    if trust is not None:
        found["TrustServerCertificate"] = trust
    if properties.flag("multiSubnetFailover"):
        found["MultiSubnetFailover"] = "yes"
    size = properties.number("packetSize")
    if size:
        found["PacketSize"] = str(size)
    certificate_name = properties.text("hostNameInCertificate")
    if certificate_name and certificate_name.startswith("*"):
        properties.notice("hostNameInCertificate is ignored: ODBC does not support patterns and checks the host name")
    elif certificate_name:
        found["HostnameInCertificate"] = certificate_name
    authentication = properties.choice(_AUTHENTICATION, "authentication")
    if authentication:
        found["authentication"] = authentication
    if properties.flag("integratedSecurity"):
        found["Trusted_Connection"] = "yes"
    ssl = properties.choice(_JTDS_SSL, "ssl")
    if ssl is not None:
        found.setdefault("Encrypt", "no" if ssl in ("off", "request") else "yes")
        if ssl == "require":  # only authenticate verifies the certificate
            found.setdefault("TrustServerCertificate", "yes")
    if properties.text("accessToken"):
        raise ConfigError(
            "a fixed accessToken expires while the connector runs; use authentication=ActiveDirectoryServicePrincipal"
        )
    return found
