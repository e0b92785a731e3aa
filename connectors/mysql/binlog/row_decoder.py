"""Decoders of rows, generated for a table and the columns in a row image.

Code for one pattern of nulls reads rows straight through: a run of columns of fixed size takes one call of ``struct``, and rows
cost no call as long as the pattern stays the same. Patterns get code when they occur, up to :data:`_MOST_PATTERNS`; rows with
further ones use code that tests each null bit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from connect.errors import DataError
from connectors.mysql.binlog.row_code import ColumnReader, ImageCode, RowCode, compile_rows
from connectors.mysql.binlog.rows_event import RowsEvent, RowsKind
from connectors.mysql.binlog.table_map import TableMap

_MOST_PATTERNS: Final = 32
_GENERIC: Final = -1
_ERRORS = (struct.error, IndexError, ValueError, ArithmeticError, KeyError, TypeError)


_Decode = Callable[[bytes, int, tuple[Any, ...]], list[Any]]
"""Decodes the rows in some bytes, from a position on; the last argument is the tail of flat rows."""


class _AbsentColumn:
    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _AbsentColumn()
"""The value of a column that a row image does not have (binlog_row_image=MINIMAL or NOBLOB)."""


class RowDecoder:
    """Decodes the rows events of one table version. Not thread-safe.

    A row is a tuple of the columns that have a reader. An update is a pair of rows.
    """

    def __init__(self, table: TableMap, readers: Sequence[ColumnReader | None] | None = None) -> None:
        """Creates a decoder; ``readers`` has one reader per column of the table, None for columns that are not wanted.

        Raises DataError if the table is described wrongly, or not to be read.
        """
        self.table = table
        chosen = [ColumnReader()] * table.column_count if readers is None else list(readers)
        if len(chosen) != table.column_count:
            raise DataError(f"table {table} has {table.column_count} columns in the binary log, and {len(chosen)} are expected")
        try:
            self._code = RowCode(table, chosen, ABSENT)
        except _ERRORS as e:
            raise DataError(f"TABLE_MAP of {table} cannot be read: {e}") from e
        self._decoders: dict[tuple[bytes, bytes, bool, int | None], _Decode] = {}

    def rows(self, event: RowsEvent) -> list[Any]:
        """Returns the rows of an event: tuples, or pairs of tuples (before, after) for updates.

        Raises DataError, with table and position, if they are damaged.
        """
        return self._rows(event, None)

    def flat_rows(self, event: RowsEvent, tail: tuple[Any, ...]) -> list[Any]:
        """Returns a tuple for each row: its values, before and after an update, its number in the event, from 0, and ``tail``.

        Raises DataError as :meth:`rows` does.
        """
        return self._rows(event, tail)

    def _rows(self, event: RowsEvent, tail: tuple[Any, ...] | None) -> list[Any]:
        key = (event.present, event.present_after, event.is_partial, None if tail is None else len(tail))
        decode = self._decoders.get(key)
        if decode is None:
            decode = self._decoders[key] = self._decoder(event, key[-1])
        try:
            return decode(event.data, event.at, tail or ())
        except (*_ERRORS, DataError) as e:
            name = f"{event.header.name} of {self.table}"
            where = f"at position {event.header.position}" if event.header.next_position else "without a position"
            # A reader's own errors name the column.
            detail = e.message if isinstance(e, DataError) else self._code.explain(e)
            raise DataError(f"{name} {where} cannot be read: {detail}") from e

    def _decoder(self, event: RowsEvent, tail: int | None) -> _Decode:
        before = self._code.image(event.present)
        if event.kind is not RowsKind.UPDATE:
            return _single_decoder(self._code, before, tail)
        return _pair_decoder(self._code, before, self._code.image(event.present_after), tail, partial=event.is_partial)


def _single_decoder(code: RowCode, image: ImageCode, tail: int | None) -> _Decode:
    """Decodes events with one image per row."""
    runs: dict[int, Any] = {}
    width, mask = image.null_bytes, image.null_mask

    def compiled(pattern: int) -> Any:
        if len(runs) < _MOST_PATTERNS:
            runs[pattern] = run = compile_rows(code, image, pattern, tail=tail)
            return run
        if _GENERIC not in runs:
            runs[_GENERIC] = compile_rows(code, image, None, tail=tail)
        return runs[_GENERIC]

    def decode(data: bytes, at: int, more: tuple[Any, ...]) -> list[Any]:
        end = len(data)
        rows: list[Any] = []
        if not width:
            empty = image.empty_row if tail is None else (*image.empty_row, 0, *more)
            return [empty] if at == end else _refuse_rest(data, at)
        while at < end:
            pattern = int.from_bytes(data[at : at + width], "little") & mask
            run = runs.get(pattern) or compiled(pattern)
            at = run(data, at, end, rows, more)
        return rows

    return decode


def _refuse_rest(data: bytes, at: int) -> list[Any]:
    raise ValueError(f"{len(data) - at} bytes of rows that have no columns")


def _pair_decoder(code: RowCode, before: ImageCode, after: ImageCode, tail: int | None, *, partial: bool) -> _Decode:
    """Decodes updates. The nulls of the image after are known only behind the image before: it is guessed from the last row."""
    runs: dict[tuple[int, int], Any] = {}
    guesses: dict[int, int] = {}
    width, mask = before.null_bytes, before.null_mask
    generic = None

    def compiled(pattern: int, guess: int) -> Any:
        nonlocal generic
        if len(runs) < _MOST_PATTERNS and not partial:
            runs[pattern, guess] = run = compile_rows(code, before, pattern, after, guess, tail=tail)
            return run
        if generic is None:
            generic = compile_rows(code, before, None, after, None, partial=partial, tail=tail)
        return generic

    def decode(data: bytes, at: int, more: tuple[Any, ...]) -> list[Any]:
        end = len(data)
        rows: list[Any] = []
        if not width and not after.null_bytes and not partial:
            pair = (before.empty_row, after.empty_row)
            empty = pair if tail is None else (*before.empty_row, *after.empty_row, 0, *more)
            return [empty] if at == end else _refuse_rest(data, at)
        while at < end:
            pattern = int.from_bytes(data[at : at + width], "little") & mask
            guess = guesses.get(pattern, pattern & after.null_mask)
            run = runs.get((pattern, guess)) or compiled(pattern, guess)
            at, found = run(data, at, end, rows, more)
            if found >= 0:
                guesses[pattern] = found
        return rows

    return decode
