"""``org.apache.kafka.connect.converters.BooleanConverter``: one byte, 1 or 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef
from connect.converters.api import Converter, HeaderConverter
from connect.converters.config import HEADER_TYPE, TYPE, converter_config_def, type_for
from connect.data.headers import Headers
from connect.data.java_class_names import java_class_name_under
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connect.record import SchemaAndValue

CONFIG = converter_config_def()
_READ = {
    None: SchemaAndValue(Schema.OPTIONAL_BOOLEAN, None),
    b"\x00": SchemaAndValue(Schema.OPTIONAL_BOOLEAN, False),
    b"\x01": SchemaAndValue(Schema.OPTIONAL_BOOLEAN, True),
}
_WRITTEN = {None: None, False: b"\x00", True: b"\x01"}


class BooleanConverter(Converter, HeaderConverter):
    """Converts booleans to one byte and back, with an optional schema. A null remains null. Rejects other values."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG

    def configure(self, configs: Mapping[str, Any], is_key: bool | None = None) -> None:
        kind = configs.get(TYPE, HEADER_TYPE) if is_key is None else type_for(is_key)
        CONFIG.parse({**configs, TYPE: kind})

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        if value is not None and not isinstance(value, bool):
            found = java_class_name_under(schema, value)
            raise DataError(f"BooleanConverter is not compatible with objects of type class {found}")
        return _WRITTEN[value]

    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        found = _READ.get(data)
        if found is not None:
            return found
        cause = "Size of data received by BooleanDeserializer is not 1"
        if data is not None and len(data) == 1:
            cause = f"Unexpected byte received by BooleanDeserializer: {data[0] - 256 if data[0] > 127 else data[0]}"
        raise DataError("Failed to deserialize boolean: ") from DataError(cause)

    def encode_batch(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        if (schema is None or schema.type is Type.BOOLEAN) and set(map(type, values)) <= {bool, type(None)}:
            return [_WRITTEN[value] for value in values]
        return [self.from_connect_data(topic, schema, value) for value in values]

    def decode_batch(self, topic: str, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        try:
            return [_READ[data] for data in datas]
        except KeyError:
            return [self.to_connect_data(topic, data) for data in datas]

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, data)

    def close(self) -> None:
        """Nothing to release."""
