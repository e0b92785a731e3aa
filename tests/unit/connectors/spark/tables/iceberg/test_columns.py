"""Columns of data files are found as Iceberg finds them, whoever wrote the files, and new files have all that matter."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from connect.errors import ConnectError, RetriableError
from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.executor_files import ExecutorFile, ExecutorFiles
from connectors.spark.tables.files.compaction import Source, merge_files
from connectors.spark.tables.files.file_reader import read_file
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.iceberg.columns import NAME_MAPPING
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.file_format import LINEAGE, IcebergFormat
from connectors.spark.tables.iceberg.file_target import IcebergFileTarget
from connectors.spark.tables.iceberg.partitioning import Partitioning
from connectors.spark.tables.iceberg.types import file_schema, new_schema, read_columns
from connectors.spark.tables.iceberg.view import shape_of
from connectors.spark.tables.table import OffsetCommit
from tests.unit.connectors.spark.tables.iceberg.fake_catalog import TP, FakeCatalog, rows

FILES = fs.LocalFileSystem()
NOWHERE: S3Settings | None = None
MAPPING = [
    {"field-id": 1, "names": ["id"]},
    {"field-id": 2, "names": ["email", "e_mail"]},
    {"field-id": 3, "names": ["s"], "fields": [{"field-id": 4, "names": ["old"]}]},
]


def schema_of(columns: Mapping[str, pa.DataType], **defaults: Any) -> dict[str, Any]:
    """``defaults``: initial defaults of columns."""
    schema: dict[str, Any] = {**new_schema(dict(columns))}
    for field in schema["fields"]:
        if field["name"] in defaults:
            field["initial-default"] = defaults[field["name"]]
    return schema


def state_of(schema: Mapping[str, Any], specs: Sequence[Any] = (), **properties: str) -> dict[str, Any]:
    return {"schema": schema, "specs": specs, "properties": properties}


def entry_of(path: Path, partition: Sequence[Any] = (), spec: int = 0) -> dict[str, Any]:
    rows = pq.read_metadata(path).num_rows
    return {"path": str(path), "format": "PARQUET", "size": 1, "rows": rows, "spec": spec, "partition": list(partition)}


def live_table(state: Mapping[str, Any], *entries: Mapping[str, Any], keys: Sequence[str] = ()) -> IndexedFiles:
    columns = read_columns(state["schema"])
    indexed = IndexedFiles(FILES, IcebergFormat(state), {name: columns[name] for name in keys}, 1000)
    indexed.apply(entries, ())
    return indexed


def read(state: Mapping[str, Any], entry: Mapping[str, Any], names: Sequence[str] = ()) -> list[dict[str, Any]]:
    indexed = live_table(state, entry)
    (file,) = indexed.live.by_path.values()
    columns = read_columns(state["schema"])
    wanted = {name: columns[name] for name in names or columns}
    return [row for _, part in read_file(indexed.live, file, wanted, 10) for row in part.to_pylist()]


STRUCT = pa.struct([("new", pa.string())])


@pytest.fixture
def migrated(tmp_path: Path) -> Path:
    """A file that was written without Iceberg, before columns were renamed."""
    struct = pa.array([{"old": "a"}, None], pa.struct([("old", pa.string())]))
    path = tmp_path / "migrated.parquet"
    pq.write_table(
        pa.table({"id": pa.array([1, 2], pa.int64()), "e_mail": ["a@x", "b@x"], "s": struct, "gone": ["x", "y"]}), path
    )
    return path


COLUMNS = {"id": pa.int64(), "email": pa.string(), "s": STRUCT}


def test_files_without_ids_are_read_by_the_name_mapping(migrated: Path) -> None:
    state = state_of(schema_of(COLUMNS), **{NAME_MAPPING: json.dumps(MAPPING)})
    assert read(state, entry_of(migrated)) == [
        {"id": 1, "email": "a@x", "s": {"new": "a"}},
        {"id": 2, "email": "b@x", "s": None},
    ]
    assert live_table(state, entry_of(migrated), keys=["email"]).find(pa.table({"email": ["b@x"]})).rows.tolist() == [1]


def test_new_column_with_the_name_of_a_dropped_one_has_none_of_its_values(migrated: Path) -> None:
    schema = schema_of({**COLUMNS, "gone": pa.string()})
    state = state_of(schema, **{NAME_MAPPING: json.dumps(MAPPING)})
    assert read(state, entry_of(migrated), ["id", "gone"]) == [{"id": 1, "gone": None}, {"id": 2, "gone": None}]


def test_files_without_ids_are_refused_without_a_name_mapping(migrated: Path) -> None:
    reason = r"the file .*migrated\.parquet has no field IDs, and the table has no property schema\.name-mapping\.default. Set"
    with pytest.raises(ConnectError, match=reason):
        read(state_of(schema_of(COLUMNS)), entry_of(migrated))


def test_another_name_mapping_makes_files_be_read_again(tmp_path: Path) -> None:
    catalog = FakeCatalog(tmp_path)
    table = catalog.open()
    table.load([TP])
    view = table.view
    assert view is not None
    state = {**view.state, "properties": {"comment": "x"}}
    assert view.shape == shape_of(state)
    assert view.shape != shape_of({**state, "properties": {NAME_MAPPING: "[]"}})


def test_columns_are_found_by_their_ids(tmp_path: Path) -> None:
    schema = schema_of({"id": pa.int64(), "s": pa.struct([("a", pa.int32()), ("b", pa.string())]), "l": pa.list_(STRUCT)})
    rows = [{"id": 1, "s": {"a": 5, "b": "x"}, "l": [{"new": "n"}, None]}]
    pq.write_table(pa.Table.from_pylist(rows, file_schema(schema, ["id", "s", "l"])), tmp_path / "f.parquet")
    number, struct, listed = schema["fields"]
    number["name"] = "number"
    # The names of the two fields are exchanged, one is wider, and there is a third one.
    first, second = struct["type"]["fields"]
    added = {"id": 99, "name": "c", "required": False, "type": "int", "initial-default": 7}
    struct["type"] = {"type": "struct", "fields": [{**second, "name": "a"}, added, {**first, "name": "b", "type": "long"}]}
    listed["type"]["element"]["fields"][0]["name"] = "renamed"
    assert read(state_of(schema), entry_of(tmp_path / "f.parquet")) == [
        {"number": 1, "s": {"a": "x", "c": 7, "b": 5}, "l": [{"renamed": "n"}, None]}
    ]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.bool_(), True),
        (pa.int32(), -7),
        (pa.int64(), 1 << 40),
        (pa.string(), "abc"),
        (pa.date32(), dt.date(2024, 5, 6)),
        (pa.timestamp("us", "UTC"), dt.datetime(2024, 5, 6, 7, 8, 9, 1, dt.UTC)),
        (pa.binary(), b"\x00\xff"),
        (pa.float32(), float("inf")),
        (pa.float64(), 2.0),
        (pa.decimal128(38, 2), decimal.Decimal("-123456789012345678901234567890123456.78")),
        (pa.int32(), None),
    ],
    ids=str,
)
def test_partition_values_of_columns_that_files_lack(tmp_path: Path, type_: pa.DataType, value: Any) -> None:
    schema = schema_of({"id": pa.int64(), "p": type_}, p=1)
    pq.write_table(pa.table({"id": [1]}).cast(file_schema(schema, ["id"])), tmp_path / "f.parquet")
    field = {"source-id": 2, "field-id": 1000, "name": "p", "transform": "identity"}
    spec, other = {"spec-id": 3, "fields": [field]}, {"spec-id": 4, "fields": [{**field, "transform": "bucket[2]"}]}
    ((partition, _),) = Partitioning.read(spec, schema).split(pa.table({"p": pa.array([value], type_)}))
    entry = entry_of(tmp_path / "f.parquet", list(partition), 3)
    assert read(state_of(schema, [spec, other]), entry) == [{"id": 1, "p": value}]


# --- columns of new files


DEFAULTED = schema_of({"id": pa.int64(), "status": pa.string(), "plain": pa.string(), "n": pa.int32()}, status="new", n=0)


def columns_in(path: str) -> list[str]:
    return sorted(pq.read_schema(path).names)


def test_rows_without_a_column_that_has_an_initial_default_are_null_there(tmp_path: Path) -> None:
    writer = IcebergFileWriter(FILES, str(tmp_path), DEFAULTED, 0, 10)
    entry = writer.write(pa.table({"id": [1, 2]}), ())
    assert columns_in(entry["path"]) == ["id", "n", "status"]
    expected = [{"id": number, "status": None, "plain": None, "n": None} for number in (1, 2)]
    assert read(state_of(DEFAULTED), entry) == expected


def test_files_of_executors_have_them_too(tmp_path: Path) -> None:
    spec = {"spec-id": 0, "fields": []}
    target = IcebergFileTarget(str(tmp_path), f"{tmp_path}/data/x", NOWHERE, DEFAULTED, spec, 10)
    (file,) = target.write(pa.table({"id": [1]}))
    assert columns_in(file.path) == ["id", "n", "status"]


def test_files_of_executors_are_not_committed_once_the_schema_has_changed(tmp_path: Path) -> None:
    catalog = FakeCatalog(tmp_path)
    table = catalog.open()
    table.load([TP])
    target = table.file_target()
    assert target is not None
    (file,) = target.write(rows(1))

    def commit(entry: Mapping[str, Any]) -> None:
        files = ExecutorFiles(rows(1).schema, [ExecutorFile(file.path, entry, 1)])
        assert table.append(rows(), OffsetCommit({TP: (0, 1)}, {TP: 1}, files=files)) is not None

    with pytest.raises(RetriableError, match="has got another schema since Spark's executors wrote files for it"):
        commit({**file.entry, "schema": 7})
    commit(file.entry)
    assert catalog.rows == 1


def test_merged_files_keep_the_default_of_rows_that_have_it(tmp_path: Path) -> None:
    old = schema_of({"id": pa.int64()})
    before = IcebergFileWriter(FILES, str(tmp_path), old, 0, 10).write(pa.table({"id": [1]}), ())
    writer = IcebergFileWriter(FILES, str(tmp_path), DEFAULTED, 0, 10)
    after = writer.write(pa.table({"id": [2]}), ())
    indexed = live_table(state_of(DEFAULTED), before, after)
    sources = [Source(file, None) for file in indexed.live.by_path.values()]
    columns = {**read_columns(DEFAULTED), **LINEAGE}
    merged = merge_files(indexed.live, sources, columns, {}, lambda batches: writer.write_batches(batches, (), 0))
    assert merged.entry is not None
    assert read(state_of(DEFAULTED), merged.entry, ["id", "status", "n"]) == [
        {"id": 1, "status": "new", "n": 0},
        {"id": 2, "status": None, "n": None},
    ]


def test_initial_default_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    schema = schema_of({"id": pa.int64()})
    entry = IcebergFileWriter(FILES, str(tmp_path), schema, 0, 10).write(pa.table({"id": [1]}), ())
    changed = schema_of({"id": pa.int64(), "c": pa.int32()}, c="x")
    with pytest.raises(ConnectError, match="column c has the initial default 'x', which cannot be read"):
        read(state_of(changed), entry)
