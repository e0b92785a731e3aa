"""Annotated Avro schemas: what each annotation generates, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_value
from connect.errors import SchemaError
from connect.java.sized_numbers import round_to_float32
from connectors.datagen.generator import compile_generator
from tests.support import randomness

NESTED: list[dict[str, Any]] = [
    {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "int"}]}},
    {"name": "again", "type": ["null", "Inner"]},
    {"name": "list", "type": {"type": "array", "items": ["null", "string"]}},
    {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "Inner"}}},
    {"name": "enum", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
    {"name": "choice", "type": ["null", "int", "string", "Inner"]},
    {"name": "fixed", "type": {"type": "fixed", "name": "Two", "size": 2}},
    {"name": "bytes", "type": "bytes"},
    {"name": "float", "type": "float"},
    {"name": "flag", "type": "boolean"},
    {"name": "date", "type": {"type": "int", "logicalType": "date"}},
    {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 4}},
    {
        "name": "small",
        "type": {"type": "fixed", "name": "Small", "size": 2, "logicalType": "decimal", "precision": 9, "scale": 1},
    },
    {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "byte", "type": {"type": "int", "connect.type": "int8"}},
]


def record(*fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "record", "name": "test.Row", "fields": list(fields), **more})


def field(type: Any, **annotations: Any) -> dict[str, Any]:
    schema = dict(type) if isinstance(type, dict) else {"type": type}
    return {"name": "f", "type": {**schema, "arg.properties": annotations}}


def values(type: Any, count: int = 30, seed: int = 0, **annotations: Any) -> list[Any]:
    """Generates the values of a field; checks each against its schema."""
    generator = compile_generator(record(field(type, **annotations)))
    random = randomness.chance(seed)
    found = [generator.row(random, number)[0] for number in range(count)]
    schema = (generator.schema.fields or ())[0].schema
    for value in found:
        validate_value(schema, value)
    return found


def test_all_types_generate_values_of_their_connect_schema() -> None:
    generator = compile_generator(record(*NESTED))
    for seed in range(20):
        row = generator.row(randomness.chance(seed), seed)
        Struct(generator.schema, row).validate()
        assert row == generator.row(randomness.chance(seed), seed)


def test_dates_and_times_without_annotations_are_ordinary_ones() -> None:
    for value in values({"type": "int", "logicalType": "date"}, 200):
        assert isinstance(value, dt.date)
        assert 1970 <= value.year < 2100
    for value in values({"type": "long", "logicalType": "timestamp-millis"}, 200):
        assert isinstance(value, dt.datetime)
        assert 1970 <= value.year < 2100


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["int", "long"]), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers())
def test_integers_are_in_the_range_without_its_maximum(kind: str, one: int, other: int, seed: int) -> None:
    low, high = min(one, other), max(one, other) + 1
    assert all(low <= value < high for value in values(kind, seed=seed, range={"min": low, "max": high}))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["float", "double"]), st.floats(-1e30, 1e30), st.floats(1e-3, 1e30), st.integers())
def test_floats_are_in_the_range_without_its_maximum(kind: str, low: float, span: float, seed: int) -> None:
    low = round_to_float32(low)
    high = round_to_float32(low + max(span, abs(low) / 1000))
    assert all(low <= value < high for value in values(kind, seed=seed, range={"min": low, "max": high}))


def test_ranges_with_one_bound_and_of_the_whole_type_are_kept() -> None:
    assert all(value >= 2**62 for value in values("long", range={"min": 2**62}))
    assert all(value < -5 for value in values("int", range={"max": -5}))
    assert all(abs(value) < 1.8e308 for value in values("double", range={"min": -1.7e308, "max": 1.7e308}))
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert all(Decimal(10) <= value < Decimal("10.05") for value in values(decimal, range={"min": 10.0, "max": 10.05}))


@pytest.mark.parametrize(
    ("kind", "iteration", "expected"),
    [
        ("long", {"start": 1, "step": 10}, [1, 11, 21, 31]),
        ("int", {"start": 0, "restart": 3}, [0, 1, 2, 0, 1]),
        ("int", {"start": 0, "restart": 5, "step": 2}, [0, 2, 4, 1, 3, 0]),
        ("int", {"start": 0, "restart": 5, "initial": 3}, [3, 4, 0, 1]),
        ("int", {"start": 10, "restart": 7}, [10, 9, 8, 10]),
        ("int", {"start": 0, "restart": 10, "initial": 15}, [15, 6, 7]),
        ("int", {"start": 2**31 - 2}, [2**31 - 2] * 3),
        ("double", {"start": 0, "step": 0.1}, [0.0, 0.1, 0.2, 0.3]),
        ("float", {"start": 0.5, "restart": 2}, [0.5, 1.5, 1.0, 0.5]),
        ("boolean", {"start": True}, [True, False, True]),
        ("string", {"start": 7}, ["7", "8"]),
    ],
)
def test_iteration_counts_records(kind: str, iteration: dict[str, Any], expected: list[Any]) -> None:
    assert values(kind, len(expected), iteration=iteration) == expected


@settings(max_examples=60, deadline=None)
@given(st.integers(-1000, 1000), st.integers(1, 500), st.integers(1, 70), st.booleans(), st.integers(0, 499))
def test_iteration_equals_stepping_from_value_to_value(start: int, span: int, step: int, down: bool, offset: int) -> None:
    sign = -1 if down else 1
    distance, expected = offset % span, []
    iteration = {"start": start, "restart": start + sign * span, "step": sign * step, "initial": start + sign * distance}
    for _ in range(30):
        expected.append(start + sign * distance)
        distance = (distance + step) % span
    assert values("int", iteration=iteration) == expected


def test_texts_have_length_prefix_and_suffix() -> None:
    assert {len(value) for value in values("string", 300)} == set(range(8, 16))
    assert {len(value) for value in values("string", length=3)} == {3}
    assert {len(value) for value in values("bytes", 100, length={"min": 1, "max": 3})} == {1, 2}
    assert all(6 <= len(value) < 16 for value in values("string", length={"min": 6}))
    assert all(
        value.startswith("<") and value.endswith(">") and len(value) == 4
        for value in values("string", length=2, prefix="<", suffix=">")
    )
    assert values("string", 2, iteration={"start": 1}, prefix="N", suffix="!") == ["N1!", "N2!"]
    assert all(len(value) == 20 for value in values("string", regex="[a-z]*", length=20))
    assert all(len(value) >= 20 for value in values("string", regex="[a-z]*", length={"min": 20}))
    assert all(4 <= len(value) <= 5 for value in values("string", regex="[a-z]*", length={"min": 4, "max": 6}))


def test_odds_are_the_share_of_true() -> None:
    assert set(values("boolean", odds=0.0)) == {False}
    assert set(values("boolean", odds=1.0)) == {True}
    assert 800 < sum(values("boolean", 1000, odds=0.9)) < 980


def test_containers_have_length_and_keys() -> None:
    array = {"type": "array", "items": {"type": "int", "arg.properties": {"range": {"min": 0, "max": 3}}}}
    assert {len(value) for value in values(array, length={"min": 2, "max": 4})} == {2, 3}
    mapping = {"type": "map", "values": "int"}
    assert all(
        len(value) == 5 and all(len(key) == 20 for key in value) for value in values(mapping, length=5, keys={"length": 20})
    )
    assert {key for value in values(mapping, keys={"options": ["a", "b"]}) for key in value} == {"a", "b"}
    assert all(key[:2] == "k_" for value in values(mapping, keys={"regex": "k_[0-9]+"}) for key in value)


def test_options_of_every_type_are_chosen() -> None:
    assert set(values("int", options=[1, 2])) == {1, 2}
    assert set(values("double", options=[1, 2.5])) == {1.0, 2.5}
    assert set(values("bytes", options=["42"])) == {b"42"}
    assert set(values({"type": "fixed", "name": "T", "size": 2}, options=["ab"])) == {b"ab"}
    assert set(values({"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}, options=["A", "B"])) == {"A", "B"}
    assert set(values({"type": "int", "logicalType": "date"}, options=[1])) == {dt.date(1970, 1, 2)}
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert {str(value) for value in values(decimal, options=[1.5, "2.25"])} == {"1.50", "2.25"}
    inner = {
        "type": "record",
        "name": "I",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": ["null", "string"], "default": None},
            {"name": "c", "type": ["int", "string"]},
        ],
    }
    found = values(inner, options=[{"a": 1, "c": "x"}, {"a": 2, "b": "y", "c": 3}])
    assert [value.as_dict() for value in sorted(found, key=lambda value: value["a"])[:: len(found) - 1]] == [
        {"a": 1, "b": None, "c": {"int": None, "string": "x"}},
        {"a": 2, "b": "y", "c": {"int": 3, "string": None}},
    ]


def test_records_do_not_share_the_containers_of_an_option() -> None:
    one, other = values({"type": "array", "items": "string"}, 2, options=[["a"]])
    one.append("b")
    assert other == ["a"]


def test_whole_records_are_chosen_from_options() -> None:
    fields = [{"name": "code", "type": "int"}, {"name": "text", "type": "string"}]
    generator = compile_generator(record(*fields, **{"arg.properties": {"options": [{"code": 1, "text": "a"}]}}))
    assert generator.row(randomness.chance(), 0) == [1, "a"]
    assert generator.row(randomness.chance(), 0) is not generator.row(randomness.chance(), 0)


@pytest.mark.parametrize("text", ['"a"\n"b"', '["a", "b"]'])
def test_options_are_read_from_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "options.json"
    path.write_text(text)
    assert set(values("string", options={"file": str(path), "encoding": "json"})) == {"a", "b"}


def test_annotations_of_a_field_apply_to_its_type() -> None:
    generator = compile_generator(record({"name": "f", "type": "int", "arg.properties": {"options": [7]}}))
    assert generator.row(randomness.chance(), 0) == [7]
    optional = compile_generator(record({"name": "f", "type": ["null", "int"], "arg.properties": {"options": [7]}}))
    assert {optional.row(randomness.chance(seed), 0)[0] for seed in range(20)} == {None, 7}


def test_comments_are_skipped() -> None:
    text = (
        '// first\n{"type": "record", /* name */ "name": "R", "fields": [{"name": "url", "type": "string", "doc": "http://x"}]}'
    )
    generator = compile_generator(text)
    assert generator.schema.field_names == ("url",)
    assert (generator.schema.fields or ())[0].schema.type is Type.STRING


def test_null_unions_are_optional() -> None:
    generator = compile_generator(record({"name": "f", "type": ["null", "string"]}))
    assert (generator.schema.fields or ())[0].schema == Schema.OPTIONAL_STRING
    assert {generator.row(randomness.chance(seed), 0)[0] is None for seed in range(20)} == {True, False}


@pytest.mark.parametrize(
    ("type", "annotations", "message"),
    [
        ("int", {"range": {"min": 5, "max": 5}}, r"test.Row.f.range: min 5 and max 5 are an empty range"),
        ("double", {"range": {"min": 2, "max": 1}}, "empty range"),
        ("int", {"range": {}}, "expected min, max, or both"),
        ("int", {"range": 5}, "range is 5, expected an object"),
        ("int", {"range": {"min": 1.5}}, "min is 1.5, expected an integer"),
        ("int", {"range": {"max": 2**40}}, "max is 1099511627776, expected"),
        ("float", {"range": {"max": 1e300}}, "expected a number up to"),
        ("int", {"options": []}, "at least one"),
        ("int", {"options": ["x"]}, "option 1 is 'x', expected int"),
        ("int", {"options": [2**40]}, "option 1"),
        ("int", {"options": 5}, "expected a list"),
        ("int", {"options": {"file": "no such file", "encoding": "json"}}, "cannot read 'no such file'"),
        ("int", {"options": {"file": "x", "encoding": "binary"}}, "encoding is 'binary', expected json"),
        ("int", {"options": [1], "range": {"min": 1}}, "options and range exclude each other"),
        ("int", {"iteration": {"step": 1}}, "expected start"),
        ("int", {"iteration": {"start": 1, "step": 0}}, "step is 0"),
        ("int", {"iteration": {"start": 1, "restart": 1}}, "are equal"),
        ("int", {"iteration": {"start": 1, "restart": 5, "step": -1}}, "leads away"),
        ("int", {"iteration": {"start": 1, "initial": 0}}, "initial lies before start"),
        ("boolean", {"iteration": {"start": 1}}, "expected true or false"),
        ("boolean", {"odds": 1.5}, "odds"),
        ("boolean", {"odds": -0.5}, "odds is -0.5, expected 0 to 1"),
        ("string", {"regex": "["}, "test.Row.f: regex"),
        ("string", {"regex": 5}, "regex is 5, expected a string"),
        ("string", {"length": -1}, "length is -1"),
        ("string", {"length": {"min": 3, "max": 3}}, "allow no length"),
        ("string", {"length": {}}, "expected min, max, or both"),
        ("string", {"length": "x"}, "length is 'x'"),
        ({"type": "fixed", "name": "T", "size": 2}, {"options": ["abc"]}, "of 3 bytes, expected 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, {"options": ["B"]}, "expected one of A"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, {"options": [1.555]}, "at most 2 digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, {"range": {"min": 500}}, "empty range"),
        ({"type": "int", "logicalType": "time-millis"}, {"range": {"max": 10**9}}, "max is 1000000000"),
        (
            {"type": "record", "name": "I", "fields": [{"name": "alpha", "type": "int"}]},
            {"options": [{"alpa": 1}]},
            "unknown field alpa.*did you mean alpha",
        ),
        ({"type": "record", "name": "I", "fields": [{"name": "a", "type": "int"}]}, {"options": [{}]}, "no field a"),
    ],
)
def test_malformed_annotations_are_refused(type: Any, annotations: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        compile_generator(record(field(type, **annotations)))
    assert "test.Row.f" in caught.value.message


@pytest.mark.parametrize(
    ("type", "annotations", "message"),
    [
        ("int", {"rang": {"min": 1}}, "test.Row.f: ignoring the unknown annotation rang; did you mean range?"),
        (
            "string",
            {"range": {"min": 1}},
            "test.Row.f: ignoring the annotation range, which string does not have; it has options",
        ),
        ("int", {"range": {"min": 1, "maxx": 1}}, "test.Row.f: ignoring the unknown member maxx of range; did you mean max?"),
        ("boolean", {"iteration": {"start": True, "step": 1}}, "ignoring the unknown member step of iteration"),
        ({"type": "map", "values": "int"}, {"keys": {"range": {"min": 1}}}, "ignoring the annotation range, which map key"),
    ],
)
def test_annotations_that_mean_nothing_are_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture, type: Any, annotations: dict[str, Any], message: str
) -> None:
    compile_generator.cache_clear()
    generator = compile_generator(record(field(type, **annotations)))
    generator.row(randomness.chance(), 0)
    assert message in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ('"string"', "of type string, expected a record"),
        (record({"name": "f", "type": "nope"}), "nope"),
        (record({"name": "f", "type": ["string", "int"], "arg.properties": {"options": [1]}}), "applies to no union"),
        (record({"name": "f", "type": {"type": "int", "arg.properties": []}}), "expected an object"),
        (record({"name": "f", "type": "test.Row"}), "refers to itself"),
        (
            record({"name": "f", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10**9}}),
            "precision is 1000000",
        ),
        (record({"name": "f", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 10**9}}), "scale is"),
    ],
)
def test_malformed_schemas_are_refused(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        compile_generator(text)
