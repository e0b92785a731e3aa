"""What the three converters share: the registry, subjects, ids, caches and the words of errors. Formats supply the codecs."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from connect.converters.api import Converter
from connect.converters.config import TYPE, type_for
from connect.data.headers import Headers
from connect.data.schema import Schema
from connect.errors import ConfigError, DataError, IllegalStateError
from connect.record import NULL, SchemaAndValue
from connect.strict import is_strict
from connectors.registry.client import RegisteredSchema, SchemaRegistry, refuse_rules
from connectors.registry.config import RegistrySettings, registry_settings
from connectors.registry.wire_format import PREFIX_SIZE, SchemaKey, of_headers, parse_prefix, prefix_of

log = logging.getLogger(__name__)
_K = TypeVar("_K")
_V = TypeVar("_V")

Encoder = Callable[[Sequence[Any]], list[bytes]]
"""Takes values of one schema and gives the bytes after the schema id. A None comes only where it is no tombstone. Raises
DataError."""
Decoder = Callable[[bytes, int], SchemaAndValue]
"""Takes a payload and where its data begins. Raises DataError and nothing else."""


@dataclass(frozen=True, slots=True)
class Described:
    """A Connect schema in the words of a format. ``schema`` has no id yet."""

    schema: RegisteredSchema
    record_name: str | None
    """What RecordNameStrategy calls the subject; None where the format gives no name."""


@dataclass(frozen=True, slots=True)
class _Reader:
    key: SchemaKey
    decode: Decoder


class RegistryConverter(Converter):
    """A converter with its schemas in a registry. Nothing is asked of the registry before the first value."""

    schema_type: ClassVar[str]
    """As the registry names the format."""
    format_name: ClassVar[str]
    """As messages do."""

    def __init__(self) -> None:
        self._registry: SchemaRegistry | None = None
        self._settings: RegistrySettings
        self._is_key = False
        self._part = "value"
        self._cache_size = 1000
        self._encoders: dict[tuple[str, int], tuple[Schema | None, Encoder, bytes]] = {}
        self._equal_encoders: dict[tuple[str, Schema | None], tuple[Encoder, bytes]] = {}
        self._readers: dict[str, dict[bytes, _Reader]] = {}
        self._other_readers: dict[tuple[str, SchemaKey], _Reader] = {}

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        values = self.config_def().parse({**configs, TYPE: type_for(is_key)})
        self._is_key = is_key
        self._part = type_for(is_key)
        self._settings = registry_settings(values, is_key)
        self._cache_size = max(1, values["schemas.cache.config"])
        self._configure_format(values, is_strict(configs))
        self._registry = SchemaRegistry(self._settings)

    def close(self) -> None:
        if self._registry is not None:
            self._registry.close()
            self._registry = None

    # -- what a format supplies

    @abstractmethod
    def _configure_format(self, values: Mapping[str, Any], strict: bool) -> None:
        """Takes the format's own keys. Raises ConfigError."""

    @abstractmethod
    def _describe(self, schema: Schema | None, topic: str) -> Described:
        """The schema that values of this Connect schema are written with. Raises DataError."""

    @abstractmethod
    def _encoder(self, schema: Schema | None, described: Described, target: RegisteredSchema | None, lenient: bool) -> Encoder:
        """The encoder for values of the Connect schema, written with ``target`` if given, else with what described it.

        Raises SchemaError when values of the one do not fit the other. With ``lenient``, fields that the target lacks are
        left out.
        """

    @abstractmethod
    def _record_name(self, registered: RegisteredSchema) -> str | None:
        """The record name of a schema that was read, for strategies that name subjects by it."""

    @abstractmethod
    def _decoder(self, registered: RegisteredSchema, version: int | None) -> Decoder:
        """The decoder for data of that schema. ``version`` is its number in the subject, if it is known. Raises DataError."""

    def _null_is_tombstone(self, schema: Schema | None) -> bool:
        """Whether a null is written as no bytes at all. Otherwise the encoder gets it. Raises DataError if it may be neither."""
        return True

    # -- writing

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None) -> bytes | None:
        return self.encode_batch(topic, schema, (value,))[0]

    def encode_batch(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        try:
            present: Sequence[Any] = values
            if None in values and self._null_is_tombstone(schema):
                present = [v for v in values if v is not None]
            if not present:
                return [None] * len(values)
            encode, prefix = self._writer(topic, schema)
            datas = [prefix + data for data in encode(present)]
        except DataError as e:
            raise type(e)(f"Failed to serialize {self.format_name} data from topic {topic} ({self._part}): {e.message}") from e
        if len(datas) == len(values):
            return list(datas)
        following = iter(datas)
        return [None if v is None else next(following) for v in values]

    def _writer(self, topic: str, schema: Schema | None) -> tuple[Encoder, bytes]:
        found = self._encoders.get((topic, id(schema)))
        if found is not None:
            return found[1], found[2]
        made = self._equal_encoders.get((topic, schema))
        if made is None:
            made = self._make_writer(topic, schema)
        if len(self._encoders) >= self._cache_size:
            self._encoders.clear()
            self._equal_encoders.clear()
        self._equal_encoders[topic, schema] = made
        self._encoders[topic, id(schema)] = (schema, *made)  # holding the schema keeps its id from being reused
        return made

    def _make_writer(self, topic: str, schema: Schema | None) -> tuple[Encoder, bytes]:
        settings, registry = self._settings, self._open_registry()
        described = self._describe(schema, topic)
        subject = settings.strategy.subject(topic, self._is_key, described.record_name)
        if settings.auto_register:
            encoder = self._encoder(schema, described, None, False)  # before the schema is registered for nothing
            return encoder, prefix_of(registry.register(subject, described.schema))
        if settings.use_id >= 0:
            target, lenient = registry.schema(settings.use_id), not settings.id_strict
        elif settings.use_latest:
            target, lenient = registry.latest(subject), not settings.latest_strict
        else:
            known = registry.lookup(subject, described.schema)
            if known is None:
                raise DataError(
                    f"the schema is not registered under subject {subject} and auto.register.schemas is false. Register it, or "
                    f"set use.latest.version=true. The schema is {_shown(described.schema.text)}"
                )
            return self._encoder(schema, described, None, False), prefix_of(known.id)
        self._require_type(target)
        refuse_rules(target)
        try:
            encoder = self._encoder(schema, described, target, lenient)
        except DataError as e:
            raise type(e)(f"the schema does not fit schema {target.id} of subject {subject}: {e.message}") from e
        return encoder, prefix_of(target.id)

    # -- reading

    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        try:
            named = of_headers(headers, self._is_key)
        except DataError as e:
            raise self._unreadable(topic, None, e) from e
        if data is None or named is None:
            return self.decode_batch(topic, (data,))[0]
        key, rest = named
        try:
            reader = self._other_readers.get((topic, key))
            if reader is None:
                reader = self._make_reader(topic, key)
                _keep(self._other_readers, (topic, key), reader, self._cache_size)
            return reader.decode(rest + data, 0)
        except DataError as e:
            raise self._unreadable(topic, key, e) from e

    def decode_batch(self, topic: str, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        readers = self._readers.setdefault(topic, {})
        made: list[SchemaAndValue] = []
        append = made.append
        reader: _Reader | None = None
        try:
            for data in datas:
                if data is None:
                    append(NULL)
                    continue
                reader = readers.get(data[:PREFIX_SIZE])
                if reader is None:
                    reader = self._reader(topic, data, readers)
                append(reader.decode(data, PREFIX_SIZE))
        except DataError as e:
            raise self._unreadable(topic, reader.key if reader is not None else None, e) from e
        return made

    def _reader(self, topic: str, data: bytes, readers: dict[bytes, _Reader]) -> _Reader:
        key = parse_prefix(data)
        try:
            reader = self._make_reader(topic, key)
        except DataError as e:
            raise self._unreadable(topic, key, e) from e
        _keep(readers, data[:PREFIX_SIZE], reader, self._cache_size)
        return reader

    def _make_reader(self, topic: str, key: SchemaKey) -> _Reader:
        registered = self._open_registry().schema(key)
        self._require_type(registered)
        refuse_rules(registered)
        return _Reader(key, self._decoder(registered, self._version(topic, registered)))

    def _version(self, topic: str, registered: RegisteredSchema) -> int | None:
        """The schema's number in the subject. The original fails without one; a topic copied under another name should not."""
        try:
            subject = self._settings.strategy.subject(topic, self._is_key, self._record_name(registered))
            found = self._open_registry().lookup(subject, registered)
        except (DataError, ConfigError) as e:  # the latter from a registry that shows schemas but not subjects
            log.debug("Schema %s has no known version for topic %s: %s", registered.id, topic, e.message)
            return None
        return None if found is None else found.version

    def _unreadable(self, topic: str, key: SchemaKey | None, error: DataError) -> DataError:
        if error.message.startswith("Failed to deserialize"):
            return error
        which = "" if key is None else f", schema id {key}" if isinstance(key, int) else f", schema GUID {key}"
        return type(error)(
            f"Failed to deserialize data for topic {topic} to {self.format_name} ({self._part}{which}): {error.message}"
        )

    # -- both

    def _open_registry(self) -> SchemaRegistry:
        if self._registry is None:
            raise IllegalStateError(f"{type(self).__name__} was not configured, or is closed")
        return self._registry

    def _require_type(self, registered: RegisteredSchema) -> None:
        if registered.type != self.schema_type:
            raise DataError(
                f"schema {registered.id} is of type {registered.type}; {type(self).__name__} needs {self.schema_type}. "
                f"Use the converter of that format"
            )

    def _referenced_texts(self, registered: RegisteredSchema) -> dict[str, str]:
        """The texts of all schemas this one uses, by name, those used before their users."""
        if not registered.references:
            return {}
        return {name: used.text for name, used in self._open_registry().referenced(registered).items()}


def _keep(kept: dict[_K, _V], key: _K, value: _V, size: int) -> None:
    if len(kept) >= size:
        kept.clear()
    kept[key] = value


def _shown(text: str) -> str:
    return text if len(text) <= 500 else text[:500] + "..."


__all__ = ["Decoder", "Described", "Encoder", "RegistryConverter"]
