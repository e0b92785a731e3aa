"""Names that Avro takes, and the fields of unions."""

from __future__ import annotations

import re
from urllib.parse import quote_plus

from connect.data.schema import Schema, Type
from connect.errors import SchemaError
from connectors.registry.avro.config import ENUM, FIXED_SIZE, SUM_ENUM, SUM_UNION, SUM_UNION_PREFIX, UNION, AvroOptions
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
    """The name as ``scrub.invalid.names`` makes it: what Avro does not allow is percent-encoded, and percent signs are ``_``."""
    if not name or _NAME.fullmatch(name):
        return name
    # Java's URLEncoder leaves "*" as it is and encodes "~"; both end as underscores, one and three characters long.
    encoded = quote_plus(name, safe="*").replace("~", "%7E")
    if encoded[0].isdigit():
        encoded = "x" + encoded
    return _STRANGE.sub("_", encoded)


def scrub_full(name: str) -> str:
    """A name with dots, each part scrubbed."""
    return ".".join(scrub(part) for part in name.split("."))


def avro_name(name: str, what: str, options: AvroOptions, *, dotted: bool = False) -> str:
    """The name as Avro takes it. Raises SchemaError for one that it does not."""
    made = (scrub_full(name) if dotted else scrub(name)) if options.scrub_names else name
    parts = made.split(".") if dotted else [made]
    if not all(_NAME.fullmatch(part) for part in parts):
        raise SchemaError(
            f"{what} {name!r} is no name that Avro allows (letters, digits and _, no digit first); scrub.invalid.names=true "
            "makes one of it"
        )
    return made


def is_union(schema: Schema) -> bool:
    """Whether the struct stands for a union, of which one field is set."""
    return schema.name == UNION or bool(schema.parameters and SUM_UNION in schema.parameters)


def is_enum(schema: Schema) -> bool:
    parameters = schema.parameters or {}
    return schema.type is Type.STRING and (SUM_ENUM in parameters or ENUM in parameters)


def is_fixed(schema: Schema) -> bool:
    return schema.type is Type.BYTES and schema.name is not None and FIXED_SIZE in (schema.parameters or {})


def branch_name(branch: AvroType, index: int, options: AvroOptions) -> str:
    """The name of the field that a branch of a union becomes."""
    if options.sum_types:
        return f"{SUM_UNION_PREFIX}field_{index}"
    if branch.name is not None:
        return branch.name if options.enhanced else branch.simple_name
    return branch.kind
