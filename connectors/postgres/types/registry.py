"""Finds the mapping of a type, including domains, arrays, and enums."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from connect.data.schema import Schema, Type
from connectors.cdc.schema.column_type import ColumnType
from connectors.postgres.config import TypeSettings
from connectors.postgres.types import arrays, geometric, numbers, structured, temporal, text, vectors
from connectors.postgres.types.catalog_type import DROPPED, CatalogType

TypeFactory = Callable[[int, TypeSettings], ColumnType]


def _plain(name: str | None = None, zero: str = "") -> TypeFactory:
    return lambda typmod, settings: text.text(settings, name, zero)


def _fixed(column_type: ColumnType) -> TypeFactory:
    return lambda typmod, settings: column_type


_BUILT_IN: dict[str, TypeFactory] = {
    "bool": _fixed(numbers.BOOLEAN),
    "int2": _fixed(numbers.INT16),
    "int4": _fixed(numbers.INT32),
    "int8": _fixed(numbers.INT64),
    "oid": _fixed(numbers.INT64),
    "float4": _fixed(numbers.FLOAT32),
    "float8": _fixed(numbers.FLOAT64),
    "numeric": numbers.numeric,
    "money": lambda typmod, settings: numbers.money(settings),
    "bit": lambda typmod, settings: text.bits(max(typmod, 1)),
    "varbit": lambda typmod, settings: text.bits(None if typmod < 0 else typmod if typmod > 1 else 2),
    "bytea": lambda typmod, settings: text.binary(settings),
    "date": lambda typmod, settings: temporal.date(settings),
    "time": temporal.time,
    "timestamp": temporal.timestamp,
    "timestamptz": lambda typmod, settings: temporal.timestamptz(typmod),
    "timetz": lambda typmod, settings: temporal.timetz(),
    "interval": lambda typmod, settings: temporal.interval(settings),
    "point": _fixed(geometric.point()),
    "circle": _fixed(geometric.circle()),
    "line": _fixed(geometric.line()),
    **{name: _fixed(geometric.geometry(name)) for name in ("box", "lseg", "path", "polygon")},
    "json": _plain("io.debezium.data.Json", "{}"),
    "jsonb": _plain("io.debezium.data.Json", "{}"),
    "xml": _plain("io.debezium.data.Xml"),
    "uuid": _plain("io.debezium.data.Uuid", "00000000-0000-0000-0000-000000000000"),
    "tsvector": _plain("io.debezium.data.Tsvector"),
    **dict.fromkeys(
        ("text", "varchar", "bpchar", "char", "name", "inet", "cidr", "macaddr", "macaddr8"), _plain()
    ),
}  # fmt: skip

_STRUCTURED: dict[str, TypeFactory] = {
    "date": lambda typmod, settings: structured.date(),
    "time": structured.time,
    "timestamp": lambda typmod, settings: structured.timestamp(typmod),
    "timestamptz": lambda typmod, settings: structured.timestamptz(typmod),
    "timetz": lambda typmod, settings: structured.timetz(typmod),
    "interval": lambda typmod, settings: structured.interval(typmod),
}

# Types of extensions are found by name, in any schema.
_EXTENSIONS: dict[str, TypeFactory] = {
    "citext": _plain(),
    "isbn": _plain(),
    "ltree": _plain("io.debezium.data.Ltree"),
    "hstore": lambda typmod, settings: text.hstore(settings),
    "vector": lambda typmod, settings: vectors.vector("io.debezium.data.DoubleVector", Schema.FLOAT64, settings),
    "halfvec": lambda typmod, settings: vectors.vector("io.debezium.data.FloatVector", Schema.FLOAT32, settings),
    "sparsevec": _fixed(vectors.sparse_vector()),
}
_TEXT_KINDS = frozenset({"r", "m", DROPPED})
"""Ranges and multiranges, and types that no longer exist."""


def column_type(types: Mapping[int, CatalogType], oid: int, typmod: int, settings: TypeSettings) -> ColumnType | None:
    """Finds the mapping of a type; None for unsupported types (composite, ...) unless unknown ones are included."""
    found = _find_mapping(types, oid, typmod, settings)
    if found is None and settings.include_unknown:
        return text.unknown(settings)
    return found


def _find_mapping(types: Mapping[int, CatalogType], oid: int, typmod: int, settings: TypeSettings) -> ColumnType | None:
    pg_type = types.get(oid)
    if pg_type is None:
        return None
    if pg_type.kind == "d":
        return _find_mapping(types, pg_type.base_oid, pg_type.base_typmod, settings)
    if pg_type.kind == "e":
        return text.enumeration(pg_type.labels)
    if pg_type.kind in _TEXT_KINDS:
        return text.text(settings)
    if pg_type.element_oid:
        return _array(types, pg_type.element_oid, typmod, settings)
    if pg_type.schema == "pg_catalog":
        maker = _BUILT_IN.get(pg_type.name)
        if settings.time_mode == "structured":
            maker = _STRUCTURED.get(pg_type.name, maker)
    else:
        maker = _EXTENSIONS.get(pg_type.name)
    return None if maker is None else maker(typmod, settings)


def _array(types: Mapping[int, CatalogType], element_oid: int, typmod: int, settings: TypeSettings) -> ColumnType | None:
    element = types.get(element_oid)
    if element is None:
        return None
    mapped = _find_mapping(types, element_oid, typmod, settings)
    if mapped is None or mapped.schema.type is Type.ARRAY:
        return None
    if element.kind == "e" and "enum_array_nulls" in settings.restored:
        return arrays.array_without_nulls(mapped, arrays.placeholder_of(mapped, element.name, settings))
    # Only box separates its elements by a semicolon.
    delimiter = ";" if (element.schema, element.name) == ("pg_catalog", "box") else ","
    return arrays.array_of(mapped, arrays.placeholder_of(mapped, element.name, settings), delimiter)
