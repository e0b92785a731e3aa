"""Converts messages to records and back with the converters of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.converters.api import Converter, HeaderConverter
from connect.data.headers import Header, Headers
from connect.errors import ConfigError
from connect.plugins import Plugins
from connect.record import CREATE_TIME, ConnectRecord, SchemaAndValue, SinkRecord
from worker.preview.errors import PreviewFailure, build_failure
from worker.tasks.converters import converter_settings

KEY, VALUE, HEADER = "key.converter", "value.converter", "header.converter"
_SIMPLE_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@dataclass(frozen=True, slots=True)
class Message:
    """A message as stored in a topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class PreviewConverters:
    """The converters of a connector, or else of its worker. Close after use."""

    def __init__(self, config: Mapping[str, str | None], worker: Mapping[str, str] | None, plugins: Plugins) -> None:
        """Raises ConfigError if neither names a converter, or if a converter rejects its settings."""
        self._key = self._converter(KEY, config, worker, plugins, is_key=True)
        self._value = self._converter(VALUE, config, worker, plugins, is_key=False)
        name, settings = converter_settings(HEADER, config, worker or {}) or (_SIMPLE_HEADERS, {})
        self._header: HeaderConverter = plugins.new_header_converter(name)
        self._header.configure(settings)

    @staticmethod
    def _converter(
        role: str, config: Mapping[str, str | None], worker: Mapping[str, str] | None, plugins: Plugins, *, is_key: bool
    ) -> Converter:
        found = converter_settings(role, config, worker or {})
        if found is None:
            raise ConfigError(f"No {role} is set: set it in the connector's file, or pass the worker's file", key=role)
        converter = plugins.new_converter(found[0])
        converter.configure(found[1], is_key)
        return converter

    @property
    def names(self) -> tuple[str, str]:
        """The class names of the key and value converters."""
        return type(self._key).__name__, type(self._value).__name__

    def read(self, message: Message, offset: int) -> ConnectRecord | PreviewFailure:
        """Converts a message to the record that a sink's transformations get; returns a failure if a converter raises."""
        raw = Headers()
        for name, data in message.headers:
            raw.add(name, data, None)
        role = KEY
        try:
            key_schema, key = self._key.to_connect_data(message.topic, message.key, raw)
            role = VALUE
            value_schema, value = self._value.to_connect_data(message.topic, message.value, raw)
            role = HEADER
            headers = Headers()
            for name, data in message.headers:
                schema, header = self._header.to_connect_header(message.topic, name, data)
                headers.add(name, header, schema)
        except Exception as e:
            return build_failure(e, role)
        return SinkRecord(
            message.topic, 0, key_schema, key, value_schema, value, offset, 0, CREATE_TIME, headers if message.headers else None
        )  # fmt: skip

    def decode_part(self, part: str, topic: str, data: bytes, headers: Headers) -> SchemaAndValue:
        """Converts the ``key`` or the ``value`` alone. Raises what the converter raises."""
        converter = self._key if part == "key" else self._value
        return converter.to_connect_data(topic, data, headers)

    def encode_part(self, role: str, record: ConnectRecord) -> bytes | None:
        """Converts the key or the value of a record; ``role`` is ``KEY`` or ``VALUE``. Raises what the converter raises."""
        if role == KEY:
            return self._key.from_connect_data(record.topic, record.key_schema, record.key, record.headers)
        return self._value.from_connect_data(record.topic, record.value_schema, record.value, record.headers)

    def encode_header(self, topic: str, header: Header) -> bytes | None:
        """Converts one header. Raises what the converter raises."""
        return self._header.from_connect_header(topic, header.key, header.schema, header.value)

    def write(self, record: ConnectRecord) -> Message | PreviewFailure:
        """Converts a source's record to a message; returns a failure if a converter raises."""
        role = KEY
        try:
            key = self.encode_part(KEY, record)
            role = VALUE
            value = self.encode_part(VALUE, record)
            role = HEADER
            headers = tuple((header.key, self.encode_header(record.topic, header)) for header in record.headers or ())
        except Exception as e:
            return build_failure(e, role)
        return Message(record.topic, key, value, headers)

    def close(self) -> None:
        """Closes the converters. May be called twice."""
        for converter in (self._key, self._value, self._header):
            converter.close()


def has_converters(config: Mapping[str, str | None], worker: Mapping[str, str] | None) -> bool:
    """Returns whether the key and value converters are set."""
    return all(converter_settings(role, config, worker or {}) is not None for role in (KEY, VALUE))
