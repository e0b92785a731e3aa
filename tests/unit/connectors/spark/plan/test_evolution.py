"""Schema evolution: missing columns, types, and casts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connect.errors import DataError, SchemaError
from connectors.spark.plan.evolution import (
    arrow_type,
    cast_column,
    check_names,
    merge_columns,
    missing_columns,
    spark_json_field,
    sql_type,
    with_additions,
)


def test_columns_are_added_where_they_are_missing_nested_ones_too() -> None:
    table = {"id": pa.int64(), "s": pa.struct([("a", pa.int32())]), "l": pa.list_(pa.struct([("b", pa.string())]))}
    incoming = {
        "id": pa.int64(),
        "new": pa.string(),
        "s": pa.struct([("a", pa.int32()), ("c", pa.bool_())]),
        "l": pa.list_(pa.struct([("b", pa.string()), ("d", pa.date32())])),
    }
    assert missing_columns(table, incoming) == [("`new`", pa.string()), ("`s`.`c`", pa.bool_()), ("`l`.element.`d`", pa.date32())]
    assert list(with_additions(table, incoming)) == ["id", "s", "l", "new"]
    assert not missing_columns(with_additions(table, incoming), incoming)
    with pytest.raises(SchemaError, match="differ only in case"):
        missing_columns({"Id": pa.int64()}, {"id": pa.int64()})
    with pytest.raises(SchemaError, match="are reserved"):
        check_names(["__sluice_x"])


def test_types_round_trip_through_sql_and_spark_json() -> None:
    assert sql_type(pa.struct([("a b", pa.list_(pa.decimal128(38, 2)))])) == "STRUCT<`a b`: ARRAY<DECIMAL(38,2)>>"
    node = {"type": "map", "keyType": "string", "valueType": {"type": "array", "elementType": "timestamp_ntz"}}
    assert arrow_type(node) == pa.map_(pa.string(), pa.list_(pa.timestamp("us")))
    with pytest.raises(SchemaError, match="interval"):
        arrow_type("interval")


def test_values_fit_exactly_or_raise_an_error_that_names_them() -> None:
    assert cast_column(pa.chunked_array([pa.array([1, None], pa.int32())]), pa.int64(), "n").to_pylist() == [1, None]
    with pytest.raises(DataError, match="column n: 300 does not fit TINYINT") as error:
        cast_column(pa.chunked_array([pa.array([1, 300])]), pa.int8(), "n")
    assert error.value.args[1] == 1
    with pytest.raises(SchemaError, match="column n is STRING in the table, but BIGINT in the records"):
        cast_column(pa.chunked_array([pa.array([1])]), pa.string(), "n")
    nested = cast_column(
        pa.chunked_array([pa.array([[{"a": 1}], None])]), pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])), "l"
    )
    assert nested.to_pylist() == [[{"a": 1, "b": None}], None]
    assert merge_columns([{"a": pa.int32()}, {"a": pa.int64(), "b": pa.string()}]) == {"a": pa.int64(), "b": pa.string()}
    with pytest.raises(SchemaError, match="column a is both"):
        merge_columns([{"a": pa.int32()}, {"a": pa.string()}])


def test_types_survive_sparks_json() -> None:
    types = {
        "i": pa.int16(),
        "d": pa.decimal128(12, 3),
        "t": pa.timestamp("us", "UTC"),
        "s": pa.struct([("a", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.float64()))]),
    }
    for name, type_ in types.items():
        assert arrow_type(spark_json_field(name, type_)["type"]) == type_
