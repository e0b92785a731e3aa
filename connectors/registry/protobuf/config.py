"""The keys of ProtobufConverter and the names that Connect schemas carry Protobuf's by. All are Confluent's."""

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
class ProtobufOptions:
    """How schemas and values are carried over; names as the keys have them."""

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
        """The parameter that a schema made of an enum has."""
        return SUM_ENUM if self.generalized_sum_type_support else ENUM


_DOCS = {
    "enhanced_protobuf_schema_support": "Whether the names of schemas are full names, with their package.",
    "scrub_invalid_names": "Whether characters that Protobuf does not allow in names become `_`. Otherwise they are an error.",
    "int_for_enums": "Whether enums are read as their numbers. Otherwise as their names.",
    "optional_for_nullables": "Whether optional fields are written with the label `optional`, and only such are read so.",
    "optional_for_proto2": "Whether `optional` of proto2 counts as that label.",
    "wrapper_for_nullables": "Whether optional primitives are written as wrapper messages, and wrappers are read as primitives.",
    "wrapper_for_raw_primitives": "Whether a wrapper message that is the whole value is read as a primitive.",
    "generate_struct_for_nulls": "Whether a message that is not set is read as a struct without values. Otherwise as null.",
    "generate_index_for_unions": "Whether the field of a oneof has its number after its name.",
    "flatten_unions": "Whether the members of a oneof are fields of the struct itself.",
    "generalized_sum_type_support": "Whether enums and unions have the names that Avro and JSON Schema share with Protobuf.",
    "ignore_default_for_nullables": "Whether a null is left out where the field has a default. Otherwise the default is written.",
}


def _config_def() -> ConfigDef:
    table = registry_config_def().define(
        "schemas.cache.config", ConfigType.INT, 1000, importance=Importance.LOW, doc="How many schemas are kept in memory."
    )
    defaults = ProtobufOptions()
    for name, doc in _DOCS.items():
        key = name.replace("_", ".")
        table.define(key, ConfigType.BOOLEAN, getattr(defaults, name), importance=Importance.MEDIUM, doc=doc)
    return table


CONFIG = _config_def()


def protobuf_options(values: Mapping[str, Any], strict: bool) -> ProtobufOptions:
    """The options out of parsed values."""
    names = [f.name for f in fields(ProtobufOptions) if f.name != "strict"]
    return ProtobufOptions(**{name: values[name.replace("_", ".")] for name in names}, strict=strict)


def is_union(schema: Schema) -> bool:
    """Whether the struct stands for a oneof, of which one field is set."""
    named = schema.name is not None and schema.name.startswith(UNION)
    return schema.type is Type.STRUCT and (named or SUM_UNION in (schema.parameters or {}))
