"""What a table refuses in a single row: then the record is errant, and not the table wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError, SchemaError
from connectors.spark.config_keys import COLUMN_MAPPING
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.change_batch import ChangeBatch, find_deletes
from connectors.spark.plan.evolution import Columns

Json = Mapping[str, Any]
_BARRED = frozenset(" ,;{}()\n\t=")
_DOT = "\0"


@dataclass(frozen=True, slots=True)
class RowLimits:
    """The limits of one table."""

    partition_columns: tuple[str, ...] = ()
    required: tuple[Json, ...] = ()
    """The columns that need a value, or have fields that do, as Iceberg's schema describes them."""
    plain_names: bool = False
    """Whether names of columns and fields have none of the characters in ``_BARRED``: those of a Delta table without column
    mapping."""

    def check_names(self, columns: Columns) -> None:
        """Raises SchemaError for a name that the table refuses."""
        refused = self._find_refused(columns)
        if refused is not None:
            raise SchemaError(
                f"column {refused.replace(_DOT, '.')}: Delta allows no blanks and none of ,;{{}}()= in names; rename it with a "
                f"transformation, or create the table with the property {COLUMN_MAPPING}=name"
            )

    def accepts(self, name: str, type_: pa.DataType) -> bool:
        """Whether the table may have such a column."""
        return self._find_refused({name: type_}) is None

    def _find_refused(self, columns: Columns) -> str | None:
        """The path of the first column, or field in one, whose name the table refuses."""
        paths = _named_paths(columns.items(), "") if self.plain_names else ()
        return next((path for path in paths if not _BARRED.isdisjoint(path.rpartition(_DOT)[2])), None)

    def check(self, changes: ChangeBatch, *, deletes_rows: bool, filled: Collection[str]) -> None:
        """Raises DataError that names the first record that the table refuses.

        ``deletes_rows``: the rows of deletes are not written, and may have made-up values in other columns than the key.
        ``filled`` are columns that the record need not have, because the table has their values or the sink makes them.
        """
        if not self.partition_columns and not self.required:
            return
        written = pc.invert(find_deletes(changes.meta)) if deletes_rows else pa.repeat(True, changes.num_rows)
        for name in self.partition_columns:
            if name in changes.image.column_names and pa.types.is_string(changes.image[name].type):
                # Promise 8: it would become null.
                empty = pc.fill_null(pc.equal(changes.image[name], ""), False)
                at = pc.index(pc.and_(empty, written), True).as_py()
                if at >= 0:
                    what = "is empty text, which a partition cannot tell from null"
                    raise DataError(f"{changes.describe_record(at)}: partition column {name} {what}")
        image = changes.image.filter(written)
        found = find_missing(image, [column for column in self.required if column["name"] not in filled])
        if found is not None:
            path, row = found
            at = pc.indices_nonzero(written)[row].as_py()
            raise DataError(f"{changes.describe_record(at)}: column {path} is required in the table, and the record has no value")


NO_LIMITS = RowLimits()


def _named_paths(fields: Iterable[tuple[str, pa.DataType]], parent: str) -> Iterator[str]:
    """The paths of columns, and of the fields in them."""
    for name, type_ in fields:
        path = parent + name
        yield path
        while pa.types.is_list(type_) or pa.types.is_map(type_):
            type_ = type_.value_type if pa.types.is_list(type_) else type_.item_type
        if pa.types.is_struct(type_):
            yield from _named_paths(((member.name, member.type) for member in type_), path + _DOT)


def with_requirements(fields: Collection[Json]) -> tuple[Json, ...]:
    """Those that are required, or have a field inside that is."""
    return tuple(field for field in fields if _requires_any(field))


def find_missing(rows: pa.Table, required: Collection[Json]) -> tuple[str, int] | None:
    """The path of the first required field that has no value where what is around it has one, and the row; None if there is
    none."""
    for field in required if rows.num_rows else ():
        name = field["name"]
        if name in rows.column_names:
            found = _missing_value(as_array(rows[name]), field, name)
        else:
            found = (name, 0) if field.get("required") else None
        if found is not None:
            return found
    return None


def _requires_any(field: Json) -> bool:
    return bool(field.get("required")) or any(map(_requires_any, _inner_fields(field["type"])))


def _inner_fields(type_: Any) -> list[Json]:
    """The fields of a struct; the element of a list, and the value of a map, as fields."""
    if not isinstance(type_, dict):
        return []
    if type_["type"] == "struct":
        return list(type_["fields"])
    part = "element" if type_["type"] == "list" else "value"
    return [{"name": part, "required": type_[f"{part}-required"], "type": type_[part]}]


def _missing_value(column: pa.Array, field: Json, path: str) -> tuple[str, int] | None:
    if field.get("required") and column.null_count:
        return path, int(pc.index(column.is_null(), True).as_py())
    for inner in _inner_fields(field["type"]):
        if _requires_any(inner):
            values, rows = _inner_values(column, inner["name"])
            found = _missing_value(values, inner, f"{path}.{inner['name']}")
            if found is not None:
                return found[0], int(rows[found[1]].as_py())
    return None


def _inner_values(column: pa.Array, name: str) -> tuple[pa.Array, pa.Array]:
    """The values of a field inside a column, and the rows that they are in."""
    if pa.types.is_struct(column.type):
        rows = pc.indices_nonzero(column.is_valid())
        has_field = column.type.get_field_index(name) >= 0
        return pc.struct_field(column.take(rows), name) if has_field else pa.nulls(len(rows)), rows
    if pa.types.is_map(column.type):
        pairs = pa.struct([column.type.key_field, column.type.item_field])
        column = column.cast(pa.list_(pairs))
        return pc.struct_field(pc.list_flatten(column), 1), pc.list_parent_indices(column)
    return pc.list_flatten(column), pc.list_parent_indices(column)
