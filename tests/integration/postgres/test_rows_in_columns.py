"""A query that reads tables has values in columns: the same rows as from records, for every type, of snapshots and of changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.errors import ConnectError, DataError
from connect.plugins import Plugins
from connect.spool.positions import START
from connect.spool.reader import SpoolReader, SpoolSlice
from connect.spool.segments import columns_of_topic, restore_bytes
from connect.spool.writer import SpoolWriter
from connectors.postgres.snapshot import copy_stream
from connectors.spark.datasource.columns import ADDED_COLUMNS
from connectors.spark.datasource.rows import TypedRows, columns_of
from connectors.spark.datasource.spool_decoder import SpoolDecoder
from connectors.spark.decode.change_batch import FIELDS, POSITION, SEQUENCE, SOURCE_MS
from connectors.spark.decode.topic_decoder import TopicDecoder
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.postgres.test_types import COLUMNS
from tests.support.postgres_options import postgres_options
from tests.support.waiting import eventually
from worker.config.secrets import SecretMask
from worker.spool.config import parse_spooler_config
from worker.spool.output import SpoolMode
from worker.spool.spooler import Spooler

ROWS = 7
MORE = [
    ("digits", "numeric(38,10)", "1234567890123456789012345678.0123456789", None),
    ("too_many_digits", "numeric(45,2)", "123456789012345678901234567890123456789.78", None),
    ("no_number_in_numeric", "double precision", "'NaN'", None),
    ("small_real", "real", "1.17549435e-38", None),
    ("with_default", "int default 7", "null", None),
    # Updates of other columns do not send it.
    ("toasted", "text", "repeat('x', 3000)", None),
]
OF_EXTENSIONS = ("vector(", "halfvec", "sparsevec", "float_")
IN_RECORDS = {
    # Structs, and arrays of values that Arrow has in another form.
    "numerics", "domains", "moneys", "a_point", "a_box", "a_lseg", "open_path", "closed_path", "a_polygon", "a_circle", "a_line",
    "a_money",
    # More digits than a decimal of Arrow.
    "too_many_digits",
}  # fmt: skip
IN_KEYS = {"a_uuid", "a_date", "a_timestamptz", "a_timestamp", "empty", "digits", "a_bool", "a_double", "a_bytea", "a_mood"}
UNREADABLE = {"too_many_digits", "far_timestamptz", "for_ever", "old_timestamptz"}
"""Spark has no such values."""
OTHERS = "others"
"""The table of the types that need none of their own."""


class Spool:
    """A spool and the connector that fills it, while the context lasts."""

    def __init__(
        self, server: EmbeddedPostgres, database: str, folder: Path, mode: SpoolMode, *, keeps_columns: bool, **more: str
    ) -> None:
        properties = {
            "name": "load",
            "connector.class": "PostgresConnector",
            **postgres_options(server, database),
            "topic.prefix": "p",
            "slot.name": f"{folder.name}_{database}",
            "publication.name": f"{folder.name}_{database}",
            "spool.location": str(folder),
            **more,
        }
        mask, plugins = SecretMask(), Plugins.discover()
        self._writer = SpoolWriter(folder, "load")
        config = parse_spooler_config(properties, plugins, mask)
        self._spooler = Spooler(config, plugins, self._writer, mask, mode, keeps_columns=keeps_columns)
        self.reader = SpoolReader(folder)

    def __enter__(self) -> Self:
        self._spooler.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._spooler.close()
        self._writer.close()
        self.reader.refresh()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        def is_met() -> bool:
            assert (failure := self._spooler.failure()) is None, failure
            return condition()

        eventually(is_met, "the spool")

    def wait_for_rows(self, count: int) -> None:
        self.wait_until(lambda: self.count() >= count)

    def has_loaded(self) -> bool:
        return self._spooler.has_loaded

    def count(self) -> int:
        """The rows of the spool."""
        return sum(entry.rows for entry in self.reader.entries) if self.reader.refresh() else 0

    def slices(self, topic: str) -> list[SpoolSlice]:
        return [part for part in self.reader.slices(START, self.reader.end) if topic in part.entry.topics]

    def rows(self, topic: str, *added: str) -> list[dict[str, Any]]:
        """The rows of a table in the order of the spool, without columns that depend on when they were read."""
        texts = [self.reader.schemas[str(number)] for number in self.reader.topics()[topic]]
        columns = [field for field in ADDED_COLUMNS if field.name in ("_op", *added)]
        rows = TypedRows(topic, pa.schema([*columns_of(texts), *columns]), ignores_others=False)
        found = [
            rows.decode(part.read(self.reader.directory), part.entry.first_row + part.first, self.reader.schemas)
            for part in self.slices(topic)
        ]
        table = pa.concat_tables(found)
        listed: list[dict[str, Any]] = _with_numbers(table).to_pylist()
        return listed

    def changes(self, topic: str, *ignored: str) -> list[str]:
        """Keys, operations, and rows as the sink gets them, in the order of the spool; or the error that they cause."""
        converter = JsonConverter()
        decoder = TopicDecoder(
            topic, converter, converter, key_schemas=True, value_schemas=True, fill_defaults=False, key_name=None,
            needs_names=True, needs_keys=True, needs_position=True,
        )  # fmt: skip
        spool_decoder = SpoolDecoder(decoder, with_keys=True)
        found: list[tuple[int, str]] = []
        for part in self.slices(topic):
            rows, first = part.read(self.reader.directory), part.entry.first_row + part.first
            try:
                batches = spool_decoder.decode(rows, first, self.reader.schemas)
            except ConnectError as e:
                return [type(e).__name__]
            for batch in batches:
                assert batch.keys is not None
                meta = _shown(batch.meta.drop_columns([FIELDS, SOURCE_MS, *ignored]))
                for one, key, row in zip(meta, _shown(batch.keys), _shown(batch.image), strict=True):
                    found.append((one[SEQUENCE], repr((one, key, row))))
        return [text for _, text in sorted(found)]

    def in_columns(self, topic: str) -> int:
        """How many rows of a table are columns."""
        count = 0
        for part in self.slices(topic):
            segment = part.read(self.reader.directory)
            for name in columns_of_topic(segment.schema, topic):
                count += segment.num_rows - segment[name].null_count
        return count


def _shown(table: pa.Table) -> list[dict[str, Any]]:
    """The rows without nulls: a column without values may be missing."""
    return [{name: value for name, value in row.items() if value is not None} for row in _with_numbers(table).to_pylist()]


def _with_numbers(table: pa.Table) -> pa.Table:
    """A table with times as numbers: Python's end with the year 9999."""
    for at, field in enumerate(table.schema):
        if pa.types.is_date(field.type) or pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table[field.name].cast(f"int{field.type.bit_width}"))
    return table


def load(server: EmbeddedPostgres, database: str, folder: Path, *, keeps_columns: bool) -> Spool:
    """A spool with everything that exists."""
    with Spool(server, database, folder, SpoolMode.LOAD, keeps_columns=keeps_columns) as spool:
        spool.wait_until(spool.has_loaded)
    return spool


def types() -> dict[str, tuple[str, str]]:
    """Types and values by name."""
    return {n: (t, v) for n, t, v, _ in [*COLUMNS, *MORE] if not any(part in t for part in OF_EXTENSIONS)}


def create_tables(server: EmbeddedPostgres, database: str, columns: dict[str, dict[str, tuple[str, str]]]) -> dict[str, str]:
    """Tables with values and nulls in turn, from types and values by table and suffix of the columns: the topics by table."""
    with server.connect(database) as connection:
        connection.execute("create type mood as enum ('ok', 'so, so'); create domain price as numeric(6, 2)")
        for name, found in columns.items():
            defined = [
                f"v{suffix} {type_}, same{suffix} {type_} {'' if value == 'null' else 'not null'}"
                for suffix, (type_, value) in found.items()
            ]
            connection.execute(f'create table "{name}" (id int primary key, {", ".join(defined)})')
            if name == "toasted":
                connection.execute('alter table "toasted" alter column same set storage external')
            for i in range(ROWS):
                values = [f"{'null' if i % 3 == 0 else value}, {value}" for _, value in found.values()]
                connection.execute(f'insert into "{name}" values ({i}, {", ".join(values)})')
            if name in IN_KEYS:
                connection.execute(f'alter table "{name}" drop constraint "{name}_pkey", add primary key (id, same)')
    return {name: f"p.public.{name}" for name in columns}


@pytest.fixture
def tables(postgres: EmbeddedPostgres, database: str) -> dict[str, str]:
    """A table for each type: the topics by name."""
    return create_tables(postgres, database, {name: {"": found} for name, found in types().items()})


@pytest.fixture
def few_tables(postgres: EmbeddedPostgres, database: str) -> dict[str, str]:
    """A table for each type that decides about its whole table or is in its key, and one for all others: the topics by name."""
    columns: dict[str, dict[str, tuple[str, str]]] = {OTHERS: {}}
    for name, found in types().items():
        if name in {*IN_RECORDS, *IN_KEYS, *UNREADABLE, "a_int", "with_default", "toasted"}:
            columns[name] = {"": found}
        else:
            columns[OTHERS][f"_{name}"] = found
    return create_tables(postgres, database, columns)


def outcome(spool: Spool, topic: str, *added: str) -> tuple[object, list[str]]:
    """The rows, or the error that they cause."""
    try:
        return None, [repr(row) for row in spool.rows(topic, *added)]  # NaN is equal to itself
    except ConnectError as e:
        return type(e), []


@pytest.mark.timeout(300)
def test_rows_in_columns_equal_those_of_records(
    postgres: EmbeddedPostgres, database: str, few_tables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = few_tables
    monkeypatch.setattr(copy_stream, "BATCH_ROWS", 3)
    columns = load(postgres, database, tmp_path / "columns", keeps_columns=True)
    records = load(postgres, database, tmp_path / "records", keeps_columns=False)
    found, expected = ({n: outcome(spool, topic) for n, topic in tables.items()} for spool in (columns, records))
    assert found == expected
    assert {name for name, (error, _) in found.items() if error} == UNREADABLE
    for name, topic in tables.items():
        assert columns.changes(topic, POSITION) == records.changes(topic, POSITION), name
    # The first and the last row of each table are records in any case: their markers differ.
    assert {n for n, topic in tables.items() if not columns.in_columns(topic)} == IN_RECORDS
    assert [row["v"] for row in columns.rows(tables["with_default"])] == [None] * ROWS
    segment = columns.slices(tables["a_int"])[0].read(columns.reader.directory)
    with pytest.raises(DataError, match=r"has rows instead of records\. Read it with the option table"):
        restore_bytes(segment, "value", columns.reader.schemas)


@pytest.mark.timeout(300)
@pytest.mark.long
def test_changes_in_columns_equal_those_of_records(
    postgres: EmbeddedPostgres, database: str, tables: dict[str, str], tmp_path: Path
) -> None:
    def stream(folder: str, *, keeps_columns: bool) -> Spool:
        no_data = {"snapshot.mode": "no_data", "heartbeat.interval.ms": "0"}
        return Spool(postgres, database, tmp_path / folder, SpoolMode.STREAM, keeps_columns=keeps_columns, **no_data)

    with stream("columns", keeps_columns=True) as columns, stream("records", keeps_columns=False) as records:
        for spool in (columns, records):
            spool.wait_until(partial(has_active_slot, postgres, database, spool.reader.directory.name))
        with postgres.connect(database) as connection:
            for at, name in enumerate(tables):
                copies = f'select g, v, same from "{name}" t, generate_series(100, 399) g where t.id = 1'
                connection.execute(f'alter table "{name}" replica identity {"full" if at % 3 == 0 else "default"}')
                connection.execute(f'insert into "{name}" {copies}')
                connection.execute(f'update "{name}" set v = null where id between 100 and 299')
                connection.execute(f'update "{name}" set id = id + 1000 where id between 100 and 110')
                connection.execute(f'delete from "{name}" where id >= 200')
        changes = len(tables) * (300 + 200 + 3 * 11 + 2 * (200 + 11))
        for spool in (columns, records):
            spool.wait_for_rows(changes)
    assert columns.count() == records.count() == changes
    added = "_ts", "_position", "_unchanged"
    found, expected = ({n: outcome(spool, topic, *added) for n, topic in tables.items()} for spool in (columns, records))
    assert found == expected
    assert {name for name, (error, _) in found.items() if error} == UNREADABLE
    for name, topic in tables.items():
        assert columns.changes(topic) == records.changes(topic), name
    assert any(row["_unchanged"] == ["same"] for row in columns.rows(tables["toasted"], "_unchanged"))
    assert {n for n, topic in tables.items() if not columns.in_columns(topic)} == IN_RECORDS


def has_active_slot(server: EmbeddedPostgres, database: str, folder: str) -> bool:
    with server.connect(database) as connection:
        return bool(
            connection.execute(
                "select 1 from pg_replication_slots where slot_name = %s and active", (f"{folder}_{database}",)
            ).fetchall()
        )
