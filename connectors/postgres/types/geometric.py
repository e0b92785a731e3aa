"""Decoders of geometric types: coordinates, or well-known binary without a reference system, as in Debezium."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

from connect.data.schema import Schema
from connect.data.struct import Struct
from connectors.cdc.schema.column_type import ColumnType, refuse
from connectors.cdc.schema.geometry import GEOMETRY, POINT, geometry_shape

CIRCLE = geometry_shape("Circle", "Geometry (CIRCLE)").optional().field("center", POINT).field("radius", Schema.FLOAT64).build()
LINE = (
    geometry_shape("Line", "Geometry (LINE)")
    .optional()
    .field("a", Schema.FLOAT64)
    .field("b", Schema.FLOAT64)
    .field("c", Schema.FLOAT64)
    .build()
)

_Point = tuple[float, float]
_LINE_STRING, _POLYGON = 2, 3


def _numbers(value: str, what: str, count: int | None = None) -> list[float]:
    """The numbers of a text such as ``((1,2),(3,4))``."""
    found = [float(part) for part in re.split(r"[^0-9a-zA-Z.+-]+", value) if part]
    if not found or (count is not None and len(found) != count):
        raise refuse(value, what)
    return found


def _points(value: str, what: str, count: int | None = None) -> list[_Point]:
    numbers = _numbers(value, what, None if count is None else 2 * count)
    if len(numbers) % 2:
        raise refuse(value, what)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _coordinates(points: Sequence[_Point]) -> bytes:
    return struct.pack(f"<I{2 * len(points)}d", len(points), *(number for point in points for number in point))


def line_string(points: Sequence[_Point]) -> bytes:
    """Points as a LINESTRING in well-known binary."""
    return struct.pack("<BI", 1, _LINE_STRING) + _coordinates(points)


def polygon_ring(points: Sequence[_Point]) -> bytes:
    """Points as a POLYGON of one closed ring in well-known binary."""
    ring = [*points, points[0]] if points[0] != points[-1] or len(points) == 1 else points
    return struct.pack("<BII", 1, _POLYGON, 1) + _coordinates(ring)


def _point(schema: Schema, x: float, y: float) -> Struct:
    values: list[Any] = [x, y, struct.pack("<BIdd", 1, 1, x, y), None]
    return Struct(schema, values)


def point(schema: Schema = POINT) -> ColumnType:
    """point as coordinates and as well-known binary."""
    return ColumnType(schema, lambda value: _point(schema, *_numbers(value, "point", 2)), _point(schema, 0.0, 0.0), rebuild=point)


def circle(schema: Schema = CIRCLE) -> ColumnType:
    """circle as center and radius."""

    def decode(value: str) -> Struct:
        x, y, radius = _numbers(value, "circle", 3)
        return Struct(schema, [_point(POINT, x, y), radius])

    return ColumnType(schema, decode, Struct(schema, [_point(POINT, 0.0, 0.0), 0.0]), rebuild=circle)


def line(schema: Schema = LINE) -> ColumnType:
    """line as the coefficients of ax + by + c = 0."""
    return ColumnType(
        schema, lambda value: Struct(schema, _numbers(value, "line", 3)), Struct(schema, [0.0, 1.0, 0.0]), rebuild=line
    )


def geometry(name: str) -> ColumnType:
    """box, lseg, path, or polygon as well-known binary; ``extensions`` names the type, because that does not."""
    return _geometry(name, GEOMETRY)


def _geometry(name: str, schema: Schema) -> ColumnType:
    encode = _ENCODERS[name]

    def decode(value: str) -> Struct:
        extensions = {"type": name}
        if name == "path":
            extensions["closed"] = "true" if value.startswith("(") else "false"
        return Struct(schema, [encode(value), None, extensions])

    zero = Struct(schema, [line_string([(0.0, 0.0), (1.0, 0.0)]), None, {"type": name}])
    return ColumnType(schema, decode, zero, rebuild=lambda other: _geometry(name, other))


def _box(value: str) -> bytes:
    (x1, y1), (x2, y2) = _points(value, "box", 2)
    return polygon_ring([(x1, y1), (x1, y2), (x2, y2), (x2, y1), (x1, y1)])


_ENCODERS: dict[str, Callable[[str], bytes]] = {
    "box": _box,
    "lseg": lambda value: line_string(_points(value, "lseg", 2)),
    "path": lambda value: line_string(_points(value, "path")),
    "polygon": lambda value: polygon_ring(_points(value, "polygon")),
}
