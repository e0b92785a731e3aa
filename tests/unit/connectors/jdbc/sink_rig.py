"""A started sink task on a database, and records for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.record import SinkRecord
from connect.sink import ErrantRecordReporter, SinkTask
from connect.testing.harness import MemoryReporter, SinkContext
from connectors.jdbc.sink.task import JdbcSinkTask

T = TypeVar("T", bound=SinkTask)
PERSON = (
    SchemaBuilder.struct()
    .field("id", Schema.INT32)
    .field("name", Schema.OPTIONAL_STRING)
    .field("age", Schema.OPTIONAL_INT32)
    .build()
)
OLDER = SchemaBuilder.struct().field("id", Schema.INT32).field("name", Schema.OPTIONAL_STRING).build()
KEY = SchemaBuilder.struct().field("id", Schema.INT32).build()


class Topic:
    """Makes records of one topic, at offsets that count up."""

    def __init__(self, name: str) -> None:
        self.topic = name
        self._offset = 0

    def record(self, key_schema: Schema | None, key: Any, schema: Schema | None, value: Any) -> SinkRecord:
        self._offset += 1
        return SinkRecord(self.topic, 0, key_schema, key, schema, value, self._offset - 1)


class Records(Topic):
    """Plain rows."""

    def __init__(self, topic: str = "people") -> None:
        super().__init__(topic)

    def one(self, *values: Any, schema: Schema = PERSON) -> SinkRecord:
        """A record without a key."""
        return self.record(None, None, schema, Struct(schema, list(values)))

    def keyed(self, *values: Any, schema: Schema = PERSON) -> SinkRecord:
        """A record with its first value in the key as well."""
        return self.record(KEY, Struct(KEY, [values[0]]), schema, Struct(schema, list(values)))

    def tombstone(self, key: Any) -> SinkRecord:
        return self.record(KEY, Struct(KEY, [key]), None, None)


class StartedSink(Generic[T]):
    """A started task; a context manager."""

    def __init__(self, task: T, config: Mapping[str, str], reporter: ErrantRecordReporter | None) -> None:
        self.config = {"name": "sink", "topics": "people", "connection.backoff.ms": "5", **config}
        self.task = task
        self.context = SinkContext(self.config, JsonConverter(), JsonConverter(), reporter=reporter)

    def __enter__(self) -> Self:
        self.task.initialize(self.context)
        self.task.start(self.config)
        return self

    def __exit__(self, *_: object) -> None:
        self.task.stop()
        self.task.close()

    def put(self, *records: SinkRecord) -> None:
        self.task.put(records)


class Sink(StartedSink[JdbcSinkTask]):
    def __init__(self, config: Mapping[str, str], *, reporter: ErrantRecordReporter | None = None) -> None:
        super().__init__(JdbcSinkTask(), {"retry.backoff.ms": "5", **config}, reporter)


class File:
    """A SQLite database in a file, seen by another connection."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "sink.db"
        self.url = f"jdbc:sqlite:{self.path}"

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path)
        try:
            found = connection.execute(query, values).fetchall()
            connection.commit()
            return found
        finally:
            connection.close()

    def sink(
        self, config: Mapping[str, str] = {}, /, *, reporter: ErrantRecordReporter | None = None, **more_config: str
    ) -> Sink:
        """Creates a sink; key names have ``__`` for ``.``."""
        keys = {key.replace("__", "."): value for key, value in {**config, **more_config}.items()}
        return Sink({"connection.url": self.url, **keys}, reporter=reporter)


def reported(reporter: MemoryReporter) -> list[tuple[int, str]]:
    """Offsets and messages of what was reported."""
    return [(record.offset, str(error)) for record, error in reporter.reported]


def put_all(sink: Sink, records: Sequence[SinkRecord], most: int) -> None:
    """Puts records in batches of so many."""
    for at in range(0, len(records), most):
        sink.put(*records[at : at + most])
