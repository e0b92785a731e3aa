"""BINARY, VARBINARY, and BLOB (``binary.handling.mode``), geometry, and vectors."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connectors.cdc.schema.column_type import ColumnType, Decoder
from connectors.cdc.schema.geometry import GEOMETRY, POINT
from connectors.mysql.binlog import ColumnReader
from connectors.mysql.types.column_type import MySqlColumnType, named_decoder, refuse_value
from connectors.mysql.types.config import MySqlTypeSettings
from connectors.mysql.types.numbers import mapping

_POINT_BYTES, _POINT_TYPE = 21, 1
_EMPTY_COLLECTION: Final = bytes([1, 7, 0, 0, 0, 0, 0, 0, 0])
_FLOAT_BYTES = 4


def binary(column: str, padded_length: int | None, settings: MySqlTypeSettings) -> MySqlColumnType:
    """``padded_length`` is that of BINARY, whose zeros at the end the log does not have; None for other types."""
    pad = f".ljust({padded_length}, b'\\0')" if padded_length is not None else ""
    size = padded_length or 0
    placeholder = settings.placeholder.encode()
    match settings.binary_mode:
        case "hex":
            reader = ColumnReader(inline=f"{{x}}{pad}.hex()")
            return mapping(
                column, Schema.STRING, lambda data: data.ljust(size, b"\0").hex(), "", reader=reader,
                placeholder=placeholder.hex(), is_bytes=True,
            )  # fmt: skip
        case "base64":
            encode: Callable[[bytes], bytes] = base64.b64encode
        case "base64-url-safe":
            encode = base64.urlsafe_b64encode
        case _:
            reader = ColumnReader(inline=f"{{x}}{pad}" if pad else "")
            return mapping(
                column, Schema.BYTES, lambda data: bytes(data).ljust(size, b"\0"), b"", reader=reader, placeholder=placeholder,
                is_bytes=True,
            )  # fmt: skip
    reader = ColumnReader(convert=encode, inline=f"{{c}}({{x}}{pad}).decode()")
    return mapping(
        column, Schema.STRING, lambda data: encode(data.ljust(size, b"\0")).decode(), "", reader=reader,
        placeholder=encode(placeholder).decode(), is_bytes=True,
    )  # fmt: skip


def _parts(column: str, data: bytes) -> tuple[bytes, int | None]:
    """Returns well-known binary, and the number of the reference system; 0 is none."""
    if len(data) < 9:  # SRID, byte order, type
        raise refuse_value(column, data, "geometry: it has fewer than 9 bytes")
    return data[4:], int.from_bytes(data[:4], "little", signed=True) or None


def geometry(column: str, schema: Schema = GEOMETRY) -> MySqlColumnType:
    """Any geometry but POINT as well-known binary."""

    def decode(data: bytes) -> Struct:
        wkb, srid = _parts(column, data)
        return Struct(schema, [wkb, srid, None])

    return _struct(column, schema, decode, Struct(schema, [_EMPTY_COLLECTION, None, None]), geometry)


def point(column: str, schema: Schema = POINT) -> MySqlColumnType:
    """POINT as coordinates and well-known binary."""

    def decode(data: bytes) -> Struct:
        wkb, srid = _parts(column, data)
        order = "<" if wkb[0] else ">"
        if len(wkb) != _POINT_BYTES or struct.unpack_from(order + "I", wkb, 1)[0] != _POINT_TYPE:
            raise refuse_value(column, data, "point of two coordinates")
        x, y = struct.unpack_from(order + "dd", wkb, 5)
        return Struct(schema, [x, y, wkb, srid])

    return _struct(column, schema, decode, Struct(schema, [0.0, 0.0, None, None]), point)


def _struct(
    column: str, schema: Schema, decode: Decoder, zero: Struct, factory: Callable[[str, Schema], MySqlColumnType]
) -> MySqlColumnType:
    rebuild = partial(factory, column)
    text = ColumnType(schema, named_decoder(column, decode), zero, rebuild=lambda other: rebuild(other).text)
    return MySqlColumnType(text, ColumnReader(convert=decode, name=column), rebuild, is_bytes=True)


def vector(column: str) -> MySqlColumnType:
    """VECTOR as an array of floats."""
    schema = Schema(Type.ARRAY, name="io.debezium.data.FloatVector", version=1, value_schema=Schema.FLOAT32)

    def decode(data: Any) -> list[float]:
        count, rest = divmod(len(data), _FLOAT_BYTES)
        if rest:
            raise refuse_value(column, data, f"vector: {len(data)} bytes are no multiple of {_FLOAT_BYTES}")
        return list(struct.unpack(f"<{count}f", data))

    return mapping(column, schema, decode, [], reader=ColumnReader(convert=decode), is_bytes=True)
