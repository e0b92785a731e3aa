"""What the documentation of the Iceberg sink's transformations says, and what strict conversion rejects.

Results of the original classes: tests/conformance/edges/iceberg_transforms.jsonl.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.plugins import Plugins
from connect.record import SinkRecord, SourceRecord
from connect.transforms.api import Transformation
from connect.transforms.chain import apply_steps_batch, build_steps

PLUGINS = Plugins.discover()
NAMES = (
    "CopyValue",
    "DebeziumTransform",
    "DmsTransform",
    "JsonToMapTransform",
    "KafkaMetadataTransform",
    "MongoDebeziumTransform",
)


def _new(name: str, **config: str) -> Transformation:
    transformation = PLUGINS.new_transformation(name)
    transformation.configure({key.replace("__", "."): value for key, value in config.items()})
    return transformation


def _record(value: Any, schema: Schema | None = None) -> SinkRecord:
    return SinkRecord("t", 1, None, None, schema, value, 12, 1_700_000_000_123)


def _value(transformation: Transformation, record: Any) -> Any:
    result = transformation.apply(record)
    assert result is not None
    return result.value


@pytest.mark.parametrize("name", NAMES)
def test_class_is_found_by_its_names(name: str) -> None:
    spellings = (name, f"org.apache.iceberg.connect.transforms.{name}", f"io.tabular.iceberg.connect.transforms.{name}")
    assert len({type(PLUGINS.new_transformation(spelling)) for spelling in spellings}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_tombstone_passes(name: str) -> None:
    config = {"source.field": "a", "target.field": "b"} if name == "CopyValue" else {}
    transformation = PLUGINS.new_transformation(name)
    transformation.configure(config)
    record = _record(None)
    assert transformation.apply(record) is record


_JSON = '{"key": 1, "array": [1,"two",3], "empty_obj": {}, "nested_obj": {"some_key": ["one", "two"]}}'


def test_json_becomes_fields_and_maps_of_texts() -> None:
    value = _value(_new("JsonToMapTransform"), _record(_JSON))
    assert value.as_dict() == {"key": 1, "array": ["1", "two", "3"], "nested_obj": {"some_key": '["one","two"]'}}
    assert [field.schema.type for field in value.schema.fields] == [Type.INT32, Type.ARRAY, Type.MAP]


def test_json_becomes_one_map_from_the_root() -> None:
    value = _value(_new("JsonToMapTransform", json__root="true"), _record(_JSON))
    expected = {"key": "1", "array": '[1,"two",3]', "empty_obj": "{}", "nested_obj": '{"some_key":["one","two"]}'}
    assert value.as_dict() == {"payload": expected}


def test_json_of_one_shape_shares_a_schema() -> None:
    transformation = _new("JsonToMapTransform")
    first, second = (_value(transformation, _record(text)) for text in ('{"a": 1, "b": [2]}', '{"a": 3, "b": [4]}'))
    assert first.schema is second.schema


def test_json_that_is_nested_too_deep_is_an_error() -> None:
    with pytest.raises(DataError, match="topic t partition 1 offset 12"):
        _new("JsonToMapTransform").apply(_record('{"a":' + "[" * 5000 + "]" * 5000 + "}"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1} x', "text after it"),
        ('{"a": 1, "a": 2}', "two members of the same name"),
        ('{"a": 0.12345678901234567890}', "does not hold 0.12345678901234567890 exactly"),
        ('{"a": 1e400}', "does not hold 1e400 exactly"),
    ],
)
def test_json_loss_is_an_error_if_strict(text: str, reason: str) -> None:
    assert _new("JsonToMapTransform").apply(_record(text)) is not None
    strict = _new("JsonToMapTransform", conversion__strict="true")
    assert _value(strict, _record('{"a": 0.1, "b": 1e3}')).as_dict() == {"a": 0.1, "b": 1000.0}
    with pytest.raises(DataError, match=reason):
        strict.apply(_record(text))


def test_dms_event_becomes_its_row() -> None:
    metadata = {"operation": "update", "timestamp": "2024-01-01T00:00:00Z", "schema-name": "public", "table-name": "t1"}
    value = _value(_new("DmsTransform"), _record({"data": {"id": 1}, "metadata": metadata}))
    assert value == {"id": 1, "_cdc": {"op": "U", "ts": "2024-01-01T00:00:00Z", "source": "public.t1"}}


def _envelope(**changes: Any) -> dict[str, Any]:
    source = {"schema": "public", "db": "shop", "table": "t1"}
    return {"op": "u", "before": None, "after": {"id": 1}, "source": source, "ts_ms": 5, **changes}


def test_debezium_event_becomes_its_row() -> None:
    transformation = _new("DebeziumTransform", cdc__target__pattern="lake.{db}_{table}")
    value = _value(transformation, _record(_envelope()))
    block = {"op": "U", "ts": 5, "source": "public.t1", "target": "lake.public_t1", "offset": 12}
    assert value == {"id": 1, "_cdc": block}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("DebeziumTransform", _envelope(after=None), "the row is not an object, so the event would be dropped"),
        ("DebeziumTransform", _envelope(after={"_cdc": 7}), 'overwrite field "_cdc"'),
        ("DmsTransform", {"data": None, "metadata": {}}, "would be dropped"),
        ("DmsTransform", {"data": {"_cdc": 1}, "metadata": {"operation": "load"}}, 'overwrite field "_cdc"'),
        ("KafkaMetadataTransform", {"_kafka_metadata_topic": "x"}, 'overwrite field "_kafka_metadata_topic"'),
    ],
)
def test_schemaless_loss_is_an_error_if_strict(name: str, value: dict[str, Any], reason: str) -> None:
    _new(name).apply(_record(value))
    with pytest.raises(DataError, match=reason):
        _new(name, conversion__strict="true").apply(_record(value))


def test_copy_overwrites_in_a_map_unless_strict() -> None:
    config = {"source__field": "a", "target__field": "b"}
    assert _value(_new("CopyValue", **config), _record({"a": 1, "b": 2})) == {"a": 1, "b": 1}
    with pytest.raises(DataError, match='overwrite field "b"'):
        _new("CopyValue", **config, conversion__strict="true").apply(_record({"a": 1, "b": 2}))


def test_copy_of_an_unknown_field_names_the_known_ones() -> None:
    schema = Schema(Type.STRUCT, fields=[("a", Schema.INT32), ("b", Schema.INT32)])
    with pytest.raises(DataError, match=r"no field x; it has: a, b"):
        _new("CopyValue", source__field="x", target__field="y").apply(_record(Struct(schema, [1, 2]), schema))


def test_metadata_have_the_topic_that_earlier_transformations_set() -> None:
    config = {
        "transforms": "route,meta",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "lake",
        "transforms.meta.type": "KafkaMetadataTransform",
        "transforms.meta.nested": "true",
    }
    schema = Schema(Type.STRUCT, fields=[("a", Schema.INT32)])
    records = [_record(Struct(schema, [i]), schema) for i in range(8)]
    changed = apply_steps_batch(build_steps(config, PLUGINS), records)
    found = [record.value.as_dict() for record in changed if record is not None]
    block = {"topic": "lake", "partition": 1, "offset": 12, "timestamp": 1_700_000_000_123}
    assert found == [{"a": i, "_kafka_metadata": block} for i in range(8)]


def test_metadata_of_a_source_record_are_refused() -> None:
    with pytest.raises(DataError, match="sink connectors"):
        _new("KafkaMetadataTransform").apply(SourceRecord({}, {}, "t", value={"a": 1}))


_TEXT = Schema.OPTIONAL_STRING
_KEY = Schema(Type.STRUCT, name="m.Key", fields=[("id", Schema.STRING)])
_UPDATE = Schema(
    Type.STRUCT,
    optional=True,
    fields=[("removedFields", Schema(Type.ARRAY, value_schema=Schema.STRING, optional=True)), ("updatedFields", _TEXT)],
)
_ENVELOPE = Schema(
    Type.STRUCT,
    name="m.Envelope",
    fields=[("before", _TEXT), ("after", _TEXT), ("updateDescription", _UPDATE), ("op", Schema.STRING)],
)


def _mongo(before: Any = None, after: Any = None, update: tuple[list[str], Any] | None = None) -> SinkRecord:
    texts = [None if document is None else json.dumps(document) for document in (before, after)]
    description = None if update is None else Struct(_UPDATE, [update[0], json.dumps(update[1])])
    value = Struct(_ENVELOPE, [*texts, description, "u"])
    return SinkRecord("t", 1, _KEY, Struct(_KEY, ['{"$numberLong": "7"}']), _ENVELOPE, value, 12)


def test_document_gets_the_types_of_its_values() -> None:
    document = {"_id": {"$oid": "5f" * 12}, "n": {"$numberLong": "5"}, "at": {"$date": 1000}, "in": {"x": [1, 2]}}
    result = _new("MongoDebeziumTransform").apply(_mongo(after=document))
    assert result is not None
    assert result.key.as_dict() == {"id": 7}
    expected = {"_id": "5f" * 12, "n": 5, "at": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), "in": {"x": [1, 2]}}
    assert result.value.as_dict()["after"] == expected
    assert result.value.schema.field("before") is None
    nested = result.value.schema.field("after").schema.field("in").schema
    assert nested.name == "null.in"


def test_partial_update_is_merged_into_the_document_before() -> None:
    record = _mongo(before={"_id": 7, "a": 1, "b": 2}, update=(["b"], {"a": 5, "c": "new"}))
    value = _value(_new("MongoDebeziumTransform"), record)
    assert value["after"].as_dict() == {"_id": 7, "a": 5, "c": "new"}


def test_partial_update_without_document_has_the_key() -> None:
    value = _value(_new("MongoDebeziumTransform"), _mongo(update=([], {"a": 5})))
    assert value["after"].as_dict() == {"a": 5, "_id": 7}


def test_array_becomes_a_struct_if_asked() -> None:
    transformation = _new("MongoDebeziumTransform", array_handling_mode="document")
    assert _value(transformation, _mongo(after={"a": [1, "x"]}))["after"].as_dict() == {"a": {"_0": 1, "_1": "x"}}
    with pytest.raises(DataError, match="Field a of schema null is not a homogenous array"):
        _new("MongoDebeziumTransform").apply(_mongo(after={"a": [1, "x"]}))


def test_dates_in_arrays_are_converted_where_the_original_fails() -> None:
    moments = [{"$date": 1000}, {"$date": {"$numberLong": "2000"}}]
    value = _value(_new("MongoDebeziumTransform"), _mongo(after={"a": moments, "b": [{"$timestamp": {"t": 3, "i": 1}}]}))
    seconds = [[moment.timestamp() for moment in value["after"][name]] for name in ("a", "b")]
    assert seconds == [[1.0, 2.0], [3.0]]


@pytest.mark.parametrize(
    ("document", "left", "reason"),
    [
        ({"a": 1, "b": {"$minKey": 1}}, {"a": 1}, "field b of null has the type MIN_KEY"),
        ({"a": [None, None]}, {"a": []}, "field a is an array of nulls"),
    ],
)
def test_document_loss_is_an_error_if_strict(document: dict[str, Any], left: dict[str, Any], reason: str) -> None:
    assert _value(_new("MongoDebeziumTransform"), _mongo(after=document))["after"].as_dict() == left
    with pytest.raises(DataError, match=reason):
        _new("MongoDebeziumTransform", conversion__strict="true").apply(_mongo(after=document))


def test_other_records_become_tombstones_unless_strict() -> None:
    record = _record({"a": 1})
    result = _new("MongoDebeziumTransform").apply(record)
    assert result is not None
    assert (result.key, result.value) == (None, None)
    with pytest.raises(DataError, match="no change event of Debezium"):
        _new("MongoDebeziumTransform", conversion__strict="true").apply(record)


@pytest.mark.parametrize(
    "text", ["ObjectId('5f')", "{a: 1}", '{"$oid": "5f"}', "[1", '{"$numberInt": "3000000000"}', '{"$date": "2024-01-01"}']
)
def test_document_that_cannot_be_read_is_an_error_that_shows_it(text: str) -> None:
    schema = Schema(Type.STRUCT, name="m.Envelope", fields=[("before", _TEXT), ("after", _TEXT), ("updateDescription", _UPDATE)])
    record = SinkRecord("t", 1, _KEY, Struct(_KEY, ["7"]), schema, Struct(schema, [None, text, None]), 12)
    with pytest.raises(DataError, match=r"Extended JSON of MongoDB|a document is expected"):
        _new("MongoDebeziumTransform").apply(record)
