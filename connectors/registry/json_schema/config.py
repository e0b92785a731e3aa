"""Configuration of JsonSchemaConverter, and the names of Connect's properties in JSON schemas. All are Confluent's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.data.schema import Schema, Type
from connectors.registry.config import registry_config_def

NAMESPACE = "io.confluent.connect.json"
ENUM = f"{NAMESPACE}.Enum"
ONE_OF = f"{NAMESPACE}.OneOf"
SUM_UNION = "org.apache.kafka.connect.data.Union"
SUM_ENUM = "org.apache.kafka.connect.data.Enum"
SUM_UNION_PREFIX = "connect_union_"
NULL_MARKER = "<NULL>"
CONNECT_TYPES = {
    Type.INT8: "int8",
    Type.INT16: "int16",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float32",
    Type.FLOAT64: "float64",
    Type.BYTES: "bytes",
    Type.MAP: "map",
}


@dataclass(frozen=True, slots=True)
class JsonSchemaConfig:
    """How schemas and values are converted."""

    additional_properties: bool = True
    optional_for_nonrequired: bool = False
    numeric_decimals: bool = False
    flatten_singletons: bool = True
    sum_types: bool = False
    ignore_default: bool = False
    validates: bool = False
    strict: bool = False

    @property
    def enum_parameter(self) -> str:
        """The parameter of a string schema that represents an enum."""
        return SUM_ENUM if self.sum_types else ENUM


def is_union(schema: Schema) -> bool:
    """Whether the struct represents a oneOf, of which one field is set."""
    return schema.name == ONE_OF or bool(schema.parameters and SUM_UNION in schema.parameters)


def is_native_map(schema: Schema) -> bool:
    """Whether a map is a JSON object. Otherwise it is an array of entries."""
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and not keys.optional


def _config_def() -> ConfigDef:
    low, medium = Importance.LOW, Importance.MEDIUM
    return (
        registry_config_def()
        .define("schemas.cache.config", ConfigType.INT, 1000, importance=low, doc="Maximum number of cached schemas.")
        .define("object.additional.properties", ConfigType.BOOLEAN, True, importance=medium,
                doc="Whether written schemas allow additional properties of objects.")
        .define("use.optional.for.nonrequired", ConfigType.BOOLEAN, False, importance=medium,
                doc="Whether to read properties that are not required as optional fields.")
        .define("decimal.format", ConfigType.STRING, "BASE64", importance=low,
                validator=one_of("BASE64", "NUMERIC", ignore_case=True),
                doc="How to write decimals: `BASE64` (their bytes) or `NUMERIC` (numbers).")
        .define("flatten.singleton.unions", ConfigType.BOOLEAN, True, importance=low,
                doc="Whether to read a oneOf of one schema as that schema.")
        .define("generalized.sum.type.support", ConfigType.BOOLEAN, False, importance=medium,
                doc="Whether to use the names of enums and unions that Avro, Protobuf, and JSON Schema share.")
        .define("ignore.default.for.nullables", ConfigType.BOOLEAN, False, importance=medium,
                doc="Whether to write null as null if the field has a default. Otherwise the default is written.")
        .define("json.fail.invalid.schema", ConfigType.BOOLEAN, False, importance=medium,
                doc="Whether to validate written and read values against the JSON schema.")
    )  # fmt: skip


CONFIG = _config_def()


def parse_json_schema_config(values: Mapping[str, Any], strict: bool) -> JsonSchemaConfig:
    """Builds the typed configuration."""
    return JsonSchemaConfig(
        additional_properties=values["object.additional.properties"],
        optional_for_nonrequired=values["use.optional.for.nonrequired"],
        numeric_decimals=values["decimal.format"].upper() == "NUMERIC",
        flatten_singletons=values["flatten.singleton.unions"],
        sum_types=values["generalized.sum.type.support"],
        ignore_default=values["ignore.default.for.nullables"],
        validates=values["json.fail.invalid.schema"],
        strict=strict,
    )
