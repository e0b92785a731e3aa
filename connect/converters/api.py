"""Converters: between Connect's data and the bytes in Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from connect.config.definition import ConfigDef
from connect.data.headers import Headers
from connect.data.schema import Schema
from connect.record import SchemaAndValue


class Converter(ABC):
    """Turns values into bytes and back. Configured once, then called on one task's thread only.

    The batch methods are what the worker calls. They raise on the first bad value; the worker then goes through the batch
    record by record to find and report it, so they must have no effect but their result.
    """

    wants_headers: ClassVar[bool] = False
    """Set to True by a converter that reads or writes the record's headers: the worker then calls ``from_connect_data`` and
    ``to_connect_data`` record by record, with the headers as they are in Kafka (values are bytes or None, no schema); those that
    ``from_connect_data`` adds are written. Without it the batch methods are called, which have no headers."""

    @abstractmethod
    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Takes the settings below ``key.converter.`` or ``value.converter.``. Raises ConfigError."""

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef:
        """The table of this converter's keys."""

    @abstractmethod
    def from_connect_data(self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None) -> bytes | None:
        """The bytes of one value; None stays a tombstone where the format allows. Raises DataError that names the field."""

    @abstractmethod
    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        """The value of some bytes. Raises DataError."""

    def encode_batch(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        """The bytes of many values of one schema object, in their order."""
        convert = self.from_connect_data
        return [convert(topic, schema, value) for value in values]

    def decode_batch(self, topic: str, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        """The values of many payloads of one topic, in their order."""
        convert = self.to_connect_data
        return [convert(topic, data) for data in datas]

    def close(self) -> None:
        """Releases what ``configure`` opened. May be called twice."""


class HeaderConverter(ABC):
    """Turns header values into bytes and back."""

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
