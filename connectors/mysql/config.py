"""The typed configuration of the MySQL and MariaDB sources."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect.config.parsing import Password
from connect.tls import Store

KEY_STORE, TRUST_STORE = "database.ssl.keystore", "database.ssl.truststore"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS to the database. ``mode`` is one of MySQL's: disabled, preferred, required, verify_ca, verify_identity."""

    mode: str = "preferred"
    key_store: Store = field(default_factory=lambda: Store(KEY_STORE))
    trust_store: Store = field(default_factory=lambda: Store(TRUST_STORE))


@dataclass(frozen=True, slots=True)
class Address:
    """How to connect to the database. ``repr`` shows no secret (promise 9)."""

    host: str
    port: int
    user: str
    password: Password | None
    tls: TlsSettings = field(default_factory=TlsSettings)
    connect_timeout_s: float = 30.0
    keep_alive: bool = True
    initial_statements: tuple[str, ...] = ()
    product: str = "MySQL"
    """The kind of server that the connector class names, for messages: MySQL or MariaDB."""

    @property
    def server(self) -> str:
        """Names the server in messages: ``MySQL at db:3306``."""
        return f"{self.product} at {self.host}:{self.port}"

    @property
    def where(self) -> str:
        """The same with the user."""
        return f"{self.product} at {self}"

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"
