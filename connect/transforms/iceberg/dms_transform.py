"""DmsTransform: replaces a change event of AWS DMS by its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef
from connect.data.java_text import java_text
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.strict import is_strict
from connect.transforms.api import Transformation
from connect.transforms.iceberg.cdc import DELETE, INSERT, OPERATION, SOURCE, TIME, UPDATE, refuse_drop, required_text, with_block
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import require_map

PURPOSE = "DMS transform"
_OPERATIONS = {"update": UPDATE, "delete": DELETE}
_CONFIG_DEF = ConfigDef()


class DmsTransform(Transformation):
    """The fields of ``data`` become those of the value, with the block ``_cdc``. A null value passes; an event without ``data``
    or ``metadata`` is dropped. Raises DataError for values with a schema."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._strict = is_strict(configs)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return record
        if record.value_schema is not None:
            raise DataError("Schema not support for DMS records")
        value = require_map(record.value, PURPOSE)
        data, metadata = value.get("data"), value.get("metadata")
        if not isinstance(data, dict) or not isinstance(metadata, dict):
            refuse_drop("data or metadata is not an object", self._strict)
            return None
        operation = required_text(metadata.get("operation"), "metadata.operation", PURPOSE)
        schema, table = (java_text(None, metadata.get(name)) for name in ("schema-name", "table-name"))
        block = {
            OPERATION: _OPERATIONS.get(operation, INSERT),
            TIME: metadata.get("timestamp"),
            SOURCE: f"{schema}.{table}",
        }
        new = copy_record(record)
        new.value = with_block(data, block, self._strict)
        return new
