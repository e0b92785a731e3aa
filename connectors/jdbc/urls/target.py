"""What goes in and what comes out of reading an address. Neither shows a secret in its ``repr`` (promise 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sqlalchemy.engine import URL


class ZeroDates(Enum):
    """``zeroDateTimeBehavior`` of MySQL's driver: what 0000-00-00 is."""

    REFUSED = "exception"
    NULL = "converttonull"
    FIRST = "round"
    """The first of January of the year 1."""


@dataclass(frozen=True, slots=True)
class ConnectionTarget:
    """A database to connect to: ``sqlalchemy.create_engine(target.url, connect_args=dict(target.connect_args))``."""

    url: URL = field(repr=False)
    """With the driver chosen. It holds the password."""
    connect_args: Mapping[str, Any] = field(repr=False)
    """For the driver's ``connect``; they win over what the URL says. They may hold secrets."""
    notices: tuple[str, ...] = ()
    """What was given and means nothing here, in sentences. Never with values that may be secret."""
    label: str = ""
    """What may be shown: kind of database, hosts and database; no user, password or parameter."""
    on_connect: tuple[str, ...] = field(default=(), repr=False)
    """Statements that each new connection begins with, where the driver has no argument for them."""
    zero_dates: ZeroDates = ZeroDates.REFUSED
    """Of MySQL: what its dates of zeros are read as."""
    current_database_only: bool = False
    """Of MySQL, ``nullDatabaseMeansCurrent``: whether tables are looked up in the URL's database alone, where no
    pattern is given."""


@dataclass(frozen=True, slots=True)
class UrlInput:
    """An address to read. The explicit user and password win over the properties, those over the URL."""

    text: str = field(repr=False)
    """The URL, without ``jdbc:<sub-protocol>:`` when it is a JDBC URL."""
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def label(kind: str, hosts: str | None, database: str | None) -> str:
    """The words for a database that may be shown."""
    # A name that is no name (a parameter that was glued on) may hold anything.
    name = (database or "").partition("?")[0].partition(";")[0]
    text = f"{kind}://{hosts or ''}/{name}"
    return "".join(c if c.isprintable() else "?" for c in text)
