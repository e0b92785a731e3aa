"""Valid Avro names, and names of union fields."""

from __future__ import annotations

import re
from urllib.parse import quote_plus

from connect.data.schema import Schema, Type
from connect.errors import SchemaError
from connectors.registry.avro.config import ENUM, FIXED_SIZE, SUM_ENUM, SUM_UNION, SUM_UNION_PREFIX, UNION, AvroConfig
from connectors.registry.avro.types import AvroType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STRANGE = re.compile(r"[^A-Za-z0-9_]")
AVRO_KINDS = {
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
    Type.ARRAY: "array",
    Type.MAP: "map",
}


def scrub(name: str) -> str:
    """Scrubs a name for ``scrub.invalid.names``: percent-encodes invalid characters and replaces percent signs by ``_``."""
    if not name or _NAME.fullmatch(name):
        return name
    # Java's URLEncoder keeps "*" and encodes "~", which become one and three underscores.
    encoded = quote_plus(name, safe="*").replace("~", "%7E")
    if encoded[0].isdigit():
        encoded = "x" + encoded
    return _STRANGE.sub("_", encoded)


def scrub_full(name: str) -> str:
    """Scrubs each part of a dotted name."""
    return ".".join(scrub(part) for part in name.split("."))


def avro_name(name: str, what: str, options: AvroConfig, *, dotted: bool = False) -> str:
    """Converts a name to a valid Avro name. Raises SchemaError if it is invalid."""
    made = (scrub_full(name) if dotted else scrub(name)) if options.scrub_names else name
    parts = made.split(".") if dotted else [made]
    if not all(_NAME.fullmatch(part) for part in parts):
        raise SchemaError(
            f"{what} {name!r} is no name that Avro allows (letters, digits and _, no digit first); scrub.invalid.names=true "
            "makes one of it"
        )
    return made


def is_union(schema: Schema) -> bool:
    """Whether the struct represents a union, of which one field is set."""
    return schema.name == UNION or bool(schema.parameters and SUM_UNION in schema.parameters)


def is_enum(schema: Schema) -> bool:
    parameters = schema.parameters or {}
    return schema.type is Type.STRING and (SUM_ENUM in parameters or ENUM in parameters)


def is_fixed(schema: Schema) -> bool:
    return schema.type is Type.BYTES and schema.name is not None and FIXED_SIZE in (schema.parameters or {})


def branch_name(branch: AvroType, index: int, options: AvroConfig) -> str:
    """The field name for a branch of a union."""
    if options.sum_types:
        return f"{SUM_UNION_PREFIX}field_{index}"
    if branch.name is not None:
        return branch.name if options.enhanced else branch.simple_name
    return branch.kind
