"""EventRouter: converts an insert into an outbox table to the message that the row describes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from connect.change_events.envelope import (
    AFTER,
    DELETE,
    OPERATION,
    SOURCE,
    UPDATE,
    envelope_struct,
    is_envelope_schema,
    text_field,
)
from connect.config.definition import ConfigDef
from connect.data.headers import Header, Headers
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.debezium.outbox.config import CONFIG_DEF, InvalidOperation, OutboxColumns, Placement, read_config
from connect.transforms.debezium.outbox.json_payload import JsonExpansion
from connect.transforms.record_copies import copy_record
from connect.transforms.regex_router import RegexRouter
from connect.transforms.structs import require_struct

PAYLOAD = "payload"
_PURPOSE = "Read Outbox Event"
_MAX_SCHEMAS = 1_000
_PER_MILLI = {
    "io.debezium.time.Timestamp": 1, "io.debezium.time.MicroTimestamp": 1_000, "io.debezium.time.NanoTimestamp": 1_000_000,
}  # fmt: skip
_log = logging.getLogger(__name__)


class EventRouter(Transformation):
    """Converts inserts and snapshot rows to messages; drops deletes, tombstones, and updates unless they are configured to fail.
    Records that are not change events pass."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._config = read_config(configs)
        self._router = RegexRouter()
        self._router.configure({"regex": self._config.topic_regex, "replacement": self._config.topic_replacement})
        self._json = JsonExpansion(self._config.keeps_nulls, self._config.keeps_empty_arrays, self._config.strict)
        self._in_envelope = [one for one in self._config.additions if one.placement is Placement.ENVELOPE]
        self._schemas: dict[tuple[Schema, Schema, str, int | None], Schema] = {}

    def close(self) -> None:
        self._schemas.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        schema = record.value_schema
        if record.value is None:
            return None
        if schema is None or not is_envelope_schema(schema):
            return record
        event = envelope_struct(schema, record.value)
        operation = text_field(event, OPERATION, "Detect Debezium Operation")
        if operation == DELETE:
            return None
        if operation == UPDATE:
            self._reject_update(record)
            return None
        row = require_struct(None, event.get(AFTER), _PURPOSE)
        return self._build_message(record, event, row, self._find_columns(event))

    def _reject_update(self, record: ConnectRecord) -> None:
        behavior = self._config.invalid_operation
        if behavior is InvalidOperation.FATAL:
            raise DataError(
                f"Found an update of the outbox table in {record.topic}: rows may be inserted and deleted, but not updated "
                "(table.op.invalid.behavior=fatal)"
            )
        level = logging.WARNING if behavior is InvalidOperation.WARN else logging.ERROR
        _log.log(level, "Dropping an update of the outbox table in %s", record.topic)

    def _find_columns(self, event: Struct) -> OutboxColumns:
        field = event.schema.field(SOURCE)
        source = None if field is None else event.values[field.index]
        if isinstance(source, Struct) and source.schema.field("connector") is not None and source.get("connector") == "oracle":
            return self._config.oracle_columns
        return self._config.columns

    def _build_message(self, record: ConnectRecord, event: Struct, row: Struct, columns: OutboxColumns) -> ConnectRecord | None:
        payload_schema, payload = _read_column(row, columns.payload, "payload")
        timestamp = _read_timestamp(event, row, columns.timestamp)
        id_schema, event_id = _read_column(row, columns.id, "event-id")
        if self._config.expands_json:
            payload_schema, payload = self._expand_payload(record, columns.payload, payload_schema, payload)
        routed = text_field(row, columns.route_by, "topic routing")
        if routed is None:
            raise DataError(
                f"The column {columns.route_by} of an outbox row is null, so there is no topic for it (route.by.field)"
            )
        new = copy_record(record)
        new.topic, new.timestamp = routed, timestamp
        new.value_schema, new.value = payload_schema, payload
        if self._in_envelope:
            new.value_schema = self._value_schema(payload_schema, row, routed)
            new.value = Struct(new.value_schema, [payload, *self._envelope_values(row)])
        headers = [*(record.headers or ()), Header("id", id_schema, event_id)]
        new.partition = self._place_additions(row, headers)
        new.headers = Headers(headers)
        new.key_schema, new.key = (Schema.STRING, None) if columns.key is None else _read_column(row, columns.key, "event key")
        if self._config.tombstone_on_empty and (payload is None or (isinstance(payload, str) and _is_blank(payload))):
            new.value_schema = new.value = None
        return self._router.apply(new)

    def _expand_payload(self, record: ConnectRecord, column: str, schema: Schema, payload: Any) -> tuple[Schema, Any]:
        if payload is None:
            return schema, payload
        if not isinstance(payload, str):
            _log.warning("The payload of an outbox row in %s is not expanded: it is not text", record.topic)
            return schema, payload
        try:
            return self._json.expand(column, payload)
        except DataError as e:
            if self._config.strict:
                raise DataError(f"The payload in {column} cannot be expand: {e.message}") from e
            _log.warning("The payload of an outbox row in %s is not expanded: %s", record.topic, e.message)
            return schema, payload

    def _place_additions(self, row: Struct, headers: list[Header]) -> int | None:
        """Adds headers to the list and returns the partition, if a column has it."""
        partition: int | None = None
        for addition in self._config.additions:
            if addition.placement is Placement.ENVELOPE or self._is_left_out(row, addition.column):
                continue
            if addition.placement is Placement.HEADER:
                headers.append(Header(addition.alias, *_read_column(row, addition.column, "additional")))
            else:
                partition = _read_integer(row, addition.column, Type.INT32, "partition")
        return partition

    def _is_left_out(self, row: Struct, column: str) -> bool:
        return not self._config.missing_is_error and row.schema.field(column) is None

    def _envelope_values(self, row: Struct) -> list[Any]:
        return [row.get(one.column) for one in self._in_envelope if not self._is_left_out(row, one.column)]

    def _value_schema(self, payload: Schema, row: Struct, topic: str) -> Schema:
        version = None
        if self._config.schema_version is not None:
            version = _read_integer(row, self._config.schema_version, Type.INT32, "schema version")
        key = (payload, row.schema, topic, version)
        known = self._schemas.get(key)
        if known is None:
            placed = [one for one in self._in_envelope if not self._is_left_out(row, one.column)]
            fields = [(PAYLOAD, payload), *((one.alias, _read_column(row, one.column, "additional")[0]) for one in placed)]
            known = Schema(Type.STRUCT, name=_schema_name(row.schema.name, topic), version=version, fields=fields)
            if len(self._schemas) >= _MAX_SCHEMAS:
                del self._schemas[next(iter(self._schemas))]
            self._schemas[key] = known
        return known


def _read_column(row: Struct, name: str, purpose: str) -> tuple[Schema, Any]:
    """The schema of a column and its value or default. Raises DataError if it does not exist."""
    field = row.schema.field(name)
    if field is None:
        raise DataError(f"Unable to find {purpose} field {name} in event; fields: {', '.join(row.schema.field_names)}")
    return field.schema, row.get(field)


def _read_integer(struct: Struct, name: str, kind: Type, purpose: str) -> int | None:
    """An integer field of a struct; as in Java, null is not replaced by the default. Raises DataError for another type."""
    schema, _ = _read_column(struct, name, purpose)
    if schema.type is not kind:
        raise DataError(f"The column {name} is of type {schema.type.name}; a {purpose} must be {kind.name}")
    number: int | None = struct.get_without_default(name)
    return number


def _read_timestamp(event: Struct, row: Struct, column: str | None) -> int | None:
    """The timestamp column in milliseconds, or the time at which the change was processed."""
    value = None if column is None else _read_integer(row, column, Type.INT64, "timestamp")
    if column is None or value is None:
        return _read_integer(event, "ts_ms", Type.INT64, "timestamp")
    schema, _ = _read_column(row, column, "timestamp")
    divisor = _PER_MILLI.get(schema.name or "")
    if divisor is None:
        found = schema.name or f"{schema.type.name} (without logical schema name)"
        raise DataError(f"Unsupported field type {found} for event timestamp; expected {', '.join(_PER_MILLI)}")
    # Java's division rounds toward zero.
    return value // divisor if value >= 0 else -(-value // divisor)


def _is_blank(text: str) -> bool:
    """Whether text is empty after Java's ``trim``, which removes spaces and control characters."""
    return all(char <= " " for char in text)


def _schema_name(row_name: str | None, topic: str) -> str:
    """Inserts the topic before the last part of the row schema's name."""
    if row_name is None:
        return topic
    head, dot, tail = row_name.rpartition(".")
    return f"{head}{dot}{topic}.{tail}"
