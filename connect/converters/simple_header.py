"""SimpleHeaderConverter: header values as text whose type is guessed back. ``...storage.SimpleHeaderConverter``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef
from connect.converters.api import HeaderConverter
from connect.converters.charsets import decode_utf8
from connect.data.schema import Schema
from connect.data.values import convert_to_string, parse_string
from connect.record import NULL, SchemaAndValue

CONFIG = ConfigDef()


class SimpleHeaderConverter(HeaderConverter):
    """Writes header values as text and infers schema and value from text. It has no keys of its own."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        """Nothing to configure."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        text = convert_to_string(schema, value)
        return None if text is None else text.encode("utf-8", "replace")

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return NULL if data is None else parse_string(decode_utf8(data))
