"""Upserts of a ten-column topic into a table by the JDBC sink, JSON with schemas; beside a loop over the plain driver.

500,000 records into PostgreSQL: flat rows; Debezium's envelopes, by Debezium's JDBC sink class; and these with the headers that
Debezium's sources write. 200,000 rows into MariaDB and SQLite. One line each. The database's own time is not in the figures, but
for SQLite, which has no server.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import sys
from collections.abc import Iterator
from typing import Any

import orjson
from confluent_kafka import Consumer, TopicPartition

from benchmarks.environment import JSON, BenchmarkEnvironment, environment, produce_values
from benchmarks.jdbc_tables import TARGETS, Target
from benchmarks.measure import Figures, Measured, measure_here, report
from connect.converters.json.converter import JsonConverter
from connect.data.logical import decimal_schema, timestamp_schema
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct

ROWS = {"postgresql": 500_000, "mariadb": 200_000, "sqlite": 200_000}
BATCH = 2000
DEBEZIUM_HEADERS = [
    ("__debezium.context.connectorLogicalName", b"bench"),
    ("__debezium.context.taskId", b"0"),
    ("__debezium.context.connectorName", b"postgresql"),
    ("__debezium.context.version", b"3.5.0.Final"),
]
FIRST = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def _row_schema() -> Schema:
    builder = SchemaBuilder.struct().name("people.Value")
    text = Schema.OPTIONAL_STRING
    builder.field("id", Schema.INT64).field("name", Schema.STRING).field("email", text).field("city", text)
    builder.field("balance", decimal_schema(2, optional=True)).field("score", Schema.OPTIONAL_FLOAT64)
    builder.field("visits", Schema.OPTIONAL_INT32).field("active", Schema.OPTIONAL_BOOLEAN)
    return builder.field("created_at", timestamp_schema(optional=True)).field("notes", text).build()


def _envelope_schema(row: Schema) -> Schema:
    source = SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source")
    for name in ("version", "connector", "name", "snapshot", "db", "sequence", "schema", "table"):
        source.field(name, Schema.STRING)
    for name in ("ts_ms", "txId", "lsn"):
        source.field(name, Schema.INT64)
    builder = SchemaBuilder.struct().name("bench.public.people.Envelope")
    builder.field("before", row.as_optional()).field("after", row.as_optional()).field("source", source.build())
    return builder.field("op", Schema.STRING).field("ts_ms", Schema.OPTIONAL_INT64).build()


def _values(i: int) -> list[Any]:
    return [
        i, f"name {i}", f"user{i}@example.com", "Springfield", decimal.Decimal(i % 10_000).scaleb(-2), i / 7, i % 1000,
        i % 2 == 0, FIRST + dt.timedelta(milliseconds=i), "a note of some forty bytes, as people write",
    ]  # fmt: skip


def _records(rows: int, envelopes: bool) -> Iterator[bytes]:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    row = _row_schema()
    schema = _envelope_schema(row) if envelopes else row
    source = ["3.5", "postgresql", "bench", "true", "bench", '[null,"27"]', "public", "people", 1, 2, 3]
    for i in range(1, rows + 1):
        value = Struct(row, _values(i))
        if envelopes:
            source_field, after_field = schema.field("source"), schema.field("after")
            assert source_field is not None
            assert after_field is not None
            block = Struct(source_field.schema, list(source))
            value = Struct(schema, [None, Struct(after_field.schema, value.values), block, "r", 1])
        data = converter.from_connect_data("t", schema, value)
        assert data is not None
        yield data


def _baseline(here: BenchmarkEnvironment, target: Target, topic: str, rows: int, envelopes: bool) -> None:
    """Values by consume and orjson, rows by executemany of the driver with an upsert, a commit a batch."""
    consumer = Consumer({"bootstrap.servers": here.broker.bootstrap, "group.id": "plain", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    done = 0
    with contextlib.closing(target.connect()) as connection:
        cursor = connection.cursor()
        while done < rows:
            batch = []
            for message in consumer.consume(BATCH, 1.0):
                payload = orjson.loads(message.value())["payload"]
                batch.append(tuple(_driver_value(c, v) for c, v in (payload["after"] if envelopes else payload).items()))
            target.upsert_rows(cursor, batch)
            connection.commit()
            done += len(batch)
    consumer.close()


def _driver_value(column: str, value: Any) -> Any:
    if column == "created_at":
        return dt.datetime.fromtimestamp(value / 1000, dt.UTC)
    return 0 if column == "balance" else value


def _sink(here: BenchmarkEnvironment, target: Target, topic: str, rows: int, connector: dict[str, str]) -> Figures:
    common = {
        "name": f"jdbc-sink-{target.name}-{topic}",
        "tasks.max": "1",
        "topics": topic,
        "connection.url": target.url,
        "insert.mode": "upsert",
        "batch.size": str(BATCH),
        "consumer.override.max.poll.records": str(BATCH),
    }
    schemas = {"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"}
    command, _ = here.worker_command({"key.converter": JSON, "value.converter": JSON, **schemas}, [{**common, **connector}])
    with Measured(command, here.home / f"log-{topic}") as worker:
        worker.wait_until(lambda: target.count() > 0, 120, poll_s=0.2)
        worker.mark_first()
        worker.wait_until(lambda: target.count() >= rows, 300, poll_s=0.5)
        return worker.figures(rows)


def _run(here: BenchmarkEnvironment, target: Target, rows: int, *, envelopes: bool = False, headers: bool = False) -> None:
    topic = here.create_topic(f"people-{target.name}{'-envelopes' if envelopes else ''}{'-headers' if headers else ''}")
    produce_values(here.producer(), topic, _records(rows, envelopes), DEBEZIUM_HEADERS if headers else None)
    target.create_table()
    limit = measure_here(rows, lambda: _baseline(here, target, topic, rows, envelopes))
    target.create_table()
    if envelopes:
        connector = {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "primary.key.mode": "record_value", "primary.key.fields": "id", "collection.name.format": "people",
        }  # fmt: skip
    else:
        connector = {
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "pk.mode": "record_value", "pk.fields": "id", "table.name.format": "people",
        }  # fmt: skip
    ours = _sink(here, target, topic, rows, connector)
    report("jdbc_sink", ours, limit, database=target.name, records_are="envelopes" if envelopes else "rows", headers=headers)


def main() -> None:
    chosen = sys.argv[1:] or list(TARGETS)
    with environment() as here:
        for name in chosen:
            with TARGETS[name](here) as target:
                _run(here, target, ROWS[name])
                if name == "postgresql":
                    _run(here, target, ROWS[name], envelopes=True)
                    _run(here, target, ROWS[name], envelopes=True, headers=True)


if __name__ == "__main__":
    main()
