"""Values without a schema: types taken from the JSON itself, conservatively, and then fixed.

int64, double, boolean and string as JSON has them (a text stays a text, whatever it looks like), arrays and objects of them.
A field whose values were all null so far has no type yet, and no column. Once there is a type, or a table column, a value
that is not exactly of it is an error: nothing is widened behind anybody's back.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.data.logical import FarInstant
from connect.errors import DataError
from connectors.spark.decode.arrow_types import Column, column_of_table_type, struct_column
from connectors.spark.decode.json import NotBatchable, parse

_EXACT = 1 << 53
_VOTERS = 15
"""Values that say what a topic holds: one alone may be the one that does not belong there."""


class Shape:
    """What is known of one topic's values."""

    def __init__(self) -> None:
        self.envelope: bool | None = None
        self._row: pa.DataType = pa.struct([])
        self._column: Column | None = None

    @property
    def row(self) -> pa.DataType:
        """The types of the row's fields so far."""
        return self._row

    def state(self) -> tuple[bool | None, pa.DataType]:
        """What is known now, for :meth:`restore`."""
        return self.envelope, self._row

    def restore(self, state: tuple[bool | None, pa.DataType]) -> None:
        """Forgets what was learnt since: from records that were refused nothing is learnt."""
        if state != (self.envelope, self._row):
            self.envelope, self._row = state
            self._column = None

    def pin(self, columns: dict[str, pa.DataType]) -> None:
        """Takes over the types of a table's columns: they hold."""
        known = {f.name: f.type for f in self._row} | columns
        self._row = pa.struct([pa.field(n, t) for n, t in known.items()])
        self._column = None

    def column(self) -> Column:
        """The column of the row as a whole."""
        if self._column is None:
            self._column = struct_column([(f.name, column_of_table_type(f.type)) for f in self._row])
        if not self._row.num_fields:
            raise DataError("no field of these records had a value yet, so their table would have no columns")
        return self._column

    def parse(self, lines: Sequence[bytes], source: pa.DataType | None) -> pa.Table:
        """The lines under what is known; learns the types of new fields first. Raises Arrow errors and DataError."""
        table = parse(lines, self._types(source), infer=True)
        learnt = self._learn(table)
        if learnt:
            # Once more, under the types that hold from now on: a text that looks like a date was read as one.
            table = parse(lines, self._types(source), infer=True)
        self._refuse_rounded(table, lines)
        return table

    def _types(self, source: pa.DataType | None) -> pa.Schema | None:
        fields: list[pa.Field] = []
        row = None
        if self._row.num_fields:
            json_type = struct_column([(f.name, column_of_table_type(f.type)) for f in self._row]).json
            if json_type is None:
                raise NotBatchable
            row = json_type
        if not self.envelope:
            return pa.schema(list(row)) if row is not None else None
        if row is not None:
            fields += [pa.field("before", row), pa.field("after", row)]
        return pa.schema([*fields, pa.field("op", pa.string()), pa.field("source", source)])

    def _images(self, table: pa.Table) -> list[pa.DataType]:
        if not self.envelope:
            return [pa.struct(list(table.schema))]
        found = [table.schema.field(n).type for n in ("after", "before") if n in table.column_names]
        return [t for t in found if pa.types.is_struct(t)]

    def _learn(self, table: pa.Table) -> bool:
        row = self._row
        for seen in self._images(table):
            row = _merge(row, seen, "")
        if row == self._row and self._row.num_fields:
            return False
        changed = bool(row != self._row)
        self._row = row
        self._column = None
        return changed

    def _refuse_rounded(self, table: pa.Table, lines: Sequence[bytes]) -> None:
        """Raises DataError when an integer became a double that is not it (promise 8)."""
        images = [table[n].combine_chunks() for n in ("after", "before")] if self.envelope else None
        for member in self._row:
            if not pa.types.is_float64(member.type):
                continue
            columns = [pc.struct_field(i, member.name) for i in images] if images is not None else [table[member.name]]
            if not any(pc.any(pc.greater_equal(pc.abs(c), float(_EXACT))).as_py() for c in columns):
                continue
            for line in lines:
                document = json.loads(line)
                rows = [document.get("after"), document.get("before")] if self.envelope else [document]
                for value in (r.get(member.name) for r in rows if r):
                    if isinstance(value, int) and int(float(value)) != value:
                        raise DataError(f"field {member.name}: the integer {value} is not exact in a double column")

    def misfit(self, line: bytes) -> str | None:
        """The name of the first field of this line that is not of its type."""
        document = json.loads(line)
        rows = [document.get("after"), document.get("before")] if self.envelope else [document]
        for row in rows:
            for name, value in (row or {}).items():
                index = self._row.get_field_index(name)
                if index < 0:
                    continue
                column = column_of_table_type(self._row.field(index).type)
                try:
                    if column.json is not None:
                        read = parse([dump({name: value})], pa.schema([(name, column.json)]), infer=False)
                        column.from_json(read[name].combine_chunks())
                except (pa.ArrowException, ValueError, DataError, NotBatchable):
                    return str(name)
        return None


def _merge(known: pa.DataType, seen: pa.DataType, path: str) -> pa.DataType:
    """The struct with the fields it had, and those of ``seen`` that have a type."""
    fields = {f.name: f.type for f in known}
    for member in seen:
        name = f"{path}{member.name}"
        if member.name not in fields:
            type_ = _settled(member.type, name)
            if type_ is not None:
                fields[member.name] = type_
        elif pa.types.is_struct(fields[member.name]) and pa.types.is_struct(member.type):
            fields[member.name] = _merge(fields[member.name], member.type, f"{name}.")
    return pa.struct([pa.field(n, t) for n, t in fields.items()])


def _settled(type_: pa.DataType, path: str) -> pa.DataType | None:
    """The type a new field gets for what the reader took it to be; None when nothing is known of it."""
    if pa.types.is_null(type_):
        return None
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_) or pa.types.is_time(type_):
        return pa.string()
    if pa.types.is_list(type_):
        # An empty list tells nothing of its elements; text is the one type that most can be brought to by hand later.
        return pa.list_(_settled(type_.value_type, f"{path}[]") or pa.string())
    if pa.types.is_struct(type_):
        fields = [(f.name, _settled(f.type, f"{path}.{f.name}")) for f in type_]
        known = [pa.field(n, t) for n, t in fields if t is not None]
        if not known:
            raise DataError(f"field {path}: an object without any value gives no column; give the records a schema")
        return pa.struct(known)
    return type_


def is_envelope(document: Any) -> bool:
    """True when a JSON value is a change event."""
    if not isinstance(document, dict):
        return False
    names = set(map(str, document))
    return {"op", "source"}.issubset(names) and not names.isdisjoint({"before", "after"})


def are_envelopes(lines: Sequence[bytes]) -> bool:
    """Whether values are change events, as most of the first ones are or are not. Raises DataError when none can be read."""
    votes = 0
    readable = False
    for line in lines[:_VOTERS]:
        try:
            votes += 1 if is_envelope(json.loads(line)) else -1
            readable = True
        except (ValueError, RecursionError):
            continue
    if not readable:
        raise DataError("a value is not JSON")
    # Nothing looks like a change event by accident.
    return votes >= 0


def dump(value: Any) -> bytes:
    """Compact JSON. Instants, dates and decimals become text, bytes base64; raises TypeError for what has no such form."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_text).encode()


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, FarInstant):
        raise TypeError("an instant outside of the years 1 to 9999, of which nothing tells whether it is a date")
    raise TypeError(f"{type(value).__name__}")


def misfit_of(value: Any) -> str | None:
    """The name of the first member that :func:`dump` refuses."""
    for name, member in value.items() if isinstance(value, dict) else ():
        try:
            dump({name: member})
        except (TypeError, ValueError):
            return str(name)
    return None
