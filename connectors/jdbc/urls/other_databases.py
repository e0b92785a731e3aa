"""Parses URLs of databases whose dialects are separate packages: Db2, SAP HANA, Snowflake, Redshift, ClickHouse, Vertica, SAP
ASE."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.engine import URL

from connect.errors import ConfigError
from connectors.jdbc.urls import authority, java_properties
from connectors.jdbc.urls.authority import Authority, Host, form_decoded, unescaped
from connectors.jdbc.urls.driver_properties import DriverProperties
from connectors.jdbc.urls.postgresql import libpq_arguments
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput, format_label


def parse_db2_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``//host:port/database:name=value;name=value;``."""
    servers, found, rest = _server(request, r"//([^/]*)/([^:;?]*)[:;?]?(.*)", "jdbc:db2://host:port/database:name=value;")
    properties = DriverProperties(authority.parse_parameters(rest, unescaped, ";"), request.properties)
    user, password = authority.resolve_credentials(
        request, properties, (servers.user, servers.password), ("user", "uid"), ("password", "pwd")
    )
    query: dict[str, str] = {}
    if (schema := properties.text("currentSchema")) is not None:
        query["CurrentSchema"] = schema
    if properties.flag("sslConnection"):
        query["Security"] = "SSL"
    if (certificate := properties.text("sslCertLocation")) is not None:
        query["SSLServerCertificate"] = certificate
    host, database = _first(servers, properties, 50000), authority.parse_database_name(found, unescaped)
    # The dialect joins these with semicolons, without escapes.
    if any(";" in value for value in (user or "", password or "", host.name, database or "", *query.values())):
        raise ConfigError("a semicolon in a user, password, or parameter cannot be passed to Db2's driver")
    url = URL.create("db2+ibm_db", user, password, host.name, host.port, database, query)
    return ConnectionTarget(url, {}, properties.finish("ibm_db", java_properties.DB2), format_label("db2", str(host), database))


def parse_hana_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``//host:port/?databaseName=tenant&user=...``."""
    servers, _, rest = _server(request, r"//([^/?]*)()/?\??(.*)", "jdbc:sap://host:port/?name=value")
    properties = DriverProperties(authority.parse_parameters(rest, form_decoded), request.properties)
    user, password = authority.resolve_credentials(request, properties, (servers.user, servers.password))
    renamed = {
        "encrypt": "encrypt",
        "validateCertificate": "sslValidateCertificate",
        "sslValidateCertificate": "sslValidateCertificate",
        "hostNameInCertificate": "sslHostNameInCertificate",
        "sslHostNameInCertificate": "sslHostNameInCertificate",
        "sslTrustStore": "sslTrustStore",
        "sslKeyStore": "sslKeyStore",
        "currentSchema": "currentSchema",
        "connectTimeout": "connectTimeout",
        "communicationTimeout": "communicationTimeout",
        "reconnect": "reconnect",
        "compress": "compress",
    }
    database = properties.text("databaseName")
    host = _first(servers, properties, 30013 if database else 30015)
    url = URL.create("hana+hdbcli", user, password, host.name, host.port, database)
    return ConnectionTarget(
        url,
        _renamed(properties, renamed),
        properties.finish("hdbcli", java_properties.HANA),
        format_label("hana", str(host), database),
    )


def parse_snowflake_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``//account.snowflakecomputing.com/?db=...&warehouse=...``."""
    servers, _, rest = _server(request, r"//([^/?]*)()/?\??(.*)", "jdbc:snowflake://account.snowflakecomputing.com/?name=value")
    properties = DriverProperties(authority.parse_parameters(rest, form_decoded), request.properties)
    user, password = authority.resolve_credentials(request, properties, (servers.user, servers.password))
    database, schema = properties.text("db", "database"), properties.text("schema")
    renamed = {
        "warehouse": "warehouse",
        "role": "role",
        "authenticator": "authenticator",
        "token": "token",
        "passcode": "passcode",
        "application": "application",
        "private_key_file": "private_key_file",
        "private_key_pwd": "private_key_file_pwd",
        "private_key_file_pwd": "private_key_file_pwd",
        "oauthClientId": "oauth_client_id",
        "oauthClientSecret": "oauth_client_secret",
        "workloadIdentityProvider": "workload_identity_provider",
    }
    arguments: dict[str, Any] = _renamed(properties, renamed)
    for java, name in (("CLIENT_SESSION_KEEP_ALIVE", "client_session_keep_alive"), ("ocspFailOpen", "ocsp_fail_open")):
        if (flag := properties.flag(java)) is not None:
            arguments[name] = flag
    if (seconds := properties.number("loginTimeout")) is not None:
        arguments["login_timeout"] = int(seconds)
    host = _first(servers, properties, 443)
    account, suffix, _ = host.name.partition(".snowflakecomputing.com")
    if suffix:
        host = Host(account)
    elif "." in host.name:
        arguments["account"] = properties.text("account") or host.name.partition(".")[0]
    else:
        host = Host(host.name)
    properties.text("account")
    if schema is not None and database is None:
        arguments["schema"] = schema
    url = URL.create(
        "snowflake", user, password, host.name, host.port, f"{database}/{schema}" if database and schema else database
    )
    return ConnectionTarget(
        url,
        arguments,
        properties.finish("Snowflake's connector", java_properties.SNOWFLAKE),
        format_label("snowflake", str(host), url.database),
    )


def parse_redshift_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``//host:port/database?name=value``, or with semicolons."""
    if request.text.lower().startswith("iam:"):
        raise ConfigError("IAM authentication is not supported; use user and password")
    servers, found, rest = _server(request, r"//([^/?;]*)/?([^?;]*)[?;]?(.*)", "jdbc:redshift://host:port/database?name=value")
    properties = DriverProperties(authority.parse_parameters(rest.replace(";", "&"), form_decoded), request.properties)
    user, password = authority.resolve_credentials(
        request, properties, (servers.user, servers.password), ("user", "username", "uid"), ("password", "pwd")
    )
    use_tls = properties.flag("ssl")
    arguments = libpq_arguments(properties, "redshift+psycopg2")
    if use_tls is False:
        arguments.setdefault("sslmode", "prefer")  # the dialect's default is verify-full
    host, database = _first(servers, properties, 5439), authority.parse_database_name(found, form_decoded)
    url = URL.create("redshift+psycopg2", user, password, host.name, host.port, database)
    return ConnectionTarget(
        url, arguments, properties.finish("psycopg2", java_properties.REDSHIFT), format_label("redshift", str(host), database)
    )


def parse_clickhouse_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``//host:port/database?name=value``, optionally preceded by ``http:`` or ``https:``."""
    servers, found, rest = _server(
        request, r"(?:https?:)?//([^/?]*)/?([^?]*)\??(.*)", "jdbc:clickhouse://host:port/database?name=value"
    )
    properties = DriverProperties(authority.parse_parameters(rest, form_decoded), request.properties)
    user, password = authority.resolve_credentials(request, properties, (servers.user, servers.password))
    arguments: dict[str, Any] = {}
    port = servers.hosts[0].port if servers.hosts else None
    secure = properties.flag("ssl", "secure") or request.text.lower().startswith("https:") or port in (443, 8443)
    if secure:
        arguments["secure"] = True
    if (properties.text("sslmode") or "").lower() == "none":
        arguments["verify"] = False
    if (certificate := properties.text("sslrootcert", "ca_cert")) is not None:
        arguments["ca_cert"] = certificate
    for java, name in (("connection_timeout", "connect_timeout"), ("socket_timeout", "send_receive_timeout")):
        if milliseconds := properties.number(java):
            arguments[name] = max(1, round(milliseconds / 1000))
    if (client := properties.text("client_name")) is not None:
        arguments["client_name"] = client
    host = _first(servers, properties, 8443 if secure else 8123)
    database = authority.parse_database_name(found.strip("/"), form_decoded) or properties.text("database")
    url = URL.create("clickhousedb+connect", user, password, host.name, host.port, database)
    return ConnectionTarget(
        url,
        arguments,
        properties.finish("clickhouse-connect", java_properties.CLICKHOUSE),
        format_label("clickhouse", str(host), database),
    )


def parse_vertica_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``//host:port/database?name=value``."""
    servers, found, rest = _server(request, r"//([^/?]*)/?([^?]*)\??(.*)", "jdbc:vertica://host:port/database?name=value")
    properties = DriverProperties(authority.parse_parameters(rest, form_decoded), request.properties)
    user, password = authority.resolve_credentials(request, properties, (servers.user, servers.password))
    arguments: dict[str, Any] = _renamed(properties, {"Label": "session_label", "TLSmode": "tlsmode"})
    if (seconds := properties.number("LoginTimeout")) is not None:
        arguments["connection_timeout"] = seconds
    if (balance := properties.flag("ConnectionLoadBalance")) is not None:
        arguments["connection_load_balance"] = balance
    if (backup := properties.text("BackupServerNode")) is not None:
        hosts = (authority.parse_host(part) for part in backup.split(","))
        arguments["backup_server_node"] = [(host.name, host.port or 5433) for host in hosts]
    host, database = _first(servers, properties, 5433), authority.parse_database_name(found, form_decoded)
    url = URL.create("vertica+vertica_python", user, password, host.name, host.port, database)
    return ConnectionTarget(
        url, arguments, properties.finish("vertica-python", java_properties.VERTICA), format_label("vertica", str(host), database)
    )


def parse_sybase_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``Tds:host:port/database?name=value``, for ODBC with FreeTDS."""
    found = re.fullmatch(r"tds:(?://)?([^/?]*)/?([^?]*)\??(.*)", request.text, re.I | re.S)
    if found is None:
        raise ConfigError("expected the form jdbc:sybase:Tds:host:port/database?name=value")
    return _sybase(found[1], found[2], authority.parse_parameters(found[3], form_decoded), request)


def parse_jtds_sybase_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``sybase://host:port/database;name=value``, the form of jTDS."""
    address, _, rest = request.text.partition(";")
    found = re.fullmatch(r"sybase://([^/]*)(?:/(.*))?", address, re.I | re.S)
    if found is None:
        raise ConfigError("expected the form jdbc:jtds:sybase://host:port/database;name=value")
    return _sybase(found[1], found[2] or "", authority.parse_parameters(rest, unescaped, ";"), request)


def _sybase(server: str, name: str, pairs: list[tuple[str, str]], request: UrlInput) -> ConnectionTarget:
    servers = authority.parse_authority(server)
    properties = DriverProperties(pairs, request.properties)
    user, password = authority.resolve_credentials(request, properties, (servers.user, servers.password))
    host, database = (
        _first(servers, properties, 5000),
        authority.parse_database_name(name, form_decoded) or properties.text("DATABASE"),
    )
    query = {"driver": properties.text("driver") or "FreeTDS", "port": str(host.port), "TDS_Version": "5.0"}
    if database is None:
        query["database"] = ""  # otherwise, SQLAlchemy takes the host for the name of a data source
    url = URL.create("sybase+pyodbc", user, password, host.name, database=database, query=query)
    return ConnectionTarget(
        url, {}, properties.finish("the ODBC driver", java_properties.SYBASE), format_label("sybase", str(host), database)
    )


def _server(request: UrlInput, pattern: str, form: str) -> tuple[Authority, str, str]:
    found = re.fullmatch(pattern, request.text, re.I | re.S)
    if found is None:
        raise ConfigError(f"expected the form {form}")
    return authority.parse_authority(found[1].replace(";", ",")), found[2], found[3]


def _first(servers: Authority, properties: DriverProperties, default_port: int) -> Host:
    first, *others = servers.hosts or (Host("localhost"),)
    if others:
        properties.notice(f"only {first} is connected to; {', '.join(map(str, others))} is never tried")
    return Host(first.name, first.port or default_port)


def _renamed(properties: DriverProperties, renamed: dict[str, str]) -> dict[str, str]:
    return {name: value for java, name in renamed.items() if (value := properties.text(java)) is not None}
