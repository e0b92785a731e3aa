"""What a row costs in Python on its way from PostgreSQL to Spark without Kafka: as Arrow columns in the spool, and as JSON.

500,000 rows of a snapshot (``SLUICE_BENCH_RECORDS``), and an update of each: CPU of the connector's process, without its start,
and of the executor's decoder, without Spark, in microseconds per row.
"""

from __future__ import annotations

import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.environment import customers_table, database, source_config
from benchmarks.lake_worker import TIMEOUT_S, number
from benchmarks.measure import Figures, Measured, report
from connect.config.properties import write_properties
from connect.spool.positions import SpoolPosition
from connect.spool.reader import SpoolReader
from connectors.spark.datasource.columns import ADDED_COLUMNS
from connectors.spark.datasource.rows import TypedRows, batches_of, columns_of
from sluice.embedded.postgres import EmbeddedPostgres

RECORDS = number("RECORDS", 500_000)
_TABLE = "customers"
_POLL_S = 0.02


class _Spool:
    """A spool that a connector's process fills."""

    def __init__(self, server: EmbeddedPostgres, folder: Path, *, in_columns: bool) -> None:
        folder.mkdir()
        name = folder.name
        options = source_config(server, name, **{"spool.location": str(folder), "spool.max.bytes": str(1 << 62)})
        file = folder.with_suffix(".properties")
        file.write_text(write_properties({**options, "spool.idle.timeout.ms": "600000"}))
        form = ["--columns"] if in_columns else []
        self.command = [sys.executable, "-m", "worker.spool", *form, str(file)]
        self.reader = SpoolReader(folder)
        self.topic = f"{name}.public.{_TABLE}"

    def rows(self) -> int:
        return sum(entry.rows for entry in self.reader.entries) if self.reader.refresh() else 0

    def wait_for(self, count: int, connector: Measured) -> None:
        """Waits until the connector's process has written so many rows."""
        connector.wait_until(lambda: self.rows() >= count, TIMEOUT_S, _POLL_S)

    def decode(self, start: SpoolPosition) -> int:
        """Decodes what executors would read from a position on. Returns the number of rows."""
        texts = [self.reader.schemas[str(one)] for one in self.reader.topics()[self.topic]]
        rows = TypedRows(self.topic, pa.schema([*columns_of(texts), *ADDED_COLUMNS]), ignores_others=False)
        count = 0
        for part in self.reader.slices(start, self.reader.end):
            stored = part.read(self.reader.directory)
            found = rows.decode(stored, part.entry.first_row + part.first, self.reader.schemas)
            count += sum(batch.num_rows for batch in batches_of(found))
        return count


def _measure(server: EmbeddedPostgres, folder: Path, *, in_columns: bool) -> dict[str, Any]:
    spool = _Spool(server, folder, in_columns=in_columns)
    found: dict[str, Any] = {}
    with Measured(spool.command, folder.with_suffix(".log")) as connector, server.connect() as connection:
        spool.wait_for(1, connector)
        cpu_s, rows, start = connector.cpu_s(), spool.rows(), SpoolPosition(0, 0)
        for kind, total in (("snapshot", RECORDS), ("updates", 2 * RECORDS)):
            if kind == "updates":
                cpu_s, rows, start = connector.cpu_s(), spool.rows(), spool.reader.end
                connection.execute(f"UPDATE {_TABLE} SET score = score + 1")
            spool.wait_for(total, connector)
            taken_s = connector.cpu_s() - cpu_s
            started = time.process_time()
            decoded = spool.decode(start)
            found[kind] = {
                "connector_us": round(taken_s / (spool.rows() - rows) * 1e6, 1),
                "decoder_us": round((time.process_time() - started) / decoded * 1e6, 1),
            }
        connector.child.send_signal(signal.SIGTERM)
        connector.child.wait()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder, database(Path(folder)) as server:
        customers_table(server, RECORDS)
        started = time.monotonic()
        found = {
            name: _measure(server, Path(folder) / name, in_columns=in_columns)
            for name, in_columns in (("columns", True), ("json", False))
        }
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        cpu_s = sum(one.ru_utime + one.ru_stime for one in used)
        peak_mb = max(one.ru_maxrss for one in used) / 1024
        report("spool_columns", Figures(4 * RECORDS, time.monotonic() - started, cpu_s, peak_mb), None, **found)


if __name__ == "__main__":
    main()
