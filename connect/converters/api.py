"""The interfaces of converters, which convert between Connect's data and the bytes in Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from connect.config.definition import ConfigDef
from connect.data.headers import Headers
from connect.data.schema import Schema
from connect.record import SchemaAndValue
from connect.text_records import PayloadWriter, StructTemplate, TemplateWriter


class Converter(ABC):
    """Converts values to bytes and back. Configured once, then called on one task's thread only.

    The worker calls the batch methods. They raise on the first invalid value; the worker then converts the batch record by record
    to find and report it, so they must have no side effects.
    """

    wants_headers: ClassVar[bool] = False
    """Set to True in a converter that reads or writes record headers. The worker then calls ``from_connect_data`` and
    ``to_connect_data`` record by record with the headers as in Kafka (values are bytes or None, no schema), and writes those that
    ``from_connect_data`` adds. Otherwise it calls the batch methods, which have no headers."""

    @abstractmethod
    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Configures the converter with the settings below ``key.converter.`` or ``value.converter.``. Raises ConfigError."""

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef:
        """Returns the definition of this converter's keys."""

    @abstractmethod
    def from_connect_data(self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None) -> bytes | None:
        """Returns the bytes of one value; None remains a tombstone if the format allows it. Raises DataError that names the
        field."""

    @abstractmethod
    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        """Returns the value of some bytes. Raises DataError."""

    def encode_batch(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        """Returns the bytes of many values of one schema object, in their order."""
        convert = self.from_connect_data
        return [convert(topic, schema, value) for value in values]

    def decode_batch(self, topic: str, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        """Returns the values of many payloads of one topic, in their order."""
        convert = self.to_connect_data
        return [convert(topic, data) for data in datas]

    def template_writer(self, template: StructTemplate) -> TemplateWriter | None:
        """Returns a function that writes structs from texts, with the bytes that :meth:`encode_batch` would write; None if this
        converter writes structs only."""
        return None

    def payload_writer(self, template: StructTemplate) -> PayloadWriter | None:
        """Returns a writer of messages without their schemas, for destinations that store a schema once; None if messages of
        this converter have none, or it writes structs only."""
        return None

    def close(self) -> None:
        """Releases what ``configure`` opened. May be called twice."""


class HeaderConverter(ABC):
    """Converts header values to bytes and back."""

    reads_any_bytes: bool = False
    """Whether ``to_connect_header`` never fails. It is then called only when somebody looks at the headers."""

    @abstractmethod
    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None: ...

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef: ...

    @abstractmethod
    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None: ...

    @abstractmethod
    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue: ...

    def close(self) -> None:
        """Releases what ``configure`` opened. May be called twice."""
