"""History records as JSON, with the members of Debezium 3.7 in its order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from connect.errors import DataError
from connectors.mysql.schema.ddl.changes import DdlKind, TableDdlChange
from connectors.mysql.schema.model import PRIMARY, Column, Index, MySqlTable, TableId

_INDEXES: Final = "sluice.indexes"
_SYSTEM_VERSIONING: Final = "sluice.system.versioning"
"""Our attributes of a table, which Debezium keeps and does not read: what its model of a table lacks."""


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A change of a table in a record: CREATE, ALTER (with ``previous_id`` for a new name), or DROP."""

    type: str
    id: TableId
    table: MySqlTable | None
    previous_id: TableId | None = None


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """``position`` is a source offset. ``changes`` is None in records of releases that stored DDL only."""

    source: Mapping[str, Any]
    position: Mapping[str, Any]
    ts_ms: int | None
    database: str | None
    ddl: str | None
    changes: tuple[StoredChange, ...] | None


def stored_changes(changes: Iterable[TableDdlChange]) -> tuple[StoredChange, ...]:
    """Returns what a record stores of changes: those that say a table's new version, and DROP."""
    stored = []
    for change in changes:
        if change.kind is DdlKind.TRUNCATE:
            continue
        if change.kind is DdlKind.DROP:
            stored.append(StoredChange("DROP", change.id, None))
        elif change.table is not None:
            type = "CREATE" if change.kind is DdlKind.CREATE else "ALTER"
            stored.append(StoredChange(type, change.id, change.table, change.previous_id))
    return tuple(stored)


def encode_record(record: HistoryRecord, *, include_comments: bool = False) -> bytes:
    """Returns the JSON of a record, on one line. ``include_comments`` is ``include.schema.comments``."""
    document: dict[str, Any] = {"source": dict(record.source), "position": dict(record.position)}
    if record.ts_ms is not None:
        document["ts_ms"] = record.ts_ms
    if record.database is not None:
        document["databaseName"] = record.database
    if record.ddl is not None:
        document["ddl"] = record.ddl
    if record.changes is not None:
        document["tableChanges"] = [_change_document(change, comments=include_comments) for change in record.changes]
    return orjson.dumps(document)


def decode_record(data: bytes | str) -> HistoryRecord | None:
    """Reads a record that we or Debezium wrote. Returns None for a document without source or position, which Debezium skips.

    Raises DataError for text that is no JSON, or a table without what it needs.
    """
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as e:
        raise DataError(f"schema history record is no JSON: {e}") from e
    if not isinstance(document, dict):
        return None
    source, position = document.get("source"), document.get("position")
    if not isinstance(source, dict) or not isinstance(position, dict):
        return None
    try:
        changes = document.get("tableChanges")
        return HistoryRecord(
            source,
            position,
            document.get("ts_ms"),
            document.get("databaseName"),
            document.get("ddl"),
            None if changes is None else tuple(_change(change) for change in changes),
        )
    except (KeyError, TypeError, ValueError) as e:
        raise DataError(f"schema history record at position {position} cannot be read: {type(e).__name__} {e}") from e


def format_table_id(id: TableId) -> str:
    """Returns ``"database"."table"``. Debezium writes the same, except that it does not quote names with a quote at an end."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in id)


_ID_PART = re.compile(r'\s*(?:"((?:[^"]|"")*)"|`((?:[^`]|``)*)`|\'((?:[^\']|\'\')*)\'|([^.\s][^.]*?))\s*(\.|$)')


def parse_table_id(text: str) -> TableId:
    """Parses a table's ID with or without quotes. Raises ValueError."""
    parts, at = [], 0
    while match := _ID_PART.match(text, at):
        double, back, single, plain, separator = match.groups()
        if plain is not None:
            parts.append(plain)
        else:
            quote, name = next(("\"`'"[i], part) for i, part in enumerate((double, back, single)) if part is not None)
            parts.append(name.replace(quote * 2, quote))
        at = match.end()
        if not separator:
            break
    if at != len(text) or len(parts) != 2:
        raise ValueError(f"{text!r} is no ID of a table")
    return TableId(parts[0], parts[1])


def _change_document(change: StoredChange, *, comments: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"type": change.type, "id": format_table_id(change.id)}
    if change.previous_id is not None:
        document["previousId"] = format_table_id(change.previous_id)
    if change.table is not None:
        document["table"] = _table_document(change.table, comments=comments)
        document["comment"] = change.table.comment if comments else None
    return document


def _table_document(table: MySqlTable, *, comments: bool) -> dict[str, Any]:
    return {
        "defaultCharsetName": table.charset,
        "primaryKeyColumnNames": list(table.key),
        "columns": [column_document(column, comments=comments) for column in table.columns],
        "attributes": _attributes(table),
    }


def column_document(column: Column, *, comments: bool) -> dict[str, Any]:
    """Returns a column's members, in Debezium's order."""
    document: dict[str, Any] = {
        "name": column.name,
        "jdbcType": column.jdbc_type,
        "typeName": column.type_name,
        "typeExpression": column.type_expression,
        "charsetName": column.charset,
    }
    if column.length is not None:
        document["length"] = column.length
    if column.scale is not None:
        document["scale"] = column.scale
    document |= {
        "position": column.position,
        "optional": column.optional,
        "autoIncremented": column.is_auto_incremented,
        "generated": column.is_generated,
        "comment": column.comment if comments else None,
        "hasDefaultValue": column.has_default,
    }
    if column.has_default and column.default is not None:
        document["defaultValueExpression"] = _escaped(column.default)
    document["enumValues"] = [f"'{_escaped(value)}'" for value in column.enum_values]
    return document


def _attributes(table: MySqlTable) -> list[dict[str, str]]:
    attributes = []
    if any(index.is_unique and index.name != PRIMARY for index in table.indexes):
        value = [[index.name, index.is_unique, index.columns, index.prefixes] for index in table.indexes]
        attributes.append({"name": _INDEXES, "value": orjson.dumps(value).decode()})
    if table.has_system_versioning:
        attributes.append({"name": _SYSTEM_VERSIONING, "value": "true"})
    return attributes


_ESCAPED = {"\\": "\\\\", "'": "''", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1a": "\\Z", "\b": "\\b"}
_UNESCAPED = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "b": "\b"}
_TO_ESCAPE = re.compile(r"['\\\0\n\r\t\x1a\x08]")
_ESCAPE = re.compile(r"''|\\(.)", re.DOTALL)


def _escaped(text: str) -> str:
    """Returns a text as it is in an SQL string: Debezium stores what it finds between the quotes."""
    return _TO_ESCAPE.sub(lambda match: _ESCAPED[match[0]], text)


def _unescaped(text: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match[1] is None:
            return "'"
        return match[0] if match[1] in "%_" else _UNESCAPED.get(match[1], match[1])

    return _ESCAPE.sub(replacement, text)


def _unquoted(text: str) -> str:
    """Returns the value of an ENUM that a record has with its quotes, or, in old records, without."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return _unescaped(text[1:-1])
    return text


def _change(document: Mapping[str, Any]) -> StoredChange:
    id = parse_table_id(document["id"])
    previous = document.get("previousId")
    table = None
    if document["type"] in ("CREATE", "ALTER"):
        comment = document.get("comment") or document["table"].get("comment")
        table = _table(id, document["table"], comment)
    elif document["type"] != "DROP":
        raise ValueError(f"change {document['type']!r} of {id}; expected CREATE, ALTER, or DROP")
    return StoredChange(document["type"], id, table, None if previous is None else parse_table_id(previous))


def _table(id: TableId, document: Mapping[str, Any], comment: str | None) -> MySqlTable:
    columns = tuple(_column(column) for column in document["columns"])
    attributes = {attribute["name"]: attribute.get("value") for attribute in document.get("attributes") or ()}
    key = tuple(document["primaryKeyColumnNames"])
    return MySqlTable(
        id.database,
        id.name,
        columns,
        key,
        document.get("defaultCharsetName"),
        comment,
        _indexes(attributes.get(_INDEXES)),
        attributes.get(_SYSTEM_VERSIONING) == "true",
    )


def _indexes(text: str | None) -> tuple[Index, ...]:
    if text is None:
        return ()
    return tuple(
        Index(name, is_unique, *(tuple(columns) for columns in parts))  # all columns, and those with prefixes
        for name, is_unique, *parts in orjson.loads(text)
    )


def _column(document: Mapping[str, Any]) -> Column:
    default = document.get("defaultValueExpression")
    values: Sequence[str] = document.get("enumValues") or ()
    type_name = document["typeName"]
    return Column(
        document["name"],
        document["position"],
        type_name,
        document.get("typeExpression") or type_name,
        document["jdbcType"],
        document.get("length"),
        document.get("scale"),
        document.get("charsetName"),
        document["optional"],
        document["autoIncremented"],
        document["generated"],
        bool(document.get("hasDefaultValue")) or default is not None,
        None if default is None else _unescaped(default),
        tuple(_unquoted(value) for value in values),
        document.get("comment"),
    )
