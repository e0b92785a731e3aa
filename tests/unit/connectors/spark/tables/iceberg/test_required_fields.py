"""Required fields of Iceberg tables: nothing without a value is written into them, however deep they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from connect.errors import DataError
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.types import Json

LIST: Json = {"type": "list", "element-id": 5, "element-required": True, "element": "long"}
STRUCT: Json = {
    "type": "struct",
    "fields": [
        {"id": 3, "name": "a", "required": True, "type": "long"},
        {"id": 4, "name": "l", "required": False, "type": LIST},
    ],
}
MAP: Json = {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value-required": True, "value": "long"}
SCHEMA: Json = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "s", "required": False, "type": STRUCT},
        {"id": 6, "name": "m", "required": False, "type": MAP},
    ],
}
S = pa.struct([("a", pa.int64()), ("l", pa.list_(pa.int64()))])
M = pa.map_(pa.string(), pa.int64())


def rows(ids: list[Any], structs: list[Any], maps: list[Any]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "s": pa.array(structs, S), "m": pa.array(maps, M)})


def writer(folder: Path) -> IcebergFileWriter:
    return IcebergFileWriter(fs.LocalFileSystem(), folder.as_uri(), SCHEMA, 0, 1000)


@pytest.mark.parametrize(
    ("table", "path", "index"),
    [
        (rows([1, None], [None] * 2, [None] * 2), "id", 1),
        (rows([1, 2], [None, {"a": None, "l": None}], [None] * 2), r"s\.a", 1),
        (rows([1, 2], [{"a": 1, "l": None}, {"a": 1, "l": [1, None]}], [None] * 2), r"s\.l\.element", 1),
        (rows([1, 2, 3], [None] * 3, [None, [("k", 1)], [("k", 1), ("z", None)]]), r"m\.value", 2),
        (rows([1], [{"a": 1, "l": None}], [None]).set_column(1, "s", [[{"l": [1]}]]), r"s\.a", 0),
    ],
)
def test_null_in_a_required_field_is_refused_by_name(table: pa.Table, path: str, index: int, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"column {path} is required in the table, and null in the records") as error:
        writer(tmp_path).write(table, ())
    assert error.value.args[1] == index
    assert not list(tmp_path.iterdir())


def test_a_required_field_may_lack_what_is_around_it(tmp_path: Path) -> None:
    table = rows([1, 2, 3], [None, {"a": 1, "l": None}, {"a": 2, "l": []}], [None, [], [("k", 1)]])
    assert writer(tmp_path).write(table, ())["rows"] == 3
