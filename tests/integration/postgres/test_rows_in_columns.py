"""A load for a query that reads tables has rows in columns: the same rows as a load of records, for every type."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import DataError
from connect.plugins import Plugins
from connect.spool.positions import START
from connect.spool.reader import SpoolReader, SpoolSlice
from connect.spool.segments import columns_of_topic, restore_bytes
from connect.spool.writer import SpoolWriter
from connectors.postgres.snapshot import copy_stream
from connectors.spark.datasource.rows import TypedRows, columns_of
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.postgres.test_types import COLUMNS
from worker.config.secrets import SecretMask
from worker.spool.config import parse_spooler_config
from worker.spool.output import SpoolMode
from worker.spool.spooler import Spooler

DEADLINE_S = 120.0
ROWS = 7
MORE = [
    ("digits", "numeric(38,10)", "1234567890123456789012345678.0123456789", None),
    ("too_many_digits", "numeric(45,2)", "123456789012345678901234567890123456789.78", None),
    ("no_number_in_numeric", "double precision", "'NaN'", None),
    ("small_real", "real", "1.17549435e-38", None),
    ("with_default", "int default 7", "null", None),
]
OF_EXTENSIONS = ("vector(", "halfvec", "sparsevec", "float_")
IN_RECORDS = {
    # Structs, and arrays of values that Arrow has in another form.
    "numerics", "domains", "moneys", "a_point", "a_box", "a_lseg", "open_path", "closed_path", "a_polygon", "a_circle", "a_line",
    "a_money",
    # More digits than a decimal of Arrow.
    "too_many_digits",
}  # fmt: skip


class Load:
    """A spool with everything that exists."""

    def __init__(self, server: EmbeddedPostgres, database: str, folder: Path, *, keeps_columns: bool) -> None:
        properties = {
            "name": "load",
            "connector.class": "PostgresConnector",
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.user,
            "database.password": server.password,
            "database.dbname": database,
            "topic.prefix": "p",
            "plugin.name": "pgoutput",
            "slot.name": f"{folder.name}_{database}",
            "spool.location": str(folder),
        }
        mask, plugins = SecretMask(), Plugins.discover()
        writer = SpoolWriter(folder, "load")
        config = parse_spooler_config(properties, plugins, mask)
        spooler = Spooler(config, plugins, writer, mask, SpoolMode.LOAD, keeps_columns=keeps_columns)
        try:
            spooler.start()
            deadline = time.monotonic() + DEADLINE_S
            while not spooler.has_loaded:
                assert (failure := spooler.failure()) is None, failure
                assert time.monotonic() < deadline
                threading.Event().wait(0.01)
        finally:
            spooler.close()
            writer.close()
        self.reader = SpoolReader(folder)
        self.reader.refresh()

    def slices(self, topic: str) -> list[SpoolSlice]:
        return [part for part in self.reader.slices(START, self.reader.end) if topic in part.entry.topics]

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """The rows of a table by ID, without where they were in the spool, and when they were read."""
        texts = [self.reader.schemas[str(number)] for number in self.reader.topics()[topic]]
        rows = TypedRows(topic, pa.schema([*columns_of(texts), ("_op", pa.string())]), ignores_others=False)
        found = [
            rows.decode(part.read(self.reader.directory), part.entry.first_row + part.first, self.reader.schemas)
            for part in self.slices(topic)
        ]
        return sorted(pa.concat_tables(found).to_pylist(), key=lambda row: row["id"])

    def in_columns(self, topic: str) -> int:
        """How many rows of a table are columns."""
        count = 0
        for part in self.slices(topic):
            segment = part.read(self.reader.directory)
            for name in columns_of_topic(segment.schema, topic):
                count += segment.num_rows - segment[name].null_count
        return count


@pytest.fixture
def tables(postgres: EmbeddedPostgres, database: str) -> dict[str, str]:
    """A table for each type, with values and nulls in turn: the topics by name."""
    found = {n: (t, v) for n, t, v, _ in [*COLUMNS, *MORE] if not any(part in t for part in OF_EXTENSIONS)}
    with postgres.connect(database) as connection:
        connection.execute("create type mood as enum ('ok', 'so, so'); create domain price as numeric(6, 2)")
        for name, (type_, value) in found.items():
            required = "" if value == "null" else "not null"
            connection.execute(f'create table "{name}" (id int primary key, v {type_}, same {type_} {required})')
            values = ", ".join(f"({i}, {'null' if i % 3 == 0 else value}, {value})" for i in range(ROWS))
            connection.execute(f'insert into "{name}" values {values}')
    return {name: f"p.public.{name}" for name in found}


def outcome(load: Load, topic: str) -> tuple[object, list[str]]:
    try:
        return None, [repr(row) for row in load.rows(topic)]  # NaN is equal to itself
    except Exception as e:
        return type(e), []


@pytest.mark.timeout(300)
def test_rows_in_columns_equal_those_of_records(
    postgres: EmbeddedPostgres, database: str, tables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_stream, "BATCH_ROWS", 3)
    columns = Load(postgres, database, tmp_path / "columns", keeps_columns=True)
    records = Load(postgres, database, tmp_path / "records", keeps_columns=False)
    found, expected = ({n: outcome(load, topic) for n, topic in tables.items()} for load in (columns, records))
    assert found == expected
    # The first and the last row of each table are records in any case: their markers differ.
    assert {n for n, topic in tables.items() if not columns.in_columns(topic)} == IN_RECORDS
    assert [row["v"] for row in columns.rows(tables["with_default"])] == [None] * ROWS
    segment = columns.slices(tables["a_int"])[0].read(columns.reader.directory)
    with pytest.raises(DataError, match=r"has rows instead of records\. Read it with the option table"):
        restore_bytes(segment, "value", columns.reader.schemas)
