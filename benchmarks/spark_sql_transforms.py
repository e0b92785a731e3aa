"""Transformations in Spark's executors: row by row in Python, or compiled to Spark SQL. Both decode the same JSON with schemas.

``python``: the process that reads also converts, transforms, and writes a Parquet file; only results pass through the JVM.
``sql``: it decodes to Arrow with Arrow's reader; Spark SQL transforms the rows in the JVM, and hands them to another Python
process, which writes the file. CPU seconds are those of the JVM, and of the Python processes without their start. Messages come
from a file, not from Kafka.

Usage: ``python -m benchmarks.spark_sql_transforms [RECORDS] [CHAIN...]``.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from connect.converters.json.converter import JsonConverter
from connect.plugins import Plugins
from connect.record import SinkRecord
from connect.transforms.chain import apply_steps_batch, build_steps
from connectors.spark.config import parse_config
from connectors.spark.decode.arrow_types import column_for_schema
from connectors.spark.decode.json import parse, split_by_prefix
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.transforms.compiler import InputSchemas, compile_branches
from connectors.spark.transforms.pipeline import transform
from connectors.spark.transforms.projection import Projection, render
from connectors.spark.transforms.stored_arrow import physical_schema, with_positions
from connectors.spark.transforms.stored_types import spark_type

_APACHE = "org.apache.kafka.connect.transforms."
CHAINS = {
    "one step": {
        "transforms": "insert",
        "transforms.insert.type": f"{_APACHE}InsertField$Value",
        "transforms.insert.static.field": "source",
        "transforms.insert.static.value": "shop",
    },
    "five steps": {
        "transforms": "replace,created,cast,mask,insert",
        "transforms.replace.type": f"{_APACHE}ReplaceField$Value",
        "transforms.replace.exclude": "internal",
        "transforms.replace.renames": "qty:quantity",
        "transforms.created.type": f"{_APACHE}TimestampConverter$Value",
        "transforms.created.field": "created",
        "transforms.created.target.type": "Timestamp",
        "transforms.cast.type": f"{_APACHE}Cast$Value",
        "transforms.cast.spec": "active:string,quantity:int64",
        "transforms.mask.type": f"{_APACHE}MaskField$Value",
        "transforms.mask.fields": "email",
        "transforms.insert.type": f"{_APACHE}InsertField$Value",
        "transforms.insert.static.field": "source",
        "transforms.insert.static.value": "shop",
        "transforms.insert.timestamp.field": "received",
    },
}
_FIELDS = [("id", "int64", False), ("name", "string", False), ("email", "string", True), ("qty", "int32", False),
           ("price", "double", False), ("created", "int64", False), ("note", "string", True), ("active", "boolean", False),
           ("internal", "string", True)]  # fmt: skip
_SCHEMA = {"type": "struct", "optional": False, "name": "shop.Order",
           "fields": [{"type": t, "optional": o, "field": n} for n, t, o in _FIELDS]}  # fmt: skip
_BATCH, _DECODE = 2_000, 50_000
PARTITIONS = 2


@dataclass(frozen=True)
class Work:
    """What a process needs to know."""

    folder: str
    chain: dict[str, str]

    def messages(self, partition: int) -> list[bytes]:
        found: list[bytes] = pickle.loads((Path(self.folder) / f"{partition}.pickle").read_bytes())
        return found

    def write(self, rows: pa.Table, partition: int) -> int:
        path = Path(self.folder) / f"{partition}.{os.getpid()}.{time.monotonic_ns()}.parquet"
        pq.write_table(rows, path, compression="zstd")
        return int(rows.num_rows)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Notes the CPU seconds of this process."""
        before = time.process_time()
        yield
        path = Path(self.folder) / f"{os.getpid()}.{time.monotonic_ns()}.cpu"
        path.write_text(str(time.process_time() - before))

    def converter(self) -> JsonConverter:
        converter = JsonConverter()
        converter.configure({"schemas.enable": "true", "conversion.strict": "true"}, False)
        return converter


def write_transformed(work: Work, partition: int) -> int:
    """Converts, transforms, and decodes records, and writes them, as the engine does."""
    steps, converter = build_steps(work.chain, Plugins.discover()), work.converter()
    decoder = TopicDecoder(
        "t", converter, converter, key_schemas=True, value_schemas=True, fill_defaults=True, key_name=None, needs_names=False,
        needs_keys=False,
    )  # fmt: skip
    messages = work.messages(partition)
    images: list[pa.Table] = []
    offset = 0
    records: list[SinkRecord] = []
    for start in range(0, len(messages), _BATCH):
        values = converter.decode_batch("t", messages[start : start + _BATCH])
        batch = [SinkRecord("t", partition, None, None, v.schema, v.value, offset + i, 1) for i, v in enumerate(values)]
        offset += len(batch)
        records += [r for r in apply_steps_batch(steps, batch) if isinstance(r, SinkRecord)]
        if len(records) >= _DECODE:
            images += [changes.image for changes in decoder.decode_records(records, 0)]
            records = []
    if records:
        images += [changes.image for changes in decoder.decode_records(records, 0)]
    return work.write(pa.concat_tables(images), partition)


def _stored_batches(work: Work, partition: int) -> Iterator[pa.RecordBatch]:
    """The records in stored types."""
    messages = work.messages(partition)
    prefixes: list[Any] = []
    for start in range(0, len(messages), _DECODE):
        part = messages[start : start + _DECODE]
        groups, _ = split_by_prefix(part, prefixes, defaults=True)
        for prefix, positions, payloads in groups:
            column = column_for_schema(physical_schema(prefix.schema))
            table = parse(payloads, pa.schema(list(column.json or ())), infer=False)
            struct = table.to_struct_array().combine_chunks()
            size = len(positions)
            offsets = pa.array([start + at for at in positions], pa.int64())
            columns = [
                pa.repeat(pa.scalar("t"), size),
                pa.repeat(pa.scalar(partition, pa.int32()), size),
                offsets,
                pa.repeat(pa.scalar(1, pa.int64()), size),
                pa.nulls(size, pa.list_(pa.string())),
                pa.nulls(size, pa.bool_()),
                with_positions(column.from_json(struct)),
            ]
            batch = pa.record_batch(columns, ["topic", "partition", "offset", "timestamp", "headers", "key", "value"])
            for at in range(0, size, 10_000):
                yield batch.slice(at, 10_000)


def _finish(projection: Projection, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in the table's types."""
    column = projection.values[1]
    assert column.schema is not None
    conversion = column_for_schema(column.schema)
    for batch in batches:
        rows = conversion.finish(batch.column(column.name))
        yield pa.Table.from_arrays(rows.flatten(), names=[f.name for f in rows.type])


def _python_source(work: Work) -> type[DataSource]:
    class Reader(DataSourceReader):  # type: ignore[misc]  # PySpark has no types
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(i) for i in range(PARTITIONS)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            with work.measured():
                rows = write_transformed(work, partition.value)
            yield pa.record_batch([pa.array([rows])], ["rows"])

    class PythonRows(DataSource):  # type: ignore[misc]  # PySpark has no types
        def schema(self) -> str:
            return "rows bigint"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    return PythonRows


def _sql_source(work: Work, types: str) -> type[DataSource]:
    class Reader(DataSourceReader):  # type: ignore[misc]  # PySpark has no types
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(i) for i in range(PARTITIONS)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            with work.measured():
                yield from _stored_batches(work, partition.value)

    class StoredRows(DataSource):  # type: ignore[misc]  # PySpark has no types
        def schema(self) -> str:
            return types

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    return StoredRows


def _sql_target(work: Work, projection: Projection) -> type[DataSource]:
    class Writer(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no types
        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            with work.measured():
                tables = list(_finish(projection, iterator))
                if tables:
                    work.write(pa.concat_tables(tables), 0)
            return WriterCommitMessage()

    class WrittenRows(DataSource):  # type: ignore[misc]  # PySpark has no types
        def writer(self, schema: Any, overwrite: bool) -> Writer:
            return Writer()

    return WrittenRows


def prepare(spark: Any) -> None:
    """Sets up a session for Python data sources that are written to."""
    # Writers of data sources are looked up in the active session.
    spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    spark.sparkContext.pythonExec = sys.executable
    spark.sparkContext.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))


def run_python(spark: SparkSession, work: Work) -> None:
    spark.dataSource.register(_python_source(work))
    spark.read.format("PythonRows").load().toArrow()


def run_sql(spark: SparkSession, work: Work) -> None:
    schema = work.converter().to_connect_data("t", work.messages(0)[0]).schema
    assert schema is not None
    schemas = InputSchemas(None, schema)
    projection = render(compile_branches(work.chain, build_steps(work.chain, Plugins.discover()), "t", schemas), schemas)
    places = "topic STRING, partition INT, offset BIGINT, timestamp BIGINT, headers ARRAY<STRING>"
    types = f"{places}, key BOOLEAN, value {spark_type(schema)}"
    spark.dataSource.register(_sql_source(work, types))
    spark.dataSource.register(_sql_target(work, projection))
    # The table has no keys, so that the columns of keys are not needed.
    frame = transform(spark.read.format("StoredRows").load(), projection).select("offset", projection.values[1].name)
    frame.write.format("WrittenRows").mode("append").save()


def _jvm_cpu_s(pid: int) -> float:
    """CPU seconds of the JVM itself, without its Python processes."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _python_cpu_s(folder: str) -> float:
    """CPU seconds that Python processes have noted since the last call."""
    files = list(Path(folder).glob("*.cpu"))
    total = sum(float(file.read_text()) for file in files)
    for file in files:
        file.unlink()
    return total


def write_messages(folder: str, records: int) -> None:
    prefix = b'{"schema":' + json.dumps(_SCHEMA, separators=(",", ":")).encode() + b',"payload":'
    for partition in range(PARTITIONS):
        messages = [
            prefix
            + json.dumps(
                {"id": i, "name": f"order {i}", "email": f"user{i % 997}@example.com", "qty": i % 90, "price": (i % 800) / 8,
                 "created": 1_700_000_000_000 + i, "note": None if i % 3 else "a note of some length", "active": i % 2 == 0,
                 "internal": "dropped"},
                separators=(",", ":"),
            ).encode()
            + b"}"
            for i in range(records // PARTITIONS)
        ]  # fmt: skip
        (Path(folder) / f"{partition}.pickle").write_bytes(pickle.dumps(messages))


def read_rows(folder: str) -> pa.Table:
    files = sorted(Path(folder).glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(file) for file in files])
    for file in files:
        file.unlink()
    return table.sort_by([(name, "ascending") for name in ("id", "name")])


def main(records: int, names: list[str]) -> None:
    from connectors.spark import session

    config = {
        "name": "b",
        "connector.class": "SparkSink",
        "topics": "t",
        "table.location": "/tmp/none",
        "spark.master": "local[2]",
    }
    lease = session.lease(parse_config(config).spark)
    spark: Any = lease.session()
    prepare(spark)
    pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    results: dict[str, Any] = {"benchmark": "spark_sql_transforms", "records": records}
    with tempfile.TemporaryDirectory() as folder:
        write_messages(folder, records)
        for name in names:
            chain = CHAINS[name]
            rows: dict[str, pa.Table] = {}
            # The first run of each warms up Spark's code and the Python processes.
            for attempt in range(3):
                for way, run in (("python", run_python), ("sql", run_sql)):
                    jvm, started = _jvm_cpu_s(pid), time.monotonic()
                    run(spark, Work(folder, chain))
                    found = {
                        "jvm_cpu_s": round(_jvm_cpu_s(pid) - jvm, 2),
                        "python_cpu_s": round(_python_cpu_s(folder), 2),
                        "s": round(time.monotonic() - started, 2),
                    }
                    results.setdefault(f"{name}, {way}", []).append(found)
                    print(name, way, found, file=sys.stderr, flush=True)
                    rows[way] = read_rows(folder)
                assert rows["python"].num_rows == records, rows["python"].num_rows
                assert rows["python"].equals(rows["sql"]), f"{name}: {attempt}"
    lease.release()
    session.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000, sys.argv[2:] or list(CHAINS))
