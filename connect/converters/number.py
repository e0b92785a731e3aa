"""The converters of single numbers: ``org.apache.kafka.connect.converters.ShortConverter`` and the like.

Each writes one type of number like Kafka's serializer of that type, big-endian with a fixed size, and reads it with an optional
schema. A null remains null. Only the type of the value matters; its schema determines the width of a plain number.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, ClassVar

from connect.config.definition import ConfigDef
from connect.converters.api import Converter, HeaderConverter
from connect.converters.config import HEADER_TYPE, TYPE, converter_config_def, type_for
from connect.data.headers import Headers
from connect.data.java_class_names import java_class_name, java_class_name_under
from connect.data.schema import Schema
from connect.errors import DataError
from connect.java.sized_numbers import Float32, Int16, Int32
from connect.record import SchemaAndValue

CONFIG = converter_config_def()


class _NumberConverter(Converter, HeaderConverter):
    """Converts one type of number, which a subclass defines."""

    _name: ClassVar[str]
    """The type in error messages."""
    _schema: ClassVar[Schema]
    """The schema of values that are read."""
    _schemaless_class: ClassVar[type[int] | type[float]]
    """The class of such a number without a schema."""
    _format: ClassVar[struct.Struct]
    _deserializer: ClassVar[str]
    """The name of Kafka's deserializer in the cause of an error."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG

    def configure(self, configs: Mapping[str, Any], is_key: bool | None = None) -> None:
        kind = configs.get(TYPE, HEADER_TYPE) if is_key is None else type_for(is_key)
        CONFIG.parse({**configs, TYPE: kind})

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None) -> bytes | None:
        if value is None:
            return None
        found = java_class_name_under(schema, value)
        if found != java_class_name(self._schemaless_class()):
            raise DataError(f"Failed to serialize to {self._name} (was class {found}): ")
        try:
            return self._format.pack(value)
        except (struct.error, OverflowError) as e:
            raise DataError(f"Failed to serialize to {self._name}: {value} is too large for {self._format.size} bytes") from e

    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(self._schema, None)
        size = self._format.size
        if len(data) != size:
            raise DataError(f"Failed to deserialize {self._name}: ") from DataError(
                f"Size of data received by {self._deserializer} is not {size}"
            )
        return SchemaAndValue(self._schema, self._format.unpack(data)[0])

    def encode_batch(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        plain = float if issubclass(self._schemaless_class, float) else int
        expected = self._schemaless_class if schema is None else plain if schema.type is self._schema.type else None
        if set(map(type, values)) == {expected}:
            try:
                return list(map(self._format.pack, values))
            except (struct.error, OverflowError):
                pass  # one is too large: the conversion of single values reports it
        return [self.from_connect_data(topic, schema, value) for value in values]

    def decode_batch(self, topic: str, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        payloads = [data for data in datas if data is not None]
        if len(payloads) == len(datas) and set(map(len, payloads)) == {self._format.size}:
            numbers = chain.from_iterable(self._format.iter_unpack(b"".join(payloads)))
            # Faster than calling the class for each number.
            return list(map(tuple.__new__, repeat(SchemaAndValue), zip(repeat(self._schema), numbers, strict=False)))
        return [self.to_connect_data(topic, data) for data in datas]

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, data)

    def close(self) -> None:
        """Nothing to release."""


class ShortConverter(_NumberConverter):
    """16-bit integers in two bytes."""

    _name, _schema, _schemaless_class = "short", Schema.OPTIONAL_INT16, Int16
    _format, _deserializer = struct.Struct(">h"), "ShortDeserializer"


class IntegerConverter(_NumberConverter):
    """32-bit integers in four bytes."""

    _name, _schema, _schemaless_class = "integer", Schema.OPTIONAL_INT32, Int32
    _format, _deserializer = struct.Struct(">i"), "IntegerDeserializer"


class LongConverter(_NumberConverter):
    """64-bit integers in eight bytes. A plain int without a schema is one."""

    _name, _schema, _schemaless_class = "long", Schema.OPTIONAL_INT64, int
    _format, _deserializer = struct.Struct(">q"), "LongDeserializer"


class FloatConverter(_NumberConverter):
    """32-bit floats in four bytes."""

    _name, _schema, _schemaless_class = "float", Schema.OPTIONAL_FLOAT32, Float32
    _format, _deserializer = struct.Struct(">f"), "Deserializer"


class DoubleConverter(_NumberConverter):
    """64-bit floats in eight bytes. A plain float without a schema is one."""

    _name, _schema, _schemaless_class = "double", Schema.OPTIONAL_FLOAT64, float
    _format, _deserializer = struct.Struct(">d"), "Deserializer"
