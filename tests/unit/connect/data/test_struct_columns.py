from __future__ import annotations

from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.data import Schema, Struct, Type
from connect.data.struct_columns import StructColumns
from connect.errors import DataError

ROW = Schema(Type.STRUCT, fields=[("id", Schema.INT32), ("name", Schema.OPTIONAL_STRING)])
EMPTY = Schema(Type.STRUCT, fields=[])


def _structs(columns: StructColumns) -> list[Struct]:
    return [Struct(columns.schema, [column[i] for column in columns.columns]) for i in range(columns.size)]


def test_struct_columns_are_a_sequence_of_structs() -> None:
    columns = StructColumns(ROW, [[1, 2, 3], ("a", None, "c")], 3)
    assert len(columns) == 3
    assert list(columns) == _structs(columns)
    assert columns[-1] == Struct(ROW, [3, "c"])
    assert Struct(ROW, [3, "c"]) in columns
    assert None not in columns
    assert list(columns[1:]) == _structs(columns)[1:]
    with pytest.raises(IndexError):
        columns[3]


def test_structs_without_fields_are_counted() -> None:
    columns = StructColumns(EMPTY, [], 3)
    assert list(columns) == [Struct(EMPTY, [])] * 3
    assert len(columns[:2]) == 2


@pytest.mark.parametrize("schemas", ["true", "false"])
@pytest.mark.parametrize("size", [1, 3, 600])
@pytest.mark.parametrize("schema", [ROW, EMPTY], ids=["row", "empty"])
def test_json_of_struct_columns_equals_json_of_their_structs(schema: Schema, size: int, schemas: str) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": schemas}, False)
    cells: list[list[Any]] = [list(range(size)), [None if i % 3 else f"ä{i}" for i in range(size)]] if schema is ROW else []
    columns = StructColumns(schema, cells, size)
    assert converter.encode_batch("t", schema, columns) == converter.encode_batch("t", schema, _structs(columns))


def test_invalid_value_is_reported_with_its_field() -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, False)
    with pytest.raises(DataError) as raised:
        converter.encode_batch("t", ROW, StructColumns(ROW, [[1, 2, None, 4, 5], ["a"] * 5], 5))
    assert raised.value.field == "id"
