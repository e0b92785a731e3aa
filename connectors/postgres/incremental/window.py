"""The rows of a chunk until they are emitted: changes that the stream sends in the meantime replace them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from connect.data.struct import Struct
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming import pgoutput

Key = tuple[Any, ...]


class Window:
    """Rows of one table by the values of ``key_columns``, in the order of the chunk."""

    def __init__(self, rows: TableRows, key_columns: Sequence[str]) -> None:
        self.rows = rows
        self._key_columns = tuple(key_columns)
        indexes = {column.name: i for i, column in enumerate(rows.columns)}
        self._cells = [(indexes[name], rows.columns[indexes[name]].type.decode) for name in key_columns]
        self._lines: dict[Key, list[str]] = {}
        self.is_stale = False
        """Whether there was a change without the key columns, so that nobody knows which rows it replaces."""

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def lines(self) -> list[str]:
        """The lines that are left."""
        return [line for lines in self._lines.values() for line in lines]

    def add(self, line: str, cells: Sequence[str | None]) -> None:
        """Adds a line of COPY; ``cells`` are its columns."""
        key = tuple(None if (text := cells[i]) is None else comparable(decode(text)) for i, decode in self._cells)
        self._lines.setdefault(key, []).append(line)

    def clear(self) -> None:
        self._lines.clear()

    def on_change(
        self, message: pgoutput.Insert | pgoutput.Update | pgoutput.Delete, rows: TableRows, *, keeps_same: bool
    ) -> None:
        """Removes the rows of a change. ``rows`` is the version of the table in the stream. With ``keeps_same``, an update that
        changes no captured column is not emitted, so its row stays."""
        if not self._lines:
            return
        old = None if isinstance(message, pgoutput.Insert) else message.old
        new = None if isinstance(message, pgoutput.Delete) else message.new
        if keeps_same and isinstance(message, pgoutput.Update) and _is_unchanged(rows, message):
            return
        for sent in (old, new):
            if sent is None:
                continue
            if (key := self._key(rows, sent, old)) is None:
                self.is_stale = True
            else:
                self._lines.pop(key, None)

    def _key(self, rows: TableRows, sent: pgoutput.Tuple, old: pgoutput.Tuple | None) -> Key | None:
        by_name = {column.name: column for column in rows.columns}
        key: list[Any] = []
        for name in self._key_columns:
            column = by_name.get(name)
            if column is None or column.source_index >= len(sent):
                return None
            value = _sent(sent, old, column.source_index)
            key.append(value if not isinstance(value, bytes) else comparable(column.type.decode(value.decode())))
        return tuple(key)


def _sent(sent: pgoutput.Tuple, old: pgoutput.Tuple | None, index: int) -> pgoutput.Value:
    value = sent[index]
    return old[index] if value is pgoutput.UNCHANGED and old is not None else value


def _is_unchanged(rows: TableRows, update: pgoutput.Update) -> bool:
    old = update.old
    return old is not None and not update.old_is_key and _values(rows, update.new, old) == _values(rows, old, old)


def _values(rows: TableRows, sent: pgoutput.Tuple, old: pgoutput.Tuple) -> list[Any]:
    values = [(column, _sent(sent, old, column.source_index)) for column in rows.columns]
    return [comparable(column.type.decode(value.decode())) if isinstance(value, bytes) else value for column, value in values]


def comparable(value: Any) -> Any:
    """A value that can be a key of a dict and equals itself, NaN too."""
    match value:
        case Struct():
            return tuple(_items(value.values))
        case Mapping():
            return frozenset((comparable(k), comparable(v)) for k, v in value.items())
        case list() | tuple():
            return tuple(_items(value))
        case float() | Decimal() if value != value:
            return "NaN"
    return value


def _items(values: Sequence[Any]) -> Iterator[Any]:
    return map(comparable, values)
