"""The converters of a configuration, by themselves: from what lies in a topic to records, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.converters.api import Converter, HeaderConverter
from connect.data.headers import Headers
from connect.errors import ConfigError
from connect.plugins import Plugins
from connect.record import CREATE_TIME, ConnectRecord, SinkRecord
from worker.preview.errors import PreviewFailure, build_failure
from worker.tasks.converters import converter_settings

KEY, VALUE, HEADER = "key.converter", "value.converter", "header.converter"
_SIMPLE_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it lies in a topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class PreviewConverters:
    """The converters of a connector, or else of its worker. Close it after use."""

    def __init__(self, config: Mapping[str, str | None], worker: Mapping[str, str] | None, plugins: Plugins) -> None:
        """Raises ConfigError when neither names a converter, and what a converter says of its settings."""
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
            raise ConfigError(f"There is no {role}: give one in the connector's file, or name the worker's file", key=role)
        converter = plugins.new_converter(found[0])
        converter.configure(found[1], is_key)
        return converter

    @property
    def names(self) -> tuple[str, str]:
        """The classes of the key's and the value's converter."""
        return type(self._key).__name__, type(self._value).__name__

    def read(self, message: Message, offset: int) -> ConnectRecord | PreviewFailure:
        """The record that a sink's transformations get, or what a converter says of it."""
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

    def write(self, record: ConnectRecord) -> Message | PreviewFailure:
        """The message that a source's record becomes, or what a converter says of it."""
        role = KEY
        try:
            key = self._key.from_connect_data(record.topic, record.key_schema, record.key, record.headers)
            role = VALUE
            value = self._value.from_connect_data(record.topic, record.value_schema, record.value, record.headers)
            role = HEADER
            headers = tuple(
                (header.key, self._header.from_connect_header(record.topic, header.key, header.schema, header.value))
                for header in record.headers or ()
            )
        except Exception as e:
            return build_failure(e, role)
        return Message(record.topic, key, value, headers)

    def close(self) -> None:
        """Releases what the converters hold. May be called twice."""
        for converter in (self._key, self._value, self._header):
            converter.close()


def has_converters(config: Mapping[str, str | None], worker: Mapping[str, str] | None) -> bool:
    """Whether the converters of keys and values are known."""
    return all(converter_settings(role, config, worker or {}) is not None for role in (KEY, VALUE))
