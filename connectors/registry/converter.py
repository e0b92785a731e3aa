"""Base class of the converters: registry, subjects, schema IDs, caches, and error messages. Formats provide the codecs."""

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
from connectors.registry.client import RegisteredSchema, SchemaRegistry, reject_rule_set
from connectors.registry.config import RegistryConfig, parse_registry_config
from connectors.registry.wire_format import PREFIX_SIZE, SchemaKey, build_prefix, parse_headers, parse_prefix

log = logging.getLogger(__name__)
_K = TypeVar("_K")
_V = TypeVar("_V")

Encoder = Callable[[Sequence[Any]], list[bytes]]
"""Encodes values of one schema to the bytes after the schema ID. None occurs only where it is not a tombstone. Raises
DataError."""
Decoder = Callable[[bytes, int], SchemaAndValue]
"""Decodes a payload from an offset. Raises only DataError."""


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """The schema of a format for a Connect schema. ``schema`` has no ID yet."""

    schema: RegisteredSchema
    record_name: str | None
    """The record name for RecordNameStrategy; None if the format has none."""


@dataclass(frozen=True, slots=True)
class _CachedDecoder:
    key: SchemaKey
    decode: Decoder


class RegistryConverter(Converter):
    """A converter with schemas in a registry. Sends no request before the first value."""

    schema_type: ClassVar[str]
    """The format's name in the registry."""
    format_name: ClassVar[str]
    """The format's name in messages."""

    def __init__(self) -> None:
        self._registry: SchemaRegistry | None = None
        self._settings: RegistryConfig
        self._is_key = False
        self._part = "value"
        self._cache_size = 1000
        self._encoders: dict[tuple[str, int], tuple[Schema | None, Encoder, bytes]] = {}
        self._equal_encoders: dict[tuple[str, Schema | None], tuple[Encoder, bytes]] = {}
        self._decoders: dict[str, dict[bytes, _CachedDecoder]] = {}
        self._header_decoders: dict[tuple[str, SchemaKey], _CachedDecoder] = {}

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        values = self.config_def().parse({**configs, TYPE: type_for(is_key)})
        self._is_key = is_key
        self._part = type_for(is_key)
        self._settings = parse_registry_config(values, is_key)
        self._cache_size = max(1, values["schemas.cache.config"])
        self._configure_format(values, is_strict(configs))
        self._registry = SchemaRegistry(self._settings)

    def close(self) -> None:
        if self._registry is not None:
            self._registry.close()
            self._registry = None

    # -- implemented by formats

    @abstractmethod
    def _configure_format(self, values: Mapping[str, Any], strict: bool) -> None:
        """Configures the format's own keys. Raises ConfigError."""

    @abstractmethod
    def _describe(self, schema: Schema | None, topic: str) -> WriterSchema:
        """The schema to write values of this Connect schema with. Raises DataError."""

    @abstractmethod
    def _encoder(self, schema: Schema | None, described: WriterSchema, target: RegisteredSchema | None, lenient: bool) -> Encoder:
        """The encoder for values of the Connect schema, written with ``target`` if given, else with ``described``.

        Raises SchemaError if the schemas do not match. With ``lenient``, fields that the target lacks are dropped.
        """

    @abstractmethod
    def _record_name(self, registered: RegisteredSchema) -> str | None:
        """The record name of a registered schema, for strategies that use it."""

    @abstractmethod
    def _decoder(self, registered: RegisteredSchema, version: int | None) -> Decoder:
        """The decoder for data of that schema. ``version`` is its version in the subject, if known. Raises DataError."""

    def _null_is_tombstone(self, schema: Schema | None) -> bool:
        """Whether a null becomes a tombstone; otherwise the encoder gets it. Raises DataError if null is not allowed."""
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
            encode, prefix = self._find_encoder(topic, schema)
            datas = [prefix + data for data in encode(present)]
        except DataError as e:
            raise type(e)(f"Failed to serialize {self.format_name} data from topic {topic} ({self._part}): {e.message}") from e
        if len(datas) == len(values):
            return list(datas)
        following = iter(datas)
        return [None if v is None else next(following) for v in values]

    def _find_encoder(self, topic: str, schema: Schema | None) -> tuple[Encoder, bytes]:
        found = self._encoders.get((topic, id(schema)))
        if found is not None:
            return found[1], found[2]
        made = self._equal_encoders.get((topic, schema))
        if made is None:
            made = self._create_encoder(topic, schema)
        if len(self._encoders) >= self._cache_size:
            self._encoders.clear()
            self._equal_encoders.clear()
        self._equal_encoders[topic, schema] = made
        self._encoders[topic, id(schema)] = (schema, *made)  # the reference keeps the schema's id from being reused
        return made

    def _create_encoder(self, topic: str, schema: Schema | None) -> tuple[Encoder, bytes]:
        settings, registry = self._settings, self._open_registry()
        described = self._describe(schema, topic)
        subject = settings.strategy.subject(topic, self._is_key, described.record_name)
        if settings.auto_register:
            encoder = self._encoder(schema, described, None, False)  # may fail, so before the schema is registered
            return encoder, build_prefix(registry.register(subject, described.schema))
        if settings.use_id >= 0:
            target, lenient = registry.schema(settings.use_id), not settings.id_strict
        elif settings.use_latest:
            target, lenient = registry.latest(subject), not settings.latest_strict
        else:
            known = registry.lookup(subject, described.schema)
            if known is None:
                raise DataError(
                    f"the schema is not registered under subject {subject} and auto.register.schemas is false. Register it, or "
                    f"set use.latest.version=true. The schema is {_shorten(described.schema.text)}"
                )
            return self._encoder(schema, described, None, False), build_prefix(known.id)
        self._require_type(target)
        reject_rule_set(target)
        try:
            encoder = self._encoder(schema, described, target, lenient)
        except DataError as e:
            raise type(e)(f"the schema does not fit schema {target.id} of subject {subject}: {e.message}") from e
        return encoder, build_prefix(target.id)

    # -- reading

    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        try:
            named = parse_headers(headers, self._is_key)
        except DataError as e:
            raise self._decode_error(topic, None, e) from e
        if data is None or named is None:
            return self.decode_batch(topic, (data,))[0]
        key, rest = named
        try:
            decoder = self._header_decoders.get((topic, key))
            if decoder is None:
                decoder = self._create_decoder(topic, key)
                _store(self._header_decoders, (topic, key), decoder, self._cache_size)
            return decoder.decode(rest + data, 0)
        except DataError as e:
            raise self._decode_error(topic, key, e) from e

    def decode_batch(self, topic: str, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        decoders = self._decoders.setdefault(topic, {})
        made: list[SchemaAndValue] = []
        append = made.append
        decoder: _CachedDecoder | None = None
        try:
            for data in datas:
                if data is None:
                    append(NULL)
                    continue
                decoder = decoders.get(data[:PREFIX_SIZE])
                if decoder is None:
                    decoder = self._find_decoder(topic, data, decoders)
                append(decoder.decode(data, PREFIX_SIZE))
        except DataError as e:
            raise self._decode_error(topic, decoder.key if decoder is not None else None, e) from e
        return made

    def _find_decoder(self, topic: str, data: bytes, decoders: dict[bytes, _CachedDecoder]) -> _CachedDecoder:
        key = parse_prefix(data)
        try:
            decoder = self._create_decoder(topic, key)
        except DataError as e:
            raise self._decode_error(topic, key, e) from e
        _store(decoders, data[:PREFIX_SIZE], decoder, self._cache_size)
        return decoder

    def _create_decoder(self, topic: str, key: SchemaKey) -> _CachedDecoder:
        registered = self._open_registry().schema(key)
        self._require_type(registered)
        reject_rule_set(registered)
        return _CachedDecoder(key, self._decoder(registered, self._version(topic, registered)))

    def _version(self, topic: str, registered: RegisteredSchema) -> int | None:
        """The schema's version in the subject. The original fails without one; a topic copied under another name should not."""
        try:
            subject = self._settings.strategy.subject(topic, self._is_key, self._record_name(registered))
            found = self._open_registry().lookup(subject, registered)
        except (DataError, ConfigError) as e:  # ConfigError: a registry that allows access to schemas but not to subjects
            log.debug("Schema %s has no known version for topic %s: %s", registered.id, topic, e.message)
            return None
        return None if found is None else found.version

    def _decode_error(self, topic: str, key: SchemaKey | None, error: DataError) -> DataError:
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
        """The texts of all referenced schemas by name; references precede their users."""
        if not registered.references:
            return {}
        return {name: used.text for name, used in self._open_registry().fetch_references(registered).items()}


def _store(kept: dict[_K, _V], key: _K, value: _V, size: int) -> None:
    if len(kept) >= size:
        kept.clear()
    kept[key] = value


def _shorten(text: str) -> str:
    return text if len(text) <= 500 else text[:500] + "..."


__all__ = ["Decoder", "Encoder", "RegistryConverter", "WriterSchema"]
