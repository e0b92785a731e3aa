"""What schema a function's result gets when its original had one."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pytest

from connect import DataError, Schema, SchemaAndValue, SchemaBuilder, SinkRecord, Struct
from connect.converters.json.converter import JsonConverter
from connect.data.logical import decimal_schema, timestamp_schema
from connect.functions.transformation import PythonTransformation
from connect.java.sized_numbers import round_to_float32

SHOP = "tests.unit.connect.functions.shop"
INNER = SchemaBuilder.struct().field("city", Schema.STRING).optional().build()
ORDER = (
    SchemaBuilder.struct()
    .name("order").version(2)
    .field("id", Schema.INT32).field("note", Schema.OPTIONAL_STRING).field("price", Schema.FLOAT32)
    .field("to", INNER).field("tags", SchemaBuilder.array(Schema.STRING).build())
    .build()
)  # fmt: skip
ROW: list[Any] = [1, None, 2.5, Struct(INNER, ["Ulm"]), ["a"]]


class Applied:
    """A function under a transformation, without a module to import it from."""

    def __init__(self, function: Any, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
        monkeypatch.setattr(f"{SHOP}.trim", function)
        self.transformation = PythonTransformation()
        self.transformation.configure({"function": f"{SHOP}:trim", "function.takes": "value", **settings})

    def __call__(self, schema: Schema | None, value: Any) -> SchemaAndValue:
        record = self.transformation.apply(SinkRecord("t", 0, None, None, schema, value, 0))
        assert record is not None
        if record.value_schema is not None:
            JsonConverter().from_connect_data("t", record.value_schema, record.value)  # it fits its schema
        return SchemaAndValue(record.value_schema, record.value)


def order(**changes: Any) -> Struct:
    struct = Struct(ORDER, list(ROW))
    for name, value in changes.items():
        struct[name] = value
    return struct


def test_struct_is_passed_as_a_dict_and_returned_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    def show(value: Any) -> Any:
        shown.append(value)
        return value

    schema, value = Applied(show, monkeypatch)(ORDER, order())
    assert shown == [{"id": 1, "note": None, "price": 2.5, "to": {"city": "Ulm"}, "tags": ["a"]}]
    assert schema is ORDER
    assert value == order()


@pytest.mark.parametrize("way", ["infer", "keep"])
def test_changed_values_that_fit_keep_the_schema_object(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    def change(value: dict[str, Any]) -> dict[str, Any]:
        value["price"], value["to"]["city"] = 3, "Bonn"
        value["tags"].append("b")
        return value

    given = order()
    schema, value = Applied(change, monkeypatch, **{"function.schema": way})(ORDER, given)
    assert schema is ORDER
    assert value.as_dict() == {"id": 1, "note": None, "price": 3.0, "to": {"city": "Bonn"}, "tags": ["a", "b"]}
    assert given == order()


def test_new_fields_get_the_schema_of_their_value(monkeypatch: pytest.MonkeyPatch) -> None:
    when = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    new = {
        "n": 1,
        "x": 0.5,
        "ok": True,
        "s": "t",
        "b": b"1",
        "d": decimal.Decimal("1.50"),
        "at": when,
        "list": [1],
        "in": {"a": 1},
    }
    schema, value = Applied(lambda value: {**value, **new}, monkeypatch)(ORDER, order())
    assert schema is not None
    assert (schema.name, schema.version) == ("order", 2)
    assert schema.field_names == (*ORDER.field_names, *new)
    assert schema.fields is not None
    found = {field.name: field.schema for field in schema.fields[5:]}
    assert found["n"] is Schema.OPTIONAL_INT64
    assert found["d"] == decimal_schema(2, optional=True)
    assert found["at"] == timestamp_schema(optional=True)
    assert found["in"].field_names == ("a",)
    assert value.as_dict() == {**order().as_dict(), **new}


def test_results_with_the_same_fields_share_a_schema_object(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = Applied(lambda value: {**value, "n": value["id"]}, monkeypatch)
    assert applied(ORDER, order()).schema is applied(ORDER, order(id=2)).schema


def test_removed_fields_are_removed_from_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, value = Applied(lambda value: {"price": value["price"], "id": value["id"]}, monkeypatch)(ORDER, order())
    assert schema is not None
    assert schema.field_names == ("price", "id")
    assert value.values == [2.5, 1]


def test_empty_result_is_a_struct_without_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, value = Applied(lambda value: {}, monkeypatch)(ORDER, order())
    assert schema is not None
    assert (schema.field_names, value.values) == ((), [])


def test_results_with_different_fields_do_not_affect_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    extras: dict[int, dict[str, Any]] = {1: {}, 2: {"a": 1}, 3: {"a": 1, "b": "x"}, 4: {"id": "four"}, 5: {"a": None}}

    def change(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, **extras[value["id"]]}

    applied = Applied(change, monkeypatch)
    usual = ORDER.field_names
    expected = {1: usual, 2: (*usual, "a"), 3: (*usual, "a", "b"), 4: usual, 5: (*usual, "a")}
    for number in (1, 2, 3, 4, 5, 4, 3, 2, 1):
        schema, value = applied(ORDER, order(id=number))
        assert schema is not None
        assert schema.field_names == expected[number]
        assert value["id"] == ("four" if number == 4 else number)
        assert (schema == ORDER) is (number == 1)


def test_field_of_another_type_gets_the_schema_of_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, value = Applied(lambda value: {**value, "id": str(value["id"]), "tags": None}, monkeypatch)(ORDER, order())
    assert schema is not None
    assert schema.fields is not None
    assert schema.fields[0].schema is Schema.OPTIONAL_STRING
    assert schema.fields[4].schema.optional
    assert value["id"] == "1"
    assert value["tags"] is None


def test_new_null_field_is_left_out_until_its_type_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = Applied(lambda value: {**value, "new": value["note"]}, monkeypatch)
    assert applied(ORDER, order()).schema == ORDER
    known = applied(ORDER, order(note="x"))
    assert known.value["new"] == "x"
    assert applied(ORDER, order()).schema is known.schema


def test_new_field_keeps_its_first_type(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = Applied(lambda value: {**value, "new": {1: 5, 2: 0.5}[value["id"]]}, monkeypatch)
    applied(ORDER, order())
    with pytest.raises(DataError, match=r'FLOAT64|INT64.*"new"'):
        applied(ORDER, order(id=2))
    other = Applied(lambda value: {**value, "new": {1: 0.5, 2: 5}[value["id"]]}, monkeypatch)
    other(ORDER, order())
    assert other(ORDER, order(id=2)).value["new"] == 5.0  # a whole number is a float too, exactly


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ([], "new is a value of type empty list, from which no schema can be inferred; declare one"),
        ({}, "new is a value of type empty dict"),
        ({"a": [None]}, "new.a[] is null"),
        ([1, "a"], "new[1]"),
        (object(), "new is a value of type object"),
        (decimal.Decimal("NaN"), "new is a value of type Decimal"),
        (2**63, "new"),
    ],
)
def test_value_without_inferable_schema_is_rejected(monkeypatch: pytest.MonkeyPatch, new: Any, expected: str) -> None:
    with pytest.raises(DataError) as caught:
        Applied(lambda value: {**value, "new": new}, monkeypatch)(ORDER, order())
    assert expected in caught.value.message


def test_keep_rejects_values_that_do_not_fit_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(**changes: Any) -> None:
        Applied(lambda value: {**value, **changes}, monkeypatch, **{"function.schema": "keep"})(ORDER, order())

    kept(id=7)
    for changes, expected in (
        ({"new": 1}, "new is not in its schema, which has id, note, price, to, tags"),
        ({"id": "x"}, 'field: "id"'),
        ({"id": None}, 'null used for required field: "id"'),
        ({"to": {"city": 5}}, 'field: "to.city"'),
        ({"to": {"town": "x"}}, "to.town is not in its schema, which has city"),
        ({"to": "x"}, "to is a value of type str, expected a dict for a struct of city"),
        ({"tags": ["a", 1]}, 'field: "tags[1]"'),
    ):
        with pytest.raises(DataError) as caught:
            kept(**changes)
        assert expected in caught.value.message


def test_float32_field_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = {"function.schema": "keep"}
    schema, value = Applied(lambda value: {**value, "price": 0.1}, monkeypatch, **keep)(ORDER, order())
    assert schema is ORDER
    assert value["price"] == round_to_float32(0.1) != 0.1
    with pytest.raises(DataError, match="price is 1e\\+300, which is too large for a 32-bit float"):
        Applied(lambda value: {**value, "price": 1e300}, monkeypatch, **keep)(ORDER, order())


def test_none_removes_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = Applied(lambda value: value, monkeypatch, **{"function.schema": "none"})
    assert applied(ORDER, order()) == SchemaAndValue(None, order().as_dict())


def test_declared_schema_applies_to_every_result(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.connect.functions.shop import NAMED

    applied = Applied(lambda value: {"name": "x"}, monkeypatch, **{"function.schema": f"{SHOP}:NAMED"})
    for schema, value in ((ORDER, order()), (None, {"a": 1}), (Schema.STRING, "text")):
        found = applied(schema, value)
        assert found.schema is NAMED
        assert found.value.as_dict() == {"name": "x", "size": None}
    with pytest.raises(DataError, match="other is not in its schema, which has name, size"):
        Applied(lambda value: {"other": 1}, monkeypatch, **{"function.schema": f"{SHOP}:NAMED"})(None, {})


def test_values_that_are_not_structs_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    upper = Applied(lambda value: value.upper(), monkeypatch)
    assert upper(Schema.STRING, "a") == SchemaAndValue(Schema.STRING, "A")
    assert upper(None, "a") == SchemaAndValue(None, "A")
    assert Applied(lambda value: len(value), monkeypatch)(Schema.STRING, "abc") == SchemaAndValue(Schema.OPTIONAL_INT64, 3)
    assert Applied(lambda value: value["id"], monkeypatch)(ORDER, order()) == SchemaAndValue(Schema.OPTIONAL_INT64, 1)
    with pytest.raises(DataError, match="INT8"):
        Applied(lambda value: 300, monkeypatch, **{"function.schema": "keep"})(Schema.INT8, 3)


def test_result_with_its_own_schema_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Struct(INNER, ["Ulm"])
    assert Applied(lambda value: made, monkeypatch)(None, {}) == SchemaAndValue(INNER, made)
    assert Applied(lambda value: SchemaAndValue(Schema.INT8, 1), monkeypatch)(None, {}) == SchemaAndValue(Schema.INT8, 1)


def test_struct_with_a_schema_other_than_the_record_schema_is_a_data_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="has another schema than its record says"):
        Applied(lambda value: value, monkeypatch)(INNER, order())
