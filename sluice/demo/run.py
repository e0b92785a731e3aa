"""The demo: database changes into Spark tables, on a fresh machine, with one command.

It starts real parts (Kafka, PostgreSQL, a worker with Spark), lets the snapshot and half a minute of live changes flow, and
then compares every table with the database, row by row and column by column. It succeeds only when they are equal.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from connect.errors import ConnectError, UnreachableError
from rest.client import ConnectClient
from sluice.demo.compare import Comparison, compare_table
from sluice.demo.display import Display
from sluice.demo.environment import APPEND_SINK, CONNECTOR_FILES, SOURCE, TABLES, UPSERT_SINK, Sizes, Stage
from sluice.demo.workload import Workload

_START_TIMEOUT_S = 60.0
_SNAPSHOT_TIMEOUT_S = 600.0
_CATCH_UP_TIMEOUT_S = 120.0
_SINKS = (UPSERT_SINK, APPEND_SINK)


@dataclass
class Result:
    """What the demo found; :meth:`as_json` is the last line on stdout."""

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


def run_demo(home: Path, sizes: Sizes, live_s: float, display: Display, *, keep: bool) -> Result:
    """Runs the whole demo in ``home`` and returns what it found. Nothing runs afterwards unless ``keep``."""
    started = time.monotonic()
    stage = Stage(home, sizes, tied=not keep)
    finished = False
    with _terminate_as_interrupt():
        try:
            with start_stage(stage, display) as client:
                result = _measure(stage, client, live_s, display, started)
            finished = True
            return result
        finally:
            if not (keep and finished):
                display.step("Stopping everything")
                stage.stop()


def start_stage(stage: Stage, display: Display) -> ConnectClient:
    """Starts all parts, with the shop filled and the connectors running. Used by ``sluice up`` too."""
    display.step("Starting Apache Kafka")
    stage.broker.start()
    display.step("Starting PostgreSQL with logical decoding")
    stage.database.start()
    if not stage.has_shop():
        display.step(f"Filling the shop: {stage.sizes.customers:,} customers, {stage.sizes.orders:,} orders, and more")
        stage.fill_shop()
    display.step("Starting a worker: PostgreSQL source, two Spark sinks")
    stage.start_worker()
    client = ConnectClient(stage.rest_url)
    for name in CONNECTOR_FILES:
        _wait_running(stage, client, name)
    display.note(f"REST API at {stage.rest_url}, Kafka at {stage.broker.bootstrap}")
    return client


def _measure(stage: Stage, client: ConnectClient, live_s: float, display: Display, started: float) -> Result:
    begun = time.monotonic()
    display.step("Snapshot: every row of the database on its way to Kafka and into Delta tables")
    _follow_snapshot(stage, client, display)
    snapshot_s = time.monotonic() - begun
    display.note(f"{stage.sizes.rows:,} rows in {snapshot_s:.1f} s, {stage.sizes.rows / snapshot_s:,.0f} a second, to the tables")
    display.step(f"Live changes for {live_s:.0f} seconds")
    workload = Workload(stage.database.dsn(), stage.sizes.customers, stage.sizes.orders, live_s)
    workload.start()
    _follow_workload(stage, client, workload, display, live_s)
    display.step("Waiting until the tables have everything")
    _follow_catch_up(stage, client, display)
    display.step("Comparing every table with the database")
    comparisons = _compare(stage, display)
    changes = workload.changes
    seconds = time.monotonic() - started
    events = stage.sizes.rows + changes.events
    return Result(
        comparisons=comparisons,
        rows=sum(c.rows for c in comparisons),
        events=events,
        rate_per_s=stage.sizes.rows / snapshot_s,
        latency_ms=_latency(client),
        seconds=seconds,
        lake=stage.lake,
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


def _follow_snapshot(stage: Stage, client: ConnectClient, display: Display) -> None:
    total = float(stage.sizes.rows)
    deadline = time.monotonic() + _SNAPSHOT_TIMEOUT_S
    begun = time.monotonic()
    with display.bar("rows in tables", total) as bar:
        while True:
            _check(stage, client)
            source = _details(client, SOURCE)
            read = float(source.get("rows", 0))
            delivered = sum(_delivered(client, sink) for sink in _SINKS)
            rate = delivered / (time.monotonic() - begun)
            note = f"tables {source.get('tables_done', 0)}/{source.get('tables_total', len(TABLES))}, "
            bar.update(delivered, total, note + f"{read:,.0f} rows read, {delivered:,.0f} in tables, {rate:,.0f}/s")
            if source.get("phase") == "streaming" and delivered >= total and _lag(client) == 0:
                return
            _pause_before(deadline, 0.25, "the snapshot to reach the tables", stage)


def _follow_workload(stage: Stage, client: ConnectClient, workload: Workload, display: Display, live_s: float) -> None:
    begun = time.monotonic()

    def note() -> str:
        done = workload.changes
        return f"{done.transactions:,} transactions, {done.events:,} changes" + (", column added" if done.column_added else "")

    with display.bar("live changes", live_s) as bar:
        while workload.running:
            _check(stage, client)
            bar.update(min(time.monotonic() - begun, live_s), live_s, note())
            workload.join(0.25)
    workload.join(10)
    display.note(note())


def _follow_catch_up(stage: Stage, client: ConnectClient, display: Display) -> None:
    """Until the source has read the database's log to its present end and the sinks have delivered all of it."""
    with stage.connect() as connection:
        row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    assert row is not None
    target = _lsn(row[0])
    deadline = time.monotonic() + _CATCH_UP_TIMEOUT_S
    quiet = 0
    while quiet < 3:
        _check(stage, client)
        # Not once but for a moment: records can be on their way between the source and the topic, and between topic and sink.
        quiet = quiet + 1 if _lsn(_details(client, SOURCE).get("lsn")) >= target and _lag(client) == 0 else 0
        _pause_before(deadline, 0.25, "the tables to catch up", stage)


def _lsn(text: str | None) -> int:
    """A log position as PostgreSQL writes it (``16/B374D848``), as a number; 0 for none."""
    high, _, low = (text or "0/0").partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def _compare(stage: Stage, display: Display) -> list[Comparison]:
    """Compares until equal, a few times: the last records may be under way although no lag is known yet."""
    deadline = time.monotonic() + 30
    with stage.connect() as connection:
        while True:
            found = [compare_table(connection, "shop", table, stage.lake / table, keys) for table, keys in TABLES.items()]
            if all(c.equal for c in found) or time.monotonic() > deadline:
                break
            stage.check_worker()
            time.sleep(1)
    for comparison in found:
        mark = "equal" if comparison.equal else "NOT EQUAL: " + "; ".join(comparison.differences[:3])
        display.note(f"{comparison.table:<12} {comparison.rows:>9,} rows  {mark}")
    return found


def _delivered(client: ConnectClient, sink: str) -> float:
    tables = _details(client, sink).get("tables", {})
    return float(sum(table.get("rows", 0) for table in tables.values()))


def _latency(client: ConnectClient) -> dict[str, float | None]:
    """Of the live changes: from the commit in the database to the commit of the table that shows it."""
    found = [_details(client, sink).get("latency_ms") or {} for sink in _SINKS]
    merged = {q: max((f[q] for f in found if f.get(q) is not None), default=None) for q in ("p50", "p99")}
    return {q: None if v is None else round(v, 1) for q, v in merged.items()}


def _details(client: ConnectClient, connector: str) -> dict[str, Any]:
    """What the connector's first task tells of itself; empty while it tells nothing."""
    for task in client.progress(connector):
        return dict(task["details"])
    return {}


def _lag(client: ConnectClient) -> int:
    """Records in topics that are not in tables yet; 1 while a sink does not know its partitions."""
    total = 0
    for sink in _SINKS:
        for task in client.progress(sink):
            if not task["lag"]:
                return 1
            total += sum(task["lag"].values())
    return total


def _check(stage: Stage, client: ConnectClient) -> None:
    """Raises ConnectError when the worker or a connector has failed, with its own words."""
    stage.check_worker()
    for name in CONNECTOR_FILES:
        status = client.status(name)
        failed = [found for found in (status["connector"], *status["tasks"]) if found["state"] == "FAILED"]
        if failed:
            first = str(failed[0].get("trace") or "").strip().splitlines()
            raise ConnectError(f"connector {name} failed: {first[0] if first else 'no reason given'}; log: {stage.worker_log}")


def _wait_running(stage: Stage, client: ConnectClient, name: str) -> None:
    """Until the connector and its tasks run; looks at the worker too, which may have ended."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            client.wait_for(name, timeout_s=1.0)
            return
        except (UnreachableError, ConnectError):
            _pause_before(deadline, 0.1, f"connector {name} to run", stage)


def _pause_before(deadline: float, seconds: float, what: str, stage: Stage) -> None:
    stage.check_worker()
    if time.monotonic() > deadline:
        raise ConnectError(f"waited too long for {what}; the worker's log is {stage.worker_log}")
    time.sleep(seconds)


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does, so that it cleans up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def remove_home(home: Path) -> None:
    """Deletes a run's folder; it must not be in use."""
    shutil.rmtree(home, ignore_errors=True)
