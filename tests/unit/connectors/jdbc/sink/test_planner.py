"""Fields that become columns, and errors for unsuitable records, like Confluent's and Aiven's connectors."""

from __future__ import annotations

from typing import Any

import pytest

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import ConnectError
from connect.record import SinkRecord
from connectors.jdbc.sink.naming import TableNaming, parse_topic_mapping
from connectors.jdbc.sink.planner import JdbcSinkPlanner, JdbcSinkPlannerConfig
from connectors.jdbc.sink.row_changes import Operation, RowChanges
from connectors.jdbc.sink.rows import FieldConfig, KeyMode
from connectors.jdbc.table_name import TableName, split_name

VALUE = SchemaBuilder.struct().field("b", Schema.STRING).field("id", Schema.INT32).field("a", Schema.OPTIONAL_STRING).build()
KEY = SchemaBuilder.struct().field("z", Schema.INT64).field("id", Schema.INT32).build()


def record(
    *, key: Any = None, key_schema: Schema | None = None, value: Any = None, schema: Schema | None = VALUE, topic: str = "orders"
) -> SinkRecord:
    if isinstance(value, list):
        value = Struct(VALUE, value)
    if isinstance(key, list):
        key, key_schema = Struct(KEY, key), KEY
    return SinkRecord(topic, 3, key_schema, key, schema if value is not None or schema is not VALUE else None, value, 7, 1000)


def planner(
    mode: KeyMode = KeyMode.NONE, *fields: str, deletes: bool = False, tables: TableNaming | None = None, **config: Any
) -> JdbcSinkPlanner:
    made = JdbcSinkPlannerConfig("orders-sink", FieldConfig(mode, fields, **config), tables or TableNaming(), deletes)
    return JdbcSinkPlanner(made, lambda text: TableName(*reversed(split_name(text))))


def planned(one: JdbcSinkPlanner, *records: SinkRecord) -> list[RowChanges]:
    def reject(record: SinkRecord, error: ConnectError) -> None:
        raise error

    return one.plan(records, reject)


def refusal(one: JdbcSinkPlanner, *records: SinkRecord) -> str:
    with pytest.raises(ConnectError) as caught:
        planned(one, *records)
    return caught.value.message


def shown(changes: RowChanges) -> tuple[list[str], list[list[Any]]]:
    """Columns, keys marked with a star, and rows."""
    return (
        [f"{field.name}*" if field.is_key else field.name for field in changes.shape.fields],
        [list(row) for row in changes.rows],
    )


def test_without_keys_a_row_is_the_value() -> None:
    value = [["x", 1, None], ["y", 2, "z"]]
    (changes,) = planned(planner(), *(record(value=one) for one in value))
    assert shown(changes) == (["b", "id", "a"], value)
    assert (changes.shape.table, changes.shape.operation) == (TableName("orders"), Operation.WRITE)


def test_the_coordinates_come_first() -> None:
    (changes,) = planned(planner(KeyMode.KAFKA), record(value=["x", 1, None]))
    names = ["__connect_topic*", "__connect_partition*", "__connect_offset*", "b", "id", "a"]
    assert shown(changes) == (names, [["orders", 3, 7, "x", 1, None]])


def test_coordinates_under_other_names_follow_by_name_as_in_the_original() -> None:
    (changes,) = planned(planner(KeyMode.KAFKA, "t", "p", "o"), record(value=["x", 1, None]))
    assert shown(changes) == (["b", "id", "a", "o*", "p*", "t*"], [["x", 1, None, 7, 3, "orders"]])


def test_key_fields_keep_their_position_in_the_value_and_the_others_follow_by_name() -> None:
    (changes,) = planned(planner(KeyMode.RECORD_KEY), record(key=[9, 5], value=["x", 1, None]))
    assert shown(changes) == (["b", "id*", "a", "z*"], [["x", 5, None, 9]])
    (changes,) = planned(planner(KeyMode.RECORD_KEY, "id"), record(key=[9, 5], value=["x", 1, None]))
    assert shown(changes) == (["b", "id*", "a"], [["x", 5, None]])


def test_a_primitive_key_is_a_column() -> None:
    (changes,) = planned(planner(KeyMode.RECORD_KEY, "code"), record(key="k", key_schema=Schema.STRING, value=["x", 1, None]))
    assert shown(changes) == (["b", "id", "a", "code*"], [["x", 1, None, "k"]])


def test_fields_of_the_value_may_be_the_key() -> None:
    (changes,) = planned(planner(KeyMode.RECORD_VALUE, "id"), record(value=["x", 1, None]))
    assert shown(changes) == (["b", "id*", "a"], [["x", 1, None]])
    (changes,) = planned(planner(KeyMode.RECORD_VALUE), record(value=["x", 1, "y"]))
    assert shown(changes) == (["b*", "id*", "a*"], [["x", 1, "y"]])


def test_whitelist_does_not_exclude_keys() -> None:
    one = planner(KeyMode.RECORD_VALUE, "id", whitelist=frozenset(("a",)))
    assert shown(planned(one, record(value=["x", 1, "y"]))[0]) == (["id*", "a"], [[1, "y"]])


def test_each_topic_may_have_key_fields_of_its_own() -> None:
    one = planner(KeyMode.RECORD_VALUE, "id", key_fields_by_topic={"people": ("b",)})
    changes = planned(one, record(value=["x", 1, "y"]), record(value=["x", 1, "y"], topic="people"))
    assert [shown(change)[0] for change in changes] == [["b", "id*", "a"], ["b*", "id", "a"]]
    assert [change.shape.table.name for change in changes] == ["orders", "people"]


def test_a_null_in_a_key_with_a_default_is_that_key() -> None:
    schema = SchemaBuilder.struct().field("id", SchemaBuilder.int32().optional().default(4).build()).build()
    one = record(value=Struct(schema, [None]), schema=schema)
    assert shown(planned(planner(KeyMode.RECORD_VALUE), one)[0])[1] == [[4]]
    assert shown(planned(planner(KeyMode.RECORD_VALUE, null_as_default=False), one)[0])[1] == [[None]]


def test_text_goes_into_a_column_of_its_own() -> None:
    (changes,) = planned(planner(KeyMode.KAFKA), record(value="hello", schema=Schema.STRING))
    assert shown(changes)[0][3:] == ["record_value"]
    assert shown(changes)[1][0][3:] == ["hello"]
    assert "fields.whitelist" in refusal(planner(whitelist=frozenset(("a",))), record(value="hello", schema=Schema.STRING))


def test_tombstones_delete_the_row_of_their_key_in_their_place() -> None:
    one = planner(KeyMode.RECORD_KEY, "id", deletes=True)
    changes = planned(one, record(key=[9, 5], value=["x", 1, None]), record(key=[9, 5]), record(key=[9, 5], value=["y", 1, None]))
    assert [(change.shape.operation, [list(row) for row in change.rows]) for change in changes] == [
        (Operation.WRITE, [["x", 5, None]]),
        (Operation.DELETE, [[5]]),
        (Operation.WRITE, [["y", 5, None]]),
    ]
    assert changes[0].shape is changes[2].shape


def test_equal_schemas_of_several_objects_are_one_shape() -> None:
    again = VALUE.replace()
    assert again is not VALUE
    changes = planned(planner(), record(value=["x", 1, None]), record(value=Struct(again, ["y", 2, None]), schema=again))
    assert changes[0].shape is changes[1].shape


WORDS = [
    (
        planner(KeyMode.RECORD_KEY),
        record(value=["x", 1, None]),
        "PK mode for table 'orders' is RECORD_KEY, but record key schema is missing. "
        "Sink connector 'orders-sink' is configured with 'delete.enabled=false' and 'pk.mode=record_key' and therefore requires "
        "records with a non-null key and non-null Struct or primitive key schema, but found record at "
        "(topic='orders',partition=3,offset=7,timestamp=1000) with a null key and null key schema.",
    ),
    (
        planner(KeyMode.RECORD_KEY),
        record(key=[1, 2]),
        "Sink connector 'orders-sink' is configured with 'delete.enabled=false' and 'pk.mode=record_key' and therefore requires "
        "records with a non-null Struct value and non-null Struct schema, but found record at "
        "(topic='orders',partition=3,offset=7,timestamp=1000) with a null value and null value schema. It is a tombstone: set "
        "delete.enabled=true",
    ),
    (
        planner(),
        record(value={"a": 1}, schema=None),
        "with a LinkedHashMap value and null value schema. Columns need a schema: use a value.converter that provides one "
        "(JsonConverter with value.converter.schemas.enable=true",
    ),
    (planner(), record(value=3, schema=Schema.INT32), "with a Long value and int32 value schema."),
    (
        planner(KeyMode.RECORD_KEY),
        record(key="k", key_schema=Schema.STRING, value=["x", 1, None]),
        "Need exactly one PK column defined since the key schema for records is a primitive type, defined columns are: []",
    ),
    (
        planner(KeyMode.RECORD_KEY, "nope"),
        record(key=[1, 2], value=["x", 1, None]),
        "PK mode for table 'orders' is RECORD_KEY with configured PK fields [nope], but record key schema does not contain "
        "field: nope",
    ),
    (
        planner(KeyMode.RECORD_VALUE, "nope"),
        record(value=["x", 1, None]),
        "PK mode for table 'orders' is RECORD_VALUE with configured PK fields [nope], but record value schema does not contain "
        "field: nope",
    ),
    (
        planner(KeyMode.KAFKA, "one"),
        record(value=["x", 1, None]),
        "PK mode for table 'orders' is KAFKA so there should either be no field names defined for defaults [__connect_topic, "
        "__connect_partition, __connect_offset] to be applicable, or exactly 3, defined fields are: [one]",
    ),
    (
        planner(whitelist=frozenset(("nope",))),
        record(value=["x", 1, None]),
        "No fields found using key and value schemas for table: orders",
    ),
    (
        planner(tables=TableNaming(by_topic={"people": "p"})),
        record(value=["x", 1, None]),
        "Destination table for the topic: 'orders' couldn't be found in the topics to tables mapping: 'people->p' and couldn't "
        "be generated for the format string '${topic}'",
    ),
]


@pytest.mark.parametrize(("one", "bad", "words"), WORDS)
def test_error_for_an_unsuitable_record_has_confluents_message(one: JdbcSinkPlanner, bad: SinkRecord, words: str) -> None:
    assert words in refusal(one, bad)


def test_records_around_an_unsuitable_one_are_planned() -> None:
    refused: list[SinkRecord] = []
    good, bad = record(value=["x", 1, None]), record()
    changes = planner().plan([good, bad, good], lambda record, _: refused.append(record))
    assert [len(change) for change in changes] == [1, 1]
    assert refused == [bad]


def test_tables_are_named_by_format_mapping_and_normalization() -> None:
    assert TableNaming("shop.${topic}_${topic}").name_for("a") == "shop.a_a"
    assert TableNaming(" ${topic}".strip(), normalizes=True).name_for("a-b.c") == "a_b_c"
    assert TableNaming(normalizes=True, by_topic=parse_topic_mapping("k", ["a:x.y-z"])).name_for("a") == "x.y-z"


def test_error_for_a_topic_that_is_no_valid_table_name() -> None:
    assert "Topic 'a..b' has no table" in refusal(planner(), record(value=["x", 1, None], topic="a..b"))
