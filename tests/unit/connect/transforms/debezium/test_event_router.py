from __future__ import annotations

import logging
from typing import Any

import pytest

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.record import ConnectRecord, SourceRecord
from connect.transforms.debezium.outbox.event_router import EventRouter
from connectors.cdc.schema import envelope
from connectors.postgres.schema.source_block import SOURCE

from .change_events import event, headers_of, row, source_block, tombstone

COLUMNS = [
    ("id", Schema(Type.STRING, name="io.debezium.data.Uuid", version=1)),
    ("aggregatetype", Schema.STRING),
    ("aggregateid", Schema.STRING),
    ("type", Schema.STRING),
    ("payload", Schema(Type.STRING, optional=True, name="io.debezium.data.Json", version=1)),
    ("version", Schema.OPTIONAL_INT32),
    ("at", Schema(Type.INT64, optional=True, name="io.debezium.time.MicroTimestamp", version=1)),
]
OUTBOX = envelope.row_schemas("shop.public.outbox", SOURCE, COLUMNS, [("id", Schema.STRING)])
ORDER = '{"id": 1, "items": [{"name": "a", "price": 39.98}, {"name": "b", "note": null, "gift": true}], "town": null, "tags": []}'


def _insert(payload: str | None = ORDER, *, type: str = "Order", op: str = "c", **changed: Any) -> SourceRecord:
    values = {"id": "e-1", "aggregatetype": type, "aggregateid": "7", "type": "OrderCreated", "payload": payload, "version": 3}
    values |= {"at": 1_556_890_294_344_999} | changed
    return event(op, None, row(*values.values(), schema=OUTBOX.value), schemas=OUTBOX, topic="shop.public.outbox")


def _with(**config: str) -> EventRouter:
    made = EventRouter()
    made.configure({name.replace("_", "."): value for name, value in config.items()})
    return made


def _route(record: ConnectRecord, **config: str) -> Any:
    result = _with(**config).apply(record)
    assert result is not None
    return result


def test_insert_becomes_the_message_of_its_row() -> None:
    result = _route(_insert())
    assert (result.topic, result.key, result.key_schema) == ("outbox.event.Order", "7", Schema.STRING)
    assert (result.value, result.value_schema) == (ORDER, COLUMNS[4][1])
    assert (result.timestamp, result.partition) == (2_000, None)
    assert [(h.key, h.schema, h.value) for h in result.headers] == [("id", COLUMNS[0][1], "e-1")]


def test_deletes_and_tombstones_are_dropped_and_other_records_pass() -> None:
    router = _with()
    before = _insert().value.get("after")
    assert router.apply(event("d", before, schemas=OUTBOX)) is None
    assert router.apply(tombstone()) is None
    other = SourceRecord({}, {}, "heartbeat", value={"ts_ms": 1})
    assert router.apply(other) is other


def test_update_is_dropped_and_logged_or_fails(caplog: pytest.LogCaptureFixture) -> None:
    update = _insert(op="u")
    for behavior, level in (("warn", "WARNING"), ("error", "ERROR")):
        caplog.clear()
        assert _with(table_op_invalid_behavior=behavior).apply(update) is None
        assert [record.levelname for record in caplog.records] == [level]
    with pytest.raises(DataError, match="update of the outbox table"):
        _with(table_op_invalid_behavior="FATAL").apply(update)


def test_topic_is_built_from_regex_and_replacement() -> None:
    result = _route(_insert(), route_topic_regex="(?<head>.)(.*)", route_topic_replacement="${head}-$2", route_by_field="type")
    assert result.topic == "O-rderCreated"
    config = {"route_topic_replacement": "${routedByValue}.events"}
    assert _route(_insert(), **config).topic == "Order.events"


def test_additional_columns_are_placed_in_headers_envelope_and_partition() -> None:
    placement = "type:header:eventType, aggregateid:envelope,type:envelope:kind,version:partition,version:header"
    result = _route(_insert("p"), table_fields_additional_placement=placement)
    assert headers_of(result) == {"id": "e-1", "eventType": "OrderCreated", "version": 3}
    assert result.value.as_dict() == {"payload": "p", "aggregateid": "7", "kind": "OrderCreated"}
    assert (result.value_schema.name, result.partition) == ("shop.public.outbox.Order.Value", 3)


def test_envelope_schema_has_the_version_of_the_row_and_is_cached() -> None:
    router = _with(table_fields_additional_placement="type:envelope", table_field_event_schema_version="version")
    schemas = []
    for record in (_insert(), _insert(), _insert(version=4), _insert(type="Bill")):
        result = router.apply(record)
        assert result is not None
        schemas.append(result.value_schema)
    assert [schema.version for schema in schemas if schema is not None] == [3, 3, 4, 3]
    assert schemas[0] is schemas[1]
    assert schemas[3] is not None
    assert schemas[3].name == "shop.public.outbox.Bill.Value"


def test_missing_column_fails_or_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    placement = {"table_fields_additional_placement": "nothing:header,none:envelope,type:envelope"}
    with pytest.raises(DataError, match=r"additional field n\w+ in event; fields: id, aggregatetype"):
        _with(**placement).apply(_insert())
    for ignoring in ({"table_field_additional_missing": "ignore"}, {"table_fields_additional_error_on_missing": "false"}):
        result = _route(_insert("p"), **placement, **ignoring)
        assert (headers_of(result), result.value.as_dict()) == ({"id": "e-1"}, {"payload": "p", "type": "OrderCreated"})
    assert "table.field.additional.missing=ignore" in caplog.text


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"table_field_event_id": "x"}, "event-id field x"),
        ({"table_field_event_payload": "x"}, "payload field x"),
        ({"table_field_event_key": "x"}, "event key field x"),
        ({"route_by_field": "x"}, "no field x"),
        ({"table_field_event_timestamp": "x"}, "timestamp field x"),
        ({"table_field_event_timestamp": "version"}, "version is of type INT32; a timestamp must be INT64"),
        ({"table_fields_additional_placement": "type:partition"}, "type is of type STRING; a partition"),
    ],
)
def test_missing_or_mistyped_column_is_named(config: dict[str, str], named: str) -> None:
    with pytest.raises(DataError, match=named):
        _with(**config).apply(_insert())


@pytest.mark.parametrize("placement", ["type", "type:somewhere", "a:b:c:d", ":header"])
def test_invalid_placement_is_rejected_at_start(placement: str) -> None:
    with pytest.raises(ConfigError, match=r"table\.fields\.additional\.placement"):
        _with(table_fields_additional_placement=placement)


def test_timestamp_is_read_from_a_column_in_milliseconds() -> None:
    assert _route(_insert(), table_field_event_timestamp="at").timestamp == 1_556_890_294_344
    assert _route(_insert(at=-1_500), table_field_event_timestamp="at").timestamp == -1
    assert _route(_insert(at=None), table_field_event_timestamp="at").timestamp == 2_000


@pytest.mark.parametrize("payload", [None, "", " \n"])
def test_empty_payload_becomes_a_tombstone_if_configured(payload: str | None) -> None:
    result = _route(_insert(payload), route_tombstone_on_empty_payload="true")
    assert (result.value, result.value_schema, result.key) == (None, None, "7")
    assert _route(_insert(payload)).value == payload


def test_json_payload_is_expanded_with_an_inferred_schema() -> None:
    result = _route(_insert(), table_expand_json_payload="true")
    assert result.value.as_dict() == {
        "id": 1,
        "items": [{"name": "a", "price": 39.98, "gift": None}, {"name": "b", "price": None, "gift": True}],
    }
    schema = result.value_schema
    assert (schema.name, schema.optional) == ("payload", True)
    assert schema.field("id").schema == Schema.OPTIONAL_INT32
    element = schema.field("items").schema.value_schema
    assert (element.name, element.field_names) == ("payload.items", ("name", "price", "gift"))


def test_objects_of_a_list_share_a_schema_even_if_the_first_has_an_empty_list() -> None:
    pets = '{"pets": [{"type": "dog", "colors": []}, {"type": "cat", "colors": [{"name": "white"}]}], "numbers": [null, 2, 3]}'
    result = _route(_insert(pets), table_expand_json_payload="true")
    assert result.value.as_dict() == {
        "pets": [{"type": "dog", "colors": []}, {"type": "cat", "colors": [{"name": "white"}]}],
        "numbers": [None, 2, 3],
    }
    alike = _route(_insert('[{"a": 1}, {"a": 2}]'), table_expand_json_payload="true")
    assert alike.value_schema.value_schema.optional


def test_nulls_and_empty_arrays_are_kept_if_configured() -> None:
    result = _route(
        _insert('{"a": null, "b": [], "c": [null]}'),
        table_expand_json_payload="true",
        table_json_payload_null_behavior="optional_bytes",
        table_json_payload_empty_array_behavior="optional_string",
    )
    assert result.value.as_dict() == {"a": None, "b": [], "c": [None]}
    assert result.value_schema.field("a").schema == Schema.OPTIONAL_BYTES


@pytest.mark.parametrize(
    "payload",
    ["text", "{", '{"a": [1, "b"]}', '{"a": [1, 2.5]}', '{"a": 99999999999999999999}', '{"a": NaN}', "[" * 5000, '{"": 1}', "[]"],
)
def test_payload_that_cannot_be_expanded_stays_text_with_a_warning(payload: str, caplog: pytest.LogCaptureFixture) -> None:
    result = _route(_insert(payload), table_expand_json_payload="true")
    assert (result.value, result.value_schema) == (payload, COLUMNS[4][1])
    assert "is not expanded" in caplog.text


def test_null_payload_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert _route(_insert(None), table_expand_json_payload="true").value is None
    assert not caplog.records


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ('{"a": 1.00000000000000000001}', "more digits than a double"),
        ('{"a": [{"b": {"c": 1}}, {"b": {"d": 1}}]}', r"a\.b\.d would be lost"),
    ],
)
def test_strict_expansion_rejects_data_loss(payload: str, named: str) -> None:
    lenient = _route(_insert(payload), table_expand_json_payload="true")
    assert isinstance(lenient.value, Struct)
    with pytest.raises(DataError, match=named):
        _with(table_expand_json_payload="true", conversion_strict="true").apply(_insert(payload))


def test_oracle_column_names_default_to_upper_case() -> None:
    columns = [(name.upper(), schema) for name, schema in COLUMNS]
    schemas = envelope.row_schemas("o", SOURCE, columns, [("ID", Schema.STRING)])
    values = row("e", "Order", "7", "t", "p", 1, None, schema=schemas.value)
    record = event("c", None, values, schemas=schemas, source=source_block(connector="oracle"))
    assert _route(record).topic == "outbox.event.Order"


def test_ignored_keys_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    _with(tracing_operation_name="x", field_name_adjustment_mode="avro")
    assert "tracing.operation.name is ignored" in caplog.text
    assert "field.name.adjustment.mode is ignored" in caplog.text
