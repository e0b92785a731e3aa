"""Decoders of text-like types, bytes, bit strings, and hstore."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

from connect.change_events import toast
from connect.data.schema import Schema, Type
from connectors.cdc.schema.column_type import ColumnType, Inline, refuse
from connectors.postgres.config import TypeSettings


def text(settings: TypeSettings, name: str | None = None, zero: str = "", parameters: dict[str, str] | None = None) -> ColumnType:
    """A type whose text is its value."""
    schema = Schema.STRING if name is None else Schema(Type.STRING, name=name, version=1, parameters=parameters)
    return ColumnType(schema, str, zero, settings.placeholder, Inline.TEXT)


def enumeration(labels: tuple[str, ...]) -> ColumnType:
    """An enum; never TOASTed."""
    schema = Schema(Type.STRING, name="io.debezium.data.Enum", version=1, parameters={"allowed": ",".join(labels)})
    return ColumnType(schema, str, labels[0] if labels else "", inline=Inline.TEXT)


def bytea(value: str) -> bytes:
    """``\\x6869`` -> b"hi"."""
    if not value.startswith("\\x"):
        raise refuse(value, "bytea in hex form")
    return bytes.fromhex(value[2:])


def binary(settings: TypeSettings) -> ColumnType:
    placeholder = settings.placeholder.encode()
    match settings.binary_mode:
        case "hex":
            return ColumnType(Schema.STRING, lambda value: bytea(value).hex(), "", placeholder.hex())
        case "base64":
            encode: Callable[[bytes], bytes] = base64.b64encode
        case "base64-url-safe":
            encode = base64.urlsafe_b64encode
        case _:
            return ColumnType(Schema.BYTES, bytea, b"", placeholder)
    return ColumnType(Schema.STRING, lambda value: encode(bytea(value)).decode(), "", encode(placeholder).decode())


def unknown(settings: TypeSettings) -> ColumnType:
    """``include.unknown.datatypes``: the text of the value as bytes."""
    as_bytes = binary(settings)
    if as_bytes.schema.type is Type.BYTES:
        return ColumnType(Schema.BYTES, str.encode, b"", as_bytes.placeholder)
    return ColumnType(as_bytes.schema, lambda value: as_bytes.decode("\\x" + value.encode().hex()), "", as_bytes.placeholder)


def bits(length: int | None) -> ColumnType:
    """bit(1) is a boolean; longer ones, and varbit (length None if unlimited), are little-endian bytes without trailing zeros."""
    if length == 1:
        return ColumnType(Schema.BOOLEAN, lambda value: value == "1", False)
    parameters = {"length": str(2_147_483_647 if length is None else length)}
    schema = Schema(Type.BYTES, name="io.debezium.data.Bits", version=1, parameters=parameters)
    return ColumnType(schema, _little_endian, b"")


def _little_endian(value: str) -> bytes:
    number = int(value or "0", 2)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def parse_hstore(value: str) -> dict[str, str | None]:
    """``"a"=>"1", "b"=>NULL`` as a dict; quotes and backslashes are escaped by backslashes."""
    found: dict[str, str | None] = {}
    at = 0
    while at < len(value):
        key, at = _quoted(value, at)
        if value[at : at + 2] != "=>":
            raise refuse(value, "hstore")
        at += 2
        if value.startswith("NULL", at):
            found[key], at = None, at + 4
        else:
            found[key], at = _quoted(value, at)
        if value.startswith(", ", at):
            at += 2
    return found


def _quoted(value: str, at: int) -> tuple[str, int]:
    if not value.startswith('"', at):
        raise refuse(value, "hstore")
    at += 1
    parts: list[str] = []
    while at < len(value):
        c = value[at]
        if c == '"':
            return "".join(parts), at + 1
        if c == "\\":
            at += 1
            c = value[at]
        parts.append(c)
        at += 1
    raise refuse(value, "hstore")


def hstore(settings: TypeSettings) -> ColumnType:
    if settings.hstore_mode == "map":
        schema = Schema(Type.MAP, key_schema=Schema.STRING, value_schema=Schema.OPTIONAL_STRING)
        return ColumnType(schema, parse_hstore, {}, toast.map_form(settings.placeholder))
    schema = Schema(Type.STRING, name="io.debezium.data.Json", version=1)
    placeholder = toast.json_form(settings.placeholder)
    return ColumnType(schema, lambda v: json.dumps(parse_hstore(v), separators=(",", ":"), ensure_ascii=False), "{}", placeholder)
