"""Values of one schema under another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect import Schema, Struct, Type
from connect.data.logical import decimal_schema
from connect.data.projector import project
from connect.errors import SchemaError


def struct(*fields: tuple[str, Schema], **members: Any) -> Schema:
    return Schema(Type.STRUCT, fields=fields, **members)


def array(of: Schema | None) -> Schema:
    return Schema(Type.ARRAY, value_schema=of)


WITH_DEFAULT = Schema(Type.INT32, default=7)
SOURCE = struct(("a", Schema.INT32), ("b", Schema.OPTIONAL_STRING), ("c", WITH_DEFAULT))


@pytest.mark.parametrize(
    ("source", "value", "target", "expected"),
    [
        (Schema.INT8, 5, Schema.INT64, 5),
        (Schema.INT32, 16777217, Schema.FLOAT32, 16777216.0),
        (Schema.INT64, 2**60 + 2**36 + 1, Schema.FLOAT32, float(2**60 + 2**37)),
        (Schema.OPTIONAL_INT32, None, WITH_DEFAULT, 7),
        (Schema.OPTIONAL_INT32, 5, WITH_DEFAULT, 5),
        (Schema.INT32, 5, Schema.OPTIONAL_INT32, 5),
        (array(Schema.INT8), [], array(Schema.STRING), []),
        (array(Schema.INT8), [1, 2], array(Schema.FLOAT64), [1.0, 2.0]),
        (Schema(Type.MAP, key_schema=Schema.INT8, value_schema=Schema.INT8), {1: 2},
         Schema(Type.MAP, key_schema=Schema.INT16, value_schema=Schema.FLOAT32), {1: 2.0}),
    ],
)  # fmt: skip
def test_values_widen_and_nulls_become_the_default(source: Schema, value: Any, target: Schema, expected: Any) -> None:
    found = project(source, value, target)
    assert found == expected
    assert type(found) is type(expected)


def test_projection_drops_and_adds_fields() -> None:
    target = struct(("c", Schema.INT64), ("n", Schema.OPTIONAL_STRING), ("d", Schema(Type.STRING, default="x")), version=2)
    found = project(SOURCE, Struct(SOURCE, [1, "b", None]), target)
    assert found == Struct(target, [7, None, "x"])  # a null of the source is its default before it is projected


def test_an_optional_field_that_is_missing_stays_null_whatever_its_default() -> None:
    target = struct(("n", Schema(Type.INT32, optional=True, default=4)))
    assert project(SOURCE, Struct(SOURCE, [1, None, 2]), target).values == [None]


@pytest.mark.parametrize(
    ("source", "value", "target", "message"),
    [
        (Schema.INT16, 1, Schema.INT8, "Schema type mismatch. source type: INT16 and target type: INT8"),
        (Schema.STRING, "x", Schema.BYTES, "Schema type mismatch. source type: STRING and target type: BYTES"),
        (Schema.INT32, 1, Schema(Type.INT32, name="n"), "Schema name mismatch. source name: null and target name: n"),
        (decimal_schema(2), None, decimal_schema(3),
         "Schema parameters not equal. source parameters: {scale=2} and target parameters: {scale=3}"),
        (Schema.OPTIONAL_INT32, 1, Schema.INT32,
         "Writer schema is optional, however, target schema does not provide a default value."),
        (SOURCE, Struct(SOURCE, [1, None, 2]), struct(("z", Schema.INT32)),
         "Required field `z` is missing from source schema: Schema{STRUCT}"),
        (SOURCE, Struct(SOURCE, [1, None, 2]), struct(("a", Schema.INT8)), "Error projecting a"),
        (array(None), [1], array(Schema.INT8), "The elements of a list or map cannot be projected: they have no schema"),
    ],
)  # fmt: skip
def test_incompatible_schemas_are_rejected(source: Schema, value: Any, target: Schema, message: str) -> None:
    with pytest.raises(SchemaError) as raised:
        project(source, value, target)
    assert raised.value.message == message


def test_cause_describes_the_nested_error() -> None:
    inner = struct(("a", Schema.INT32))
    source, target = struct(("in", inner)), struct(("in", struct(("a", Schema.STRING))))
    with pytest.raises(SchemaError, match="Error projecting in") as raised:
        project(source, Struct(source, [Struct(inner, [1])]), target)
    assert str(raised.value.__cause__) == "Error projecting a"
    cause = raised.value.__cause__
    assert cause is not None
    assert str(cause.__cause__) == "Schema type mismatch. source type: INT32 and target type: STRING"


@settings(derandomize=True, deadline=None)
@given(st.integers(-128, 127))
def test_a_schema_projects_onto_itself(number: int) -> None:
    given = Struct(SOURCE, [number, None, number])
    assert project(SOURCE, given, SOURCE) == given
