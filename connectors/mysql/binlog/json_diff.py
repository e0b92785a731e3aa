"""Changes of parts of JSON documents (binlog_row_value_options=PARTIAL_JSON), applied to the text of the document before."""

from __future__ import annotations

import json
import re
from enum import IntEnum
from json.encoder import encode_basestring as quoted
from typing import Any, NamedTuple

from connectors.mysql.binlog.json_binary import json_text
from connectors.mysql.binlog.wire import packed_bytes

_LEG = re.compile(r'\[(?P<cell>[0-9]+)\]|\.\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s.\["*]+))')


class JsonOperation(IntEnum):
    REPLACE = 0
    INSERT = 1
    REMOVE = 2


class JsonDiff(NamedTuple):
    """One change. ``path`` is MySQL's, such as ``$.items[2]."unit price"``; ``value`` is JSON text, None for REMOVE."""

    operation: JsonOperation
    path: str
    value: str | None


class JsonDiffs(NamedTuple):
    """Changes of a document that the event does not have: the row image is not FULL. The new document is unavailable."""

    diffs: tuple[JsonDiff, ...]


class _Number(str):
    """A number in its text form, so that it is never rounded."""

    __slots__ = ()


def read_diffs(data: bytes) -> tuple[JsonDiff, ...]:
    """Reads a vector of changes. Raises IndexError or ValueError if it is damaged."""
    diffs = []
    at, end = 0, len(data)
    while at < end:
        operation = JsonOperation(data[at])
        path, at = packed_bytes(data, at + 1, end)
        value = None
        if operation is not JsonOperation.REMOVE:
            raw, at = packed_bytes(data, at, end)
            value = json_text(raw)
        diffs.append(JsonDiff(operation, path.decode(), value))
    return tuple(diffs)


def apply_diffs(document: str | None, diffs: tuple[JsonDiff, ...]) -> str:
    """Returns the text of the changed document. Raises ValueError if a change does not fit: then the log and the row differ."""
    if document is None:
        raise ValueError("a part of a JSON document changes that is NULL")
    if not diffs:
        return document
    root = _parse(document)
    for diff in diffs:
        _apply(root, diff)
    return _text(root)


def change_document(document: Any, data: bytes) -> Any:
    """Applies the encoded changes to a JSON text; returns JsonDiffs if the document is not in the event (not text or None)."""
    diffs = read_diffs(data)
    return apply_diffs(document, diffs) if document is None or isinstance(document, str) else JsonDiffs(diffs)


def _parse(text: str) -> Any:
    return json.loads(text, parse_float=_Number, parse_int=_Number)


def _apply(root: Any, diff: JsonDiff) -> None:
    *legs, last = parse_path(diff.path) or _refuse(diff, "its path is the whole document")
    parent = root
    for leg in legs:
        if not _has(parent, leg):
            _refuse(diff, "its path does not exist")
        parent = parent[leg]
    value = None if diff.value is None else _parse(diff.value)
    if diff.operation is JsonOperation.INSERT:
        if isinstance(parent, list) and isinstance(last, int):
            parent.insert(last, value)
        elif isinstance(parent, dict) and isinstance(last, str) and last not in parent:
            members = sorted([*parent.items(), (last, value)], key=_key_order)
            parent.clear()
            parent.update(members)
        else:
            _refuse(diff, "its path exists, or cannot exist")
        return
    if not _has(parent, last):
        _refuse(diff, "its path does not exist")
    if diff.operation is JsonOperation.REPLACE:
        parent[last] = value
    else:
        del parent[last]


def _key_order(member: tuple[str, Any]) -> tuple[int, bytes]:
    """MySQL orders keys by length, then by bytes."""
    key = member[0].encode()
    return len(key), key


def _has(parent: Any, leg: int | str) -> bool:
    if isinstance(leg, int):
        return isinstance(parent, list) and leg < len(parent)
    return isinstance(parent, dict) and leg in parent


def _refuse(diff: JsonDiff, reason: str) -> Any:
    raise ValueError(f"change {diff.operation.name} of {diff.path} does not fit to the JSON document before: {reason}")


def parse_path(path: str) -> list[int | str]:
    """Returns the keys and indexes of a path. Raises ValueError if it is invalid."""
    if not path.startswith("$"):
        raise ValueError(f"JSON path {path!r} does not begin with $")
    legs: list[int | str] = []
    at = 1
    while at < len(path):
        match = _LEG.match(path, at)
        if match is None:
            raise ValueError(f"JSON path {path!r} is invalid at character {at}")
        if match["cell"] is not None:
            legs.append(int(match["cell"]))
        elif match["quoted"] is not None:
            legs.append(json.loads(f'"{match["quoted"]}"', strict=False))
        else:
            legs.append(match["plain"])
        at = match.end()
    return legs


def _text(value: Any) -> str:
    if isinstance(value, _Number):
        return str.__str__(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{quoted(key)}: {_text(member)}' for key, member in value.items())}}}"
    return "null" if value is None else "true" if value else "false"
