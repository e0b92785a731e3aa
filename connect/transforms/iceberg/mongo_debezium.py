"""MongoDebeziumTransform: gives the documents in change events of Debezium's connector for MongoDB a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.java_text import java_text
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.strict import STRICT, is_strict
from connect.transforms.api import Transformation
from connect.transforms.iceberg.bson import BsonValue, parse_document, parse_value
from connect.transforms.iceberg.mongo_rows import MongoRowConverter
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import new_struct, require_fields, require_struct, struct_schema_like

PURPOSE = "copying existing fields besides before/after"
_ARRAYS = "array_handling_mode"
_BEFORE, _AFTER, _UPDATE = "before", "after", "updateDescription"
_CONFIG_DEF = ConfigDef().define(
    _ARRAYS, ConfigType.STRING, None, importance=Importance.MEDIUM,
    doc="array (the default): arrays stay arrays, and all elements of one must have the same type. document: an array becomes a "
    "struct with the fields _0, _1, and so on.",
)  # fmt: skip
_MAX_SCHEMAS = 64


class MongoDebeziumTransform(Transformation):
    """The key's id and the documents ``before`` and ``after`` become structs. A null value passes; a record that is no change
    event becomes a tombstone without key. Raises DataError for events without a document, and for mixed arrays."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        mode = _CONFIG_DEF.parse(configs)[_ARRAYS]
        self._strict = is_strict(configs)
        # Other values mean array, as for the original.
        is_document = mode is not None and mode.strip().lower() == "document"
        self._rows = MongoRowConverter(arrays_are_structs=is_document, strict=self._strict)
        self._schemas: dict[Schema, Schema] = {}

    def close(self) -> None:
        self._schemas.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return record
        if not _ends_with(record.key_schema, ".Key") or not _ends_with(record.value_schema, ".Envelope"):
            if self._strict:
                raise DataError(
                    "the record is no change event of Debezium, and would become a tombstone without key: the schema of its key "
                    f"must be named ...Key and that of its value ...Envelope ({STRICT} is on)"
                )
            new = copy_record(record)
            new.key_schema = new.key = new.value_schema = new.value = None
            return new
        value = require_struct(record.value_schema, record.value, PURPOSE)
        identity, before, after = _key_id(record), _read(value, _BEFORE), _read(value, _AFTER)
        update = _read(value, _UPDATE)
        if before is None and after is None and update is None:
            offset = getattr(record, "offset", None)
            raise DataError(f"malformed record topic: {record.topic}, partition: {record.partition}, offset: {offset}")
        documents: dict[str, Mapping[str, BsonValue] | None] = {_BEFORE: _document(before), _AFTER: _document(after)}
        if after is None and update is not None:
            documents[_AFTER] = _updated(documents[_BEFORE] or {}, update, identity)
        new = copy_record(record)
        new.key = self._known(self._rows.to_struct({"id": identity}, optional=False))
        new.key_schema = new.key.schema
        new.value = self._known(self._value(value, documents))
        new.value_schema = new.value.schema
        return new

    def _value(self, old: Struct, documents: Mapping[str, Mapping[str, BsonValue] | None]) -> Struct:
        fields: list[tuple[str, Schema]] = []
        values: list[Any] = []
        for field in require_fields(old.schema):
            if field.name not in documents:
                fields.append((field.name, field.schema))
                values.append(old.get(field))
                continue
            document = documents[field.name]
            if document is not None:
                row = self._rows.to_struct(document, optional=True)
                fields.append((field.name, row.schema))
                values.append(row)
        schema = struct_schema_like(None, fields, name=old.schema.name)
        return new_struct(schema, values)

    def _known(self, struct: Struct) -> Struct:
        """The same values under the schema object of earlier records, because others cache by it."""
        known = self._schemas.get(struct.schema)
        if known is None:
            if len(self._schemas) >= _MAX_SCHEMAS:
                del self._schemas[next(iter(self._schemas))]
            known = self._schemas[struct.schema] = struct.schema
        return new_struct(known, struct.values)


def _ends_with(schema: Schema | None, suffix: str) -> bool:
    return schema is not None and schema.name is not None and schema.name.endswith(suffix)


def _read(value: Struct, name: str) -> Any:
    if value.schema.field(name) is None:
        raise DataError(f"Unknown field: {name}")
    return value.get(name)


def _key_id(record: ConnectRecord) -> BsonValue:
    key = require_struct(record.key_schema, record.key, "field extraction")
    identity = _read(key, "id")
    if identity is None:
        raise DataError("the key's id is null")
    field = key.schema.field("id")
    assert field is not None
    return parse_value(java_text(field.schema, identity))


def _document(text: Any) -> Mapping[str, BsonValue] | None:
    return None if text is None else parse_document(java_text(None, text))


def _updated(before: Mapping[str, BsonValue], update: Any, identity: BsonValue) -> Mapping[str, BsonValue]:
    """The document after an update that has only its changes; the rest is from before, if the event has that."""
    description = require_struct(None, update, _UPDATE)
    changed = description.get_typed("updatedFields", Type.STRING)
    if changed is None:
        raise DataError(f"{_UPDATE}.updatedFields is null, so the document after the update is unknown")
    document = {**before, **parse_document(changed)}
    for name in description.get_typed("removedFields", Type.ARRAY) or ():
        document.pop(name, None)
    document.setdefault("_id", identity)
    return document
