"""Wider types of columns, and the rows that need them."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import DataError
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.row_limits import NO_LIMITS
from connectors.spark.plan.rows import PreparedRows, RowPreparation
from connectors.spark.plan.truncates import NO_FEEDS
from connectors.spark.plan.widening import widened_columns, with_wider_types
from connectors.spark.schema_settings import WIDEN
from connectors.spark.tables.planned_rows import split_bad_records
from tests.unit.connectors.spark.delivery.fakes import changes

D = decimal.Decimal
SETTINGS = TableConfig("append", (), "hard", WIDEN, (), keep_tombstones=True)


def rows(type_: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"a": pa.array(values, type_)})


@pytest.mark.parametrize(
    ("known", "incoming", "wider"),
    [
        (pa.int8(), pa.int16(), pa.int16()),
        (pa.int16(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.int8(), pa.float32(), pa.float64()),
        (pa.int64(), pa.float64(), pa.int64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.float64(), pa.float32(), pa.float64()),
        (pa.int32(), pa.decimal128(38, 28), pa.decimal128(38, 28)),
        (pa.int32(), pa.decimal128(38, 29), pa.int32()),
        (pa.int64(), pa.decimal128(38, 18), pa.decimal128(38, 18)),
        (pa.int64(), pa.decimal128(38, 19), pa.int64()),
        (pa.string(), pa.int64(), pa.string()),
        (pa.date32(), pa.timestamp("us"), pa.date32()),
        (pa.list_(pa.int8()), pa.list_(pa.int64()), pa.list_(pa.int64())),
    ],
)
def test_wider_type_of_the_rows_widens_a_column_if_it_holds_all_its_values(
    known: pa.DataType, incoming: pa.DataType, wider: pa.DataType
) -> None:
    assert with_wider_types({"a": known}, rows(incoming, None)) == {"a": wider}


def test_decimal_is_widened_by_a_value_that_does_not_fit() -> None:
    table = {"a": pa.decimal128(5, 2)}
    assert with_wider_types(table, rows(pa.decimal128(38, 2), D("999.99"), None)) == table
    assert with_wider_types(table, rows(pa.decimal128(38, 4), D("1.2300"))) == table
    assert with_wider_types(table, rows(pa.decimal128(38, 2), D("1000.00"))) == {"a": pa.decimal128(38, 2)}
    assert with_wider_types(table, rows(pa.decimal128(38, 4), D("1.2345"))) == {"a": pa.decimal128(38, 4)}
    assert with_wider_types(table, rows(pa.decimal128(38, 37), D("1." + 36 * "0" + "1"))) == table


def test_paths_name_the_fields_that_become_wider() -> None:
    table = {
        "s": pa.struct([("a", pa.int32()), ("b c", pa.float32())]),
        "l": pa.list_(pa.struct([("x", pa.int8())])),
        "n": pa.int8(),
    }
    incoming = pa.table(
        {
            "s": pa.array([{"b c": 1.5, "new": 1}], pa.struct([("b c", pa.float64()), ("new", pa.int64())])),
            "l": pa.array([[{"x": 300}]], pa.list_(pa.struct([("x", pa.int32())]))),
        }
    )
    wider = with_wider_types(table, incoming)
    assert widened_columns(table, wider) == [("`s`.`b c`", pa.float64()), ("`l`.element.`x`", pa.int32())]
    assert wider["n"] == pa.int8()
    assert not widened_columns(wider, wider)


def batches(*parts: Mapping[str, pa.Array]) -> list[ChangeBatch]:
    found = []
    for part in parts:
        one = changes(range(len(next(iter(part.values())))))
        found.append(ChangeBatch(one.topic, one.meta, pa.table(dict(part)), None))
    return found


def prepare(table: Columns, *parts: Mapping[str, pa.Array]) -> PreparedRows:
    prepared = RowPreparation("t", SETTINGS).prepare(table, batches(*parts), ())
    assert prepared is not None
    return prepared


def test_records_of_several_types_in_one_commit_get_a_column_for_all_of_them() -> None:
    prepared = prepare({"a": pa.int16()}, {"a": pa.array([70000], pa.int32())}, {"a": pa.array([0.5], pa.float64())})
    assert prepared.columns == {"a": pa.float64()}
    assert [part.image["a"].to_pylist() for part in prepared.changes] == [[70000.0], [0.5]]


def test_records_are_tried_with_the_types_to_which_others_of_their_commit_widen_the_column() -> None:
    """Each of them alone would widen SMALLINT."""
    parts = batches({"a": pa.array([0.5, 1.5])}, {"a": pa.array([D("2.500")], pa.decimal128(38, 3))})
    rows = RowPreparation("t", SETTINGS)
    good, bad = split_bad_records(rows, {"a": pa.int16()}, NO_LIMITS, (), parts, NO_FEEDS)
    assert ["column a is DOUBLE in the table, but DECIMAL(38,3) in the records" in one.reason.message for one in bad] == [True]
    prepared = rows.prepare({"a": pa.int16()}, good, ())
    assert prepared is not None
    assert prepared.columns == {"a": pa.float64()}


def test_value_that_no_wider_column_holds_is_reported() -> None:
    with pytest.raises(DataError, match="column a is BIGINT in the table, but DOUBLE in the records"):
        prepare({"a": pa.int64()}, {"a": pa.array([0.5])})


def test_records_that_fit_the_table_and_not_each_other_are_told_apart() -> None:
    # An INT column can become BIGINT, or DOUBLE, and not one after the other.
    preparation, table = RowPreparation("t", SETTINGS), {"a": pa.int32()}
    parts = batches({"a": pa.array([5], pa.int64())}, {"a": pa.array([1.5, 2.5])})
    with pytest.raises(DataError, match="column a is BIGINT in the table, but DOUBLE in the records"):
        preparation.prepare(table, parts, ())
    good, bad = split_bad_records(preparation, table, NO_LIMITS, (), parts, NO_FEEDS)
    assert [one.reason.message.endswith("with table.name.format") for one in bad] == [True, True]
    prepared = preparation.prepare(table, good, ())
    assert prepared is not None
    assert prepared.columns == {"a": pa.int64()}
