"""What a table's columns mean for the fields of records without a schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connectors.spark.decode.variant import is_variant


@dataclass(frozen=True, slots=True)
class TableFields:
    """The columns of a table, as fields of records."""

    columns: Mapping[str, pa.DataType]
    only: frozenset[str] | None = None
    """The names, in lower case, of all fields that matter, if not all do. Others have no types, nor have those within a column
    that it lacks."""
    ignores_case: bool = False
    """Whether fields have the types of columns whose names differ only in case."""

    def has_place(self, name: str) -> bool:
        """Whether a field matters."""
        return self.only is None or name.lower() in self.only

    def typed(self, row: pa.DataType) -> pa.DataType:
        """The type of rows with the types of the columns whose names differ only in case, if that does not matter."""
        return _typed_like(row, struct_of_types(self.columns)) if self.ignores_case else row

    def cut(self, image: dict[str, Any], whole: Collection[str]) -> dict[str, Any]:
        """The parsed fields of a row that matter, without what their columns have no place for, except for those in ``whole``."""
        columns = self._cut_columns(whole)
        return {n: _with_place(v, columns[n]) if n in columns else v for n, v in image.items() if self.has_place(n)}

    def cut_type(self, row: pa.DataType, whole: Collection[str]) -> pa.DataType:
        """The type of rows as :meth:`cut` leaves them."""
        if self.only is None:
            return row
        columns = self._cut_columns(whole)
        kept = {f.name: f.type for f in row if self.has_place(f.name)}
        return struct_of_types({n: _type_with_place(of, columns[n]) if n in columns else of for n, of in kept.items()})

    def _cut_columns(self, whole: Collection[str]) -> dict[str, pa.DataType]:
        return {name: type_ for name, type_ in self.columns.items() if name not in whole}


def struct_of_types(fields: Mapping[str, pa.DataType]) -> pa.DataType:
    """The struct with these fields."""
    return pa.struct([pa.field(name, type_) for name, type_ in fields.items()])


def _typed_like(type_: pa.DataType, known: pa.DataType) -> pa.DataType:
    """The type with the types of ``known``, and its own names, which may differ in case."""
    t = pa.types
    if t.is_struct(type_) and t.is_struct(known) and not is_variant(known):
        types = {f.name.lower(): f.type for f in known}
        fields = {f.name: f.type for f in type_}
        return struct_of_types({n: _typed_like(of, types[n.lower()]) if n.lower() in types else of for n, of in fields.items()})
    if t.is_list(type_) and t.is_list(known):
        return pa.list_(_typed_like(type_.value_type, known.value_type))
    return known


def _with_place(value: Any, type_: pa.DataType) -> Any:
    """The parsed value without the members of objects that the type has no field for."""
    t = pa.types
    if t.is_struct(type_) and not is_variant(type_) and isinstance(value, dict):
        fields = {f.name: f.type for f in type_}
        names = {name.lower() for name in fields}
        kept = {name: member for name, member in value.items() if name.lower() in names}
        return {name: _with_place(member, fields[name]) if name in fields else member for name, member in kept.items()}
    if t.is_list(type_) and isinstance(value, list):
        return [_with_place(item, type_.value_type) for item in value]
    if t.is_map(type_) and isinstance(value, dict):
        return {name: _with_place(member, type_.item_type) for name, member in value.items()}
    return value


def _type_with_place(seen: pa.DataType, type_: pa.DataType) -> pa.DataType:
    """The type of values that :func:`_with_place` returns."""
    t = pa.types
    if t.is_struct(type_) and not is_variant(type_) and t.is_struct(seen):
        fields = {f.name: f.type for f in type_}
        names = {name.lower() for name in fields}
        kept = {f.name: f.type for f in seen if f.name.lower() in names}
        return struct_of_types({n: _type_with_place(of, fields[n]) if n in fields else of for n, of in kept.items()})
    if t.is_list(type_) and t.is_list(seen):
        return pa.list_(_type_with_place(seen.value_type, type_.value_type))
    if t.is_map(type_) and t.is_map(seen):
        return pa.map_(seen.key_type, _type_with_place(seen.item_type, type_.item_type))
    return seen
