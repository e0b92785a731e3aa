"""Input and result of URL parsing. Neither shows a secret in its ``repr`` (promise 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sqlalchemy.engine import URL


class ZeroDates(Enum):
    """``zeroDateTimeBehavior`` of MySQL's driver: how to read 0000-00-00."""

    REFUSED = "exception"
    NULL = "converttonull"
    FIRST = "round"
    """1 January of the year 1."""


@dataclass(frozen=True, slots=True)
class ConnectionTarget:
    """A database to connect to: ``sqlalchemy.create_engine(target.url, connect_args=dict(target.connect_args))``."""

    url: URL = field(repr=False)
    """The URL with its driver. It contains the password."""
    connect_args: Mapping[str, Any] = field(repr=False)
    """Arguments of the driver's ``connect``, with precedence over the URL. They may contain secrets."""
    notices: tuple[str, ...] = ()
    """Messages about settings without effect, without values that may be secret."""
    label: str = ""
    """The target for messages: kind of database, hosts, and database, but no user, password, or parameter."""
    on_connect: tuple[str, ...] = field(default=(), repr=False)
    """Statements that start each new connection, for settings without a driver argument."""
    zero_dates: ZeroDates = ZeroDates.REFUSED
    """How to read MySQL's zero dates."""
    current_database_only: bool = False
    """MySQL's ``nullDatabaseMeansCurrent``: whether to look for tables only in the URL's database if there is no
    pattern."""


@dataclass(frozen=True, slots=True)
class UrlInput:
    """A URL to parse. The explicit user and password take precedence over the properties, and those over the URL."""

    text: str = field(repr=False)
    """The URL, without ``jdbc:<sub-protocol>:`` if it is a JDBC URL."""
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def format_label(kind: str, hosts: str | None, database: str | None) -> str:
    """Formats a label that contains no secret."""
    # An invalid name (with a parameter appended) may contain anything.
    name = (database or "").partition("?")[0].partition(";")[0]
    text = f"{kind}://{hosts or ''}/{name}"
    return "".join(c if c.isprintable() else "?" for c in text)
