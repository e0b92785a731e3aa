"""Configuration of ProtobufConverter, and the names of Protobuf's properties in Connect schemas. All are Confluent's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.schema import Schema, Type
from connectors.registry.config import registry_config_def

NAMESPACE = "io.confluent.connect.protobuf"
DEFAULT_NAME = "ConnectDefault"
ENUM = f"{NAMESPACE}.Enum"
UNION = f"{NAMESPACE}.Union"
TAG = f"{NAMESPACE}.Tag"
TYPE = f"{NAMESPACE}.Type"
WRAPPER = f"{NAMESPACE}.Wrapper"
SUM_UNION = "org.apache.kafka.connect.data.Union"
SUM_ENUM = "org.apache.kafka.connect.data.Enum"
DECIMAL_PRECISION = "connect.decimal.precision"
CONNECT_TYPE = "connect.type"
DECIMAL_MESSAGE = "confluent.type.Decimal"
DATE_MESSAGE = "google.type.Date"
TIME_MESSAGE = "google.type.TimeOfDay"
TIMESTAMP_MESSAGE = "google.protobuf.Timestamp"
WRAPPED = {
    "google.protobuf.DoubleValue": Type.FLOAT64,
    "google.protobuf.FloatValue": Type.FLOAT32,
    "google.protobuf.Int64Value": Type.INT64,
    "google.protobuf.UInt64Value": Type.INT64,
    "google.protobuf.Int32Value": Type.INT32,
    "google.protobuf.UInt32Value": Type.INT64,
    "google.protobuf.BoolValue": Type.BOOLEAN,
    "google.protobuf.StringValue": Type.STRING,
    "google.protobuf.BytesValue": Type.BYTES,
}


@dataclass(frozen=True, slots=True)
class ProtobufConfig:
    """How schemas and values are converted. Fields are named like the keys."""

    enhanced_protobuf_schema_support: bool = False
    scrub_invalid_names: bool = False
    int_for_enums: bool = False
    optional_for_nullables: bool = False
    optional_for_proto2: bool = True
    wrapper_for_nullables: bool = False
    wrapper_for_raw_primitives: bool = True
    generate_struct_for_nulls: bool = False
    generate_index_for_unions: bool = True
    flatten_unions: bool = False
    generalized_sum_type_support: bool = False
    ignore_default_for_nullables: bool = False
    strict: bool = False

    @property
    def enum_parameter(self) -> str:
        """The parameter of a schema that represents an enum."""
        return SUM_ENUM if self.generalized_sum_type_support else ENUM


_DOCS = {
    "enhanced_protobuf_schema_support": "Whether schema names include their package.",
    "scrub_invalid_names": "Whether to replace invalid characters in names by `_`. Otherwise they are an error.",
    "int_for_enums": "Whether to read enums as numbers. Otherwise as names.",
    "optional_for_nullables": "Whether to write optional fields with the label `optional`, and read only those as optional.",
    "optional_for_proto2": "Whether to treat `optional` of proto2 like that label.",
    "wrapper_for_nullables": "Whether to write optional primitives as wrapper messages, and to read wrappers as primitives.",
    "wrapper_for_raw_primitives": "Whether to read a wrapper message that is the whole value as a primitive.",
    "generate_struct_for_nulls": "Whether to read an unset message as a struct without values. Otherwise as null.",
    "generate_index_for_unions": "Whether to append the number of a oneof to its field name.",
    "flatten_unions": "Whether to make the members of a oneof fields of the struct itself.",
    "generalized_sum_type_support": "Whether to use the names of enums and unions that Avro, Protobuf, and JSON Schema share.",
    "ignore_default_for_nullables": "Whether to omit null if the field has a default. Otherwise the default is written.",
}


def _config_def() -> ConfigDef:
    table = registry_config_def().define(
        "schemas.cache.config", ConfigType.INT, 1000, importance=Importance.LOW, doc="How many schemas are kept in memory."
    )
    defaults = ProtobufConfig()
    for name, doc in _DOCS.items():
        key = name.replace("_", ".")
        table.define(key, ConfigType.BOOLEAN, getattr(defaults, name), importance=Importance.MEDIUM, doc=doc)
    return table


CONFIG = _config_def()


def parse_protobuf_config(values: Mapping[str, Any], strict: bool) -> ProtobufConfig:
    """Builds the typed configuration."""
    names = [f.name for f in fields(ProtobufConfig) if f.name != "strict"]
    return ProtobufConfig(**{name: values[name.replace("_", ".")] for name in names}, strict=strict)


def is_union(schema: Schema) -> bool:
    """Whether the struct represents a oneof, of which one field is set."""
    named = schema.name is not None and schema.name.startswith(UNION)
    return schema.type is Type.STRUCT and (named or SUM_UNION in (schema.parameters or {}))
