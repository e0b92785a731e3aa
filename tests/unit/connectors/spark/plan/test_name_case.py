"""Columns that are found by names in other case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import ConnectError, DataError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import FIELDS, OLD_KEY, ChangeBatch, make_meta
from connectors.spark.decode.present_fields import fields_of, fields_text
from connectors.spark.plan.name_case import with_table_names
from connectors.spark.plan.renames import rename_fields
from connectors.spark.schema_settings import SchemaSettings
from connectors.spark.tables.writer import TableWriter
from tests.support.files_only_table import FilesOnlyTable, Storage

UPSERT = TableConfig("upsert", ("id",), "hard", "add", (), keep_tombstones=True, ignores_case=True)
KEEP = replace(UPSERT, schema=SchemaSettings(keeps_missing=True))


def _changes(columns: dict[str, Any], keys: dict[str, Any] | None = None, first: int = 0) -> ChangeBatch:
    image = pa.table(columns)
    numbers = pa.array(range(first, first + image.num_rows), pa.int64())
    none = pa.nulls(len(numbers), pa.string())
    meta = make_meta(numbers, none, pa.nulls(len(numbers), pa.int64()), pa.array([0] * len(numbers), pa.int32()), numbers)
    return ChangeBatch("t", meta, image, None if keys is None else pa.table(keys))


def _with_fields(changes: ChangeBatch, *texts: str) -> ChangeBatch:
    fields = pa.array([fields_text(text.split()) for text in texts])
    return replace(changes, meta=changes.meta.set_column(changes.meta.column_names.index(FIELDS), FIELDS, fields))


class _Table:
    """A table with these columns, to which records are written one by one."""

    def __init__(self, folder: Path, config: TableConfig, columns: dict[str, pa.DataType]) -> None:
        storage = Storage(folder)
        storage.columns = columns
        self._files = FilesOnlyTable(storage)
        self._writer = TableWriter("t", config, self._files, lambda topic: TopicIdentity("cluster", "-", 1))
        self._next = 0

    def write(self, *rows: dict[str, Any]) -> list[dict[str, Any]]:
        """Each row is a record without a schema, and a commit. Returns the rows of the table."""
        for row in rows:
            changes = _changes({name: [value] for name, value in row.items()}, first=self._next)
            self._writer.commit([_with_fields(changes, " ".join(row))], [TopicPartition("t", 0)])
            self._next += 1
        return self._files.rows()


def test_columns_and_nested_fields_get_the_names_of_the_table() -> None:
    table = {"id": pa.int64(), "at": pa.struct([("place", pa.struct([("Zip", pa.string())]))])}
    given = _changes({"ID": [1, 2], "AT": [{"Place": {"zip": "x"}, "New": 1}, None]}, {"Id": [1, 2]})
    (found,) = with_table_names([given], table)
    assert found.image.to_pylist() == [{"id": 1, "at": {"place": {"Zip": "x"}, "New": 1}}, {"id": 2, "at": None}]
    assert found.keys is not None
    assert found.keys.column_names == ["id"]


def test_first_record_names_a_new_column() -> None:
    first, second = with_table_names([_changes({"Name": ["a"]}), _changes({"NAME": ["b"]})], {})
    assert (first.image.column_names, second.image.column_names) == (["Name"], ["Name"])


def test_fields_of_different_records_become_one_column() -> None:
    (found,) = with_table_names([_changes({"n": pa.array([None, 1, None]), "N": pa.array([5, None, None], pa.int32())})], {})
    assert found.image.to_pylist() == [{"n": 5}, {"n": 1}, {"n": None}]


def test_two_values_for_one_column_name_the_record() -> None:
    with pytest.raises(DataError, match=r"offset 1.*two fields have the name n"):
        with_table_names([_changes({"n": [None, 1], "N": [2, 3]})], {})


@pytest.mark.parametrize("other", [["x", None], ["007", None], [True, None], [0.5, None]], ids=str)
def test_values_that_do_not_fit_together_are_an_error(other: list[Any]) -> None:
    with pytest.raises(DataError, match="two fields have the name n"):
        with_table_names([_changes({"n": [None, 1], "N": other})], {})


def test_two_nested_fields_with_one_name_are_an_error() -> None:
    with pytest.raises(DataError, match=r"two fields have the name s\.a"):
        with_table_names([_changes({"s": [{"A": 1, "a": 2}]})], {"s": pa.struct([("a", pa.int64())])})


def test_old_keys_fields_and_defaults_of_a_record_get_the_names_of_the_table() -> None:
    given = _with_fields(_changes({"ID": [1, 2]}, {"iD": [1, 2]}), "ID name", "id")
    old_keys = pa.array([{"id": 5}, None], pa.struct([("id", pa.int64())]))
    given = replace(given, meta=given.meta.append_column(OLD_KEY, old_keys), defaults={"name": pa.scalar("x")})
    (found,) = with_table_names([given], {"Id": pa.int64(), "NAME": pa.string()})
    assert [fields_of(text) for text in found.meta[FIELDS].to_pylist()] == [{"Id", "NAME"}, {"Id"}]
    assert found.meta[OLD_KEY].to_pylist() == [{"Id": 5}, None]
    assert found.defaults == {"NAME": pa.scalar("x")}
    assert found.keys is not None
    assert found.keys.column_names == ["Id"]


def test_two_values_for_one_key_column_name_the_record() -> None:
    with pytest.raises(DataError, match=r"offset 0.*two fields have the name id"):
        with_table_names([_changes({"id": [1]}, {"id": [1], "ID": [2]})], {})


def test_only_a_member_that_an_object_lacks_keeps_its_value(tmp_path: Path) -> None:
    table = _Table(tmp_path, KEEP, {"ID": pa.int64(), "NAME": pa.string(), "AGE": pa.int64()})
    assert table.write({"id": 1, "name": "ann", "age": 5}) == [{"ID": 1, "NAME": "ann", "AGE": 5}]
    assert table.write({"id": 1, "Name": "bob", "age": 6}) == [{"ID": 1, "NAME": "bob", "AGE": 6}]
    assert table.write({"id": 1, "age": 7}) == [{"ID": 1, "NAME": "bob", "AGE": 7}]


def test_renamed_field_without_a_value_is_not_missing() -> None:
    """A part of a batch has no column for a field that is null in all its records."""
    found = rename_fields(_with_fields(_changes({"id": [1]}), "id e_mail"), {"e_mail": "email"})
    assert [fields_of(text) for text in found.meta[FIELDS].to_pylist()] == [{"id", "email"}]


def test_two_fields_of_a_renamed_column_are_refused_also_without_values() -> None:
    changes = _with_fields(_changes({"id": [1], "email": ["x"]}), "id e_mail email")
    with pytest.raises(DataError, match=r"offset 0: the record has the fields e_mail and email"):
        rename_fields(changes, {"e_mail": "email"})


@pytest.mark.parametrize("columns", [["id", "v", "_cdc", "op"], ["ID", "V", "_CDC", "OP"]], ids=["same", "other"])
@pytest.mark.parametrize("renames", [{}, {"_cdc": "_Cdc"}], ids=["", "renamed"])
def test_operation_is_read_by_the_names_of_the_record(tmp_path: Path, columns: list[str], renames: dict[str, str]) -> None:
    settings = replace(UPSERT, operation_field=("_cdc", "op"), schema=SchemaSettings(renames=renames))
    key, value, block, operation = columns
    table = _Table(tmp_path, settings, {key: pa.int64(), value: pa.string(), block: pa.struct([(operation, pa.string())])})
    inserts = [{"id": id_, "v": "a", "_cdc": {"op": "I"}} for id_ in (1, 2)]
    assert [row[key] for row in table.write(*inserts, {"id": 1, "v": "a", "_cdc": {"op": "D"}})] == [2]


def test_mark_of_deletes_is_read_by_the_name_of_the_record(tmp_path: Path) -> None:
    table = _Table(tmp_path, UPSERT, {"ID": pa.int64(), "__DELETED": pa.string()})
    rows = [{"id": 1, "__deleted": "false"}, {"id": 2, "__deleted": "false"}, {"id": 1, "__deleted": "true"}]
    assert [row["ID"] for row in table.write(*rows)] == [2]


def test_field_is_renamed_by_the_name_of_the_record_into_the_column_of_the_table(tmp_path: Path) -> None:
    settings = replace(UPSERT, schema=SchemaSettings(renames={"e_mail": "email"}))
    table = _Table(tmp_path, settings, {"ID": pa.int64(), "E_MAIL": pa.string(), "EMAIL": pa.string()})
    assert table.write({"id": 1, "e_mail": "x"}) == [{"ID": 1, "E_MAIL": None, "EMAIL": "x"}]


def test_values_under_the_name_of_a_renamed_field_are_found_in_other_case(tmp_path: Path) -> None:
    settings = replace(UPSERT, schema=SchemaSettings(renames={"e_mail": "email"}))
    table = _Table(tmp_path, settings, {"ID": pa.int64(), "E_Mail": pa.string()})
    with pytest.raises(ConnectError, match=r"has the column E_Mail and lacks email.*set column\.renames=email:E_Mail"):
        table.write({"id": 1, "e_mail": "x"})
