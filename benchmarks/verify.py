"""The full comparison of ``sluice verify``: 500,000 nine-column rows of PostgreSQL and a Delta table; beside COPY."""

from __future__ import annotations

import tempfile
from pathlib import Path

import psycopg
import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.environment import customers_table, database, source_config
from benchmarks.measure import measure_here, report
from connect.connector import SinkConnector, SourceConnector
from connect.plugins import Plugins
from sluice.embedded.postgres import EmbeddedPostgres
from sluice.verify.full_comparison import find_candidates
from sluice.verify.record_path import RecordPath
from sluice.verify.table_rows import TablePlan, TableReader, plan_table

ROWS = 500_000
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_WORKER = {"key.converter": _JSON, "value.converter": _JSON}


def _write_table(server: EmbeddedPostgres, location: Path) -> None:
    """The table as the Spark sink writes it."""
    with psycopg.connect(server.dsn()) as connection:
        found = connection.execute("SELECT * FROM customers ORDER BY id").fetchall()
        names = [column.name for column in connection.execute("SELECT * FROM customers LIMIT 0").description or ()]
    columns = dict(zip(names, zip(*found, strict=True), strict=True))
    types = {"balance": pa.decimal128(38, 2), "created_at": pa.timestamp("us", "UTC")}
    write_deltalake(location, pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()}))


def _verify(server: EmbeddedPostgres, lake: Path) -> None:
    plugins = Plugins.discover()
    source_settings = source_config(server, "bench")
    sink_settings = {"topics": "bench.public.customers", "table.location": str(lake), "write.mode": "upsert"}
    sink_settings["table.name.format"] = "${table}"
    connector, sink_connector = plugins.new_connector("PostgresSource"), plugins.new_connector("SparkSink")
    assert isinstance(connector, SourceConnector)
    assert isinstance(sink_connector, SinkConnector)
    source, sink = connector.verification(source_settings), sink_connector.verification(sink_settings)
    assert source is not None
    assert sink is not None
    path = RecordPath(source_settings, sink_settings, _WORKER, plugins)
    plan = plan_table(source.tables()[0], source, path, sink)
    assert isinstance(plan, TablePlan), plan
    reader = TableReader(plan, path, sink, sink.open(plan.target, plan.columns[: plan.key_size]))
    snapshot = source.snapshot()
    found = find_candidates(reader, snapshot, ROWS, lambda rows: None)
    snapshot.close()
    source.close()
    assert (found.rows, len(found.keys)) == (ROWS, 0), (found.rows, list(found.keys)[:3])


def _copy(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.dsn()) as connection, connection.cursor().copy("COPY customers TO STDOUT") as copy:
        for _ in copy:
            pass


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, database(Path(folder)) as server:
        customers_table(server, ROWS)
        lake = Path(folder) / "lake"
        # In a process of its own: delta-rs cannot be used in a fork of a process that has used it.
        measure_here(ROWS, lambda: _write_table(server, lake / "customers"))
        limit = measure_here(ROWS, lambda: _copy(server))
        report("verify", measure_here(ROWS, lambda: _verify(server, lake)), limit)


if __name__ == "__main__":
    main()
