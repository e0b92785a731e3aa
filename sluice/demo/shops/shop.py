"""The shop: its tables, what the demo's workload does to them, and what a database has to offer for that."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from sluice.demo.compare import DatabaseTable
from sluice.embedded.server import EmbeddedDatabase

SCHEMA = "shop"
"""The PostgreSQL schema or MariaDB database of the tables."""
TABLES: Mapping[str, list[str]] = {
    "customers": ["id"],
    "orders": ["id"],
    "order_lines": ["order_id", "line"],
    "audit": ["at", "detail"],
}
"""The shop's tables with columns that order the rows. ``audit`` is the append table."""


@dataclass(frozen=True)
class Sizes:
    """Initial number of rows in the shop's tables."""

    customers: int = 100_000
    orders: int = 300_000
    lines: int = 200_000
    audit: int = 10_000

    @property
    def rows(self) -> int:
        return self.customers + self.orders + self.lines + self.audit


class ShopSession(Protocol):
    """A connection that changes the shop. Each method returns how many rows it has changed."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Returns a transaction, which is committed at its end unless the block raises."""
        ...

    def add_column(self) -> None:
        """Adds ``channel`` to ``orders``."""
        ...

    def insert_order(self, customer: int, order: int, skus: list[str]) -> int:
        """Inserts a new customer with an order and a line for each SKU; not the audit's row."""
        ...

    def insert_audit(self, order: int) -> int: ...

    def update_customers(self, low: int, high: int) -> int: ...

    def update_orders(self, low: int, high: int) -> int: ...

    def set_channel(self, order: int) -> int:
        """Fills the added column."""
        ...

    def delete_order(self, order: int) -> int:
        """Deletes an order and its lines."""
        ...

    def change_customer_id(self, customer: int, new: int) -> int:
        """Changes a primary key."""
        ...


class Shop(Protocol):
    """A database with the shop."""

    @property
    def kind(self) -> str:
        """What SLUICE_DEMO_DATABASE names it."""
        ...

    @property
    def product(self) -> str:
        """The database's name, for messages."""
        ...

    @property
    def source_file(self) -> str:
        """The file in ``configs/`` of the source."""
        ...

    @property
    def server(self) -> EmbeddedDatabase: ...

    @property
    def url(self) -> str:
        """The database's URL without the password."""
        ...

    def start(self, sizes: Sizes) -> None:
        """Starts the server and creates the shop, unless it exists."""
        ...

    def source_settings(self, *, uses_kafka: bool) -> dict[str, str]:
        """Returns what the file in ``configs/`` does not have: the address, and the password."""
        ...

    def session(self) -> AbstractContextManager[ShopSession]:
        """Opens a connection for changes, with autocommit."""
        ...

    def table(self, name: str) -> AbstractContextManager[DatabaseTable]:
        """Opens a table for a comparison."""
        ...

    def log_end(self) -> Any:
        """Returns the end of the database's log."""
        ...

    def has_read(self, progress: Mapping[str, Any], log_end: Any) -> bool:
        """Returns whether a source with this progress has read the log up to there."""
        ...

    def errors(self) -> type[Exception]:
        """Returns the base class of the driver's errors."""
        ...
