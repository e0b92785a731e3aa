"""Schemas, their builder, structs, and what fits them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from connect import Schema, SchemaBuilder, Struct, Type
from connect.data.logical import date_schema, decimal_schema
from connect.data.struct import validate_value
from connect.errors import DataError, SchemaError

NOTHING: Any = None


def test_a_schema_is_built_with_all_its_members() -> None:
    built = (
        SchemaBuilder.struct().name("s").version(2).doc("d").parameter("p", "1").parameters({"q": "2", "p": "3"}).optional()
        .field("a", SchemaBuilder.int8().default(5).build()).field("b", SchemaBuilder.array(Schema.STRING).build())
        .field("c", SchemaBuilder.map(Schema.STRING, Schema.OPTIONAL_BYTES).build()).build()
    )  # fmt: skip
    assert built == Schema(
        Type.STRUCT, name="s", version=2, doc="d", parameters={"p": "3", "q": "2"}, optional=True,
        fields=[
            ("a", Schema(Type.INT8, default=5)), ("b", Schema(Type.ARRAY, value_schema=Schema.STRING)),
            ("c", Schema(Type.MAP, key_schema=Schema.STRING, value_schema=Schema.OPTIONAL_BYTES)),
        ],
    )  # fmt: skip


@pytest.mark.parametrize("kind", [kind for kind in Type if kind.is_primitive])
def test_every_primitive_type_has_a_builder_of_its_name(kind: Type) -> None:
    assert getattr(SchemaBuilder, kind.name.lower())().build() == Schema(kind)


def test_a_member_may_be_set_to_the_same_again() -> None:
    assert SchemaBuilder.int8().optional().optional().name("n").name("n").build() == Schema(Type.INT8, optional=True, name="n")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SchemaBuilder.int8().optional().required(), "Invalid SchemaBuilder call: optional has already been set."),
        (lambda: SchemaBuilder.int8().name("a").name("b"), "Invalid SchemaBuilder call: name has already been set."),
        (lambda: SchemaBuilder.int8().version(1).version(2), "Invalid SchemaBuilder call: version has already been set."),
        (lambda: SchemaBuilder.int8().doc("a").doc("b"), "Invalid SchemaBuilder call: doc has already been set."),
        (lambda: SchemaBuilder.int8().default(1).default(2), "Invalid SchemaBuilder call: default has already been set."),
        (lambda: SchemaBuilder.int8().default(300), "Invalid default value"),
        (lambda: SchemaBuilder.string().default(1), "Invalid default value"),
        (lambda: SchemaBuilder.string().default(None), "Invalid default value"),
        (lambda: SchemaBuilder.bytes().default(b"1").name(decimal_schema(0).name or "").build(), "Invalid default value"),
        (lambda: SchemaBuilder.int8().field("a", Schema.INT8), "Cannot create fields on type INT8"),
        (lambda: SchemaBuilder.struct().field("", Schema.INT8), "fieldName cannot be null."),
        (lambda: SchemaBuilder.struct().field("a", NOTHING), "fieldSchema for field a cannot be null."),
        (lambda: SchemaBuilder.struct().field("a", Schema.INT8).field("a", Schema.INT8),
         "Cannot create field because of field name duplication a"),
        (lambda: SchemaBuilder.array(NOTHING), "valueSchema cannot be null."),
        (lambda: SchemaBuilder.map(NOTHING, Schema.INT8), "keySchema cannot be null."),
    ],
)  # fmt: skip
def test_invalid_schemas_are_rejected_with_apaches_messages(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SchemaError) as raised:
        build()
    assert raised.value.message == message


def test_a_null_may_be_the_default_of_an_optional_schema() -> None:
    assert SchemaBuilder.int8().optional().default(None).build() == Schema.OPTIONAL_INT8


def changed(**members: Any) -> Schema:
    return Schema(Type.STRUCT, name="s", version=1, fields=[("a", Schema.INT8)]).replace(**members)


def test_schemas_are_equal_when_every_member_is() -> None:
    assert changed() == changed()
    assert hash(changed()) == hash(changed())
    others: list[dict[str, Any]] = [
        {"name": "t"}, {"version": 2}, {"doc": "d"}, {"optional": True}, {"parameters": {"a": "b"}},
        {"fields": [("a", Schema.INT16)]}, {"fields": [("b", Schema.INT8)]}, {"fields": []},
    ]  # fmt: skip
    assert all(changed(**members) != changed() for members in others)
    assert Schema(Type.INT8, default=1) != Schema(Type.INT8)


WITH_DEFAULT = Schema(Type.INT32, default=7)
ROW = Schema(Type.STRUCT, fields=[("a", Schema.INT32), ("b", Schema.OPTIONAL_STRING), ("c", WITH_DEFAULT)])


def test_null_in_a_struct_reads_as_the_default() -> None:
    row = Struct(ROW).put("a", 1)
    assert [row.get("a"), row.get("b"), row.get("c")] == [1, None, 7]
    assert row.get_without_default("c") is None
    row.validate()


def test_a_field_is_got_by_its_type() -> None:
    row = Struct(ROW, [1, "x", None])
    assert row.get_typed("a", Type.INT32) == 1
    assert row.get_typed("c", Type.INT32) is None
    with pytest.raises(DataError, match="Field 'b' is not of type INT32"):
        row.get_typed("b", Type.INT32)


def test_structs_are_equal_when_schema_and_values_are() -> None:
    assert Struct(ROW, [1, None, 2]) == Struct(ROW, [1, None, 2])
    assert Struct(ROW, [1, None, 2]) != Struct(ROW, [1, None, None])
    assert Struct(ROW, [1, None, 2]) != Struct(ROW.replace(name="other"), [1, None, 2])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("a", None, 'Invalid value: null used for required field: "a", schema type: INT32'),
        ("c", None, 'Invalid value: null used for required field: "c", schema type: INT32'),
        ("a", "x", "Invalid Python object for schema with type INT32: str 'x' for field: \"a\""),
        ("a", True, 'Invalid Python object for schema with type INT32: bool True for field: "a"'),
        ("a", 2**31, 'Invalid Python object for schema with type INT32: int 2147483648 for field: "a"'),
        ("z", 1, "z is not a valid field name"),
    ],
)
def test_invalid_value_is_not_put(field: str, value: Any, message: str) -> None:
    with pytest.raises(DataError) as raised:
        Struct(ROW).put(field, value)
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (Schema.INT8, None, "Invalid value: null used for required value, schema type: INT8"),
        (SchemaBuilder.array(Schema.INT8).build(), [1, None],
         "Invalid value: null used for required element of array value, schema type: INT8"),
        (SchemaBuilder.array(WITH_DEFAULT).build(), [None],
         "Invalid value: null used for required element of array value, schema type: INT32"),
        (SchemaBuilder.map(Schema.STRING, Schema.INT8).build(), {1: 1},
         "Invalid Python object for schema with type STRING: int 1 for key of map value"),
        (SchemaBuilder.map(Schema.STRING, Schema.INT8).build(), {"a": 300},
         "Invalid Python object for schema with type INT8: int 300 for value of map value"),
        (date_schema(), 5,
         'Invalid Python object for schema "org.apache.kafka.connect.data.Date" with type INT32: int 5 for value'),
        (WITH_DEFAULT, None, "Invalid value: null used for required value, schema type: INT32"),
        (Schema(Type.ARRAY), [], "No schema defined for element of array value"),
        (Schema(Type.MAP, key_schema=Schema.STRING), {}, "No schema defined for value of map value"),
        (ROW, Struct(ROW), 'Invalid value: null used for required field: "a", schema type: INT32'),
        (ROW, Struct(ROW.replace(name="other"), [1, None, 2]), "Struct schemas do not match."),
    ],
)  # fmt: skip
def test_validation_error_names_the_path(schema: Schema, value: Any, message: str) -> None:
    with pytest.raises(DataError) as raised:
        validate_value(schema, value)
    assert raised.value.message == message
