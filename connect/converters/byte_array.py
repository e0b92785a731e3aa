"""``org.apache.kafka.connect.converters.ByteArrayConverter``: bytes unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef
from connect.converters.api import Converter, HeaderConverter
from connect.converters.config import converter_config_def
from connect.data.headers import Headers
from connect.data.java_class_names import java_class_of
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connect.record import SchemaAndValue

CONFIG = converter_config_def()
_NULL = SchemaAndValue(Schema.OPTIONAL_BYTES, None)


class ByteArrayConverter(Converter, HeaderConverter):
    """Passes bytes through and reads them as optional bytes. Rejects other values."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG

    def configure(self, configs: Mapping[str, Any], is_key: bool | None = None) -> None:
        """Does nothing: Apache's converter ignores its settings, including ``converter.type``."""

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise DataError(f"ByteArrayConverter is not compatible with objects of type {java_class_of(value)}")

    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        return _NULL if data is None else SchemaAndValue(Schema.OPTIONAL_BYTES, data)

    def encode_batch(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        if (schema is None or schema.type is Type.BYTES) and set(map(type, values)) <= {bytes, type(None)}:
            return list(values)
        return [self.from_connect_data(topic, schema, value) for value in values]

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, data)

    def close(self) -> None:
        """Nothing to release."""
