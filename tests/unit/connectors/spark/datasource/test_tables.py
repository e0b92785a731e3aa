"""The options of tables that a stream fills."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from connect.errors import ConfigError, ConnectError, DataError, RetriableError
from connect.spool.positions import START
from connect.spool.reader import SpoolReader
from connect.spool.writer import SpoolWriter
from connectors.spark.datasource.bounds import BOUNDS, bounds_row
from connectors.spark.datasource.columns import RECORDS
from connectors.spark.datasource.options import parse_options
from connectors.spark.datasource.tables import SpoolTables
from connectors.spark.tables.writer import TableWriter
from tests.unit.connect.spool.spools import NOW_MS, Run

SOURCE = {"connector.class": "PostgresConnector"}
SESSION: Any = SimpleNamespace(_jsparkSession=object())


def test_option_table_is_refused(tmp_path: Path) -> None:
    source = {**SOURCE, "spool.location": str(tmp_path / "spool"), "table": "public.orders"}
    with pytest.raises(ConfigError, match=r"table: SpoolTables writes all tables; choose them with topics of a sink"):
        SpoolTables(SESSION, source, {"table.location": str(tmp_path)})


@pytest.mark.parametrize(("given", "expected"), [({}, "nothing"), ({"unavailable.value.placeholder": "other"}, "other")])
def test_sinks_recognize_the_placeholder_of_the_connector(tmp_path: Path, given: dict[str, str], expected: str) -> None:
    source = {**SOURCE, "spool.location": str(tmp_path / "spool"), "unavailable.value.placeholder": "nothing"}
    with SpoolTables(SESSION, source, {"table.location": str(tmp_path / "lake"), **given}) as tables:
        assert [sink.config.table.unavailable for sink in tables._sinks] == [expected]


def test_stream_keeps_the_case_of_keys(tmp_path: Path) -> None:
    source = {**SOURCE, "spool.location": str(tmp_path / "spool"), "column.mask.hash.v2.SHA-256.with.salt.CzQMA0cB5K": "a.b.c"}
    found: dict[str, str] = {}

    def options(**given: str) -> Any:
        found.update({name.lower(): value for name, value in given.items()})  # as Spark does
        return SimpleNamespace(load=lambda: None)

    session: Any = SimpleNamespace(
        _jsparkSession=object(), readStream=SimpleNamespace(format=lambda name: SimpleNamespace(options=options))
    )
    with SpoolTables(session, source, {"table.location": str(tmp_path / "lake")}) as tables:
        tables.stream()
    parsed = parse_options(found)
    assert (parsed.properties, parsed.lower_case, parsed.reads_bounds) == (source, (), True)


class Batch:
    """A batch of records of one topic, as Spark gives it to ``foreachBatch``."""

    columns = RECORDS.names

    def __init__(self, *values: bytes, partitions: tuple[int, ...]) -> None:
        count = len(values)
        at = pa.array([0] * count, RECORDS.field("timestamp").type)
        columns = [[None] * count, values, ["t"] * count, partitions, range(count), at, [0] * count, [[]] * count]
        self._rows = pa.table([pa.array(column, member.type) for column, member in zip(columns, RECORDS, strict=True)], RECORDS)

    def select(self, *names: str) -> Batch:
        return self

    def toArrow(self) -> pa.Table:  # Spark's name
        return self._rows


def open_tables(folder: Path) -> SpoolTables:
    """Parquet tables, which need no Spark, of a new spool."""
    spool = folder / "spool"
    SpoolWriter(spool, "shop").close()
    source = {"connector.class": "PostgresConnector", "spool.location": str(spool)}
    sink = {"table.location": str(folder / "lake"), "table.format": "parquet", "metadata.columns": "none"}
    session: Any = SimpleNamespace(_jsparkSession=object())
    return SpoolTables(session, source, sink)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[SpoolTables]:
    with open_tables(tmp_path) as found:
        yield found


def numbers(count: int) -> list[bytes]:
    schema = b'{"schema":{"type":"struct","fields":[{"field":"id","type":"int64"}]},"payload":{"id":%d}}'
    return [schema % number for number in range(count)]


def test_batch_that_is_repeated_after_a_failed_commit_is_in_the_table_once(
    tables: SpoolTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch: Any = Batch(*numbers(4), partitions=(0, 1, 1, 0))
    with monkeypatch.context() as patch:
        patch.setattr(TableWriter, "commit", lambda *_: (_ for _ in ()).throw(RetriableError("busy")))
        with pytest.raises(RetriableError, match="busy"):
            tables.write(batch, 0)
    for _ in range(2):
        tables.write(batch, 0)
    rows = ds.dataset(tmp_path / "lake" / "t", format="parquet").to_table()
    assert sorted(rows["id"].to_pylist()) == [0, 1, 2, 3]
    assert tables.progress()["tables"]["t"]["rows"] == 4


def test_record_that_cannot_be_written_is_named_and_nothing_of_its_batch_is_kept(tables: SpoolTables, tmp_path: Path) -> None:
    bad: Any = Batch(b'{"schema":{"type":"int64"},"payload":1}', b"{", partitions=(0, 0))
    for _ in range(2):
        with pytest.raises(DataError, match="topic t, partition 0, offset 1"):
            tables.write(bad, 0)
    assert tables.progress()["tables"].get("t", {"commits": 0})["commits"] == 0


def test_rows_of_another_spool_are_refused_with_table_and_place(tmp_path: Path) -> None:
    batch: Any = Batch(*numbers(2), partitions=(0, 0))
    with open_tables(tmp_path) as first:
        first.write(batch, 0)
    shutil.rmtree(tmp_path / "spool")
    with open_tables(tmp_path) as second:
        problem = rf"^table t at {tmp_path}/lake has rows of another spool than {tmp_path}/spool, or of Kafka: use that "
        with pytest.raises(ConnectError, match=problem):
            second.write(batch, 0)


class Bounds:
    """A batch of all that a spool has, as the stream gives it."""

    columns = BOUNDS.names

    def __init__(self, spool: Path) -> None:
        reader = SpoolReader(spool)
        reader.refresh()
        self._rows = pa.Table.from_pylist([bounds_row(reader.id, reader.slices(START, reader.end))], BOUNDS)

    def toArrow(self) -> pa.Table:  # Spark's name
        return self._rows


def fill(spool: Path, *ids: int) -> None:
    writer = SpoolWriter(spool, "shop")
    schema = b'{"schema":{"type":"struct","fields":[{"field":"id","type":"int64"}]},"payload":{"id":%d}}'
    writer.add_segment(0, [(Run("t", [None] * len(ids), [schema % id_ for id_ in ids]), NOW_MS)], {"p": "1"})
    writer.close()


def test_a_spool_that_is_deleted_and_created_again_is_refused(tables: SpoolTables, tmp_path: Path) -> None:
    """Its rows would count as those of the old one."""
    spool = tmp_path / "spool"
    fill(spool, 1, 2, 3)
    batch: Any = Bounds(spool)
    tables.write(batch, 0)
    spool.rename(tmp_path / "old")  # kept, so that the new index is another file
    fill(spool, 101, 102, 103, 104, 105)
    batch = Bounds(spool)
    with pytest.raises(ConnectError, match="was deleted and created again, so its rows are others: make a new SpoolTables"):
        tables.write(batch, 1)
    assert ds.dataset(tmp_path / "lake" / "t", format="parquet").to_table()["id"].to_pylist() == [1, 2, 3]
