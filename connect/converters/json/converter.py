"""``org.apache.kafka.connect.json.JsonConverter``: JSON with or without schemas.

With ``schemas.enable``, every message is ``{"schema":...,"payload":...}``; the bytes of each schema are written and parsed once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, cast

from orjson import dumps, loads

from connect.config.definition import ConfigDef, Importance, Width
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.converters.api import Converter, HeaderConverter
from connect.converters.config import HEADER_TYPE, TYPE, converter_config_def, type_for
from connect.converters.json.batch_decoder import compile_decoder
from connect.converters.json.batch_encoder import Encoder, compile_encoder, encode_schemaless
from connect.converters.json.fast_path import Column, FastPathMiss, was_read_exactly
from connect.converters.json.parser import parse_json
from connect.converters.json.schema_text import parse_schema, schema_text
from connect.converters.json.strict_checks import check_lossless
from connect.converters.json.text_writer import TemplateWriters
from connect.converters.json.value_reader import ReadOptions, read_value
from connect.converters.json.value_writer import WriteOptions, write_value
from connect.data.headers import Headers
from connect.data.schema import Schema
from connect.errors import ConfigError, DataError
from connect.record import NULL, SchemaAndValue
from connect.strict import is_strict
from connect.text_records import PayloadWriter, StructTemplate, TemplateWriter

SCHEMAS_ENABLE = "schemas.enable"
SCHEMAS_CACHE_SIZE = "schemas.cache.size"
SCHEMA_CONTENT = "schema.content"
DECIMAL_FORMAT = "decimal.format"
REPLACE_NULL = "replace.null.with.default"
_SCHEMAS = "Schemas"
_SERIALIZATION = "Serialization"

CONFIG = (
    converter_config_def()
    .define(
        SCHEMAS_ENABLE, ConfigType.BOOLEAN, True, importance=Importance.HIGH, group=_SCHEMAS, order=0, width=Width.MEDIUM,
        display_name="Enable Schemas", doc="Include schemas within each of the serialized values and keys.",
    )
    .define(
        SCHEMAS_CACHE_SIZE, ConfigType.INT, 1000, importance=Importance.HIGH, group=_SCHEMAS, order=1, width=Width.MEDIUM,
        display_name="Schema Cache Size", doc="The maximum number of schemas that can be cached in this converter instance.",
    )
    .define(
        SCHEMA_CONTENT, ConfigType.STRING, None, importance=Importance.HIGH, group=_SCHEMAS, order=2, width=Width.MEDIUM,
        display_name="Schema Content",
        doc="When set, this is used as the schema for all messages, and the schemas within each of the message will be ignored."
        "Otherwise, the schema will be included in the content of each message. This configuration applies only 'schemas.enable'"
        " is true, and it exclusively affects the sink connector.",
    )
    .define(
        DECIMAL_FORMAT, ConfigType.STRING, "BASE64", importance=Importance.LOW, group=_SERIALIZATION, order=0,
        width=Width.MEDIUM, display_name="Decimal Format", validator=one_of("BASE64", "NUMERIC", ignore_case=True),
        doc="Controls which format this converter will serialize decimals in. This value is case insensitive and can be either"
        " 'BASE64' (default) or 'NUMERIC'",
    )
    .define(
        REPLACE_NULL, ConfigType.BOOLEAN, True, importance=Importance.LOW, group=_SERIALIZATION, order=1, width=Width.MEDIUM,
        display_name="Replace null with default",
        doc="Whether to replace fields that have a default value and that are null to the default value. When set to true, the"
        " default value is used, otherwise null is used.",
    )
)  # fmt: skip

NO_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
NO_JSON_SCHEMA = "Failed to parse schema in converter config due to serialization error: "
_HEAD = b'{"schema":'
_MIDDLE = b',"payload":'
_PREFIXES_PER_TOPIC = 16
_CHUNK = 256  # records read or written at a time: few enough to fit the processor's caches
_new_pair = tuple.__new__
_FAST_PATH_ERRORS = (
    FastPathMiss,
    TypeError,
    ValueError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
    ArithmeticError,
    DataError,
)
"""The errors of the fast path for data that it does not handle. The slow path then decides, with the right message."""


class SchemaContentError(ConfigError, DataError):
    """``schema.content`` is not a schema. The message is Apache's, which does not name the key; a note does."""

    def __init__(self, message: str, content: str) -> None:
        super().__init__(message, key=SCHEMA_CONTENT)
        self.add_note(str(ConfigError.invalid(SCHEMA_CONTENT, content, "expected a schema in JSON")))


class JsonConverter(Converter, HeaderConverter):
    """Converts values, with their schemas if enabled, to JSON and back."""

    def __init__(self) -> None:
        self._schemas_enabled = True
        self._write = WriteOptions()
        self._read = ReadOptions()
        self._parse: Callable[[bytes], Any] = loads
        self._cache_size = 1000
        self._fixed_schema: Schema | None = None
        self._encoders: dict[int, tuple[Schema, Encoder | None, bytes]] = {}
        self._equal_encoders: dict[Schema, tuple[Encoder | None, bytes]] = {}
        self._writers = TemplateWriters()
        self._decoders: dict[int, tuple[Schema, Column]] = {}
        self._parsed: dict[bytes, Schema | None] = {}
        self._prefixes: dict[str, list[tuple[bytes, Schema | None]]] = {}

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG

    def configure(self, configs: Mapping[str, Any], is_key: bool | None = None) -> None:
        kind = configs.get(TYPE, HEADER_TYPE) if is_key is None else type_for(is_key)
        values = CONFIG.parse({**configs, TYPE: kind})
        for key in (SCHEMAS_ENABLE, SCHEMAS_CACHE_SIZE, REPLACE_NULL):
            if values[key] is None:
                raise ConfigError.invalid(key, None, "it has to have a value")
        self._schemas_enabled = values[SCHEMAS_ENABLE]
        self._cache_size = max(values[SCHEMAS_CACHE_SIZE], 1)
        strict = is_strict(configs)
        self._write = WriteOptions(values[DECIMAL_FORMAT].upper() == "NUMERIC", values[REPLACE_NULL], strict)
        self._read = ReadOptions(values[REPLACE_NULL], strict)
        self._parse = _parse_exactly if strict else loads
        fixed = _parse_content(
            values[SCHEMA_CONTENT], self._read
        )  # even if schemas are disabled, so that an invalid one is rejected
        self._fixed_schema = fixed if self._schemas_enabled else None

    @property
    def fixed_schema(self) -> Schema | None:
        """The schema of every message (``schema.content``); None when messages contain their schemas, or schemas are disabled."""
        return self._fixed_schema

    @property
    def replaces_null_with_default(self) -> bool:
        """Whether a null becomes the default of its field (``replace.null.with.default``)."""
        return self._read.replace_null_with_default

    # -- writing

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None) -> bytes | None:
        if schema is None:
            return self._encode_schemaless((value,))[0]
        return self._encode_slowly(schema, value, self._prefix(schema))

    def encode_batch(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        if len(values) <= _CHUNK:
            return self._encode_chunk(schema, values)
        out: list[bytes | None] = []
        for start in range(0, len(values), _CHUNK):
            out += self._encode_chunk(schema, values[start : start + _CHUNK])
        return out

    def template_writer(self, template: StructTemplate) -> TemplateWriter | None:
        if type(self) is not JsonConverter:
            return None  # a subclass may write structs in another way
        return self._writers.get(template, self._write, self._prefix(template.schema), self._cache_size)

    def payload_writer(self, template: StructTemplate) -> PayloadWriter | None:
        if type(self) is not JsonConverter or not self._schemas_enabled:
            return None
        return self._writers.payload_writer(template, self._write, self._prefix(template.schema), self._cache_size)

    def _encode_chunk(self, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        if schema is None:
            return self._encode_schemaless(values)
        encoder, prefix = self._encoder(schema)
        if encoder is not None:
            try:
                payloads = encoder(values)
            except _FAST_PATH_ERRORS:
                pass
            else:
                if not prefix:
                    return cast("list[bytes | None]", payloads)  # a copy would only satisfy the type checker
                return [prefix + payload + b"}" for payload in payloads]
        return [self._encode_slowly(schema, value, prefix) for value in values]

    def _encode_schemaless(self, values: Sequence[Any]) -> list[bytes | None]:
        prefix = b'{"schema":null,"payload":' if self._schemas_enabled else b""
        try:
            payloads = encode_schemaless(values, self._write)
        except _FAST_PATH_ERRORS:
            return [None if value is None else self._encode_slowly(None, value, prefix) for value in values]
        if prefix:
            payloads = [prefix + payload + b"}" for payload in payloads]
        if None in values:
            return [None if value is None else payload for value, payload in zip(values, payloads, strict=True)]
        return cast("list[bytes | None]", payloads)

    def _encode_slowly(self, schema: Schema | None, value: Any, prefix: bytes) -> bytes:
        payload = write_value(schema, value, self._write).encode()
        return prefix + payload + b"}" if prefix else payload

    def _prefix(self, schema: Schema) -> bytes:
        return self._encoder(schema)[1] if self._schemas_enabled else b""

    def _encoder(self, schema: Schema) -> tuple[Encoder | None, bytes]:
        found = self._encoders.get(id(schema))
        if found is not None:
            return found[1], found[2]
        compiled = self._equal_encoders.get(schema)
        if compiled is None:
            prefix = b""
            if self._schemas_enabled:
                prefix = _HEAD + schema_text(schema, self._write).encode() + _MIDDLE
            try:
                encoder: Encoder | None = compile_encoder(schema, self._write)
            except _FAST_PATH_ERRORS:
                encoder = None
            compiled = encoder, prefix
        if len(self._encoders) >= self._cache_size:
            self._encoders.clear()
            self._equal_encoders.clear()
        self._equal_encoders[schema] = compiled
        self._encoders[id(schema)] = (schema, *compiled)  # the reference to the schema prevents reuse of its id
        return compiled

    # -- reading

    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        if not self._schemas_enabled:
            return self._decode_one_schemaless(data)
        return self.decode_batch(topic, (data,))[0]

    def _decode_slowly(self, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        node = parse_json(data, strict=self._read.strict)
        schema = self._fixed_schema
        if self._schemas_enabled and schema is None:
            if not isinstance(node, dict) or len(node) != 2 or "schema" not in node or "payload" not in node:
                raise DataError(NO_ENVELOPE)
            schema = self._parse_schema(node["schema"])
            node = node["payload"]
        if self._read.strict:
            check_lossless(schema, node)
        return SchemaAndValue(schema, read_value(schema, node, self._read))

    def decode_batch(self, topic: str, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        if not self._schemas_enabled:
            return self._decode_schemaless(datas)
        if self._fixed_schema is not None:
            return self._decode_run(datas, self._fixed_schema, self._parse)
        return self._decode_envelopes(topic, datas)

    def _decode_schemaless(self, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        out: list[SchemaAndValue] = []
        parse = self._parse
        for start in range(0, len(datas), _CHUNK):
            chunk = datas[start : start + _CHUNK]
            try:
                nodes = [data and parse(data) for data in chunk]
                if was_read_exactly(nodes):
                    out += map(_new_pair, repeat(SchemaAndValue), zip(repeat(None), nodes, strict=False))
                    continue
            except (ValueError, RecursionError, FastPathMiss):
                pass
            # One malformed or unusual message must not slow down the others.
            out += map(self._decode_one_schemaless, chunk)
        return out

    def _decode_one_schemaless(self, data: bytes | None) -> SchemaAndValue:
        if data is not None:
            try:
                node = self._parse(data)
                if was_read_exactly((node,)):
                    return SchemaAndValue(None, node)
            except (ValueError, RecursionError, FastPathMiss):
                pass
        return self._decode_slowly(data)

    def _decode_envelopes(self, topic: str, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        """Decodes the batch in runs of records whose schemas have the same bytes."""
        out: list[SchemaAndValue] = []
        parse = self._parse
        start, end = 0, len(datas)
        while start < end:
            data = datas[start]
            known = None if data is None else self._known_prefix(topic, data)
            prefix, schema = known or (b"", None)
            if schema is None:
                out.append(self._decode_slowly(data))
                start += 1
                continue
            stop = start + 1
            while stop < end and (following := datas[stop]) is not None and following.startswith(prefix):
                stop += 1
            skip = len(prefix)

            def payload(data: bytes, skip: int = skip) -> Any:
                if data[-1] != 125:  # not "}": other text follows the envelope
                    raise FastPathMiss
                return parse(data[skip:-1])

            out += self._decode_run(datas[start:stop], schema, payload)
            start = stop
        return out

    def _decode_run(self, datas: Sequence[bytes | None], schema: Schema, parse: Callable[[Any], Any]) -> list[SchemaAndValue]:
        out: list[SchemaAndValue] = []
        decode = self._decoder(schema)
        for start in range(0, len(datas), _CHUNK):
            chunk = datas[start : start + _CHUNK]
            try:
                present = chunk if None not in chunk else [data for data in chunk if data is not None]
                values = decode([parse(data) for data in present])
            except _FAST_PATH_ERRORS:
                out += [self._decode_one(data, schema, parse, decode) for data in chunk]
                continue
            pairs = zip(repeat(schema), values, strict=False)
            if len(present) == len(chunk):
                out += map(_new_pair, repeat(SchemaAndValue), pairs)
            else:
                out += [NULL if data is None else _new_pair(SchemaAndValue, next(pairs)) for data in chunk]
        return out

    def _decode_one(self, data: bytes | None, schema: Schema, parse: Callable[[Any], Any], decode: Column) -> SchemaAndValue:
        """Decodes one record of a batch in which the fast path failed: most records can still use it."""
        if data is not None:
            try:
                return SchemaAndValue(schema, decode([parse(data)])[0])
            except _FAST_PATH_ERRORS:
                pass
        return self._decode_slowly(data)

    def _decoder(self, schema: Schema) -> Column:
        found = self._decoders.get(id(schema))
        if found is not None:
            return found[1]
        if len(self._decoders) >= self._cache_size:
            self._decoders.clear()
        decoder = compile_decoder(schema, self._read)
        self._decoders[id(schema)] = (schema, decoder)
        return decoder

    def _known_prefix(self, topic: str, data: bytes) -> tuple[bytes, Schema | None] | None:
        """Returns the start of the envelope, up to the payload, and its schema, if the record has the usual form."""
        prefixes = self._prefixes.setdefault(topic, [])
        for known in prefixes:
            if data.startswith(known[0]):
                return known
        if not data.startswith(_HEAD):
            return None
        try:
            text = data.decode()
            prefix = text[: _JSON.raw_decode(text, len(_HEAD))[1]].encode() + _MIDDLE
            if not data.startswith(prefix):
                return None
            schema = self._parse_schema(parse_json(data[len(_HEAD) : len(prefix) - len(_MIDDLE)], strict=self._read.strict))
        except (ValueError, RecursionError, DataError):
            return None
        if len(prefixes) >= _PREFIXES_PER_TOPIC:
            prefixes.pop()
        if len(self._prefixes) > self._cache_size:
            self._prefixes.clear()
            self._prefixes[topic] = prefixes
        prefixes.insert(0, (prefix, schema))
        return prefixes[0]

    def _parse_schema(self, node: Any) -> Schema | None:
        """Returns the schema of a node. Equal nodes share one object, because compiled code is cached by schema object."""
        try:
            key = dumps(node, default=lambda number: {"number": str(number)})
        except (TypeError, ValueError, RecursionError):
            return parse_schema(node, self._read)
        if key in self._parsed:
            return self._parsed[key]
        schema = parse_schema(node, self._read)
        if len(self._parsed) >= self._cache_size:
            self._parsed.clear()
        self._parsed[key] = schema
        return schema

    # -- headers

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, data)

    def close(self) -> None:
        for cache in (self._encoders, self._equal_encoders, self._writers, self._decoders, self._parsed, self._prefixes):
            cache.clear()


def _parse_content(content: str | None, options: ReadOptions) -> Schema | None:
    """Parses ``schema.content``. Raises SchemaContentError."""
    if not content:
        return None
    try:
        node = parse_json(content.encode(), strict=options.strict)
    except DataError as e:
        raise SchemaContentError(NO_JSON_SCHEMA, content) from e
    try:
        return parse_schema(node, options)
    except DataError as e:
        raise SchemaContentError(e.message, content) from e


def _parse_exactly(data: bytes) -> Any:
    """Parses with the codec if that loses nothing: writing the result gives the same text. Raises FastPathMiss otherwise."""
    node = loads(data)
    try:
        if dumps(node) == data:
            return node
    except TypeError:
        pass  # nested more deeply than the codec writes
    raise FastPathMiss


_JSON = json.JSONDecoder()
