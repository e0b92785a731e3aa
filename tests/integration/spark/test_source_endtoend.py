"""Tables -> topic -> tables through a broker and one worker: the copy equals the original, types and nested values included."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from connect.errors import NotFoundError
from connectors.spark.tables.iceberg.types import new_schema
from sluice.demo.delta_table import DeltaTableReader
from sluice.embedded import jars
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from tests.support.delta_writer import DeltaWriter, Row
from tests.support.iceberg_writer import IcebergWriter
from tests.support.parquet_directory import ParquetDirectory
from tests.support.waiting import WAIT_S, Deadline

NAMES = "orders", "more_orders"
"""Of a Delta table, and of an Iceberg table."""
COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "tiny": pa.int8(),
    "ratio": pa.float64(),
    "ok": pa.bool_(),
    "note": pa.string(),
    "data": pa.binary(),
    "amount": pa.decimal128(38, 4),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "clock": pa.timestamp("us"),
    "lines": pa.list_(pa.struct([("sku", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us", "UTC"))])),
    "place": pa.struct([("x", pa.float32()), ("d", pa.date32())]),
}


def row(number: int, note: str = 'a "note"\n') -> Row:
    moment = dt.datetime(2024, 1, 1) + dt.timedelta(seconds=number, microseconds=number)
    if number % 7 == 6:
        return {"id": number}
    return {
        "id": number,
        "tiny": number % 100,
        "ratio": number / 3,
        "ok": number % 2 == 0,
        "note": f"{note} {number} \U0001f600",
        "data": bytes([number % 256]),
        "amount": decimal.Decimal(number) / 4,
        "day": moment.date(),
        "at": moment.replace(tzinfo=dt.UTC),
        "clock": moment,
        "lines": [{"sku": f"s{number}", "n": None, "at": moment.replace(tzinfo=dt.UTC)}, None],
        "place": {"x": 0.5, "d": moment.date()},
    }


@pytest.mark.timeout(300)
@pytest.mark.long
def test_copies_of_tables_equal_the_tables_after_snapshot_and_changes(tmp_path: Path, broker: EmbeddedBroker) -> None:
    delta = DeltaWriter(tmp_path / "lake" / NAMES[0], COLUMNS, group_rows=100).create([row(i) for i in range(300)])
    iceberg = IcebergWriter(tmp_path / "lake" / NAMES[1], new_schema(COLUMNS)["fields"], group_rows=100)
    iceberg.insert([row(i) for i in range(300)])
    tables = (delta, iceberg)
    prefix = f"feed{os.getpid()}"
    worker = _start_worker(tmp_path, broker, prefix, delta.folder, iceberg.folder)
    try:
        for table in tables:
            table.delete(lambda r: r["id"] % 50 == 0)
            _wait_until_equal(worker, table, tmp_path)
        for table in tables:
            table.update(lambda r: r["id"] % 10 == 1, lambda r: row(r["id"], "changed"))
            table.rewrite(lambda r: r["id"] % 10 == 2, lambda r: None if r["id"] < 100 else row(r["id"], "rewritten"))
            table.optimize()
            table.insert([row(i) for i in range(1000, 1010)])
            _wait_until_equal(worker, table, tmp_path)
    finally:
        worker.terminate()
        worker.wait(WAIT_S)


def _start_worker(home: Path, broker: EmbeddedBroker, prefix: str, delta: Path, iceberg: Path) -> subprocess.Popen[bytes]:
    jars.ensure_jars("spark")
    connectors = {
        **{
            source_format: {
                "name": f"{source_format}-feed",
                "connector.class": "SparkSource",
                "source.format": source_format,
                "source.location": str(folder),
                "topic.prefix": prefix,
                "key.columns": "id",
                "poll.interval.ms": "100",
            }
            for source_format, folder in (("delta", delta), ("iceberg", iceberg))
        },
        "sink": {
            "name": "orders-copy",
            "connector.class": "SparkSink",
            "topics": ",".join(f"{prefix}.{name}" for name in NAMES),
            "table.location": str(home / "copy"),
            "table.name.format": "${table}",
            "write.mode": "upsert",
            "freshness.ms": "500",
        },
    }
    return _run_worker(home, broker, connectors)


def _run_worker(home: Path, broker: EmbeddedBroker, connectors: dict[str, dict[str, str]]) -> subprocess.Popen[bytes]:
    worker = {
        "bootstrap.servers": broker.bootstrap,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.storage.file.filename": str(home / "offsets"),
        "offset.flush.interval.ms": "500",
        "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
    }
    paths = []
    for name, properties in {"worker": worker, **connectors}.items():
        path = home / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        paths.append(str(path))
    environment = {**os.environ, "SLUICE_SPARK_JARS": str(jars.folder_of(jars.jar_set("spark")))}
    command = [str(Path(sys.executable).parent / "connect-standalone"), *paths]
    with (home / "worker.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)


@pytest.mark.timeout(300)
def test_directory_becomes_a_parquet_table_and_that_another_one_with_the_same_rows(
    tmp_path: Path, broker: EmbeddedBroker
) -> None:
    directory = ParquetDirectory(tmp_path / "landing")
    prefix, first, second = f"files{os.getpid()}", tmp_path / "first", tmp_path / "second"
    source = {"connector.class": "SparkSource", "source.format": "parquet", "topic.prefix": prefix, "poll.interval.ms": "100"}
    sink = {"connector.class": "SparkSink", "table.format": "parquet", "table.name.format": "${topic}", "freshness.ms": "200"}
    sink["metadata.columns"] = ""
    connectors = {
        "landing-feed": {**source, "source.location": str(directory.folder)},
        "first-copy": {**sink, "topics": f"{prefix}.landing", "table.location": str(first)},
        "first-feed": {**source, "source.location": f"{first}/{prefix}.landing"},
        "second-copy": {**sink, "topics": f"{prefix}.{prefix}.landing", "table.location": str(second)},
    }
    directory.add("a.parquet", [row(i) for i in range(50)], COLUMNS)
    worker = _run_worker(tmp_path, broker, {name: {"name": name, **one} for name, one in connectors.items()})
    try:
        for number in range(1, 4):
            rows = [row(i) for i in range(number * 50, number * 50 + 50)]
            directory.add(f"part={number}/b.parquet", rows, COLUMNS, age_s=30 - number)
            expected = sorted(map(_complete, _as_arrow(directory.rows)))
            for table in (first / f"{prefix}.landing", second / f"{prefix}.{prefix}.landing"):
                _wait_until(worker, partial(_parquet_rows, table), expected, tmp_path)
    finally:
        worker.terminate()
        worker.wait(WAIT_S)


def _parquet_rows(table: Path) -> list[Any]:
    paths = [str(path) for path in table.glob("*.parquet")]
    schema = pa.schema(list(COLUMNS.items()))
    return sorted(map(_complete, ds.dataset(paths, format="parquet", schema=schema).to_table().to_pylist()))


def _as_arrow(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows as Arrow returns them: a decimal has its scale, and a timestamp Arrow's time zone."""
    found: list[Row] = pa.Table.from_pylist(list(rows), pa.schema(list(COLUMNS.items()))).to_pylist()
    return found


def _wait_until_equal(worker: subprocess.Popen[bytes], table: DeltaWriter | IcebergWriter, home: Path) -> None:
    copy = home / "copy" / table.folder.name

    def rows() -> list[Any]:
        try:
            return sorted(map(_complete, DeltaTableReader(copy).read().to_pylist()))
        except NotFoundError:
            return []

    _wait_until(worker, rows, sorted(map(_complete, _as_arrow(table.rows()))), home)


def _wait_until(worker: subprocess.Popen[bytes], read: Callable[[], list[Any]], expected: list[Any], home: Path) -> None:
    found: list[Any] = []
    log = home / "worker.log"
    deadline = Deadline(f"{len(expected)} rows", lambda: f"{len(found)} rows\n{log.read_text()[-4000:]}")
    while found != expected:
        assert worker.poll() is None, log.read_text()[-4000:]
        deadline.check()
        time.sleep(0.2)
        found = read()


def _complete(values: Row) -> list[Any]:
    return [values["id"], *(repr(values.get(name)) for name in COLUMNS)]
