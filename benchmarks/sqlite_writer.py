"""What capturing costs those who write to a SQLite database: CPU time per statement with and without the source's triggers, and
the size of the file.

Each kind of statement runs in transactions of 1 and of 100 rows, in WAL mode with ``synchronous=NORMAL``, on a table of nine
columns with a UNIQUE one. The best of several rounds counts. The second line has what the source needs to read the changes.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from connect.testing import SourceHarness
from connectors.cdc.config.capture import CaptureSettings
from connectors.cdc.schema.filters import Filters
from connectors.sqlite import SqliteSourceTask
from connectors.sqlite.connection import SqliteConnection
from connectors.sqlite.triggers.installation import Installation

ROWS = int(os.environ.get("SLUICE_BENCH_ROWS", "30000"))
ROUNDS = 3
_TABLE = (
    "CREATE TABLE orders(id INTEGER PRIMARY KEY, number TEXT UNIQUE, customer INT, amount REAL, note TEXT, created TEXT, "
    "paid INT, address TEXT, data BLOB)"
)
_STATEMENTS: dict[str, Callable[[int], tuple[str, tuple[Any, ...]]]] = {
    "insert": lambda i: (
        "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (i, f"N{i}", i % 1000, i * 1.5, "some words of a note", "2026-01-01 00:00:00", 0, "1 Long Street, Town", b"0123456789"),
    ),
    "update": lambda i: ("UPDATE orders SET amount = amount + 1, paid = 1 WHERE id = ?", (i,)),
    "replace": lambda i: (
        "REPLACE INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (i, f"N{i}", i % 1000, i * 2.5, "some words of a note", "2026-01-01 00:00:00", 1, "1 Long Street, Town", b"0123456789"),
    ),
    "delete": lambda i: ("DELETE FROM orders WHERE id = ?", (i,)),
}


def _write(path: Path, batch: int, *, has_triggers: bool) -> tuple[dict[str, float], int]:
    """Microseconds of CPU time per row by kind of statement, and the size of the file."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute(_TABLE)
    if has_triggers:
        connection = SqliteConnection(str(path), 5)
        Installation("", "bench", Filters(CaptureSettings())).install(connection)
        connection.close()
    found = {}
    for kind, statement in _STATEMENTS.items():
        started = time.process_time()
        for first in range(0, ROWS, batch):
            db.execute("BEGIN")
            for i in range(first, first + batch):
                db.execute(*statement(i))
            db.execute("COMMIT")
        found[kind] = (time.process_time() - started) / ROWS * 1e6
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return found, path.stat().st_size


def _best(path: Path, batch: int, *, has_triggers: bool) -> tuple[dict[str, float], int]:
    runs = [_write(path, batch, has_triggers=has_triggers) for _ in range(ROUNDS)]
    return {kind: round(min(run[0][kind] for run in runs), 2) for kind in _STATEMENTS}, runs[0][1]


def _read(path: Path) -> dict[str, Any]:
    """How many changes the task reads per CPU second, as batches that converters can write without creating records."""
    config = {"topic.prefix": "bench", "database.file": str(path), "snapshot.mode": "no_data"}
    with SourceHarness(SqliteSourceTask(), config) as harness:
        started, events = time.process_time(), 0
        while events < 4 * ROWS:
            events += len(harness.task.poll() or ())
        return {"events": events, "events_per_cpu_s": round(events / (time.process_time() - started))}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        for batch in (1, 100):
            plain, plain_bytes = _best(path, batch, has_triggers=False)
            captured, captured_bytes = _best(path, batch, has_triggers=True)
            line = {
                "benchmark": f"sqlite_writer_{batch}_rows_per_transaction",
                "rows": ROWS,
                "plain_us": plain,
                "captured_us": captured,
                "added_us": {kind: round(captured[kind] - plain[kind], 2) for kind in plain},
                "bytes_per_change": round((captured_bytes - plain_bytes) / (4 * ROWS)),
            }
            print(json.dumps(line))
        print(json.dumps({"benchmark": "sqlite_reader", **_read(path)}))


if __name__ == "__main__":
    main()
