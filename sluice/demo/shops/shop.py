"""The shop: its tables, what the demo's workload does to them, and what a database has to offer for that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

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


class ShopSession(ABC):
    """A connection that changes the shop. Each method returns how many rows it has changed."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """Returns a transaction, which is committed at its end unless the block raises."""

    @abstractmethod
    def add_column(self) -> None:
        """Adds ``channel`` to ``orders``."""

    @abstractmethod
    def insert_order(self, customer: int, order: int, skus: list[str]) -> int:
        """Inserts a new customer with an order and a line for each SKU; not the audit's row."""

    @abstractmethod
    def insert_audit(self, order: int) -> int: ...

    @abstractmethod
    def update_customers(self, low: int, high: int) -> int: ...

    @abstractmethod
    def update_orders(self, low: int, high: int) -> int: ...

    @abstractmethod
    def set_channel(self, order: int) -> int:
        """Fills the added column."""

    @abstractmethod
    def delete_order(self, order: int) -> int:
        """Deletes an order and its lines."""

    @abstractmethod
    def change_customer_id(self, customer: int, new: int) -> int:
        """Changes a primary key."""


class Shop(ABC):
    """An embedded database with the shop."""

    kind: ClassVar[str]
    """What SLUICE_DEMO_DATABASE names it."""
    scheme: ClassVar[str]
    """That of its URLs."""
    errors: ClassVar[type[Exception]]
    """The base class of the driver's errors."""

    def __init__(self, server: EmbeddedDatabase) -> None:
        self.server = server

    @property
    def product(self) -> str:
        """The database's name, for messages."""
        return self.server.name

    @property
    def source_file(self) -> str:
        """The file in ``configs/`` of the source."""
        return f"{self.kind}-source.properties"

    @property
    def url(self) -> str:
        """The database's URL without the password."""
        server = self.server
        return f"{self.scheme}://{server.user}@{server.host}:{server.port}/{server.database}"

    @abstractmethod
    def start(self, sizes: Sizes) -> None:
        """Starts the server and creates the shop, unless it exists."""

    def source_settings(self, *, uses_kafka: bool) -> dict[str, str]:
        """Returns what the file in ``configs/`` does not have: the address, and the password."""
        server = self.server
        return {
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.user,
            "database.password": server.password,
        }

    @abstractmethod
    def session(self) -> AbstractContextManager[ShopSession]:
        """Opens a connection for changes, with autocommit."""

    @abstractmethod
    def table(self, name: str) -> AbstractContextManager[DatabaseTable]:
        """Opens a table for a comparison."""

    @abstractmethod
    def log_end(self) -> Any:
        """Returns the end of the database's log."""

    @abstractmethod
    def has_read(self, progress: Mapping[str, Any], log_end: Any) -> bool:
        """Returns whether a source with this progress has read the log up to there."""
