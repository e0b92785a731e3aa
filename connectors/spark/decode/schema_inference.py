"""Infers types of JSON values without a schema, conservatively; once inferred, a type is fixed.

Types are int64, double, boolean, and string as in JSON (a string stays a string, whatever it looks like), and arrays and objects
of them. A field whose values were all null so far has no type and no column. Once a field has a type, or a table column, a value
of another type is an error: types are never widened silently.
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
from connectors.spark.decode.arrow_types import ColumnConversion, column_for_table_type, struct_column
from connectors.spark.decode.json import NotBatchable, parse

_EXACT = 1 << 53
_SAMPLE_SIZE = 15
"""Number of values that decide what a topic contains; a single one may be the bad one."""


class InferredSchema:
    """The inferred schema of one topic's values."""

    def __init__(self) -> None:
        self.envelope: bool | None = None
        self._row: pa.DataType = pa.struct([])
        self._column: ColumnConversion | None = None

    @property
    def row(self) -> pa.DataType:
        """The types of the row's fields so far."""
        return self._row

    def state(self) -> tuple[bool | None, pa.DataType]:
        """The current state, for :meth:`restore`."""
        return self.envelope, self._row

    def restore(self, state: tuple[bool | None, pa.DataType]) -> None:
        """Restores a state, so that bad records do not affect the inferred types."""
        if state != (self.envelope, self._row):
            self.envelope, self._row = state
            self._column = None

    def set_types(self, columns: dict[str, pa.DataType]) -> None:
        """Fixes the types of a table's columns."""
        known = {f.name: f.type for f in self._row} | columns
        self._row = pa.struct([pa.field(n, t) for n, t in known.items()])
        self._column = None

    def column(self) -> ColumnConversion:
        """The column of the row as a whole."""
        if self._column is None:
            self._column = struct_column([(f.name, column_for_table_type(f.type)) for f in self._row])
        if not self._row.num_fields:
            raise DataError("no field of these records has had a value yet, so the table would have no columns")
        return self._column

    def parse(self, lines: Sequence[bytes], source: pa.DataType | None) -> pa.Table:
        """Parses lines with the inferred types; infers the types of new fields first. Raises Arrow errors and DataError."""
        table = parse(lines, self._types(source), infer=True)
        changed = self._infer_types(table)
        if changed:
            # Again, with the types that are now fixed: the first pass may have read a string as a date.
            table = parse(lines, self._types(source), infer=True)
        self._check_not_rounded(table, lines)
        return table

    def _types(self, source: pa.DataType | None) -> pa.Schema | None:
        fields: list[pa.Field] = []
        row = None
        if self._row.num_fields:
            json_type = struct_column([(f.name, column_for_table_type(f.type)) for f in self._row]).json
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

    def _infer_types(self, table: pa.Table) -> bool:
        row = self._row
        for seen in self._images(table):
            row = _merge(row, seen, "")
        if row == self._row and self._row.num_fields:
            return False
        changed = bool(row != self._row)
        self._row = row
        self._column = None
        return changed

    def _check_not_rounded(self, table: pa.Table, lines: Sequence[bytes]) -> None:
        """Raises DataError when an integer was rounded to a double (promise 8)."""
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
                        raise DataError(f"field {member.name}: a double column cannot hold the integer {value} exactly")

    def find_misfit(self, line: bytes) -> str | None:
        """The name of the first field of this line whose value does not have the field's type."""
        document = json.loads(line)
        rows = [document.get("after"), document.get("before")] if self.envelope else [document]
        for row in rows:
            for name, value in (row or {}).items():
                index = self._row.get_field_index(name)
                if index < 0:
                    continue
                column = column_for_table_type(self._row.field(index).type)
                try:
                    if column.json is not None:
                        read = parse([dump({name: value})], pa.schema([(name, column.json)]), infer=False)
                        column.from_json(read[name].combine_chunks())
                except (pa.ArrowException, ValueError, DataError, NotBatchable):
                    return str(name)
        return None


def _merge(known: pa.DataType, seen: pa.DataType, path: str) -> pa.DataType:
    """The struct with its fields plus those fields of ``seen`` that have a type."""
    fields = {f.name: f.type for f in known}
    for member in seen:
        name = f"{path}{member.name}"
        if member.name not in fields:
            type_ = _inferred_type(member.type, name)
            if type_ is not None:
                fields[member.name] = type_
        elif pa.types.is_struct(fields[member.name]) and pa.types.is_struct(member.type):
            fields[member.name] = _merge(fields[member.name], member.type, f"{name}.")
    return pa.struct([pa.field(n, t) for n, t in fields.items()])


def _inferred_type(type_: pa.DataType, path: str) -> pa.DataType | None:
    """The type of a new field for the type that Arrow's reader inferred; None when it is unknown."""
    if pa.types.is_null(type_):
        return None
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_) or pa.types.is_time(type_):
        return pa.string()
    if pa.types.is_list(type_):
        # An empty list does not reveal its element type; most values can be converted to text later.
        return pa.list_(_inferred_type(type_.value_type, f"{path}[]") or pa.string())
    if pa.types.is_struct(type_):
        fields = [(f.name, _inferred_type(f.type, f"{path}.{f.name}")) for f in type_]
        known = [pa.field(n, t) for n, t in fields if t is not None]
        if not known:
            raise DataError(f"field {path}: the type of an object without values is unknown; use records with a schema")
        return pa.struct(known)
    return type_


def is_envelope(document: Any) -> bool:
    """Whether a JSON value is a change event."""
    if not isinstance(document, dict):
        return False
    names = set(map(str, document))
    return {"op", "source"}.issubset(names) and not names.isdisjoint({"before", "after"})


def are_envelopes(lines: Sequence[bytes]) -> bool:
    """Whether most of the first values are change events. Raises DataError when none can be read."""
    votes = 0
    readable = False
    for line in lines[:_SAMPLE_SIZE]:
        try:
            votes += 1 if is_envelope(json.loads(line)) else -1
            readable = True
        except (ValueError, RecursionError):
            continue
    if not readable:
        raise DataError("a value is not JSON")
    # A tie counts as change events: nothing looks like one by accident.
    return votes >= 0


def dump(value: Any) -> bytes:
    """Compact JSON. Instants, dates, and decimals become strings, bytes base64; raises TypeError for other values."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_text).encode()


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, FarInstant):
        raise TypeError("an instant outside the years 1 to 9999, which may be a date or a timestamp")
    raise TypeError(f"{type(value).__name__}")


def find_unserializable_member(value: Any) -> str | None:
    """The name of the first member that :func:`dump` rejects."""
    for name, member in value.items() if isinstance(value, dict) else ():
        try:
            dump({name: member})
        except (TypeError, ValueError):
            return str(name)
    return None
