"""Parses JsonConverter's bytes to Arrow, one batch at a time, in native code.

With schemas, every message is ``{"schema":S,"payload":P}``. The bytes up to P are the same for all messages of one schema, so
S is read once per distinct prefix, and the payloads are cut out and parsed together with the types of S.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from connect.converters.json.message_prefix import find_message_prefix
from connect.data.schema import Schema, Type
from connect.errors import DataError, SchemaError
from connectors.spark.decode.long_numbers import PADDING, changes_number
from connectors.spark.decode.recently_used import RecentlyUsed

_TYPES = {t.value: t for t in Type}
_PADDING = b" " * PADDING
_MAX_DEPTH = 1000
"""The limit of Jackson, which JsonConverter uses. Arrow's reader recurses at each level; too many levels crash the process."""
_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|([\[{])|([\]}])', re.DOTALL)


class NotBatchable(Exception):
    """These bytes have a form that the fast path does not support and need the record path. Not an error in the data."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The bytes before every payload of one schema."""

    text: bytes
    schema: Schema


def read_schema(node: dict[str, Any], *, defaults: bool = False) -> Schema:
    """Reads a schema from JSON, as far as types need it. Raises SchemaError.

    With ``defaults``, defaults are kept in JSON form, to replace nulls as the converter does.
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
        raise SchemaError(f"a JSON schema lacks {e}: {json.dumps(node)[:200]}") from e


class JsonSchemas:
    """Reads the schemas in the JSON of one topic's keys or values. Equal schemas are one object, as long as they are among those
    that were used last. With ``defaults``, defaults are kept (:func:`read_schema`)."""

    def __init__(self, *, defaults: bool = False) -> None:
        self._defaults = defaults
        self._prefixes: RecentlyUsed[bytes, Prefix] = RecentlyUsed()
        self._schemas: RecentlyUsed[str, Schema] = RecentlyUsed()

    def find_prefix(self, message: bytes) -> Prefix:
        """The prefix of a message with a schema. Raises NotBatchable if JsonConverter would write it differently."""
        known = next((one for one in self._prefixes.newest_first() if message.startswith(one.text)), None)
        if known is None:
            found = find_message_prefix(message)
            if found is None:
                raise NotBatchable
            known = Prefix(found.text, self.read(found.schema))
        prefix = known
        return self._prefixes.get(prefix.text, lambda: prefix)

    def read(self, node: dict[str, Any]) -> Schema:
        """Reads a schema from JSON. Raises SchemaError."""
        return self._schemas.get(json.dumps(node, default=str), lambda: read_schema(node, defaults=self._defaults))


def split_by_prefix(
    messages: Sequence[bytes | None], schemas: JsonSchemas
) -> tuple[list[tuple[Prefix, list[int], list[bytes]]], list[int]]:
    """Splits messages by schema: positions and payloads of each schema, and the positions of messages that are None. Raises
    NotBatchable."""
    groups: dict[bytes, tuple[Prefix, list[int], list[bytes]]] = {}
    nulls: list[int] = []
    prefix = b"\x00"
    group = None
    for position, message in enumerate(messages):
        if message is None:
            nulls.append(position)
            continue
        if group is None or not message.startswith(prefix):
            found = schemas.find_prefix(message)
            prefix = found.text
            group = groups.setdefault(prefix, (found, [], []))
            length, positions, payloads = len(prefix), group[1], group[2]
        positions.append(position)
        payloads.append(message[length:-1])
    return list(groups.values()), nulls


Lines: TypeAlias = "Sequence[bytes] | pa.Array"
"""Documents of one line each; an array is binary and has no nulls."""


def parse(lines: Lines, types: pa.Schema | None, *, infer: bool) -> pa.Table:
    """Parses one row per line. Fields that ``types`` does not name are omitted, or inferred with ``infer``.

    Raises an Arrow error for a value of another type, UnicodeDecodeError for bytes that are not UTF-8, DataError for a line that
    is nested too deeply or has more than an object, and NotBatchable for one that does not begin with an object, and when a
    floating-point column might change a number (promise 8).
    """
    if isinstance(lines, pa.Array):
        longest = pc.max(pc.binary_length(lines)).as_py() or 0
    else:
        longest = max(map(len, lines), default=0)
    if longest > 2 * _MAX_DEPTH:  # a shorter line cannot be as deep
        _check_depth(lines.to_pylist() if isinstance(lines, pa.Array) else lines)
    if isinstance(lines, pa.Array):
        data = b"".join([_PADDING, b"\n", _joined(lines), b"\n", _PADDING])
    else:
        data = b"\n".join([_PADDING, *lines, _PADDING])
    # Arrow's reader takes null for a row of nulls, and a null in the first line ends the process.
    if data.count(b"\n") != len(lines) + 1 or data.count(b"\n{") != len(lines):
        raise NotBatchable
    if not data.isascii():
        data.decode()  # the reader accepts any bytes as text, which would make the table unreadable
    table = pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(explicit_schema=types, unexpected_field_behavior="infer" if infer else "ignore"),
    )
    if table.num_rows != len(lines):
        raise DataError("a value is not one JSON object")
    if changes_number(data, table):
        raise NotBatchable
    return table


def _joined(lines: pa.Array) -> memoryview:
    """The lines of an array, with line breaks between them."""
    all_lines = pa.LargeListArray.from_arrays(pa.array([0, len(lines)], pa.int64()), lines)
    return memoryview(pc.binary_join(all_lines, b"\n")[0].as_buffer())


def _check_depth(lines: Sequence[bytes]) -> None:
    for line in lines:
        if line.count(b"[") + line.count(b"{") <= _MAX_DEPTH:
            continue
        depth = 0
        for token in _NESTING.finditer(line):
            depth += 1 if token.group(1) else -1 if token.group(2) else 0
            if depth > _MAX_DEPTH:
                raise DataError(f"JSON nested more than {_MAX_DEPTH} levels deep")
