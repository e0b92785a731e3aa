"""Infers types of JSON values without a schema, conservatively; once inferred, a type is fixed.

Types are int64, double, boolean, and string as in JSON (a string stays a string, whatever it looks like), and arrays and objects
of them. A field whose values were all null so far has no type and no column. Once a field has a type, or a table column, a value
of another type is an error: types are never widened silently.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connect.data.logical import FarInstant
from connect.errors import DataError
from connectors.spark.decode.arrow_types import ColumnConversion, column_for_table_type
from connectors.spark.decode.json import NotBatchable, parse
from connectors.spark.decode.table_fields import TableFields, struct_of_types
from connectors.spark.decode.variant import VARIANT, is_variant
from connectors.spark.variant_columns import NO_VARIANTS, VariantColumns

_SAMPLE_SIZE = 15
"""Number of values that decide what a topic contains; a single one may be the bad one."""

_IMAGES = "before", "after"

State = tuple[bool | None, int, int, pa.DataType]


@dataclass(slots=True)
class TopicContent:
    """What the values of a topic are that have no schema. It outlives the types that were inferred from them."""

    envelope: bool | None = None
    """Whether they are change events, as most of the first ones say; None before there are any."""
    votes: int = 0
    voters: int = 0


class InferredSchema:
    """The inferred schema of one topic's values."""

    def __init__(
        self,
        variants: VariantColumns = NO_VARIANTS,
        content: TopicContent | None = None,
        *,
        tells_missing: bool = False,
        places_empty: bool = False,
        decisive: Collection[str] = (),
    ) -> None:
        """``content`` is what is known of the topic, and learns more. ``tells_missing``: whether a missing field differs from one
        that is null. ``places_empty``: whether an object without values is one itself, so that it needs a column. ``decisive``
        are fields of rows that say what to do with them, whatever columns their table has."""
        self.tells_missing = tells_missing
        self._places_empty = places_empty
        self.decisive = frozenset(decisive)
        self._content = content or TopicContent()
        self._variants = variants
        self._hints: Mapping[str, pa.DataType] = {}
        self._row: pa.DataType = pa.struct([])
        self._table = TableFields({})
        self._column: ColumnConversion | None = None

    @property
    def envelope(self) -> bool | None:
        """Whether the values are change events; None before there are any."""
        return self._content.envelope

    @property
    def row(self) -> pa.DataType:
        """The types of the row's fields so far."""
        return self._row

    def state(self) -> State:
        """The current state, for :meth:`restore`."""
        content = self._content
        return content.envelope, content.votes, content.voters, self._row

    def restore(self, state: State) -> None:
        """Restores a state, so that bad records do not affect the inferred types."""
        if state != self.state():
            content = self._content
            content.envelope, content.votes, content.voters, self._row = state
            self._column = None

    @property
    def is_undecided(self) -> bool:
        """Whether further values may still decide whether they are change events."""
        return self._content.voters < _SAMPLE_SIZE

    def count_envelopes(self, values: Iterable[Any]) -> None:
        """Counts the first values, parsed, that are change events, and those that are not. Raises DataError without any."""
        content = self._content
        for value in itertools.islice(values, _SAMPLE_SIZE - content.voters):
            content.votes += 1 if is_envelope(value) else -1
            content.voters += 1
        if not content.voters:
            raise DataError("a value is not JSON")
        # A tie counts as change events: nothing looks like one by accident. What was read as such stays so.
        content.envelope = bool(content.envelope) or content.votes >= 0

    def set_hints(self, columns: Mapping[str, pa.DataType]) -> None:
        """Gives fields that have no type yet these types once they have a value."""
        self._hints = columns

    def know_table(self, table: TableFields) -> None:
        """Fixes the types of a table's columns."""
        self._table = table
        known = {f.name: f.type for f in self._row if table.has_place(f.name)} | {**table.columns}
        self._row = table.typed(struct_of_types(known))
        self._column = None

    def read_fields(self, node: dict[str, Any]) -> dict[str, Any]:
        """The parsed value with the fields that matter to the table, of its rows if it is a change event."""
        if self._table.only is None:
            return node
        if not self.envelope:
            return self.with_place(node)
        return {n: self.with_place(v) if n in _IMAGES and isinstance(v, dict) else v for n, v in node.items()}

    def with_place(self, image: dict[str, Any]) -> dict[str, Any]:
        """The parsed fields of a row that matter to the table, without what their columns have no place for."""
        return self._table.cut(image, self.decisive)

    def column(self) -> ColumnConversion:
        """The column of the row as a whole."""
        if self._column is None:
            self._column = column_for_table_type(self._row, self._variants)
        if not self._row.num_fields:
            raise DataError("no field of these records has had a value yet, so the table would have no columns")
        return self._column

    def parse(self, lines: Sequence[bytes], source: pa.DataType | None) -> pa.Table:
        """Parses lines with the inferred types; infers the types of new fields first. Raises Arrow errors and DataError."""
        table = parse(lines, self._types(source), infer=True)
        changed = self._infer_types(table)
        leaves_out = any(self._table.cut_type(seen, self.decisive) != seen for seen in self._images(table))
        if changed or leaves_out:
            # Again, with the types that are now fixed: the first pass may have read a string as a date.
            table = parse(lines, self._types(source), infer=not leaves_out)
        if self._places_empty and not all(_has_place_for(self._row, seen) for seen in self._images(table)):
            raise NotBatchable
        return table

    def _types(self, source: pa.DataType | None) -> pa.Schema | None:
        fields: list[pa.Field] = []
        row = None
        if self._row.num_fields:
            json_type = column_for_table_type(self._row).json
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
            row = self._merged(row, seen)
        if row == self._row and self._row.num_fields:
            return False
        changed = bool(row != self._row)
        self._row = row
        self._column = None
        return changed

    def add_types(self, nodes: Sequence[dict[str, Any]]) -> None:
        """Infers types of new fields from parsed values, as :meth:`parse` does."""
        known = {member.name for member in self._row}
        seen = pa.struct([])
        for node in nodes:
            for image in _images_of(node) if self.envelope else [node]:
                new = {
                    n: v
                    for n, v in image.items()
                    if v is not None and (n not in known or (isinstance(v, dict | list) and n not in self._variants.names))
                }
                if new:
                    seen = _unify(seen, _type_of(new, self._row))
        merged = self._merged(self._row, seen)
        if merged != self._row:
            self._row = merged
            self._column = None

    def _merged(self, row: pa.DataType, seen: pa.DataType) -> pa.DataType:
        """The row with new fields, those of ``variants`` as VARIANT whatever their type."""
        seen = self._table.cut_type(seen, self.decisive)
        names = self._variants.names
        merged = _merge(row, pa.struct([_as_variant(f) if f.name in names else f for f in seen]) if names else seen)
        new = {f.name for f in merged if f.name in self._hints and row.get_field_index(f.name) < 0}
        hinted = pa.struct([pa.field(f.name, self._hints[f.name]) if f.name in new else f for f in merged]) if new else merged
        return self._table.typed(hinted)

    def accepts(self, image: dict[str, Any]) -> bool:
        """Whether rows have columns for these parsed fields; infers the types of new fields if so."""
        state = self.state()
        try:
            self.add_types([{"after": image} if self.envelope else image])
            column = self.column()
            column.finish(pa.array([column.read(image)], column.stored))
            if not self._places_empty or _has_place_for(self._row, _type_of(image, self._row)):
                return True
        except (DataError, pa.ArrowException, ValueError, TypeError, OverflowError):
            pass
        self.restore(state)
        return False


def _has_place_for(known: pa.DataType, seen: pa.DataType) -> bool:
    """Whether the type has a place for each part of values that are read as it."""
    t = pa.types
    if is_variant(known):
        return True
    if t.is_struct(known) and t.is_struct(seen):
        fields = {f.name: f.type for f in known}
        return all(t.is_null(f.type) or (f.name in fields and _has_place_for(fields[f.name], f.type)) for f in seen)
    if t.is_list(known) and t.is_list(seen):
        return _has_place_for(known.value_type, seen.value_type)
    if t.is_map(known) and t.is_map(seen):
        return _has_place_for(known.item_type, seen.item_type)
    return True


def _as_variant(field: pa.Field) -> pa.Field:
    return field if pa.types.is_null(field.type) else pa.field(field.name, VARIANT)


def _images_of(event: Any) -> list[Any]:
    return [image for image in (event.get("after"), event.get("before")) if isinstance(image, dict)]


def _type_of(node: Any, known: pa.DataType | None = None) -> pa.DataType:
    """The type of parsed JSON, as Arrow's reader infers it; that of a map where ``known``, the type of its column, is one."""
    if known is not None and pa.types.is_map(known) and isinstance(node, dict | list):
        item = pa.null()
        for value in node.values() if isinstance(node, dict) else [pair[-1] for pair in node if isinstance(pair, list) and pair]:
            item = _unify(item, _type_of(value, known.item_type))
        return pa.map_(known.key_type, item)
    if isinstance(node, dict):
        fields = {} if known is None or not pa.types.is_struct(known) else {f.name: f.type for f in known}
        return pa.struct([pa.field(name, _type_of(member, fields.get(name))) for name, member in node.items()])
    if isinstance(node, list):
        element = pa.null()
        for item in node:
            inside = known.value_type if known is not None and pa.types.is_list(known) else None
            element = _unify(element, _type_of(item, inside))
        return pa.list_(element)
    if isinstance(node, bool):
        return pa.bool_()
    if isinstance(node, int):
        return pa.int64() if -(1 << 63) <= node < 1 << 63 else pa.float64()
    if isinstance(node, decimal.Decimal | float):
        return pa.int64() if str(node) == "-0" else pa.float64()
    return pa.string() if isinstance(node, str) else pa.null()


def _unify(known: pa.DataType, seen: pa.DataType) -> pa.DataType:
    """The type of two values of one field; the first one's if they do not fit together, and it is known."""
    if pa.types.is_null(known) or (pa.types.is_int64(known) and pa.types.is_float64(seen)):
        return seen
    if pa.types.is_map(known) and pa.types.is_map(seen):
        return pa.map_(known.key_type, _unify(known.item_type, seen.item_type))
    if pa.types.is_list(known) and pa.types.is_list(seen):
        return pa.list_(_unify(known.value_type, seen.value_type))
    if pa.types.is_struct(known) and pa.types.is_struct(seen):
        fields = {member.name: member.type for member in known}
        for member in seen:
            fields[member.name] = _unify(fields.get(member.name, pa.null()), member.type)
        return pa.struct([pa.field(name, type_) for name, type_ in fields.items()])
    return known if pa.types.is_null(seen) or _inferred_type(known) is not None else seen


def _merge(known: pa.DataType, seen: pa.DataType) -> pa.DataType:
    """The struct with its fields plus those fields of ``seen`` that have a type."""
    fields = {f.name: f.type for f in known}
    for member in seen:
        if member.name not in fields:
            type_ = _inferred_type(member.type)
            if type_ is not None:
                fields[member.name] = type_
        else:
            fields[member.name] = _merge_nested(fields[member.name], member.type)
    return pa.struct([pa.field(n, t) for n, t in fields.items()])


def _merge_nested(known: pa.DataType, seen: pa.DataType) -> pa.DataType:
    """The type of a known field with the new fields of its objects."""
    if is_variant(known):
        return known
    if pa.types.is_struct(known) and pa.types.is_struct(seen):
        return _merge(known, seen)
    if pa.types.is_list(known) and pa.types.is_list(seen):
        element = _merge_nested(known.value_type, seen.value_type)
        return known if element == known.value_type else pa.list_(element)
    if pa.types.is_map(known) and pa.types.is_map(seen):
        item = _merge_nested(known.item_type, seen.item_type)
        return known if item == known.item_type else pa.map_(known.key_type, item)
    return known


def _inferred_type(type_: pa.DataType) -> pa.DataType | None:
    """The type of a new field for the type that Arrow's reader inferred; None when it is unknown, as that of an object without
    values is."""
    if pa.types.is_null(type_):
        return None
    if is_variant(type_):
        return type_
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_) or pa.types.is_time(type_):
        return pa.string()
    if pa.types.is_list(type_):
        # An empty list does not reveal its element type; most values can be converted to text later.
        element = pa.string() if pa.types.is_null(type_.value_type) else _inferred_type(type_.value_type)
        return None if element is None else pa.list_(element)
    if pa.types.is_struct(type_):
        fields = [(f.name, _inferred_type(f.type)) for f in type_]
        known = [pa.field(n, t) for n, t in fields if t is not None]
        return pa.struct(known) if known else None
    return type_


def is_envelope(document: Any) -> bool:
    """Whether a JSON value is a change event."""
    if not isinstance(document, dict):
        return False
    names = set(map(str, document))
    return {"op", "source"}.issubset(names) and not names.isdisjoint({"before", "after"})


def readable(lines: Iterable[bytes]) -> Iterator[Any]:
    """The parsed values of those lines that are JSON."""
    for line in lines:
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def dump(value: Any) -> bytes:
    """Compact JSON. Instants, dates, and decimals become strings, bytes base64; raises TypeError for other values.

    Non-finite numbers are written without quotes, as Arrow's reader takes them.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_text).encode()


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
