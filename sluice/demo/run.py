"""The demo: replicates database changes into Spark tables with one command.

It starts Kafka, PostgreSQL, and a worker with Spark (or without Kafka, PostgreSQL and a Spark query), replicates a snapshot and
half a minute of live changes, and then compares every table with the database, row by row and column by column. It succeeds only
if they are equal.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from connect.errors import ConnectError, UnreachableError
from rest.client import ConnectClient
from rest.polling import wait_until
from sluice.demo.compare import Comparison, compare_table
from sluice.demo.display import Display
from sluice.demo.environment import CONNECTORS, SINKS, SOURCE, DemoEnvironment
from sluice.demo.pipeline import Pipeline
from sluice.demo.shops.shop import TABLES, Shop, Sizes
from sluice.demo.spool_pipeline import SpoolPipeline
from sluice.demo.worker_pipeline import WorkerPipeline
from sluice.demo.workload import Workload

_START_TIMEOUT_S = 60.0
_SNAPSHOT_TIMEOUT_S = 600.0
_CATCH_UP_TIMEOUT_S = 120.0


@dataclass
class DemoResult:
    """The demo's result; :meth:`as_json` is the last line on stdout."""

    comparisons: list[Comparison]
    rows: int
    events: int
    rate_per_s: float
    latency_ms: dict[str, float | None]
    seconds: float
    lake: Path
    snapshot_s: float
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        return bool(self.comparisons) and all(c.equal for c in self.comparisons)

    def as_json(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "tables": len(self.comparisons),
            "rows": self.rows,
            "events": self.events,
            "rate_per_s": round(self.rate_per_s, 1),
            "latency_ms": self.latency_ms,
            "seconds": round(self.seconds, 1),
        }


def run_demo(home: Path, sizes: Sizes, live_s: float, display: Display, *, keep: bool) -> DemoResult:
    """Runs the whole demo in ``home`` and returns its result. Nothing runs afterwards unless ``keep``."""
    started = time.monotonic()
    environment = DemoEnvironment(home, sizes, dies_with_parent=not keep)
    finished = False
    with _terminate_as_interrupt():
        try:
            with _start_pipeline(environment, display) as pipeline:
                result = _measure(environment, pipeline, live_s, display, started)
            finished = True
            return result
        finally:
            if not (keep and finished):
                display.step("Stopping everything")
                environment.stop()


@contextmanager
def _start_pipeline(environment: DemoEnvironment, display: Display) -> Iterator[Pipeline]:
    if environment.uses_kafka:
        with start_environment(environment, display) as client:
            yield WorkerPipeline(environment, client)
        return
    display.step(f"Starting {_describe_shop(environment.shop, environment.sizes)}")
    environment.start_database()
    display.step(f"Starting a Spark query that runs the {environment.shop.product} source through a spool: no Kafka, no worker")
    environment.start_query()
    yield SpoolPipeline(environment)


def _describe_shop(shop: Shop, sizes: Sizes) -> str:
    return f"{shop.product} with {sizes.customers:,} customers, {sizes.orders:,} orders, and more"


def start_environment(environment: DemoEnvironment, display: Display) -> ConnectClient:
    """Starts everything: the servers, the shop's data, and the connectors. Also used by ``sluice up``."""
    with_cluster = ", a Spark cluster with two workers" if environment.uses_cluster else ""
    display.step(f"Starting Apache Kafka{with_cluster}, and {_describe_shop(environment.shop, environment.sizes)}")
    # On an interrupt, the pool waits for its threads, so that nothing starts after everything was stopped.
    with ThreadPoolExecutor(2, "demo-start") as pool:
        database = pool.submit(environment.start_database)
        cluster = pool.submit(environment.spark.start) if environment.uses_cluster else None
        environment.broker.start()
        if cluster is not None:
            cluster.result()
        display.step(f"Starting a worker: two Spark sinks, {environment.shop.product} source")
        environment.start_worker()
        client = ConnectClient(environment.rest_url)
        _wait_until(lambda: _is_up(client), _START_TIMEOUT_S, 0.05, "the worker", environment)
        database.result()
    client.put_config(SOURCE, environment.source_config())
    for name in CONNECTORS:
        _wait_running(environment, client, name)
    display.note(f"REST API at {environment.rest_url}, Kafka at {environment.broker.bootstrap}")
    return client


def _measure(environment: DemoEnvironment, pipeline: Pipeline, live_s: float, display: Display, started: float) -> DemoResult:
    started_at = time.monotonic()
    display.step(
        f"Snapshot: copying every row of the database through {pipeline.path} into {environment.table_format.title()} tables"
    )
    _follow_snapshot(environment, pipeline, display)
    snapshot_s = time.monotonic() - started_at
    display.note(
        f"{environment.sizes.rows:,} rows in tables after {snapshot_s:.1f} s: {environment.sizes.rows / snapshot_s:,.0f} rows/s"
    )
    display.step(f"Live changes for {live_s:.0f} seconds")
    workload = Workload(environment.shop, environment.sizes.customers, environment.sizes.orders, live_s)
    workload.start()
    _follow_workload(pipeline, workload, display, live_s)
    display.step("Waiting until the tables have all changes")
    is_caught_up = pipeline.catch_up(environment.sizes.rows + workload.changes.events)
    _wait_checked(is_caught_up, _CATCH_UP_TIMEOUT_S, 0.1, "the tables to catch up", environment, pipeline)
    display.step("Comparing every table with the database")
    comparisons = _compare(environment, display)
    changes = workload.changes
    seconds = time.monotonic() - started
    events = environment.sizes.rows + changes.events
    return DemoResult(
        comparisons=comparisons,
        rows=sum(c.rows for c in comparisons),
        events=events,
        rate_per_s=environment.sizes.rows / snapshot_s,
        latency_ms=pipeline.latency_ms(),
        seconds=seconds,
        lake=environment.lake,
        snapshot_s=snapshot_s,
        changes={
            "transactions": changes.transactions,
            "inserts": changes.inserts + changes.audit_rows,
            "updates": changes.updates,
            "deletes": changes.deletes,
            "key_changes": changes.key_changes,
            "column_added": changes.column_added,
        },
    )


def _follow_snapshot(environment: DemoEnvironment, pipeline: Pipeline, display: Display) -> None:
    total = float(environment.sizes.rows)

    def is_complete() -> bool:
        found = pipeline.snapshot_progress()
        bar.update(found.rows, total, found.note)
        return found.is_complete

    with display.bar("rows in tables", total) as bar:
        _wait_checked(is_complete, _SNAPSHOT_TIMEOUT_S, 0.25, "the snapshot to reach the tables", environment, pipeline)


def _follow_workload(pipeline: Pipeline, workload: Workload, display: Display, live_s: float) -> None:
    started_at = time.monotonic()

    def note() -> str:
        done = workload.changes
        return f"{done.transactions:,} transactions, {done.events:,} changes" + (", column added" if done.column_added else "")

    with display.bar("live changes", live_s) as bar:
        while workload.running:
            pipeline.check()
            bar.update(min(time.monotonic() - started_at, live_s), live_s, note())
            workload.join(0.25)
    workload.join(10)
    display.note(note())


def _compare(environment: DemoEnvironment, display: Display) -> list[Comparison]:
    """Compares the tables until they are equal or 30 s have passed: the last records may be in flight before their lag is
    known."""
    found: dict[str, Comparison] = {}

    def compare(table: str) -> Comparison:
        with environment.shop.table(table) as rows:
            return compare_table(rows, environment.read_table(table), TABLES[table])

    def is_equal() -> bool:
        environment.check_worker()
        different = [table for table in TABLES if table not in found or not found[table].equal]
        found.update(zip(different, pool.map(compare, different), strict=True))
        return all(comparison.equal for comparison in found.values())

    # A thread for each table: database and lake are read at the same time.
    with ThreadPoolExecutor(len(TABLES), "demo-compare") as pool:
        wait_until(is_equal, 30, 1.0)
    for comparison in found.values():
        mark = "equal" if comparison.equal else "NOT EQUAL: " + "; ".join(comparison.differences[:3])
        display.note(f"{comparison.table:<12} {comparison.rows:>9,} rows  {mark}")
    return list(found.values())


def _is_up(client: ConnectClient) -> bool:
    try:
        return len(client.connectors()) >= len(SINKS)
    except (UnreachableError, ConnectError):
        return False


def _wait_running(environment: DemoEnvironment, client: ConnectClient, name: str) -> None:
    """Waits until the connector and its tasks run, or the worker has ended."""

    def is_running() -> bool:
        try:
            client.wait_for(name, timeout_s=1.0)
        except (UnreachableError, ConnectError):
            return False
        return True

    _wait_until(is_running, _START_TIMEOUT_S, 0.1, f"connector {name} to run", environment)


def _wait_until(
    condition: Callable[[], bool], timeout_s: float, interval_s: float, what: str, environment: DemoEnvironment
) -> None:
    """Waits for a condition. Raises ConnectError when the worker ends, or after the time."""

    def is_done() -> bool:
        if condition():
            return True
        environment.check_worker()
        return False

    if not wait_until(is_done, timeout_s, interval_s):
        raise ConnectError(f"timed out waiting for {what}; the log is {environment.worker_log}")


def _wait_checked(
    condition: Callable[[], bool],
    timeout_s: float,
    interval_s: float,
    what: str,
    environment: DemoEnvironment,
    pipeline: Pipeline,
) -> None:
    """Waits for a condition. Raises ConnectError when a part of the pipeline fails, or after the time."""

    def is_done() -> bool:
        pipeline.check()
        return condition()

    _wait_until(is_done, timeout_s, interval_s, what, environment)


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Makes SIGTERM stop the demo like Ctrl-C, so that it cleans up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def remove_home(home: Path) -> None:
    """Deletes a run's directory, which must not be in use."""
    shutil.rmtree(home, ignore_errors=True)
