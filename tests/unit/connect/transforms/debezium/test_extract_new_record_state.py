from __future__ import annotations

import logging
from typing import Any

import pytest

from connect.data.headers import Headers
from connect.data.schema import Field, Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError, SchemaError
from connect.record import ConnectRecord, SourceRecord
from connect.transforms.debezium.extract_new_record_state import ExtractNewRecordState

from .change_events import SCHEMAS, TOPIC, event, headers_of, row, source_block, tombstone

ANNE = (1, "Anne", 3, "x")
BOB = (1, "Bob", None, None)
MODES = ["drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"]


def _configured(**config: str) -> ExtractNewRecordState:
    made = ExtractNewRecordState()
    made.configure({name.replace("_", "."): value for name, value in config.items()})
    return made


def _configured_with(config: dict[str, str]) -> ExtractNewRecordState:
    made = ExtractNewRecordState()
    made.configure(config)
    return made


def _value(record: ConnectRecord | None) -> Any:
    assert record is not None
    return record.value.as_dict() if isinstance(record.value, Struct) else record.value


def _value_field(record: ConnectRecord, name: str) -> Field:
    assert record.value_schema is not None
    field = record.value_schema.field(name)
    assert field is not None
    return field


@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_event_becomes_the_row_after_with_a_required_schema(op: str) -> None:
    record = event(op, None, row(*ANNE))
    result = _configured().apply(record)
    assert _value(result) == {"id": 1, "name": "Anne", "level": 3, "note": "x"}
    assert result is not None
    assert result.value_schema is not None
    assert (result.value_schema.name, result.value_schema.optional) == (f"{TOPIC}.Value", False)
    assert result.value.schema is result.value_schema
    assert (result.topic, result.key, result.timestamp) == (TOPIC, record.key, 5)
    assert record.value.schema is SCHEMAS.envelope


def test_null_stays_null_unless_the_row_is_rewritten() -> None:
    record = event("c", None, row(1, None, 3, None))
    assert _value(_configured().apply(record))["note"] is None
    mode = {"delete.tombstone.handling.mode": "rewrite"}
    assert _value(_configured_with(mode).apply(record))["note"] == "none"
    assert _value(_configured_with({**mode, "replace.null.with.default": "false"}).apply(record))["note"] is None


def test_null_in_required_field_is_rejected_by_name() -> None:
    with pytest.raises(DataError, match='"id"'):
        _configured().apply(event("c", None, row(None, "x", 1, None)))


@pytest.mark.parametrize(
    ("mode", "of_delete", "keeps_tombstone"),
    [
        ("drop", None, False),
        ("tombstone", (SCHEMAS.value, None), False),
        ("delete-to-tombstone", (None, None), False),
        ("REWRITE", "rewritten", False),
        ("rewrite-with-tombstone", "rewritten", True),
    ],
)
def test_deletes_and_tombstones_are_handled_by_mode(mode: str, of_delete: Any, keeps_tombstone: bool) -> None:
    transformation = _configured_with({"delete.tombstone.handling.mode": mode})
    result = transformation.apply(event("d", row(*ANNE)))
    if of_delete is None:
        assert result is None
    elif of_delete == "rewritten":
        assert _value(result) == {"id": 1, "name": "Anne", "level": 3, "note": "x", "__deleted": "true"}
        assert _value(transformation.apply(event("c", None, row(*ANNE))))["__deleted"] == "false"
    else:
        assert result is not None
        assert (result.value_schema, result.value) == of_delete
        assert result.key.values == [1]
    gone = tombstone()
    assert transformation.apply(gone) is (gone if keeps_tombstone else None)


@pytest.mark.parametrize("mode", MODES)
def test_truncates_are_dropped_and_other_records_pass(mode: str) -> None:
    transformation = _configured_with({"delete.tombstone.handling.mode": mode, "add.headers": "op"})
    assert transformation.apply(event("t")) is None
    heartbeat = SchemaBuilder.struct().name("io.debezium.connector.common.Heartbeat").field("ts_ms", Schema.INT64).build()
    for schema, value in [(heartbeat, Struct(heartbeat, [1])), (None, {"a": 1}), (Schema.STRING, "x"), (None, [1])]:
        record = SourceRecord({}, {}, "t", value_schema=schema, value=value)
        assert transformation.apply(record) is record


def test_added_fields_and_headers_come_from_envelope_blocks_and_can_be_renamed() -> None:
    transformation = _configured_with(
        {
            "add.fields": "op,table,source.ts_ms, lsn:LSN,before.name:old,nothing",
            "add.headers": "db,op:operation,transaction.id",
            "add.headers.prefix": "h.",
        }
    )
    result = transformation.apply(event("u", row(1, "Anna", 1, None), row(*ANNE)))
    assert result is not None
    assert list(_value(result).items())[4:] == [
        ("__op", "u"), ("__table", "customers"), ("__source_ts_ms", 1_000), ("__LSN", 24_023_128), ("__old", "Anna"),
    ]  # fmt: skip
    assert _value_field(result, "__op").schema == Schema.OPTIONAL_STRING
    assert headers_of(result) == {"h.db": "shopdb", "h.operation": "u", "h.transaction_id": None}
    created = transformation.apply(event("c", None, row(*ANNE)))
    assert _value(created)["__old"] is None


def test_default_of_an_added_field_is_dropped() -> None:
    record = event("c", None, row(*ANNE), source=source_block(snapshot=None))
    result = _configured_with({"add.fields": "snapshot"}).apply(record)
    assert result is not None
    assert _value(result)["__snapshot"] is None
    assert _value_field(result, "__snapshot").schema.default is None


def test_tombstone_gets_the_operation_header() -> None:
    config = {"delete.tombstone.handling.mode": "rewrite-with-tombstone", "add.headers": "table,op"}
    record = tombstone()
    assert headers_of(_configured_with(config).apply(record)) == {"__op": "d"}
    assert record.headers is None


def test_missing_block_is_named() -> None:
    with pytest.raises(DataError, match="no block patch; blocks: before, after, source, transaction"):
        _configured_with({"add.fields": "patch.x"}).apply(event("c", None, row(*ANNE)))


def test_row_that_is_not_a_struct_is_rejected() -> None:
    schema = SchemaBuilder.struct().name("m.Envelope").field("before", Schema.STRING).field("after", Schema.STRING).build()
    with pytest.raises(DataError, match=r"rows of m\.Envelope are of type STRING"):
        _configured().apply(SourceRecord({}, {}, "m", value_schema=schema, value=Struct(schema, ["{}", "{}"])))


def test_adding_a_field_twice_is_rejected() -> None:
    with pytest.raises(SchemaError, match="duplication __op"):
        _configured_with({"add.fields": "op,op"}).apply(event("c", None, row(*ANNE)))


@pytest.mark.parametrize("spec", ["a:b:c", "a..b", ".a", "a.b.c"])
def test_invalid_field_reference_is_rejected_at_start(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"add\.fields"):
        _configured_with({"add.fields": spec})


def test_topic_is_read_from_a_column_of_the_row_after_or_before() -> None:
    transformation = _configured_with({"route.by.field": "name", "delete.tombstone.handling.mode": "rewrite"})
    assert [
        result.topic
        for result in transformation.apply_batch(
            [event("c", None, row(*ANNE)), event("d", row(*BOB)), event("c", None, row(1, None, 1, None))]
        )
        if result is not None
    ] == ["Anne", "Bob", TOPIC]
    with pytest.raises(DataError, match="no field town"):
        _configured_with({"route.by.field": "town"}).apply(event("c", None, row(*ANNE)))
    with pytest.raises(DataError, match="INT64, and STRING"):
        _configured_with({"route.by.field": "id"}).apply(event("c", None, row(*ANNE)))


def test_fields_listed_in_a_header_are_dropped_from_the_value() -> None:
    listed = Schema(Type.ARRAY, value_schema=Schema.OPTIONAL_STRING)
    headers = Headers().add("drop", ["name", "level", "__op"], listed)
    config = {"drop.fields.header.name": "drop", "add.fields": "op"}
    result = _configured_with(config).apply(event("u", None, row(*ANNE), headers=headers))
    assert _value(result) == {"id": 1, "level": 3, "note": "x"}
    every = {**config, "drop.fields.keep.schema.compatible": "false"}
    assert _value(_configured_with(every).apply(event("u", None, row(*ANNE), headers=headers))) == {"id": 1, "note": "x"}
    rewrite = {**config, "delete.tombstone.handling.mode": "rewrite"}
    assert _value(_configured_with(rewrite).apply(event("d", row(*ANNE), headers=headers))) == {
        "id": 1, "level": 3, "note": "x", "__deleted": "true", "__op": "d",
    }  # fmt: skip


def test_fields_listed_in_a_header_are_dropped_from_the_key_if_configured() -> None:
    headers = Headers().add("drop", ["id"], None)
    config = {"drop.fields.header.name": "drop", "drop.fields.keep.schema.compatible": "false"}
    result = _configured_with({**config, "drop.fields.from.key": "true"}).apply(event("u", None, row(*ANNE), headers=headers))
    assert result is not None
    assert (result.key.as_dict(), list(_value(result))) == ({}, ["name", "level", "note"])
    kept = _configured_with(config).apply(event("u", None, row(*ANNE), headers=headers))
    assert kept is not None
    assert kept.key.as_dict() == {"id": 1}


def test_drop_header_that_is_not_a_list_is_named() -> None:
    with pytest.raises(DataError, match="The header drop must be a list"):
        _configured_with({"drop.fields.header.name": "drop"}).apply(
            event("u", None, row(*ANNE), headers=Headers().add("drop", "a"))
        )


@pytest.mark.parametrize(
    ("old", "mode"),
    [
        ({"drop.tombstones": "true"}, "drop"),
        ({"drop.tombstones": "false"}, "tombstone"),
        ({"drop.tombstones": "false", "delete.handling.mode": "rewrite"}, "rewrite-with-tombstone"),
        ({"delete.handling.mode": "rewrite"}, "rewrite"),
        ({"delete.handling.mode": "none"}, "tombstone"),
        ({"drop.deletes": "false"}, "tombstone"),
        ({"drop.tombstones": "false", "delete.tombstone.handling.mode": "rewrite"}, "rewrite"),
    ],
)
def test_deprecated_delete_keys_are_read_with_a_warning(old: dict[str, str], mode: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        transformation = _configured_with(old)
    assert f"delete.tombstone.handling.mode={mode}" in caplog.text
    same = _configured_with({"delete.tombstone.handling.mode": mode})
    for record in (event("d", row(*ANNE)), event("c", None, row(*ANNE)), tombstone()):
        results = [one.apply(record) for one in (transformation, same)]
        assert [None if r is None else (r.value, r.value_schema) for r in results[:1]] == [
            None if r is None else (r.value, r.value_schema) for r in results[1:]
        ]


def test_deprecated_addition_keys_are_read() -> None:
    result = _configured_with({"operation.header": "true", "add.source.fields": "table,lsn"}).apply(event("c", None, row(*ANNE)))
    assert headers_of(result) == {"__op": "c"}
    assert list(_value(result))[4:] == ["__table", "__lsn"]


def test_unknown_deprecated_mode_is_rejected() -> None:
    with pytest.raises(ConfigError, match="drop, rewrite, none"):
        _configured_with({"delete.handling.mode": "keep"})
    with pytest.raises(ConfigError, match="DELETE-TO-TOMBSTONE"):
        _configured_with({"delete.tombstone.handling.mode": "keep"})


def _plain(record: SourceRecord) -> SourceRecord:
    value = record.value.as_dict() if isinstance(record.value, Struct) else record.value
    return SourceRecord({}, {}, record.topic, value=value, headers=record.headers)


@pytest.mark.parametrize("mode", MODES)
def test_events_without_schema_are_unwrapped_as_those_with_schema(mode: str) -> None:
    config = {
        "delete.tombstone.handling.mode": mode, "add.fields": "op,source.ts_ms,lsn:LSN", "add.headers": "table",
        "route.by.field": "name", "replace.null.with.default": "false",
    }  # fmt: skip
    for record in [
        event("c", None, row(*ANNE)),
        event("u", row(*BOB[:2], 1, None), row(*ANNE)),
        event("d", row(*ANNE)),
        event("t"),
    ]:
        typed, plain = _configured_with(config).apply(record), _configured_with(config).apply(_plain(record))
        if typed is None:
            assert plain is None
        else:
            assert plain is not None
            assert (_value(plain), plain.topic, headers_of(plain)) == (_value(typed), typed.topic, headers_of(typed))


def test_added_field_replaces_one_of_its_name_without_schema_or_is_rejected_if_strict() -> None:
    record = SourceRecord({}, {}, "t", value={"op": "c", "source": {}, "before": None, "after": {"__op": "mine"}})
    config = {"add.fields": "op"}
    assert _value(_configured_with(config).apply(record)) == {"__op": "c"}
    with pytest.raises(DataError, match="a field __op, which would be lost"):
        _configured_with({**config, "conversion.strict": "true"}).apply(record)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("extra", [{}, {"add.fields": "op,table"}, {"add.headers": "op"}, {"route.by.field": "name"}])
def test_batch_gives_the_same_results_as_single_records(mode: str, extra: dict[str, str]) -> None:
    records = [
        event("c", None, row(*ANNE)), tombstone(), event("d", row(*ANNE)), _plain(event("u", None, row(*ANNE))), event("t"),
        SourceRecord({}, {}, "t", value=1), event("u", row(*ANNE), row(1, None, 2, None)),
    ]  # fmt: skip
    config = {"delete.tombstone.handling.mode": mode, **extra}
    batch = _configured_with(config).apply_batch(records)
    alone = [_configured_with(config).apply(record) for record in records]
    shown = [
        [None if r is None else (r.topic, r.value_schema, r.value, headers_of(r)) for r in results] for results in (batch, alone)
    ]
    assert shown[0] == shown[1]


def test_records_of_one_schema_share_the_new_schema_and_the_plan_cache_is_bounded() -> None:
    transformation = _configured()
    first, second = transformation.apply_batch([event("c", None, row(*ANNE)), event("c", None, row(*ANNE))])
    assert first is not None
    assert second is not None
    assert first.value_schema is second.value_schema
    for i in range(300):
        schema = SCHEMAS.envelope.replace(doc=str(i))
        value = Struct(schema, event("c", None, row(*ANNE)).value.values)
        assert transformation.apply(SourceRecord({}, {}, "t", value_schema=schema, value=value)) is not None
    assert len(transformation._plans) <= 64


def test_row_with_an_equal_schema_is_accepted() -> None:
    other = SCHEMAS.value.replace()
    assert other is not SCHEMAS.value
    assert _value(_configured().apply(event("c", None, row(*ANNE, schema=other))))["name"] == "Anne"
    with pytest.raises(DataError, match="another schema"):
        _configured().apply(event("c", None, row(*ANNE, schema=SCHEMAS.value.replace(name="else"))))
