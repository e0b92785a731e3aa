"""The shop in MariaDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pymysql

from sluice.demo.shops.shop import SCHEMA, Shop, ShopSession, Sizes
from sluice.embedded.mariadb import EmbeddedMariaDB

if TYPE_CHECKING:
    from pymysql.connections import Connection

_PLAIN_TYPES = {name: pa.int64() for name in ("bigint", "int", "tinyint", "datetime", "timestamp", "time")}
_EXPRESSIONS = {
    "datetime": "timestampdiff(microsecond, '1970-01-01', {0})",
    "timestamp": "timestampdiff(microsecond, '1970-01-01', {0})",
    "time": "time_to_sec({0}) DIV 1 * 1000000 + microsecond({0})",
    "varbinary": "lower(hex({0}))",
}
_IS_READY = "SELECT 1 FROM information_schema.views WHERE table_schema = %s AND table_name = 'ready'"
_FETCHED_ROWS = 20_000


class MariaDbShop(Shop):
    """A shop in an embedded MariaDB."""

    kind = scheme = "mariadb"
    errors = pymysql.MySQLError
    server: EmbeddedMariaDB

    def __init__(self, home: Path, *, dies_with_parent: bool) -> None:
        super().__init__(EmbeddedMariaDB(home, dies_with_parent=dies_with_parent))

    def start(self, sizes: Sizes) -> None:
        self.server.start()
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            # Left by an interrupted start, if it has no complete shop: statements that create tables commit by themselves.
            if not cursor.execute(_IS_READY, SCHEMA):
                self._fill(cursor, sizes)

    def _fill(self, cursor: Any, sizes: Sizes) -> None:
        cursor.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
        for name, count in asdict(sizes).items():
            cursor.execute(f"SET @{name} = %s", count)
        script = Path(__file__).with_name("mariadb.sql").read_text(encoding="utf-8")
        for statement in script.split(";\n"):
            if statement.strip():
                cursor.execute(statement)
        cursor.execute("CREATE VIEW ready AS SELECT 1")

    def source_settings(self, *, uses_kafka: bool) -> dict[str, str]:
        settings = super().source_settings(uses_kafka=uses_kafka)
        if uses_kafka:
            return settings
        return settings | {
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(self.server.data_dir.parent / "schema-history.jsonl"),
        }

    @contextmanager
    def session(self) -> Iterator[MariaDbShopSession]:
        with closing(self.server.connect(SCHEMA)) as connection:
            yield MariaDbShopSession(connection)

    @contextmanager
    def table(self, name: str) -> Iterator[MariaDbTable]:
        # Values as the texts that the server sends.
        with closing(self.server.connect(SCHEMA, conv={}, init_command="SET time_zone = '+00:00'")) as connection:
            yield MariaDbTable(connection, name)

    def log_end(self) -> tuple[str, int]:
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            file, position = (cursor.fetchone() or ("", 0))[:2]
        return str(file), int(position)

    def has_read(self, progress: Mapping[str, Any], log_end: tuple[str, int]) -> bool:
        # Files have numbers of a fixed width.
        return (str(progress.get("file") or ""), int(progress.get("pos") or 0)) >= log_end


class MariaDbShopSession(ShopSession):
    """Changes the shop through one connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._connection.begin()
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def add_column(self) -> None:
        self._run("ALTER TABLE orders ADD COLUMN channel text")

    def insert_order(self, customer: int, order: int, skus: list[str]) -> int:
        self._run(
            "INSERT INTO customers VALUES (%s, uuid(), concat('New ', %s), NULL, 'new', true, 4000000000, 100.10, 4.5,"
            " '1990-05-17', '07:30:00.25', 'fresh', '{\"visits\": 1}', x'deadbeef', repeat(md5(rand()), 120), sysdate(6),"
            " sysdate(6))",
            customer,
            customer,
        )
        self._run(
            "INSERT INTO orders (id, customer_id, status, total, discount, paid, ordered_on, ordered_at, note)"
            " VALUES (%s, %s, 'open', 19.99, 0.1, false, current_date, sysdate(6), 'first order')",
            order,
            customer,
        )
        for line, sku in enumerate(skus, 1):
            self._run("INSERT INTO order_lines VALUES (%s, %s, %s, 1, 9.90)", order, line, sku)
        return 2 + len(skus)

    def insert_audit(self, order: int) -> int:
        return self._run("INSERT INTO audit VALUES (sysdate(6), 'shop', 'ordered', json_object('order', %s))", order)

    def update_customers(self, low: int, high: int) -> int:
        return self._run(
            "UPDATE customers SET credit = credit + 1.25, rating = rating / 3, updated_at = sysdate(6)"
            " WHERE id BETWEEN %s AND %s",
            low,
            high,
        )

    def update_orders(self, low: int, high: int) -> int:
        return self._run(
            "UPDATE orders SET note = concat('moved ', status), status = 'sent' WHERE id BETWEEN %s AND %s", low, high
        )

    def set_channel(self, order: int) -> int:
        return self._run("UPDATE orders SET channel = 'shop' WHERE id = %s", order)

    def delete_order(self, order: int) -> int:
        lines = self._run("DELETE FROM order_lines WHERE order_id = %s", order)
        return lines + self._run("DELETE FROM orders WHERE id = %s", order)

    def change_customer_id(self, customer: int, new: int) -> int:
        return self._run("UPDATE customers SET id = %s WHERE id = %s", new, customer)

    def _run(self, statement: str, *values: Any) -> int:
        """Runs a statement. Returns the number of changed rows, which are the logged ones."""
        with self._connection.cursor() as cursor:
            return int(cursor.execute(statement, values))


class MariaDbTable:
    """A table for a comparison with a lake table."""

    def __init__(self, connection: Connection[Any], name: str) -> None:
        self.name = name
        self._connection = connection
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = database()"
                " AND table_name = %s ORDER BY ordinal_position",
                name,
            )
            self._kinds: dict[str, str] = {str(column): str(kind) for column, kind in cursor.fetchall()}

    @property
    def columns(self) -> list[str]:
        return list(self._kinds)

    def plain_type(self, column: str) -> pa.DataType:
        kind = self._kinds[column]
        return pa.float64() if kind == "double" else _PLAIN_TYPES.get(kind, pa.string())

    def read(self) -> pa.Table:
        shown = ", ".join(_EXPRESSIONS.get(kind, "{0}").format(f"`{name}`") for name, kind in self._kinds.items())
        schema = pa.schema([(name, self.plain_type(name)) for name in self._kinds])
        texts = pa.schema([(name, pa.string()) for name in self._kinds])
        batches = []
        with self._connection.cursor(pymysql.cursors.SSCursor) as cursor:
            cursor.execute(f"SELECT {shown} FROM `{self.name}`")
            while rows := cursor.fetchmany(_FETCHED_ROWS):
                columns = zip(*rows, strict=True)
                batches.append(pa.record_batch([pa.array(column, pa.string()) for column in columns], schema=texts))
        return pa.Table.from_batches(batches, texts).cast(schema)
