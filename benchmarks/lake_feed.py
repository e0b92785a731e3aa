"""A Delta table -> topic by the Spark source: its rows, then the changes of later versions; beside Spark that only reads them.
Then the same rows and versions of an Iceberg table.

1,000,000 rows in ten files (``SLUICE_BENCH_RECORDS`` for more) and, after them, versions that replace 100,000 rows each with
deletion vectors, all with a key, JSON without schemas. ``changes`` is a second worker that reads only those versions. The peer
reads the same rows in a plain Spark batch, aggregates every column, and writes nothing.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.environment import JSON, BenchmarkEnvironment, environment
from benchmarks.lake_worker import MEMORY, TIMEOUT_S, number, spark_jars
from benchmarks.measure import Figures, Measured, report
from connectors.spark.plan.evolution import spark_json_field
from connectors.spark.tables.delta.deletion_vectors import encode_vector_file, vector_file_name
from connectors.spark.tables.iceberg.puffin import encode_puffin
from connectors.spark.tables.iceberg.types import file_schema, new_schema
from tests.support.iceberg_writer import DATA, POSITIONS, File, IcebergWriter

RECORDS = number("RECORDS", 1_000_000)
FILES = 10
VERSIONS = 5
CHANGED = RECORDS // FILES
"""Rows that a version replaces."""


def _rows(first: int, count: int, chance: np.random.Generator) -> pa.Table:
    cents = pa.array(chance.integers(0, 10_000_000, count)).cast(pa.decimal128(19, 0))
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + count)),
            "customer": pa.array(chance.integers(0, 1_000_000, count)),
            "status": pa.array(chance.choice(["new", "paid", "shipped", "returned"], count)),
            "amount": cents.cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
            "price": pa.array(chance.integers(0, 1_000_000, count) / 64),
            "created": pa.array(chance.integers(1_600_000_000_000_000, 1_700_000_000_000_000, count)).cast(
                pa.timestamp("us", "UTC")
            ),
            "note": pa.array([f"order number {i} of this benchmark" for i in range(first, first + count)]),
            "is_open": pa.array(chance.random(count) > 0.5),
        }
    )


class _Table(Protocol):
    """Writes the versions of a table."""

    format: str
    folder: Path
    first_change: str
    """The first version that replaces rows."""

    def create(self) -> None:
        """The first version has all rows."""
        ...

    def replace_rows(self) -> None:
        """A version that replaces one tenth of each file's rows."""
        ...


class _DeltaTable:
    format = "delta"
    first_change = "1"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.size_bytes = 0
        self._version = 0
        self._chance = np.random.default_rng(1)
        (folder / "_delta_log").mkdir(parents=True)

    def create(self) -> None:
        adds = [self._add(n * RECORDS // FILES, RECORDS // FILES) for n in range(FILES)]
        fields = [spark_json_field(f.name, f.type) for f in _rows(0, 1, self._chance).schema]
        metadata = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {"delta.enableDeletionVectors": "true"},
        }
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        self._commit([{"protocol": protocol}, {"metaData": metadata}, *({"add": add} for add in adds)])
        self._files = adds

    def replace_rows(self) -> None:
        part = CHANGED // FILES
        start = (self._version - 1) * part
        actions: list[dict[str, Any]] = []
        for place, old in enumerate(self._files):
            gone = np.arange(start + part, dtype=np.int64)
            data, identity, (vector,) = encode_vector_file([gone])
            (self.folder / vector_file_name(identity)).write_bytes(data)
            new = {**old, "deletionVector": vector}
            actions += [{"remove": {**old, "extendedFileMetadata": True}}, {"add": new}]
            actions.append({"add": self._add(place * RECORDS // FILES + start, part)})
            self._files[place] = new
        self._commit(actions)

    def _add(self, first: int, count: int) -> dict[str, Any]:
        path = f"part-{uuid.uuid4()}.parquet"
        rows = _rows(first, count, self._chance)
        pq.write_table(rows, self.folder / path, row_group_size=128 * 1024)
        size = (self.folder / path).stat().st_size
        self.size_bytes += size
        stats = json.dumps({"numRecords": count})
        now = int(time.time() * 1000)
        return {"path": path, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": True, "stats": stats}

    def _commit(self, actions: Sequence[dict[str, Any]]) -> None:
        info = {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE", "operationParameters": {}}}
        text = "\n".join(map(json.dumps, [info, *actions]))
        (self.folder / "_delta_log" / f"{self._version:020d}.json").write_text(text)
        self._version += 1


class _IcebergTable:
    format = "iceberg"
    first_change = "2"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._chance = np.random.default_rng(1)
        self._schema = new_schema({field.name: field.type for field in _rows(0, 1, self._chance).schema})
        self._table = IcebergWriter(folder, self._schema["fields"])
        self._vectors: list[File] = []

    def create(self) -> None:
        self._files = [self._data(n * RECORDS // FILES, RECORDS // FILES) for n in range(FILES)]
        self._table.commit("append", self._files)

    def replace_rows(self) -> None:
        part = CHANGED // FILES
        version = self._table.version + 1
        start = (version - 2) * part
        gone = np.arange(start + part, dtype=np.int64)
        content, places = encode_puffin([(file.path, gone) for file in self._files])
        puffin = self.folder / "data" / f"{version}.puffin"
        puffin.write_bytes(content)
        vectors = [
            File(str(puffin), POSITIONS, len(gone), version, "PUFFIN", file.path, offset, length)
            for file, (offset, length) in zip(self._files, places, strict=True)
        ]
        added = [self._data(place * RECORDS // FILES + start, part) for place in range(FILES)]
        self._table.commit("overwrite", [*vectors, *added], self._vectors)
        self._vectors = vectors

    def _data(self, first: int, count: int) -> File:
        path = self.folder / "data" / f"{uuid.uuid4()}.parquet"
        rows = _rows(first, count, self._chance)
        pq.write_table(rows.cast(file_schema(self._schema, rows.column_names)), path, row_group_size=128 * 1024)
        return File(str(path), DATA, count, self._table.version + 1)


def _run(here: BenchmarkEnvironment, table: _Table, name: str, start: str, records: int) -> tuple[Figures, Figures]:
    """Figures of a worker from its launch, and of the time from its first record on."""
    topic = here.create_topic(name)
    connector = {
        "name": name,
        "connector.class": "SparkSource",
        "source.format": table.format,
        "source.location": str(table.folder),
        "topic": topic,
        "key.columns": "id",
        "source.start": start,
    }
    plain = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
    command, _ = here.worker_command({"key.converter": JSON, "value.converter": JSON, **plain}, [connector])
    with Measured(command, here.home / f"{name}.log") as worker:
        worker.wait_until(lambda: here.end_offset(topic) > 0, 120)
        worker.mark_first()
        before, first_cpu_s, first = here.end_offset(topic), worker.cpu_s(), time.monotonic()
        worker.wait_until(lambda: here.end_offset(topic) >= records, TIMEOUT_S)
        whole = worker.figures(records)
        return whole, Figures(records - before, time.monotonic() - first, whole.cpu_s - first_cpu_s, whole.peak_rss_mb)


def _spark_read(here: BenchmarkEnvironment, folder: Path) -> Figures:
    log = here.home / "spark.log"
    command = [sys.executable, "-m", "benchmarks.spark_delta_read", str(folder), spark_jars(), MEMORY]
    with Measured(command, log) as measured:
        measured.wait_until(lambda: "rows read" in log.read_text(errors="replace"), TIMEOUT_S, 0.1)
        return measured.figures(RECORDS)


def _read_versions(here: BenchmarkEnvironment, table: _Table) -> dict[str, Any]:
    """Figures of a worker that reads the changes of all versions, after they were written."""
    for _ in range(VERSIONS):
        table.replace_rows()
    changes, flowing = _run(here, table, f"{table.format}-changes", table.first_change, VERSIONS * CHANGED)
    return {**changes.as_dict(), "flowing": flowing.as_dict()}


def main() -> None:
    with environment() as here:
        delta, iceberg = _DeltaTable(here.home / "orders"), _IcebergTable(here.home / "iceberg" / "orders")
        delta.create()
        snapshot, flowing = _run(here, delta, "rows", "snapshot", RECORDS)
        theirs = _spark_read(here, delta.folder)
        changes = _read_versions(here, delta)
        iceberg.create()
        iceberg_snapshot, iceberg_flowing = _run(here, iceberg, "iceberg-rows", "snapshot", RECORDS)
        iceberg_changes = _read_versions(here, iceberg)
        report(
            "lake_feed",
            snapshot,
            None,
            flowing=flowing.as_dict(),
            changes=changes,
            iceberg={**iceberg_snapshot.as_dict(), "flowing": iceberg_flowing.as_dict(), "changes": iceberg_changes},
            spark_read=theirs.as_dict(),
            cpu_times_peer=round(snapshot.cpu_s / theirs.cpu_s, 2),
        )


if __name__ == "__main__":
    main()
