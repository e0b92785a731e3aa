"""Schemas of points and other shapes, as well-known binary."""

from __future__ import annotations

from connect.data.schema import Schema, SchemaBuilder, Type


def geometry_shape(name: str, doc: str, version: int = 1) -> SchemaBuilder:
    """Starts the schema of a shape."""
    return SchemaBuilder.struct().name(f"io.debezium.data.geometry.{name}").version(version).doc(doc)


POINT = (
    geometry_shape("Point", "Geometry (POINT)")
    .field("x", Schema.FLOAT64)
    .field("y", Schema.FLOAT64)
    .field("wkb", Schema.OPTIONAL_BYTES)
    .field("srid", Schema.OPTIONAL_INT32)
    .build()
)
GEOMETRY = (
    geometry_shape("Geometry", "Geometry", version=2)
    .optional()
    .field("wkb", Schema.BYTES)
    .field("srid", Schema.OPTIONAL_INT32)
    .field("extensions", Schema(Type.MAP, optional=True, key_schema=Schema.STRING, value_schema=Schema.STRING))
    .build()
)
