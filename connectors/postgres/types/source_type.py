"""Name, length, and scale of a column's type as PostgreSQL's JDBC driver reports them: Debezium shows them to consumers."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.cdc.schema.source_type import SourceType
from connectors.postgres.types.catalog_type import CatalogType

UNLIMITED = 2_147_483_647
_TEXTS = frozenset({"text", "varchar", "bpchar", "char", "name"})
_SERIALS = {"int2": "smallserial", "int4": "serial", "int8": "bigserial"}
_VECTORS = frozenset({"vector", "halfvec", "sparsevec"})
_LENGTHS = {
    "int2": 5,
    "int4": 10,
    "oid": 10,
    "int8": 19,
    "float4": 8,
    "float8": 17,
    "bool": 1,
    "char": 1,
    "date": 13,
    "interval": 49,
}
_TIMES = {"time": 8, "timetz": 14, "timestamp": 22, "timestamptz": 28}
"""The characters of a time without its fraction."""
_NUMERIC_DISPLAY = 131_089


def source_type(types: Mapping[int, CatalogType], oid: int, typmod: int, default: str | None) -> SourceType:
    """The driver's view of a column. ``default`` is the text of its default: a sequence makes it a serial."""
    declared = types.get(oid)
    if declared is None:
        return SourceType("unknown", UNLIMITED, 0, False)
    root, typmod = _root(types, declared, typmod)
    name = declared.name
    if default is not None and default.startswith("nextval(") and default != "nextval()":
        name = _SERIALS.get(name, name)
    is_built_in = root.schema == "pg_catalog" and not root.element_oid
    base = root.name if is_built_in or root.name in _VECTORS else ""
    return SourceType(name, _length(base, typmod), _scale(base, typmod), root.kind == "e" or (is_built_in and base in _TEXTS))


def _root(types: Mapping[int, CatalogType], declared: CatalogType, typmod: int) -> tuple[CatalogType, int]:
    """The type below domains, with the modifier that applies to it."""
    found = declared
    while found.kind == "d" and (base := types.get(found.base_oid)) is not None:
        typmod = found.base_typmod if typmod == -1 or found.base_typmod != -1 else typmod
        found = base
    return found, typmod


def _length(name: str, typmod: int) -> int | None:
    if name in _LENGTHS:
        return _LENGTHS[name]
    if name in _TIMES:
        return _TIMES[name] + _fraction_length(typmod)
    if name in _VECTORS:
        return None if typmod == -1 else typmod
    if name == "numeric":
        return _NUMERIC_DISPLAY if typmod == -1 else (typmod - 4) >> 16 & 0xFFFF
    if name == "bit":
        return max(typmod, 1)
    if typmod != -1 and name in ("varchar", "bpchar"):
        return typmod - 4
    return typmod if typmod != -1 and name == "varbit" else UNLIMITED


def _fraction_length(typmod: int) -> int:
    # The driver counts one digit more for a precision of 1.
    return {-1: 7, 0: 0, 1: 3}.get(typmod, typmod + 1)


def _scale(name: str, typmod: int) -> int:
    match name:
        case "float4" | "float8":
            return _LENGTHS[name]
        case "numeric":
            return 0 if typmod == -1 else (typmod - 4) & 0xFFFF
        case "time" | "timetz" | "timestamp" | "timestamptz":
            return 6 if typmod == -1 else typmod
        case "interval":
            return 6 if typmod == -1 else typmod & 0xFFFF
    return 0
