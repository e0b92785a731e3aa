"""Rewrites maps in JSON as arrays of entries, which Arrow's reader has a type for: ``{"a":1}`` as ``[{"key":"a","value":1}]``.

Maps are found by the names of their fields. JsonConverter's text is rewritten, which has no blanks; all other forms need the
exact path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from connect.data.schema import Schema, Type
from connectors.spark.decode.json import NotBatchable

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SCALAR = rb"(?:" + _STRING + rb"|-?[0-9][0-9.eE+-]*+|true|false|null)"
Rewrite = Callable[[bytes], bytes]


def map_rewriter(fields: Sequence[tuple[str, Schema]]) -> Rewrite | None:
    """Rewrites the text of a JSON object with these fields, at whatever depth it has maps; None if it has none.

    The function raises NotBatchable for a map in another form; for every text, if fields with and without a map share a name.
    """
    found: dict[str, Schema | None] = {}
    for name, named in _named_fields(fields):
        is_map = _without_arrays(named).type is Type.MAP
        if name in found and (is_map or found[name] is not None) and found[name] != named:
            return _refuse
        found[name] = named if is_map else None
    maps = []
    for name, schema in found.items():
        if schema is not None:
            rewrite = _rewrite(schema)
            if rewrite is None:
                return _refuse  # a map without element schemas
            maps.append((json.dumps(name, ensure_ascii=False).encode(), re.compile(_pattern(schema)), rewrite))
    return partial(_rewrite_fields, maps=maps) if maps else None


def _rewrite_fields(text: bytes, maps: Sequence[tuple[bytes, re.Pattern[bytes], Rewrite]]) -> bytes:
    # In a string, a quote has a backslash before it, so that a name between bare quotes with a colon is a field.
    parts: list[bytes] = []
    end = 0
    places = [text.find(name) for name, _, _ in maps]
    while True:
        start = which = -1
        for number, place in enumerate(places):
            if place >= 0 and (start < 0 or place < start):
                start, which = place, number
        if start < 0:
            return b"".join([*parts, text[end:]])
        name, pattern, rewrite = maps[which]
        after = start + len(name)
        next_ = text[after : after + 1]
        if next_ == b":":
            match = pattern.match(text, after + 1)
            if match is not None:
                parts += (text[end : after + 1], rewrite(match.group()))
                after = end = match.end()
            elif text[after + 1 : after + 2] in b"[{ \t\r\n":
                raise NotBatchable
        elif next_ in b" \t\r\n":
            raise NotBatchable
        for number, place in enumerate(places):
            if 0 <= place < after:
                places[number] = text.find(maps[number][0], after)


def _refuse(text: bytes) -> bytes:
    raise NotBatchable


def _named_fields(fields: Sequence[tuple[str, Schema]]) -> Iterator[tuple[str, Schema]]:
    """All fields, also of structs and of arrays of structs. Those inside maps are rewritten with the map."""
    for name, schema in fields:
        yield name, schema
        inner = _without_arrays(schema)
        if inner.type is Type.STRUCT:
            yield from _named_fields([(f.name, f.schema) for f in inner.fields or ()])


def _without_arrays(schema: Schema) -> Schema:
    while schema.type is Type.ARRAY and schema.value_schema is not None:
        schema = schema.value_schema
    return schema


def _pattern(schema: Schema) -> bytes:
    """Matches the text of a value. It has no groups."""
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        value = _pattern(schema.value_schema)
        members = _listed(_STRING + rb":" + value)
        pairs = _listed(rb"\[" + _pattern(schema.key_schema) + rb"," + value + rb"\]")
        return rb"(?:\{" + members + rb"\}|\[" + pairs + rb"\]|null)"
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return rb"(?:\[" + _listed(_pattern(schema.value_schema)) + rb"\]|null)"
    if schema.type is Type.STRUCT:
        return rb"(?:\{" + _listed(_STRING + rb":" + _any_member(schema)) + rb"\}|null)"
    return _SCALAR


def _any_member(schema: Schema) -> bytes:
    patterns = dict.fromkeys(_pattern(f.schema) for f in schema.fields or ())
    return rb"(?:" + (rb"|".join(patterns) or _SCALAR) + rb")"


def _listed(element: bytes) -> bytes:
    return rb"(?:" + element + rb"(?:," + element + rb")*+)?+"


def _rewrite(schema: Schema) -> Rewrite | None:
    """Rewrites text that the schema's pattern matches; None if it has no maps."""
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        return _map_rewrite(schema.key_schema, schema.value_schema)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        element = _rewrite(schema.value_schema)
        if element is None:
            return None
        elements = re.compile(_pattern(schema.value_schema))
        return lambda text: text if text == b"null" else b"[" + elements.sub(lambda m: element(m.group()), text[1:-1]) + b"]"
    if schema.type is Type.STRUCT:
        return _struct_rewrite(schema)
    return None


def _map_rewrite(key: Schema, value: Schema) -> Rewrite:
    if _rewrite(key) is not None:
        return _refuse
    inner = _rewrite(value)
    member = re.compile(rb"(" + _STRING + rb"):(" + _pattern(value) + rb")")
    pair = re.compile(rb"\[(" + _pattern(key) + rb"),(" + _pattern(value) + rb")\]")

    def rewrite(text: bytes) -> bytes:
        if text == b"null":
            return text
        entries = (member if text.startswith(b"{") else pair).findall(text, 1)
        if inner is not None:
            entries = [(k, inner(v)) for k, v in entries]
        return b"[" + b",".join([b'{"key":%b,"value":%b}' % entry for entry in entries]) + b"]"

    return rewrite


def _struct_rewrite(schema: Schema) -> Rewrite | None:
    rewrites = {
        json.dumps(f.name, ensure_ascii=False).encode(): found for f in schema.fields or () if (found := _rewrite(f.schema))
    }
    if not rewrites:
        return None
    member = re.compile(rb"(" + _STRING + rb"):(" + _any_member(schema) + rb")")

    def replaced(match: re.Match[bytes]) -> bytes:
        rewrite = rewrites.get(match.group(1))
        return match.group(1) + b":" + (match.group(2) if rewrite is None else rewrite(match.group(2)))

    return lambda text: text if text == b"null" else b"{" + member.sub(replaced, text[1:-1]) + b"}"
