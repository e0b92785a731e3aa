"""Decoders of the vectors of pgvector."""

from __future__ import annotations

from connect.change_events import toast
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connectors.cdc.schema.column_type import ColumnType, refuse
from connectors.postgres.config import TypeSettings

SPARSE_VECTOR = (
    SchemaBuilder.struct()
    .name("io.debezium.data.SparseDoubleVector")
    .version(1)
    .doc("Sparse double vector")
    .field("dimensions", Schema.INT16)
    .field("vector", Schema(Type.MAP, key_schema=Schema.INT16, value_schema=Schema.FLOAT64))
    .build()
)
_MAX_INT16 = 32_767


def vector(name: str, element: Schema, settings: TypeSettings) -> ColumnType:
    """vector or halfvec as an array of floats."""
    schema = Schema(Type.ARRAY, name=name, version=1, value_schema=element)
    placeholder = [float(byte) for byte in toast.number_form(settings.placeholder)]
    return ColumnType(schema, _elements, [], placeholder)


def _elements(value: str) -> list[float]:
    if not (value.startswith("[") and value.endswith("]")):
        raise refuse(value, "vector")
    return [float(part) for part in value[1:-1].split(",")]


def sparse_vector(schema: Schema = SPARSE_VECTOR) -> ColumnType:
    """sparsevec as its number of dimensions, and its elements by index from 1."""

    def decode(value: str) -> Struct:
        elements, slash, dimensions = value.partition("/")
        if not slash or not (elements.startswith("{") and elements.endswith("}")):
            raise refuse(value, "sparsevec")
        if int(dimensions) > _MAX_INT16:
            raise refuse(value, f"sparsevec of at most {_MAX_INT16} dimensions, which Debezium's schema holds")
        pairs = (part.split(":") for part in elements[1:-1].split(",") if part)
        return Struct(schema, [int(dimensions), {int(index): float(number) for index, number in pairs}])

    return ColumnType(schema, decode, Struct(schema, [0, {}]), rebuild=sparse_vector)
