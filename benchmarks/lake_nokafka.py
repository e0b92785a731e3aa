"""Database -> Delta table without Kafka: ``spark.read.format("sluice")`` beside ``spark.read.jdbc`` with two partitions.

A load of 2,000,000 rows of nine columns (``SLUICE_BENCH_RECORDS``), the limit (COPY into Parquet without Spark), 200,000 changes
that a stream appends (``SLUICE_BENCH_CHANGES``) after as many others, and the freshness of 1,000 changes per second for ten
seconds: from the commit in the database until the row is visible. The same with ``SpoolTables``, which writes the files of the
table itself (``tables``), and what Debezium's engine costs to hand the same rows and changes to an application that drops them
(``debezium_engine``). CPU is that of Spark, its Python processes, and the connector's
process. That of a load is also shown from the moment when Spark is ready (``after_start``), and as what a row more costs
(``flowing``), by a load of a tenth of the rows: starts, and the first executions of code in a JVM, cost more than some loads.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.csv as pv
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from benchmarks.environment import customers_table, database, source_config
from benchmarks.lake_worker import MEMORY, TIMEOUT_S, number, spark_jars
from benchmarks.measure import Figures, Measured, measure_here, quantiles, report
from benchmarks.spark_database import started_file
from connect.config.properties import write_properties
from sluice.embedded.jars import ensure_jars, folder_of
from sluice.embedded.java import ensure_java
from sluice.embedded.postgres import EmbeddedPostgres
from tests.interop.connect_jars import CONNECT
from tests.support.jar_sets import DEBEZIUM, DEBEZIUM_ENGINE

RECORDS = number("RECORDS", 2_000_000)
CHANGES = number("CHANGES", 200_000)
_SMALL, _SMALL_SHARE = "customers_small", 10
FRESH_S = number("SECONDS", 10)
_RATE, _STEP = 1000, 50
_POLL_S = 0.1
_COLUMNS = (
    "id bigint, first_name string, last_name string, email string, balance decimal(38,2), score double, active boolean, "
    "created_at timestamp, notes string"
)
_CHANGES = f"{_COLUMNS}, _op string, _ts timestamp, _position string, _unchanged array<string>"
"""Given, so that Spark does not start the connector to ask for them: that process would not be measured."""


class _RowCount:
    """Counts the rows of a table that grows, from the commits since the last count: the whole log would cost the CPU that the
    measured processes need."""

    def __init__(self, table: Path) -> None:
        self._path = table
        self._table: DeltaTable | None = None
        self._version, self._rows = -1, 0

    def read(self) -> int:
        try:
            if self._table is None:
                self._table = DeltaTable(self._path)
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            return 0
        if (version := self._table.version()) != self._version:
            self._version = version
            self._rows = sum(self._table.get_add_actions(flatten=True)["num_records"].to_pylist())
        return self._rows

    def wait_for(self, count: int, writer: Measured) -> None:
        """Waits until the process that writes the table has written so many rows."""
        writer.wait_until(lambda: self.read() >= count, TIMEOUT_S, _POLL_S)


def _command(kind: str, table: Path, jars: str, options: dict[str, str]) -> list[str]:
    return [sys.executable, "-m", "benchmarks.spark_database", kind, str(table), jars, MEMORY, json.dumps(options)]


@dataclass(frozen=True)
class _Load:
    whole: Figures
    """From launch to the last row."""
    after_start: Figures
    """From Spark's start to the last row."""

    def shares(self, small: _Load) -> dict[str, Any]:
        whole, part = self.whole, small.whole
        flowing = replace(
            whole, records=whole.records - part.records, wall_s=whole.wall_s - part.wall_s, cpu_s=whole.cpu_s - part.cpu_s
        )
        return {"after_start": _rate(self.after_start), "flowing": _rate(flowing)}


def _rate(figures: Figures) -> dict[str, Any]:
    shown = figures.as_dict()
    return {name: shown[name] for name in ("records", "wall_s", "cpu_s", "records_per_cpu_s")}


def _load(kind: str, name: str, count: int, home: Path, jars: str, options: dict[str, str]) -> _Load:
    table = home / f"{kind}-{name}"
    rows = _RowCount(table)
    with Measured(_command(kind, table, jars, options), home / f"{table.name}.log") as measured:
        measured.wait_until(started_file(table).exists, TIMEOUT_S)
        start = measured.figures(0)
        rows.wait_for(count, measured)
        whole = measured.figures(count)
    rest = replace(whole, wall_s=whole.wall_s - start.wall_s, cpu_s=whole.cpu_s - start.cpu_s)
    return _Load(whole, rest)


def _copy_to_parquet(server: EmbeddedPostgres, file: Path) -> None:
    data = io.BytesIO()
    with server.connect() as connection, connection.cursor().copy("COPY customers TO STDOUT (FORMAT csv)") as copy:
        for block in copy:
            data.write(block)
    data.seek(0)
    pq.write_table(pv.read_csv(data), file)


def _stream(
    kind: str, server: EmbeddedPostgres, table: Path, jars: str, options: dict[str, str], loaded: int, moment: str
) -> dict[str, Any]:
    """Appends changes to a table that has ``loaded`` rows; its column ``moment`` has the time in the source."""
    rows = _RowCount(table)
    with Measured(_command(kind, table, jars, options), table.with_suffix(".log")) as measured, server.connect() as connection:
        connection.execute("UPDATE customers SET score = 1 WHERE id = 1")
        rows.wait_for(first := 1 + loaded, measured)
        for count in (first + CHANGES, first + 2 * CHANGES):
            cpu_s, started = measured.cpu_s(), time.monotonic()
            connection.execute("UPDATE customers SET score = score + 1 WHERE id <= %s", (CHANGES,))
            rows.wait_for(count, measured)
            cpu_s, wall_s = measured.cpu_s() - cpu_s, time.monotonic() - started
        before = DeltaTable(table).version()
        total = _change_steadily(connection)
        rows.wait_for(first + 2 * CHANGES + total, measured)
    return {
        "changes": CHANGES,
        "wall_s": round(wall_s, 2),
        "changes_per_cpu_s": round(CHANGES / cpu_s),
        "freshness_ms_at_1000_per_s": _freshness(table, before, moment),
    }


def _change_steadily(connection: Any) -> int:
    """Changes rows at the rate; returns how many."""
    started = time.monotonic()
    for step in range(FRESH_S * _RATE // _STEP):
        threading.Event().wait(max(0.0, started + step * _STEP / _RATE - time.monotonic()))
        connection.execute("UPDATE customers SET score = score + 1 WHERE id <= %s", (_STEP,))
    return FRESH_S * _RATE


def _freshness(table: Path, after_version: int, moment: str) -> dict[str, float | None]:
    """From the commit in the database until the table's version was there."""
    found: list[float] = []
    for log in sorted((table / "_delta_log").glob("*.json")):
        if int(log.stem) <= after_version:
            continue
        visible_ms = log.stat().st_mtime * 1000
        for line in log.read_text().splitlines():
            if "add" in (action := json.loads(line)) and action["add"]["dataChange"]:
                file = pq.read_table(table / action["add"]["path"], columns=[moment])
                found += [visible_ms - at.timestamp() * 1000 for at in file[moment].to_pylist()]
    return quantiles(found)


def _all_jars(home: Path) -> str:
    """Spark's JARs and PostgreSQL's JDBC driver, in one folder."""
    ensure_jars(DEBEZIUM)
    folder = home / "jars"
    folder.mkdir()
    drivers = folder_of(DEBEZIUM).glob("postgresql-*.jar")
    for jar in (*Path(spark_jars()).glob("*.jar"), *drivers):
        (folder / jar.name).symlink_to(jar)
    return str(folder)


def _loads(kind: str, home: Path, jars: str, options: dict[str, dict[str, str]]) -> tuple[_Load, dict[str, Any]]:
    """Loads the small table and the large one. Returns the figures of the large one, and more."""
    counts = {_SMALL: RECORDS // _SMALL_SHARE, "customers": RECORDS}
    small, large = (_load(kind, name, count, home, jars, options[name]) for name, count in counts.items())
    return large, large.shares(small)


class _Engine:
    """Debezium's engine, which hands events in JSON to an application; this one only counts them."""

    def __init__(self, server: EmbeddedPostgres, home: Path) -> None:
        self._events = home / "engine.events"
        properties = {
            **source_config(server, "engine"),
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(home / "engine.offsets"),
            "offset.flush.interval.ms": "10000",
        }
        file = home / "engine.properties"
        file.write_text(write_properties(properties))
        jars = ":".join(map(str, [*ensure_jars(DEBEZIUM_ENGINE), *ensure_jars(CONNECT)]))
        program = Path(__file__).with_name("EngineCounter.java")  # a JDK compiles it and runs it
        java = [str(ensure_java().executable), f"-Xmx{MEMORY}", "-cp", jars]
        self.command = [*java, str(program), str(file), str(self._events)]

    def count(self) -> int:
        return int(self._events.read_text()) if self._events.exists() else 0

    def has(self, count: int) -> bool:
        return self.count() >= count


def _debezium(server: EmbeddedPostgres, home: Path) -> dict[str, Any]:
    """What events cost up to an application: all rows of the snapshot but the first ones, and changes after as many others."""
    engine = _Engine(server, home)
    with Measured(engine.command, home / "engine.log") as measured, server.connect() as connection:
        measured.wait_until(partial(engine.has, RECORDS // _SMALL_SHARE), TIMEOUT_S)
        read, first = engine.count(), measured.figures(0)
        measured.wait_until(partial(engine.has, RECORDS), TIMEOUT_S)
        rows = _between(first, measured.figures(0), RECORDS - read)
        for count in (CHANGES, 2 * CHANGES):
            start = measured.figures(0)
            connection.execute("UPDATE customers SET score = score + 1 WHERE id <= %s", (CHANGES,))
            measured.wait_until(partial(engine.has, RECORDS + count), TIMEOUT_S)
        return {"rows": _rate(rows), "changes": _rate(_between(start, measured.figures(0), CHANGES))}


def _between(first: Figures, last: Figures, records: int) -> Figures:
    return replace(last, records=records, wall_s=last.wall_s - first.wall_s, cpu_s=last.cpu_s - first.cpu_s)


def _of_tables(options: dict[str, str], home: Path, name: str) -> dict[str, str]:
    """The options for SpoolTables, with a spool and a slot of their own."""
    own = {"spool.location": str(home / f"spool-{name}"), "slot.name": name.replace("-", "_")}
    return {key: value for key, value in {**options, **own}.items() if key not in ("table", "columns")}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder, database(Path(folder)) as server:
        home = Path(folder)
        jars = _all_jars(home)
        customers_table(server, RECORDS)
        with server.connect() as connection:
            connection.execute(f"CREATE TABLE {_SMALL} AS SELECT * FROM customers WHERE id <= {RECORDS // _SMALL_SHARE}")
        limit = measure_here(RECORDS, lambda: _copy_to_parquet(server, home / "limit.parquet"))
        ours = {
            name: source_config(
                server,
                "bench",
                **{
                    "spool.location": str(home / f"spool-{name}"),
                    "slot.name": name,
                    "publication.name": name,
                    "publication.autocreate.mode": "filtered",
                    "table.include.list": f"public.{name}",
                    "table": f"public.{name}",
                    "columns": _COLUMNS,
                },
            )
            for name in (_SMALL, "customers")
        }
        theirs = {
            name: {
                "url": f"jdbc:postgresql://{server.host}:{server.port}/{server.database}",
                "user": server.user,
                "password": server.password,
                "driver": "org.postgresql.Driver",
                "dbtable": name,
                "fetchsize": "10000",
                "partitionColumn": "id",
                "lowerBound": "1",
                "upperBound": str(count),
                "numPartitions": "2",
            }
            for name, count in ((_SMALL, RECORDS // _SMALL_SHARE), ("customers", RECORDS))
        }
        load, shares = _loads("sluice", home, jars, ours)
        jdbc, jdbc_shares = _loads("jdbc", home, jars, theirs)
        streamed = _stream("stream", server, home / "stream", jars, {**ours["customers"], "columns": _CHANGES}, 0, "_ts")
        filled = {name: _of_tables(options, home, f"tables-{name}") for name, options in ours.items()}
        tables, tables_shares = _loads("tables", home, jars, filled)
        streamed_tables = _stream("tables", server, home / "tables-customers", jars, filled["customers"], RECORDS, "__source_ts")
        report(
            "lake_nokafka",
            load.whole,
            limit,
            **shares,
            stream=streamed,
            tables={**tables.whole.as_dict(), **tables_shares, "stream": streamed_tables},
            jdbc={**jdbc.whole.as_dict(), **jdbc_shares},
            debezium_engine=_debezium(server, home),
        )


if __name__ == "__main__":
    main()
