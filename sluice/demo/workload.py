"""Simulates an application: small transactions on the shop for a given time.

Every kind of change occurs many times: inserts, updates (some of rows whose large text does not change), deletes, primary key
changes, transactions over several tables. Once, in the middle, a column is added.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field

import psycopg


@dataclass
class ChangeCounts:
    """Number of committed changes of each kind. Written by the workload's thread, read by others."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    key_changes: int = 0
    transactions: int = 0
    audit_rows: int = 0
    column_added: bool = False

    @property
    def events(self) -> int:
        """Number of logged change events: a key change is a delete and an insert."""
        return self.inserts + self.updates + self.deletes + 2 * self.key_changes + self.audit_rows


@dataclass
class Workload:
    """Runs the transactions on its own thread.

    ``dsn`` is a libpq connection string; ``customers`` and ``orders`` are the highest initial IDs; ``pause_s`` is the pause
    between transactions, so that the demo is not a load test.
    """

    dsn: str
    customers: int
    orders: int
    seconds: float
    pause_s: float = 0.01
    seed: int = 7
    changes: ChangeCounts = field(default_factory=ChangeCounts)
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shop-workload", daemon=True)
        self._random = random.Random(self.seed)
        self._next_customer = self.customers + 1
        self._next_order = self.orders + 1

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops it after the current transaction."""
        self._stop.set()

    def join(self, timeout_s: float) -> None:
        """Waits for the end; raises the error that stopped the workload early."""
        self._thread.join(timeout_s)
        if self.error is not None:
            raise self.error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            with psycopg.connect(self.dsn, autocommit=True, options="-c search_path=shop") as connection:
                started, seconds = time.monotonic(), self.seconds
                while not self._stop.is_set() and (
                    (elapsed := time.monotonic() - started) < seconds or not self.changes.column_added
                ):
                    if not self.changes.column_added and elapsed > self.seconds / 2:
                        connection.execute("ALTER TABLE orders ADD COLUMN channel text")
                        self.changes.column_added = True
                        # Continue long enough that changes with the new column occur even if the database was slow.
                        seconds = time.monotonic() - started + self.seconds / 2
                    self._run_transaction(connection)
                    self._stop.wait(self.pause_s)
        except psycopg.Error as e:
            self.error = e

    def _run_transaction(self, connection: psycopg.Connection) -> None:
        pick = self._random.random()
        with connection.transaction():
            if pick < 0.30:
                self._insert_order(connection)
            elif pick < 0.70:
                self._update_customers(connection)
            elif pick < 0.80:
                self._delete_order(connection)
            elif pick < 0.85:
                self._change_key(connection)
            else:
                self._update_orders(connection)
        self.changes.transactions += 1

    def _insert_order(self, connection: psycopg.Connection) -> None:
        """Inserts an order of a new customer: one transaction over four tables."""
        customer, order = self._next_customer, self._next_order
        self._next_customer += 1
        self._next_order += 1
        connection.execute(
            "INSERT INTO customers SELECT %s, gen_random_uuid(), 'New ' || %s::bigint, NULL, 'new', true, 100.10, 4.5,"
            " DATE '1990-05-17',"
            " TIME '07:30:00.25', ARRAY['fresh'], '{\"visits\": 1}', '\\xdeadbeef', repeat(md5(random()::text), 120),"
            " clock_timestamp()::timestamp, clock_timestamp()",
            (customer, customer),
        )
        connection.execute(
            "INSERT INTO orders (id, customer_id, status, total, discount, paid, ordered_on, ordered_at, note)"
            " VALUES (%s, %s, 'open', 19.99, 0.1, false, current_date, clock_timestamp(), 'first order')",
            (order, customer),
        )
        lines = self._random.randint(1, 3)
        for line in range(1, lines + 1):
            connection.execute(
                "INSERT INTO order_lines VALUES (%s, %s, %s, 1, 9.90)", (order, line, f"SKU-{self._random.randrange(5000)}")
            )
        connection.execute(
            "INSERT INTO audit VALUES (clock_timestamp(), 'shop', 'ordered', jsonb_build_object('order', %s::bigint))", (order,)
        )
        self.changes.inserts += 2 + lines
        self.changes.audit_rows += 1

    def _update_customers(self, connection: psycopg.Connection) -> None:
        low = self._random.randrange(1, self.customers)
        done = connection.execute(
            "UPDATE customers SET credit = credit + 1.25, rating = rating / 3, updated_at = clock_timestamp()"
            " WHERE id BETWEEN %s AND %s",
            (low, low + 4),
        )
        self.changes.updates += done.rowcount

    def _update_orders(self, connection: psycopg.Connection) -> None:
        low = self._random.randrange(1, self.orders)
        done = connection.execute(
            "UPDATE orders SET status = 'sent', note = 'moved ' || status WHERE id BETWEEN %s AND %s", (low, low + 4)
        )
        self.changes.updates += done.rowcount
        if self.changes.column_added:
            done = connection.execute("UPDATE orders SET channel = 'shop' WHERE id = %s", (low,))
            self.changes.updates += done.rowcount

    def _delete_order(self, connection: psycopg.Connection) -> None:
        order = self._random.randrange(1, self.orders)
        lines = connection.execute("DELETE FROM order_lines WHERE order_id = %s", (order,))
        orders = connection.execute("DELETE FROM orders WHERE id = %s", (order,))
        self.changes.deletes += lines.rowcount + orders.rowcount

    def _change_key(self, connection: psycopg.Connection) -> None:
        """Changes the primary key of a row that may have a large unchanged text."""
        customer = self._random.randrange(1, self.customers // 100) * 100
        moved = self._next_customer
        self._next_customer += 1
        done = connection.execute("UPDATE customers SET id = %s WHERE id = %s", (moved, customer))
        self.changes.key_changes += done.rowcount
