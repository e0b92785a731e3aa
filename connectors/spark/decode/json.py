"""JsonConverter's bytes to Arrow, a whole batch at a time, in native code.

With schemas every message is ``{"schema":S,"payload":P}``. The bytes up to P are the same for all messages of one schema, so
S is read once per distinct prefix and the payloads are cut out and parsed together, under the types that S gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

from connect.data.schema import Schema, Type
from connect.errors import DataError, SchemaError

_OPEN = b'{"schema":'
_PAYLOAD = b',"payload":'
_TYPES = {t.value: t for t in Type}
_DEEPEST = 1000
"""As Jackson's, which JsonConverter stands on. Arrow's reader calls itself at each level: deep enough, it ends the process."""
_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|([\[{])|([\]}])', re.DOTALL)


class NotBatchable(Exception):
    """These bytes need the record path: a form that the fast one does not know. Not an error of the data."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stands before every payload of one schema."""

    text: bytes
    schema: Schema


def find_prefix(message: bytes, *, defaults: bool = False) -> Prefix:
    """The prefix of a message with schema. Raises NotBatchable when it is not written as JsonConverter writes it."""
    if not message.startswith(_OPEN):
        raise NotBatchable
    at = message.find(_PAYLOAD)
    while at > 0:
        # A default value inside the schema may hold the same letters; only the true end leaves a complete schema before it.
        try:
            schema = json.loads(message[len(_OPEN) : at])
        except ValueError:
            at = message.find(_PAYLOAD, at + 1)
            continue
        if not isinstance(schema, dict):
            raise NotBatchable
        return Prefix(message[: at + len(_PAYLOAD)], read_schema(schema, defaults=defaults))
    raise NotBatchable


def read_schema(node: dict[str, Any], *, defaults: bool = False) -> Schema:
    """The schema of its JSON form, as far as types need it. Raises SchemaError.

    With ``defaults`` a default stays in its JSON form, for nulls that the converter would have replaced by it.
    """
    try:
        kind = _TYPES[node["type"]]
        parts: dict[str, Any] = {}
        if kind is Type.STRUCT:
            parts["fields"] = [(f["field"], read_schema(f, defaults=defaults)) for f in node["fields"]]
        elif kind is Type.ARRAY:
            parts["value_schema"] = read_schema(node["items"], defaults=defaults)
        elif kind is Type.MAP:
            parts["key_schema"] = read_schema(node["keys"], defaults=defaults)
            parts["value_schema"] = read_schema(node["values"], defaults=defaults)
        parameters = node.get("parameters")
        if defaults:
            parts["default"] = node.get("default")
        return Schema(kind, optional=bool(node.get("optional")), name=node.get("name"), parameters=parameters, **parts)
    except (KeyError, TypeError) as e:
        raise SchemaError(f"a schema in JSON without {e}: {json.dumps(node)[:200]}") from e


def split_by_prefix(
    messages: Sequence[bytes | None], known: list[Prefix], *, defaults: bool = False
) -> tuple[list[tuple[Prefix, list[int], list[bytes]]], list[int]]:
    """Per schema the positions and payloads of its messages, and the positions of those that are None.

    ``known`` are the prefixes seen so far, the latest first; new ones are put in front. Raises NotBatchable.
    """
    groups: dict[bytes, tuple[Prefix, list[int], list[bytes]]] = {}
    nulls: list[int] = []
    prefix = known[0].text if known else b"\x00"
    group = None
    for position, message in enumerate(messages):
        if message is None:
            nulls.append(position)
            continue
        if group is None or not message.startswith(prefix):
            found = next((p for p in known if message.startswith(p.text)), None)
            if found is None:
                found = find_prefix(message, defaults=defaults)
                known.insert(0, found)
                del known[32:]  # schemas of long ago
            prefix = found.text
            group = groups.setdefault(prefix, (found, [], []))
            length, positions, payloads = len(prefix), group[1], group[2]
        positions.append(position)
        payloads.append(message[length:-1])
    return list(groups.values()), nulls


def parse(lines: Sequence[bytes], types: pa.Schema | None, *, infer: bool) -> pa.Table:
    """One row a line. Fields that ``types`` does not name are left out, or with ``infer`` get types of their own.

    Raises an Arrow error for a value that is not of its type, UnicodeDecodeError for bytes that are not UTF-8, and DataError when
    lines are not one object each or too deep.
    """
    if max(map(len, lines), default=0) > 2 * _DEEPEST:  # a shorter line cannot be as deep
        _refuse_deep(lines)
    data = b"\n".join(lines)
    if data.count(b"\n") != len(lines) - 1:
        raise NotBatchable
    if not data.isascii():
        data.decode()  # the reader takes any bytes for text, and then nobody could read the table
    table = pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(explicit_schema=types, unexpected_field_behavior="infer" if infer else "ignore"),
    )
    if table.num_rows != len(lines):
        raise DataError("a value is not one JSON object")
    return table


def _refuse_deep(lines: Sequence[bytes]) -> None:
    for line in lines:
        if line.count(b"[") + line.count(b"{") <= _DEEPEST:
            continue
        depth = 0
        for token in _NESTING.finditer(line):
            depth += 1 if token.group(1) else -1 if token.group(2) else 0
            if depth > _DEEPEST:
                raise DataError(f"JSON nested more than {_DEEPEST} levels deep")
