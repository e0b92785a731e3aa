"""Simulates an application: small transactions on the shop for a given time.

Every kind of change occurs many times: inserts, updates (some of rows whose large text does not change), deletes, primary key
changes, transactions over several tables. Once, in the middle, a column is added.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field

from sluice.demo.shops.shop import Shop, ShopSession


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

    ``customers`` and ``orders`` are the highest initial IDs; ``pause_s`` is the pause between transactions, so that the demo is
    not a load test.
    """

    shop: Shop
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
            with self.shop.session() as session:
                started, seconds = time.monotonic(), self.seconds
                while not self._stop.is_set() and (
                    (elapsed := time.monotonic() - started) < seconds or not self.changes.column_added
                ):
                    if not self.changes.column_added and elapsed > self.seconds / 2:
                        session.add_column()
                        self.changes.column_added = True
                        # Continue long enough that changes with the new column occur even if the database was slow.
                        seconds = time.monotonic() - started + self.seconds / 2
                    self._run_transaction(session)
                    self._stop.wait(self.pause_s)
        except self.shop.errors as e:
            self.error = e

    def _run_transaction(self, session: ShopSession) -> None:
        pick = self._random.random()
        with session.transaction():
            if pick < 0.30:
                self._insert_order(session)
            elif pick < 0.70:
                low = self._random.randrange(1, self.customers)
                self.changes.updates += session.update_customers(low, low + 4)
            elif pick < 0.80:
                self.changes.deletes += session.delete_order(self._random.randrange(1, self.orders))
            elif pick < 0.85:
                self._change_key(session)
            else:
                self._update_orders(session)
        self.changes.transactions += 1

    def _insert_order(self, session: ShopSession) -> None:
        """Inserts an order of a new customer: one transaction over four tables."""
        customer, order = self._next_customer, self._next_order
        self._next_customer += 1
        self._next_order += 1
        skus = [f"SKU-{self._random.randrange(5000)}" for _ in range(self._random.randint(1, 3))]
        self.changes.inserts += session.insert_order(customer, order, skus)
        self.changes.audit_rows += session.insert_audit(order)

    def _update_orders(self, session: ShopSession) -> None:
        low = self._random.randrange(1, self.orders)
        self.changes.updates += session.update_orders(low, low + 4)
        if self.changes.column_added:
            self.changes.updates += session.set_channel(low)

    def _change_key(self, session: ShopSession) -> None:
        """Changes the primary key of a row that may have a large unchanged text."""
        customer = self._random.randrange(1, self.customers // 100) * 100
        moved = self._next_customer
        self._next_customer += 1
        self.changes.key_changes += session.change_customer_id(customer, moved)
