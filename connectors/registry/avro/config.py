"""Configuration of AvroConverter, and the names of Connect's properties in Avro schemas. All are Confluent's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connectors.registry.config import registry_config_def

NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = f"{NAMESPACE}.ConnectDefault"
MAP_ENTRY = "MapEntry"
UNION = f"{NAMESPACE}.Union"
ENUM = f"{NAMESPACE}.Enum"
ANYTHING = f"{NAMESPACE}.Anything"
RECORD_DOC = f"{NAMESPACE}.record.doc"
FIELD_DOC = f"{NAMESPACE}.field.doc."
ENUM_DOC = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT = f"{NAMESPACE}.enum.default."
FIELD_DEFAULT = f"{NAMESPACE}.field.default"
SUM_UNION = "org.apache.kafka.connect.data.Union"
SUM_ENUM = "org.apache.kafka.connect.data.Enum"
SUM_UNION_PREFIX = "connect_union_"
CONNECT_RECORD_DOC = "connect.record.doc"
CONNECT_ENUM_DOC = "connect.enum.doc"
FIXED_SIZE = "connect.fixed.size"
DECIMAL_PRECISION = "connect.decimal.precision"
DEFAULT_PRECISION = 64


@dataclass(frozen=True, slots=True)
class AvroConfig:
    """How schemas are converted."""

    enhanced: bool = False
    meta_data: bool = True
    scrub_names: bool = False
    discard_type_doc: bool = False
    optional_map_keys: bool = False
    flatten_singletons: bool = True
    sum_types: bool = False
    ignore_default: bool = False
    strict: bool = False

    @property
    def enum_parameter(self) -> str:
        """The parameter of a string schema that represents an enum."""
        return SUM_ENUM if self.sum_types else ENUM


def _config_def() -> ConfigDef:
    low, medium = Importance.LOW, Importance.MEDIUM
    return (
        registry_config_def()
        .define("schemas.cache.config", ConfigType.INT, 1000, importance=low, doc="Maximum number of cached schemas.")
        .define("enhanced.avro.schema.support", ConfigType.BOOLEAN, False, importance=medium,
                doc="Whether enums are written as enums again, and records in unions are distinguished by full names.")
        .define("scrub.invalid.names", ConfigType.BOOLEAN, False, importance=medium,
                doc="Whether to replace invalid characters in names by `_`. Otherwise such a name is an error.")
        .define("connect.meta.data", ConfigType.BOOLEAN, True, importance=low,
                doc="Whether to write and read Connect's names, versions, docs, parameters, and defaults in Avro schemas.")
        .define("discard.type.doc.default", ConfigType.BOOLEAN, False, importance=low,
                doc="Whether to convert docs and defaults of fields only, not those of types.")
        .define("allow.optional.map.keys", ConfigType.BOOLEAN, False, importance=low,
                doc="Whether to write a map with optional string keys as an Avro map. Otherwise it is an array of entries.")
        .define("flatten.singleton.unions", ConfigType.BOOLEAN, True, importance=low,
                doc="Whether to read a union of one type as that type.")
        .define("generalized.sum.type.support", ConfigType.BOOLEAN, False, importance=medium,
                doc="Whether to use the names of enums and unions that Avro, Protobuf, and JSON Schema share.")
        .define("ignore.default.for.nullables", ConfigType.BOOLEAN, False, importance=medium,
                doc="Whether to write null as null if the field has a default. Otherwise the default is written.")
    )  # fmt: skip


CONFIG = _config_def()


def parse_avro_config(values: Mapping[str, Any], strict: bool) -> AvroConfig:
    """Builds the typed configuration."""
    return AvroConfig(
        enhanced=values["enhanced.avro.schema.support"],
        meta_data=values["connect.meta.data"],
        scrub_names=values["scrub.invalid.names"],
        discard_type_doc=values["discard.type.doc.default"],
        optional_map_keys=values["allow.optional.map.keys"],
        flatten_singletons=values["flatten.singleton.unions"],
        sum_types=values["generalized.sum.type.support"],
        ignore_default=values["ignore.default.for.nullables"],
        strict=strict,
    )
