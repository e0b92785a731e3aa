"""AvroConverter: Avro with its schemas in a registry. ``io.confluent.connect.avro.AvroConverter``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef
from connect.data.logical import DECIMAL, bytes_to_decimal, decimal_scale
from connect.data.schema import Schema
from connect.errors import DataError, SchemaError
from connect.record import SchemaAndValue
from connectors.registry.avro.config import ANYTHING, CONFIG, AvroConfig, parse_avro_config
from connectors.registry.avro.decode import compile_decoder
from connectors.registry.avro.encode import compile_encoder
from connectors.registry.avro.from_connect import avro_schema
from connectors.registry.avro.schemaless import decode_anything, encode_anything
from connectors.registry.avro.to_connect import connect_schema
from connectors.registry.avro.types import AvroType, avro_text, parse_avro
from connectors.registry.client import RegisteredSchema
from connectors.registry.converter import Decoder, Encoder, RegistryConverter, WriterSchema


class AvroConverter(RegistryConverter):
    """Converts between Avro data and Connect values, with schemas in a registry."""

    schema_type = "AVRO"
    format_name = "Avro"

    def __init__(self) -> None:
        super().__init__()
        self._options = AvroConfig()

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG

    def _configure_format(self, values: Mapping[str, Any], strict: bool) -> None:
        self._options = parse_avro_config(values, strict)

    def _describe(self, schema: Schema | None, topic: str) -> WriterSchema:
        avro = avro_schema(schema, self._options)
        return WriterSchema(RegisteredSchema(-1, avro_text(avro), self.schema_type), _record_name(avro))

    def _encoder(self, schema: Schema | None, described: WriterSchema, target: RegisteredSchema | None, lenient: bool) -> Encoder:
        avro = avro_schema(schema, self._options) if target is None else self._parse(target)
        if schema is None:
            if avro.name != ANYTHING:
                raise SchemaError("data without a schema can be written only with the schema of schemaless data")
            return encode_anything
        return compile_encoder(schema, avro, self._options, lenient)

    def _null_is_tombstone(self, schema: Schema | None) -> bool:
        if schema is not None and not schema.optional:
            raise DataError("Found null value for non-optional schema")
        return True

    def _record_name(self, registered: RegisteredSchema) -> str | None:
        return _record_name(self._parse(registered))

    def _decoder(self, registered: RegisteredSchema, version: int | None) -> Decoder:
        avro = self._parse(registered)
        schema = connect_schema(avro, self._options, version)
        if schema is None:
            return decode_anything
        if avro.kind == "bytes":
            return _raw_bytes(schema)
        return compile_decoder(avro, schema, self._options.strict)

    def _parse(self, registered: RegisteredSchema) -> AvroType:
        return parse_avro(registered.text, self._referenced_texts(registered).values())


def _record_name(avro: AvroType) -> str | None:
    return avro.name


def _raw_bytes(schema: Schema) -> Decoder:
    """A decoder of bytes that are the whole value: as in the original, they have no length prefix."""
    if schema.name != DECIMAL:
        return lambda data, at: SchemaAndValue(schema, data[at:])
    scale = decimal_scale(schema)

    def decode(data: bytes, at: int) -> SchemaAndValue:
        if len(data) == at:
            raise DataError("a decimal without bytes")
        try:
            return SchemaAndValue(schema, bytes_to_decimal(data[at:], scale))
        except ValueError as e:
            raise DataError(f"no decimal can be made of {len(data) - at} bytes: {e}") from e

    return decode
