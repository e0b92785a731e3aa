"""``org.apache.kafka.connect.storage.StringConverter``: values as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef, Importance, Width
from connect.config.types import ConfigType
from connect.converters.api import Converter, HeaderConverter
from connect.converters.config import HEADER_TYPE, TYPE, converter_config_def, type_for
from connect.data.headers import Headers
from connect.data.java_text import java_text
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import DataError
from connect.java.charsets import charset
from connect.record import SchemaAndValue
from connect.strict import STRICT, is_strict

ENCODING = "converter.encoding"
CONFIG = converter_config_def().define(
    ENCODING,
    ConfigType.STRING,
    "UTF-8",
    importance=Importance.HIGH,
    doc="The name of the Java character set to use for encoding strings as byte arrays.",
    width=Width.MEDIUM,
    display_name="Encoding",
)


class StringConverter(Converter, HeaderConverter):
    """Writes any value like Java's ``toString`` and reads everything as an optional string. None remains None.

    As in Apache, characters that the charset does not have become ``?``, and malformed bytes become U+FFFD. With
    ``conversion.strict``, both are rejected, and so is a value that contains bytes, because its text has only their address.
    """

    def __init__(self) -> None:
        self._strict = False
        self._encode, self._decode = charset("UTF-8")
        self.is_utf8 = True
        """Whether the bytes are UTF-8, so that a sink of text lines may use them unchanged."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG

    def configure(self, configs: Mapping[str, Any], is_key: bool | None = None) -> None:
        kind = configs.get(TYPE, HEADER_TYPE) if is_key is None else type_for(is_key)
        encoding = CONFIG.parse({**configs, TYPE: kind})[ENCODING]
        if encoding is None:
            encoding = "UTF-8"
        self._strict = is_strict(configs)
        self._encode, self._decode = charset(encoding, strict=self._strict)
        self.is_utf8 = encoding.lower().replace("_", "-") in ("utf-8", "utf8")

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None) -> bytes | None:
        if value is None:
            return None
        if self._strict and _has_bytes(value):
            raise DataError(
                f"A value with bytes in it cannot be written as text without loss ({STRICT}=true): use another converter, "
                "such as JsonConverter or ByteArrayConverter"
            )
        return self._encode(_text(schema, value))

    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        return SchemaAndValue(Schema.OPTIONAL_STRING, None if data is None else self._decode(data))

    def encode_batch(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        if self.is_utf8:
            try:
                return [value.encode() for value in values]
            except (AttributeError, UnicodeEncodeError):
                pass  # not all of them are text, or one has an unpaired surrogate
        if self._strict:
            return [self.from_connect_data(topic, schema, value) for value in values]
        encode = self._encode
        return [None if value is None else encode(_text(schema, value)) for value in values]

    def decode_batch(self, topic: str, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        decode, schema = self._decode, Schema.OPTIONAL_STRING
        return [SchemaAndValue(schema, None if data is None else decode(data)) for data in datas]

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, data)

    def close(self) -> None:
        """Nothing to release."""


def _text(schema: Schema | None, value: Any) -> str:
    try:
        return java_text(schema, value)
    except RecursionError as e:
        raise DataError(f"A value of type {type(value).__name__} is nested too deeply to be written as text") from e


def _has_bytes(value: Any) -> bool:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, bytes | bytearray | memoryview):
            return True
        if isinstance(one, Struct):
            waiting.extend(one.values)
        elif isinstance(one, dict):
            waiting.extend(one)
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)
    return False
