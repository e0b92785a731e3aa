"""``org.apache.kafka.connect.storage.SimpleHeaderConverter``: header values as text; reading infers the type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from connect.config.definition import ConfigDef
from connect.converters.api import HeaderConverter
from connect.data.schema import Schema
from connect.data.values import convert_to_string, parse_string, parse_string_strictly
from connect.errors import DataError
from connect.java.charsets import charset
from connect.record import NULL, SchemaAndValue
from connect.strict import STRICT, is_strict

CONFIG = ConfigDef()
Converted = TypeVar("Converted")
_MAX_KNOWN, _MAX_KNOWN_BYTES = 1000, 256
"""Most records of a topic have headers with the same few values, and inferring a type takes longer than converting the record."""


class SimpleHeaderConverter(HeaderConverter):
    """Writes header values as text and infers schema and value from text. It has no configuration keys.

    With ``conversion.strict``, it rejects input that it would otherwise change: bytes that are not UTF-8, unpaired surrogates,
    and text that the inferred value does not fully represent.
    """

    def __init__(self) -> None:
        self._use(strict=False)

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        self._use(strict=is_strict(configs))

    def _use(self, *, strict: bool) -> None:
        self._strict = strict
        self._known: dict[bytes, SchemaAndValue] = {}
        # A subclass may fail.
        self.reads_any_bytes = not strict and type(self) is SimpleHeaderConverter
        self._encode, self._decode = charset("UTF-8", strict=strict)

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        text = convert_to_string(schema, value)
        if text is None:
            return None
        return self._named(key, lambda: self._encode(text)) if self._strict else self._encode(text)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        if (known := self._known.get(data)) is not None:
            return known
        if self._strict:
            found = self._named(key, lambda: parse_string_strictly(self._decode(data)))
        else:
            found = parse_string(self._decode(data))
        if len(data) <= _MAX_KNOWN_BYTES and not isinstance(found.value, (list, dict)):
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[data] = found
        return found

    def _named(self, key: str, convert: Callable[[], Converted]) -> Converted:
        try:
            return convert()
        except DataError as e:
            raise DataError(f'Header "{key}": {e.message} ({STRICT}=true)') from e
