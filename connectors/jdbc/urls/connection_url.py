"""``connection.url``: from a JDBC URL, as people have it, or an SQLAlchemy URL to what SQLAlchemy needs. Pure: nothing connects.

Properties of a JDBC driver become arguments of the Python driver where one means the same; all others are told in
:attr:`Target.notices`. No secret is in a label, a notice or an error (promise 9).
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
from connectors.jdbc.urls.target import Request, Target

__all__ = ["Target", "require_driver", "target_of"]

_JDBC: Mapping[str, Callable[[Request], Target]] = {
    "postgresql": postgresql.target("postgresql+psycopg", "postgresql", 5432),
    "yugabytedb": postgresql.target("postgresql+psycopg", "postgresql", 5433),
    "cockroachdb": postgresql.target("cockroachdb+psycopg", "cockroachdb", 26257),
    "mysql": mysql.target("mysql", authority.form_decoded),
    "mariadb": mysql.target("mariadb", authority.as_written),
    "sqlite": file_databases.sqlite_target,
    "duckdb": file_databases.duckdb_target,
    "sqlserver": sqlserver.target,
    "oracle": oracle.target,
    "db2": other_databases.db2_target,
    "sap": other_databases.hana_target,
    "snowflake": other_databases.snowflake_target,
    "redshift": other_databases.redshift_target,
    "clickhouse": other_databases.clickhouse_target,
    "ch": other_databases.clickhouse_target,
    "vertica": other_databases.vertica_target,
    "sybase": other_databases.sybase_target,
    "jtds": lambda request: (
        other_databases.jtds_sybase_target(request)
        if request.text.lower().startswith("sybase:")
        else sqlserver.jtds_target(request)
    ),
}
_WITHOUT_USER_INFO = frozenset({"sqlite", "duckdb", "oracle", "sqlserver", "jtds"})
"""Those whose URLs have no ``user:password@`` before a host."""

_FORMS = "a JDBC URL (jdbc:postgresql://host:5432/database) or an SQLAlchemy URL (postgresql://user:password@host:5432/database)"


def target_of(
    url: str, user: str | None, password: str | None, properties: Mapping[str, str], *, key: str = "connection.url"
) -> Target:
    """The target for a URL. ``user`` and ``password`` win over the properties, those over what the URL says; ``properties`` are
    the driver's, without the prefix of connector keys.

    Raises ConfigError with ``key``, or with the property's own key, that says what is wrong and what is understood.
    """
    try:
        return _read(url, user, password, properties)
    except ConfigError as e:
        if e.key is not None:
            name = f"{key.rpartition('.')[0]}.{e.key}".lstrip(".")
            raise ConfigError(f"Invalid value for configuration {name}: {e.message}", key=name) from None
        # Not chained: what lies below may have seen the password.
        raise ConfigError.invalid(key, redact_url(url), e.message) from None


def _read(url: str, user: str | None, password: str | None, properties: Mapping[str, str]) -> Target:
    text = url.strip()
    if not text:
        raise ConfigError(f"it is empty; expected {_FORMS}")
    if text[0] in "'\"":
        raise ConfigError("it begins with a quotation mark; in a configuration values stand without")
    if not text.lower().startswith("jdbc:"):
        if "://" not in text:
            raise ConfigError(f"it has no dialect; expected {_FORMS}")
        return sqlalchemy_url.target(Request(text, user, password, properties))
    found = re.match(r"jdbc:([\w+-]*)(:?)", text, re.I)
    name = found[1].lower() if found else ""
    reader = _JDBC.get(name)
    if found is None or reader is None:
        raise ConfigError(_about_sub_protocol(name))
    if not found[2]:
        raise ConfigError(f"after jdbc:{name} comes a colon")
    rest = text[found.end() :]
    if name not in _WITHOUT_USER_INFO:
        authority.check_at_signs(rest)
    return reader(Request(rest, user, password, properties))


def _about_sub_protocol(name: str) -> str:
    """Why a sub-protocol is not read, and what to write."""
    if name in drivers.REFUSED:
        return drivers.REFUSED[name]
    if name in drivers.AS_SQLALCHEMY:
        return f"jdbc:{name}: is not read here; write it as an SQLAlchemy URL: {drivers.AS_SQLALCHEMY[name]}"
    near = nearest(name, [*_JDBC, *drivers.AS_SQLALCHEMY, *drivers.REFUSED])
    hint = f"did you mean jdbc:{near}:? " if near else ""
    return f"the sub-protocol is not known; {hint}known are {', '.join(_JDBC)}, and every SQLAlchemy URL"


def require_driver(target: Target, *, key: str = "connection.url") -> None:
    """Raises ConfigError that names the package to install when the dialect or driver of a target is not there.

    Apart from :func:`target_of`, so that configurations can be checked on a machine without drivers. Imports none.
    """
    try:
        drivers.require(target.url.drivername)
    except ConfigError as e:
        raise ConfigError(f"{key}: {e.message}", key=key) from None
