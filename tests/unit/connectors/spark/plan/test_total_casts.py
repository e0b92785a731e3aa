"""Random nested types of a table and of records: each value of a record is in its row, rescued, or refused by name."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from connect.config.schema_contracts import ContractMode, ContractRules, FrozenSchemaError
from connect.errors import DataError
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.plan.deduplicate import with_key_columns
from connectors.spark.plan.evolution import Columns, cast_column, merge_columns, missing_columns, with_additions
from connectors.spark.plan.rows import PreparedRows, RowPreparation
from connectors.spark.plan.widening import widened_columns
from connectors.spark.schema_settings import SchemaSettings
from tests.unit.connectors.spark.delivery.fakes import changes

RESCUE = "_rescued_data"
D = decimal.Decimal
TEXT_MAP = pa.map_(pa.string(), pa.struct([("a", pa.int32())]))
WIDER_TEXT_MAP = pa.map_(pa.string(), pa.struct([("a", pa.int32()), ("b", pa.string())]))

LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False) | st.integers(-9, 9).map(float),
    pa.decimal128(38, 2): st.integers(-(10**9), 10**9).map(lambda n: D(n).scaleb(-2)),
    pa.decimal128(38, 4): st.integers(-(10**9), 10**9).map(lambda n: D(n).scaleb(-4)),
    pa.string(): st.text("ab", max_size=2),
    pa.bool_(): st.booleans(),
}
NAMES = st.sampled_from(["a", "b", "c"])


def structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.dictionaries(NAMES, inner, max_size=3).map(lambda fields: pa.struct(list(fields.items())))


def maps(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.builds(pa.map_, st.sampled_from([pa.string(), pa.int32(), pa.int64()]) | structs(LEAF_TYPES), inner)


LEAF_TYPES = st.sampled_from(list(LEAVES))
TYPES = st.recursive(LEAF_TYPES, lambda inner: structs(inner) | inner.map(pa.list_) | maps(inner), max_leaves=5)


@st.composite
def related(draw: st.DrawFn, type_: pa.DataType) -> pa.DataType:
    """The type with some other fields and other leaves."""
    t = pa.types
    if t.is_struct(type_):
        fields = {f.name: draw(related(f.type)) for f in type_ if draw(st.integers(0, 3))}
        return pa.struct(list({**fields, **draw(st.dictionaries(NAMES, LEAF_TYPES, max_size=1))}.items()))
    if t.is_list(type_):
        return pa.list_(draw(related(type_.value_type)))
    if t.is_map(type_):
        return pa.map_(draw(related(type_.key_type)), draw(related(type_.item_type)))
    return draw(LEAF_TYPES) if draw(st.integers(0, 5)) == 0 else type_


def values_of(type_: pa.DataType) -> st.SearchStrategy[Any]:
    t = pa.types
    if t.is_struct(type_):
        return st.fixed_dictionaries({f.name: st.none() | values_of(f.type) for f in type_})
    if t.is_list(type_):
        return st.lists(st.none() | values_of(type_.value_type), max_size=2)
    if t.is_map(type_):
        pairs = st.lists(st.tuples(values_of(type_.key_type), st.none() | values_of(type_.item_type)), max_size=2)
        return pairs.filter(lambda found: len({repr(key) for key, _ in found}) == len(found))
    return LEAVES[type_]


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.DataType, list[tuple[pa.DataType, list[Any]]]]:
    """The type of a table's column, and parts of records with their values."""
    table = draw(TYPES)
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        type_ = draw(related(table))
        parts.append((type_, draw(st.lists(st.none() | values_of(type_), min_size=1, max_size=3))))
    return table, parts


def leaves(value: Any, type_: pa.DataType, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The values in a value with their paths. Keys of maps are part of the path."""
    t = pa.types
    if value is None:
        return
    if t.is_struct(type_):
        for field in type_:
            yield from leaves(value[field.name], field.type, (*path, field.name))
    elif t.is_list(type_):
        for at, item in enumerate(value):
            yield from leaves(item, type_.value_type, (*path, at))
    elif t.is_map(type_):
        for key, item in value:
            name = frozenset(leaves(key, type_.key_type))
            yield (*path, name), "key"
            yield from leaves(item, type_.item_type, (*path, name))
    else:
        yield path, value


def batch(type_: pa.DataType, values: list[Any]) -> ChangeBatch:
    # A slice, as the columns of a larger batch are.
    column = pa.array([None, *values, None], type_).slice(1, len(values))
    image = pa.table({"id": pa.array(range(len(values)), pa.int64()), "m": column})
    return ChangeBatch("t", changes(range(len(values))).meta, image, None)


def prepare(
    evolution: str, table: Columns | None, parts: list[tuple[pa.DataType, list[Any]]], contract: ContractRules | None = None
) -> PreparedRows:
    schema = SchemaSettings() if contract is None else SchemaSettings(contract=contract)
    config = TableConfig("append", (), "hard", evolution, (), keep_tombstones=True, schema=schema)
    prepared = RowPreparation("t", config).prepare(table, [batch(*part) for part in parts], ())
    assert prepared is not None
    return prepared


def attempt(
    evolution: str, table: Columns | None, parts: list[tuple[pa.DataType, list[Any]]], contract: ContractRules | None = None
) -> PreparedRows | str:
    """The rows, or the text of the error."""
    try:
        return prepare(evolution, table, parts, contract)
    except (DataError, FrozenSchemaError) as e:
        return e.message


def rows_of(prepared: PreparedRows) -> Iterator[tuple[dict[str, Any], pa.Schema]]:
    for part in prepared.changes:
        for row in part.image.to_pylist():
            yield row, part.image.schema


def assert_values_are_in_rows(prepared: PreparedRows, parts: list[tuple[pa.DataType, list[Any]]]) -> None:
    expected = [(type_, value) for type_, values in parts for value in values]
    for (type_, value), (row, schema) in zip(expected, rows_of(prepared), strict=True):
        wanted = set(leaves(value, type_))
        found = set() if "m" not in row else set(leaves(row["m"], schema.field("m").type))
        rescued = None if row.get(RESCUE) is None else json.loads(row[RESCUE])
        assert wanted <= found or (rescued is not None and "m" in rescued), (value, row)


EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@EXAMPLES
@given(cases(), st.sampled_from(["add", "widen", "fail", "lenient"]))
@example((TEXT_MAP, [(WIDER_TEXT_MAP, [[("k", {"a": 1, "b": "text"})]])]), "add")
@example((TEXT_MAP, [(WIDER_TEXT_MAP, [[("k", {"a": 1, "b": "text"})]])]), "fail")
@example((TEXT_MAP, [(WIDER_TEXT_MAP, [[("k", {"a": 1, "b": "text"})]])]), "lenient")
@example((pa.list_(TEXT_MAP), [(pa.list_(WIDER_TEXT_MAP), [[[("k", {"a": 1, "b": "text"})]]])]), "widen")
def test_each_value_is_in_its_row_or_rescued_or_an_error_names_its_column(
    case: tuple[pa.DataType, list[tuple[pa.DataType, list[Any]]]], evolution: str
) -> None:
    type_, parts = case
    table: Columns = {"id": pa.int64(), "m": type_}
    if evolution == "lenient":
        table[RESCUE] = pa.string()
    prepared = attempt(evolution, table, parts)
    if isinstance(prepared, str):
        assert "column m" in prepared
        assert evolution != "lenient" or "structs without fields" in prepared
        return
    assert_values_are_in_rows(prepared, parts)
    if evolution == "lenient":
        assert prepared.columns == {name: table[name] for name in prepared.columns}
        return
    # The statements that the table gets make its columns those that are written.
    wider = {name: prepared.columns.get(name, one) for name, one in table.items()}
    widened = widened_columns(table, wider)
    assert evolution == "widen" or not widened
    assert not any(pa.types.is_nested(one) for _, one in widened)
    added = missing_columns(table, prepared.incoming)
    assert not missing_columns(with_additions(table, prepared.incoming), prepared.incoming)
    assert bool(added) == (with_additions(table, prepared.incoming) != table)
    assert not missing_columns(prepared.columns, prepared.incoming)


@EXAMPLES
@given(cases())
@example((pa.map_(pa.struct([("a", pa.int32())]), pa.int32()),
          [(pa.map_(pa.struct([("a", pa.int32()), ("b", pa.int32())]), pa.int32()),
            [[({"a": 1, "b": 1}, 1), ({"a": 1, "b": 2}, 2)]])]))  # fmt: skip
def test_without_evolution_only_fields_that_the_table_lacks_are_left_out(
    case: tuple[pa.DataType, list[tuple[pa.DataType, list[Any]]]],
) -> None:
    type_, parts = case
    prepared = attempt("none", {"id": pa.int64(), "m": type_}, parts)
    if isinstance(prepared, str):
        assert "column m" in prepared
        return
    expected = [(given, value) for given, values in parts for value in values]
    for (given_type, value), (row, schema) in zip(expected, rows_of(prepared), strict=True):
        found = set() if "m" not in row else set(leaves(row["m"], schema.field("m").type))
        for path, leaf in set(leaves(value, given_type)) - found:
            assert not reaches(type_, path), (leaf, row)


def reaches(type_: pa.DataType, path: tuple[Any, ...]) -> bool:
    """Whether the type has a leaf or a key at this path."""
    for step in path:
        if pa.types.is_struct(type_):
            if type_.get_field_index(step) < 0:
                return False
            type_ = type_.field(step).type
        elif pa.types.is_list(type_):
            type_ = type_.value_type
        else:
            type_ = type_.item_type
    return True


@EXAMPLES
@given(cases(), st.sampled_from([ContractMode.FREEZE, ContractMode.DROP_COLUMN, ContractMode.DEAD_LETTER_QUEUE]))
@example((TEXT_MAP, [(WIDER_TEXT_MAP, [[("k", {"a": 1, "b": "text"})]])]), ContractMode.DROP_COLUMN)
def test_contract_counts_each_value_that_it_leaves_out(
    case: tuple[pa.DataType, list[tuple[pa.DataType, list[Any]]]], mode: ContractMode
) -> None:
    type_, parts = case
    table: Columns = {"id": pa.int64(), "m": type_}
    prepared = attempt("add", table, parts, ContractRules(mode))
    if isinstance(prepared, str):
        assert "column m" in prepared
        return
    lost = 0
    expected = [(given, value) for given, values in parts for value in values]
    for (given_type, value), (row, schema) in zip(expected, rows_of(prepared), strict=True):
        found = set() if "m" not in row else set(leaves(row["m"], schema.field("m").type))
        lost += not set(leaves(value, given_type)) <= found
    assert lost <= prepared.dropped.get("m", 0)
    assert mode is ContractMode.DROP_COLUMN or not lost


@EXAMPLES
@given(st.lists(TYPES.flatmap(lambda t: st.tuples(related(t), related(t))), min_size=1, max_size=1), st.data())
def test_the_first_records_of_a_table_are_all_in_its_rows(
    types: list[tuple[pa.DataType, pa.DataType]], data: st.DataObject
) -> None:
    parts = [(one, data.draw(st.lists(st.none() | values_of(one), min_size=1, max_size=2))) for one in types[0]]
    prepared = attempt("add", None, parts)
    if isinstance(prepared, str):
        assert "column m" in prepared
        return
    assert_values_are_in_rows(prepared, parts)


def test_new_fields_of_the_values_of_a_map_are_added_and_its_keys_get_none() -> None:
    key, wider_key = pa.struct([("k", pa.int32())]), pa.struct([("k", pa.int32()), ("l", pa.int32())])
    value, wider_value = pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    table: Columns = {"m": pa.map_(key, value), "l": pa.list_(pa.map_(pa.string(), pa.list_(value)))}
    incoming: Columns = {"m": pa.map_(wider_key, wider_value), "l": pa.list_(pa.map_(pa.string(), pa.list_(wider_value)))}
    strings = pa.list_(pa.string())
    assert missing_columns(table, incoming) == [("`m`.value.`b`", strings), ("`l`.element.value.element.`b`", strings)]
    grown = with_additions(table, incoming)
    assert grown == {"m": pa.map_(key, wider_value), "l": incoming["l"]}
    assert merge_columns([table, incoming]) == incoming
    assert merge_columns([{"m": pa.map_(pa.string(), pa.int32())}, {"m": pa.map_(pa.string(), pa.int64())}]) == {
        "m": pa.map_(pa.string(), pa.int64())
    }


def test_types_that_do_not_fit_together_hide_no_new_field_of_a_column_that_the_table_has() -> None:
    one = pa.struct([("a", pa.decimal128(38, 2))])
    other = pa.struct([("a", pa.int32()), ("b", pa.string())])
    assert merge_columns([{"s": one}, {"s": other}], ["s"]) == {"s": pa.struct([*one, ("b", pa.string())])}


def test_key_of_a_map_with_a_field_that_the_table_lacks_is_refused_by_name() -> None:
    table: Columns = {"m": pa.map_(pa.struct([("k", pa.int32())]), pa.int32())}
    given = pa.map_(pa.struct([("k", pa.int32()), ("l", pa.int32())]), pa.int32())
    assert next(rows_of(prepare("add", table, [(given, [[({"k": 1, "l": None}, 2)]])])))[0]["m"] == [({"k": 1}, 2)]
    for evolution in ("add", "widen", "fail", "none"):
        with pytest.raises(DataError, match=r"offset 0: column m: .*does not fit MAP<STRUCT<`k`: INT>, INT>"):
            prepare(evolution, table, [(given, [[({"k": 1, "l": 3}, 2)]])])


def test_names_of_new_nested_fields_that_differ_only_in_case_are_refused() -> None:
    given = pa.list_(pa.map_(pa.string(), pa.struct([("a", pa.int32()), ("A", pa.int32())])))
    for table in (
        None,
        {"id": pa.int64()},
        {"id": pa.int64(), "m": pa.list_(pa.map_(pa.string(), pa.struct([("a", pa.int32())])))},
    ):
        with pytest.raises(DataError, match="differ only in case"):
            prepare("add", table, [(given, [None])])


@pytest.mark.parametrize("leaf", list(LEAVES), ids=str)
def test_a_type_fits_itself_wherever_it_is_nested(leaf: pa.DataType) -> None:
    given, wanted = pa.struct([("a", leaf)]), pa.struct([("a", leaf), ("z", pa.int32())])
    column = pa.chunked_array([pa.nulls(1, given)])
    assert cast_column(column, wanted, "s").type == wanted
    assert cast_column(pa.chunked_array([pa.nulls(1, pa.list_(given))]), pa.list_(wanted), "s").type == pa.list_(wanted)


@pytest.mark.parametrize(
    ("given", "precision", "scale"), [(pa.int32(), 10, 2), (pa.int64(), 20, 2), (pa.int64(), 38, 20)], ids=str
)
def test_an_integer_fits_a_decimal_that_holds_its_value(given: pa.DataType, precision: int, scale: int) -> None:
    wanted = pa.decimal128(precision, scale)
    assert cast_column(pa.chunked_array([pa.array([5, -5, None], given)]), wanted, "d").to_pylist() == [D(5), D(-5), None]
    with pytest.raises(DataError, match=r"column d: \d+ does not fit DECIMAL"):
        cast_column(pa.chunked_array([pa.array([5, 2**31 - 1], given)]), pa.decimal128(9, 2), "d")


@pytest.mark.parametrize(
    ("key", "row"),
    [
        (pa.array([None, "007"]), pa.array([7, 7])),
        (pa.array([5, 5]), pa.array([True, True])),
        (pa.array([1e300, 0.5]), pa.array([0.5, 0.5], pa.float32())),
        (pa.array([300, 1]), pa.array([1, 1], pa.int8())),
    ],
    ids=["text", "number", "infinity", "width"],
)
def test_a_record_key_that_does_not_fit_its_column_is_refused(key: pa.Array, row: pa.Array) -> None:
    one = replace(changes([1, 2]), image=pa.table({"id": row}), keys=pa.table({"id": key}))
    with pytest.raises(DataError, match=r"offset \d: .* in the field id of the record key, \w+, does not fit \w+ of the row"):
        with_key_columns(one, ("id",), False)


def test_keys_without_a_value_have_any_type() -> None:
    one = replace(changes([1, 2]), image=pa.table({"id": [7, 8]}), keys=pa.table({"id": pa.nulls(2, pa.string())}))
    assert with_key_columns(one, ("id",), False).image.to_pylist() == [{"id": 7}, {"id": 8}]


def test_a_value_that_python_lacks_is_shown_in_the_message() -> None:
    wanted = pa.struct([("at", pa.date32()), ("n", pa.int8())])
    days = pa.array([4_000_000], pa.int32()).cast(pa.date32())
    column = pa.chunked_array([pa.StructArray.from_arrays([days, pa.array([300])], ["at", "n"])])
    with pytest.raises(DataError, match="column s: a value does not fit STRUCT"):
        cast_column(column, wanted, "s")
    one = replace(changes([1]), image=pa.table({"id": [7]}), keys=pa.table({"id": days}))
    with pytest.raises(DataError, match=r"offset 1: \+?12921-08-18 in the field id of the record key, DATE, does not fit BIGINT"):
        with_key_columns(one, ("id",), False)


@given(st.integers(0, 10), st.integers(0, 38), st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=20))
def test_a_decimal_has_the_same_value_in_a_column_of_another_scale_or_does_not_fit(
    given_scale: int, scale: int, unscaled: list[int]
) -> None:
    with decimal.localcontext(prec=80):
        for number in unscaled:
            value = decimal.Decimal(number).scaleb(-given_scale)
            try:
                found = cast_column(
                    pa.chunked_array([pa.array([value], pa.decimal128(38, given_scale))]), pa.decimal128(38, scale), "c"
                )
            except DataError:
                digits = value.scaleb(scale)
                assert digits != digits.to_integral_value() or abs(digits) >= 10**38
            else:
                assert found[0].as_py() == value
