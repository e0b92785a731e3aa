"""Parses ``connection.url``, a JDBC or SQLAlchemy URL, into arguments of SQLAlchemy. Pure: nothing connects.

Properties of a JDBC driver become arguments of the Python driver that mean the same; :attr:`ConnectionTarget.notices` reports all
others. Labels, notices, and errors contain no secret (promise 9).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from connect.config.url_secrets import redact_url
from connect.errors import ConfigError
from connect.suggestions import nearest
from connectors.jdbc.urls import (
    authority,
    drivers,
    file_databases,
    mysql,
    oracle,
    other_databases,
    postgresql,
    sqlalchemy_url,
    sqlserver,
)
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput

__all__ = ["ConnectionTarget", "parse_connection_url", "require_driver"]

_JDBC: Mapping[str, Callable[[UrlInput], ConnectionTarget]] = {
    "postgresql": postgresql.url_parser("postgresql+psycopg", "postgresql", 5432),
    "yugabytedb": postgresql.url_parser("postgresql+psycopg", "postgresql", 5433),
    "cockroachdb": postgresql.url_parser("cockroachdb+psycopg", "cockroachdb", 26257),
    "mysql": mysql.url_parser("mysql", authority.form_decoded),
    "mariadb": mysql.url_parser("mariadb", authority.unescaped),
    "sqlite": file_databases.parse_sqlite_url,
    "duckdb": file_databases.parse_duckdb_url,
    "sqlserver": sqlserver.parse_url,
    "oracle": oracle.parse_url,
    "db2": other_databases.parse_db2_url,
    "sap": other_databases.parse_hana_url,
    "snowflake": other_databases.parse_snowflake_url,
    "redshift": other_databases.parse_redshift_url,
    "clickhouse": other_databases.parse_clickhouse_url,
    "ch": other_databases.parse_clickhouse_url,
    "vertica": other_databases.parse_vertica_url,
    "sybase": other_databases.parse_sybase_url,
    "jtds": lambda request: (
        other_databases.parse_jtds_sybase_url(request)
        if request.text.lower().startswith("sybase:")
        else sqlserver.parse_jtds_url(request)
    ),
}
_WITHOUT_USER_INFO = frozenset({"sqlite", "duckdb", "oracle", "sqlserver", "jtds"})
"""Sub-protocols whose URLs have no ``user:password@`` before a host."""

_FORMS = "a JDBC URL (jdbc:postgresql://host:5432/database) or an SQLAlchemy URL (postgresql://user:password@host:5432/database)"


def parse_connection_url(
    url: str, user: str | None, password: str | None, properties: Mapping[str, str], *, key: str = "connection.url"
) -> ConnectionTarget:
    """Parses a URL. ``user`` and ``password`` take precedence over the properties, and those over the URL. ``properties`` are the
    driver's, without the prefix of connector keys.

    Raises ConfigError with ``key``, or with the property's own key, that names the mistake and the valid forms.
    """
    try:
        return _read(url, user, password, properties)
    except ConfigError as e:
        if e.key is not None:
            name = f"{key.rpartition('.')[0]}.{e.key}".lstrip(".")
            raise ConfigError(f"Invalid value for configuration {name}: {e.message}", key=name) from None
        # Not chained: the original error may contain the password.
        raise ConfigError.invalid(key, redact_url(url), e.message) from None


def _read(url: str, user: str | None, password: str | None, properties: Mapping[str, str]) -> ConnectionTarget:
    text = url.strip()
    if not text:
        raise ConfigError(f"it is empty; expected {_FORMS}")
    if text[0] in "'\"":
        raise ConfigError("it starts with a quotation mark; write config values without quotes")
    if not text.lower().startswith("jdbc:"):
        if "://" not in text:
            raise ConfigError(f"it has no dialect; expected {_FORMS}")
        return sqlalchemy_url.parse_url(UrlInput(text, user, password, properties))
    found = re.match(r"jdbc:([\w+-]*)(:?)", text, re.I)
    name = found[1].lower() if found else ""
    reader = _JDBC.get(name)
    if found is None or reader is None:
        raise ConfigError(_about_sub_protocol(name))
    if not found[2]:
        raise ConfigError(f"expected a colon after jdbc:{name}")
    rest = text[found.end() :]
    if name not in _WITHOUT_USER_INFO:
        authority.check_at_signs(rest)
    return reader(UrlInput(rest, user, password, properties))


def _about_sub_protocol(name: str) -> str:
    """Returns why a sub-protocol is not supported and what to write instead."""
    if name in drivers.REFUSED:
        return drivers.REFUSED[name]
    if name in drivers.AS_SQLALCHEMY:
        return f"jdbc:{name}: is not supported; use a SQLAlchemy URL: {drivers.AS_SQLALCHEMY[name]}"
    near = nearest(name, [*_JDBC, *drivers.AS_SQLALCHEMY, *drivers.REFUSED])
    hint = f"did you mean jdbc:{near}:? " if near else ""
    return f"the sub-protocol is not supported; {hint}supported are {', '.join(_JDBC)}, and every SQLAlchemy URL"


def require_driver(target: ConnectionTarget, *, key: str = "connection.url") -> None:
    """Raises ConfigError, with the package to install, if the dialect or driver of a target is missing.

    Separate from :func:`parse_connection_url` so that configs can be checked on a machine without drivers. Imports no driver.
    """
    try:
        drivers.require(target.url.drivername)
    except ConfigError as e:
        raise ConfigError(f"{key}: {e.message}", key=key) from None
