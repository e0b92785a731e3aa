"""The shop in PostgreSQL."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv as pv
from psycopg import sql

from sluice.demo.shops.shop import SCHEMA, Shop, ShopSession, Sizes
from sluice.embedded.postgres import EmbeddedPostgres

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_attribute a
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_PLAIN_TYPES = {
    "bigint": pa.int64(),
    "integer": pa.int64(),
    "smallint": pa.int64(),
    "boolean": pa.bool_(),
    "double precision": pa.float64(),
}
_TIMES = ("timestamp without time zone", "timestamp with time zone", "time without time zone")


class PostgresShop(Shop):
    """A shop in an embedded PostgreSQL."""

    kind, scheme = "postgres", "postgresql"
    errors = psycopg.Error
    server: EmbeddedPostgres

    def __init__(self, home: Path, *, dies_with_parent: bool) -> None:
        super().__init__(EmbeddedPostgres(home, dies_with_parent=dies_with_parent))

    def start(self, sizes: Sizes) -> None:
        self.server.start()
        if not self._has_shop():
            self._fill(sizes)

    def _has_shop(self) -> bool:
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            row = connection.execute("SELECT to_regclass('shop.customers') IS NOT NULL").fetchone()
        return bool(row and row[0])

    def _fill(self, sizes: Sizes) -> None:
        """Creates the shop and its rows in one transaction."""
        settings = {"customers": sizes.customers, "orders": sizes.orders, "lines": sizes.lines, "audit": sizes.audit}
        options = " ".join(f"-c shop.{name}={count}" for name, count in settings.items())
        script = Path(__file__).with_name("postgres.sql").read_text(encoding="utf-8")
        with psycopg.connect(self.server.dsn(), options=options) as connection:
            connection.execute(script)

    def source_settings(self, *, uses_kafka: bool) -> dict[str, str]:
        return super().source_settings(uses_kafka=uses_kafka) | {"database.dbname": self.server.database}

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.server.dsn(), autocommit=True, options=f"-c search_path={SCHEMA}")

    @contextmanager
    def session(self) -> Iterator[PostgresShopSession]:
        with self._connect() as connection:
            yield PostgresShopSession(connection)

    @contextmanager
    def table(self, name: str) -> Iterator[PostgresTable]:
        with self._connect() as connection:
            yield PostgresTable(connection, SCHEMA, name)

    def log_end(self) -> int:
        with self._connect() as connection:
            row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        return _parse_lsn(row[0])

    def has_read(self, progress: Mapping[str, Any], log_end: int) -> bool:
        return _parse_lsn(progress.get("lsn")) >= log_end


class PostgresShopSession(ShopSession):
    """Changes the shop through one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def transaction(self) -> AbstractContextManager[Any]:
        return self._connection.transaction()

    def add_column(self) -> None:
        self._connection.execute("ALTER TABLE orders ADD COLUMN channel text")

    def insert_order(self, customer: int, order: int, skus: list[str]) -> int:
        self._connection.execute(
            "INSERT INTO customers SELECT %s, gen_random_uuid(), 'New ' || %s::bigint, NULL, 'new', true, 100.10, 4.5,"
            " DATE '1990-05-17',"
            " TIME '07:30:00.25', ARRAY['fresh'], '{\"visits\": 1}', '\\xdeadbeef', repeat(md5(random()::text), 120),"
            " clock_timestamp()::timestamp, clock_timestamp()",
            (customer, customer),
        )
        self._connection.execute(
            "INSERT INTO orders (id, customer_id, status, total, discount, paid, ordered_on, ordered_at, note)"
            " VALUES (%s, %s, 'open', 19.99, 0.1, false, current_date, clock_timestamp(), 'first order')",
            (order, customer),
        )
        for line, sku in enumerate(skus, 1):
            self._connection.execute("INSERT INTO order_lines VALUES (%s, %s, %s, 1, 9.90)", (order, line, sku))
        return 2 + len(skus)

    def insert_audit(self, order: int) -> int:
        return self._run(
            "INSERT INTO audit VALUES (clock_timestamp(), 'shop', 'ordered', jsonb_build_object('order', %s::bigint))", order
        )

    def update_customers(self, low: int, high: int) -> int:
        return self._run(
            "UPDATE customers SET credit = credit + 1.25, rating = rating / 3, updated_at = clock_timestamp()"
            " WHERE id BETWEEN %s AND %s",
            low,
            high,
        )

    def update_orders(self, low: int, high: int) -> int:
        return self._run("UPDATE orders SET status = 'sent', note = 'moved ' || status WHERE id BETWEEN %s AND %s", low, high)

    def set_channel(self, order: int) -> int:
        return self._run("UPDATE orders SET channel = 'shop' WHERE id = %s", order)

    def delete_order(self, order: int) -> int:
        lines = self._run("DELETE FROM order_lines WHERE order_id = %s", order)
        return lines + self._run("DELETE FROM orders WHERE id = %s", order)

    def change_customer_id(self, customer: int, new: int) -> int:
        return self._run("UPDATE customers SET id = %s WHERE id = %s", new, customer)

    def _run(self, statement: str, *values: Any) -> int:
        return self._connection.execute(statement, values).rowcount


class PostgresTable:
    """A table for a comparison with a lake table."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str, name: str) -> None:
        self.name = name
        self._connection = connection
        self._id = sql.SQL("{}.{}").format(sql.Identifier(schema), sql.Identifier(name))
        self._kinds: dict[str, str] = dict(connection.execute(_COLUMNS, (f"{schema}.{name}",)).fetchall())

    @property
    def columns(self) -> list[str]:
        return list(self._kinds)

    def plain_type(self, column: str) -> pa.DataType:
        kind = self._kinds[column]
        return pa.int64() if kind in _TIMES else _PLAIN_TYPES.get(kind, pa.string())

    def read(self) -> pa.Table:
        shown = sql.SQL(", ").join(_expression(name, kind) for name, kind in self._kinds.items())
        data = io.BytesIO()
        query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)").format(shown, self._id)
        with self._connection.cursor() as cursor, cursor.copy(query) as copy:
            for block in copy:
                data.write(block)
        data.seek(0)
        types = {name: self.plain_type(name) for name in self._kinds}
        if not data.getbuffer().nbytes:
            return pa.schema(list(types.items())).empty_table()
        return pv.read_csv(
            data,
            read_options=pv.ReadOptions(column_names=self.columns, block_size=1 << 24),
            parse_options=pv.ParseOptions(newlines_in_values=True),
            convert_options=pv.ConvertOptions(
                column_types=types,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
                true_values=["t"],
                false_values=["f"],
            ),
        )


def _expression(name: str, kind: str) -> sql.Composable:
    column = sql.Identifier(name)
    if kind.endswith("[]"):
        return sql.SQL("array_to_json({})::text").format(column)
    if kind in _TIMES:
        return sql.SQL("(extract(epoch FROM {}) * 1000000)::bigint").format(column)
    if kind == "bytea":
        return sql.SQL("encode({}, 'hex')").format(column)
    if kind in _PLAIN_TYPES:
        return column
    return sql.SQL("{}::text").format(column)


def _parse_lsn(text: str | None) -> int:
    """Parses a log position in PostgreSQL's form (``16/B374D848``); None is 0."""
    high, _, low = (text or "0/0").partition("/")
    return (int(high, 16) << 32) + int(low, 16)
