from __future__ import annotations

from typing import Any

import pytest

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError, SchemaError
from connect.record import SourceRecord
from connect.transforms.debezium.logical_topic_router import ByLogicalTableRouter, ToLogicalTopicRouter, name_adjuster

from .change_events import SCHEMAS, event, row, tombstone

SHARDS = {"topic.regex": r"(.*)customers_shard(\d)", "topic.replacement": "$1customers_all"}


def _made(config: dict[str, str], kind: type[ToLogicalTopicRouter] = ByLogicalTableRouter) -> ToLogicalTopicRouter:
    made = kind()
    made.configure(config)
    return made


def _routed(config: dict[str, str], record: SourceRecord) -> Any:
    result = _made({**SHARDS, **config}).apply(record)
    assert result is not None
    return result


def _insert(shard: int = 1) -> SourceRecord:
    return event("c", None, row(1, "Anne", 2, None), topic=f"db.customers_shard{shard}")


def test_topic_schemas_and_key_are_those_of_the_logical_table() -> None:
    record = _insert()
    result = _routed({}, record)
    assert result.topic == "db.customers_all"
    assert result.key.as_dict() == {"id": 1, "__dbz__physicalTableIdentifier": "db.customers_shard1"}
    assert (result.key_schema.name, result.key.schema) == ("db.customers_all.Key", result.key_schema)
    assert (result.value_schema.name, result.value_schema.version) == ("db.customers_all.Envelope", 2)
    rows = result.value_schema.field("after").schema
    assert (rows.name, rows.optional) == ("db.customers_all.Value", True)
    assert result.value.get("after").schema is rows
    assert result.value.as_dict() == record.value.as_dict()
    assert record.value.schema is SCHEMAS.envelope


def test_to_logical_topic_router_has_another_default_key_field() -> None:
    result = _made(SHARDS, ToLogicalTopicRouter).apply(_insert())
    assert result is not None
    assert result.key_schema is not None
    assert result.key_schema.field_names == ("id", "__dbz__sourceIdentifier")


def test_key_field_can_be_a_part_of_the_topic() -> None:
    config = {"key.field.name": "shard", "key.field.regex": r"(.*)shard(.*)", "key.field.replacement": "$2"}
    assert _routed(config, _insert(4)).key.as_dict() == {"id": 1, "shard": "4"}
    other = {**config, "key.field.regex": "no"}
    assert _routed(other, _insert(4)).key.as_dict() == {"id": 1, "shard": "db.customers_shard4"}


def test_key_stays_without_enforced_uniqueness() -> None:
    result = _routed({"key.enforce.uniqueness": "false"}, _insert())
    assert (result.key.as_dict(), result.key_schema.name) == ({"id": 1}, "db.customers_all.Key")


def test_envelope_without_before_is_renamed() -> None:
    rows = SchemaBuilder.struct().name("m.s.Value").field("_id", Schema.STRING).optional().build()
    schema = SchemaBuilder.struct().name("m.s.Envelope").field("after", rows).field("op", Schema.STRING).build()
    value = Struct(schema, [Struct(rows, ["1"]), "c"])
    result = _routed({}, SourceRecord({}, {}, "db.customers_shard1", value_schema=schema, value=value))
    assert result.value.get("after").schema.name == "db.customers_all.Value"


def test_tombstones_and_records_without_key_are_routed() -> None:
    gone = _routed({}, tombstone("db.customers_shard2"))
    assert (gone.topic, gone.value) == ("db.customers_all", None)
    assert gone.key.values == [1, "db.customers_shard2"]
    keyless = _insert()
    keyless.key = None
    result = _routed({}, keyless)
    assert (result.key_schema, result.key) == (None, None)


def test_other_topics_pass_and_an_empty_name_leaves_the_topic(caplog: pytest.LogCaptureFixture) -> None:
    record = event("c", None, row(1, "Anne", 2, None))
    assert _made(SHARDS).apply(record) is record
    assert _made({"topic.regex": ".*(x?)", "topic.replacement": "$1"}).apply(record) is record
    assert "empty name" in caplog.text


def test_tables_with_the_same_schema_get_different_schema_names() -> None:
    router = _made({"topic.regex": r"(.*)_shard\d", "topic.replacement": "$1"})
    for name in ("a", "b", "a"):
        result = router.apply(event("c", None, row(1, "x", 2, None), topic=f"{name}_shard1"))
        assert result is not None
        assert result.value_schema is not None
        assert result.value_schema.name == f"{name}.Envelope"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, 'Missing required configuration "topic.regex"'),
        ({"topic.regex": "("}, "topic.regex"),
        ({**SHARDS, "topic.replacement": "$3"}, "No group 3"),
        ({**SHARDS, "topic.regex": ""}, "topic.regex: String must be non-empty"),
        ({**SHARDS, "key.field.name": ""}, "key.field.name: A value is required"),
        ({**SHARDS, "topic.replacement": ""}, "topic.replacement: A value is required"),
        ({**SHARDS, "key.field.regex": "(a)"}, "key.field.replacement must be non-empty"),
        ({**SHARDS, "schema.name.adjustment.mode": "latin"}, "schema.name.adjustment.mode: String must be one of"),
    ],
)
def test_invalid_config_is_rejected_at_start(config: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _made(config)
    assert named in caught.value.message


def test_existing_key_field_and_key_that_is_not_a_struct_are_rejected() -> None:
    with pytest.raises(SchemaError, match="duplication id"):
        _routed({"key.field.name": "id"}, _insert())
    with pytest.raises(DataError, match="Only Struct objects"):
        _routed({}, SourceRecord({}, {}, "db.customers_shard1", key_schema=Schema.STRING, key="k", value="v"))


def test_schema_names_are_adjusted_for_avro() -> None:
    assert [name_adjuster("avro")(name) for name in ("a-b.c", "1a", "-a", "ok_1", "")] == ["a_b.c", "_1a", "_a", "ok_1", ""]
    assert [name_adjuster("avro_unicode")(name) for name in ("a-b_c", "1")] == ["a_u002db_u005fc", "_u0031"]
    adjust = name_adjuster("avro")
    assert adjust("a-b") == "a_b"
    with pytest.raises(SchemaError, match="same as a-b"):
        adjust("a+b")
    assert _routed(
        {"schema.name.adjustment.mode": "avro"}, event("c", None, row(1, "x", 1, None), topic="d-b.customers_shard1")
    ).key_schema.name == ("d_b.customers_all.Key")


def test_records_that_are_not_change_events_keep_their_value() -> None:
    schema = SchemaBuilder.struct().name("Heartbeat").field("ts_ms", Schema.INT64).build()
    value = Struct(schema, [1])
    result = _routed({}, SourceRecord({}, {}, "db.customers_shard1", value_schema=schema, value=value))
    assert (result.topic, result.value, result.value_schema) == ("db.customers_all", value, schema)
