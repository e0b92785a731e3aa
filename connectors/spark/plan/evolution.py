"""Schema evolution: compares a table's columns with the columns of records, adds columns, and casts values."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError, SchemaError
from connectors.spark.decode.arrow_casts import WIDEST_DECIMAL, as_array
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.variant import VARIANT, is_variant

Columns = dict[str, pa.DataType]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
_WIDTHS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_INTEGER_DIGITS = 20
RESERVED = "__sluice_"
MAX_DEPTH = 40
"""Of structs, lists, and maps in a column: delta-rs reads the schema of a Delta table with up to 41 structs, and Arrow's Parquet
reader 99 levels, two for each list or map."""


def common_type(known: pa.DataType, other: pa.DataType, path: str, *, keeps_first: bool = False) -> pa.DataType:
    """The type that can hold all values of both types, for a column that is not in a table yet. Raises SchemaError if there is
    none; with ``keeps_first``, the first type stays where both do not fit together."""
    if known == other:
        return known
    if known in _WIDTHS and other in _WIDTHS:
        return max(known, other, key=_WIDTHS.index)
    if pa.types.is_floating(known) and pa.types.is_floating(other):
        return pa.float64()
    if pa.types.is_decimal(known) and pa.types.is_decimal(other):
        return pa.decimal128(38, max(known.scale, other.scale))

    def common(one: pa.DataType, two: pa.DataType, name: str) -> pa.DataType:
        return common_type(one, two, f"{path}.{name}", keeps_first=keeps_first)

    if _are_structs(known, other):
        fields = {f.name: f.type for f in known}
        for member in other:
            name = member.name
            fields[name] = common(fields[name], member.type, name) if name in fields else member.type
        return pa.struct([pa.field(n, t) for n, t in fields.items()])
    if pa.types.is_list(known) and pa.types.is_list(other):
        return pa.list_(common(known.value_type, other.value_type, "element"))
    if pa.types.is_map(known) and pa.types.is_map(other):
        return pa.map_(common(known.key_type, other.key_type, "key"), common(known.item_type, other.item_type, "value"))
    if keeps_first:
        return known
    raise SchemaError(
        f"column {path} is both {sql_type(known)} and {sql_type(other)} in the same batch of records; write them to different "
        "tables with table.name.format, or convert one of them with a transformation"
    )


def _are_structs(known: pa.DataType, other: pa.DataType) -> bool:
    """Whether both are structs, whose fields can be compared. A VARIANT is none."""
    return bool(pa.types.is_struct(known) and pa.types.is_struct(other) and not is_variant(known) and not is_variant(other))


def merge_columns(tables: Iterable[Mapping[str, pa.DataType]], table: Collection[str] = ()) -> Columns:
    """Merges columns of several batches, in order of appearance, each with a type wide enough for all.

    ``table`` names columns that the table has: their types are fixed, so conflicting types of records do not matter.
    """
    found: Columns = {}
    for columns in tables:
        for name, type_ in columns.items():
            known = found.get(name)
            found[name] = type_ if known is None else common_type(known, type_, name, keeps_first=name in table)
    return found


def without_empty_structs(type_: pa.DataType, path: str) -> pa.DataType | None:
    """The type without structs that have no fields, which no format can store; None if nothing is left. Raises SchemaError for a
    map that would lose its keys with them."""
    t = pa.types
    if is_variant(type_):
        return type_
    if t.is_struct(type_):
        known = [(f.name, without_empty_structs(f.type, f"{path}.{f.name}")) for f in type_]
        fields = [pa.field(name, one) for name, one in known if one is not None]
        return pa.struct(fields) if fields else None
    if t.is_list(type_):
        element = without_empty_structs(type_.value_type, f"{path}.element")
        return None if element is None else pa.list_(element)
    if t.is_map(type_):
        key, value = without_empty_structs(type_.key_type, f"{path}.key"), without_empty_structs(type_.item_type, f"{path}.value")
        if key is None or value is None:
            raise SchemaError(
                f"column {path} is a map of structs without fields, which no table can hold; remove it with a transformation"
            )
        return pa.map_(key, value)
    return None if t.is_null(type_) else type_


def missing_columns(table: Columns, incoming: Mapping[str, pa.DataType]) -> list[tuple[str, pa.DataType]]:
    """Columns and nested fields that the table lacks, as ``(path with dots and backquotes, type)``. Keys of maps get no new
    fields, because they would become other keys.

    Raises SchemaError for two names that differ only in case, which Spark does not support.
    """
    found: list[tuple[str, pa.DataType]] = []
    _add_fields(table, incoming, "", found)
    return found


def with_additions(table: Columns, incoming: Mapping[str, pa.DataType]) -> Columns:
    """The table's columns plus the missing ones (:func:`missing_columns`); existing columns keep their type."""
    return _add_fields(table, incoming, "", [])


def _add_fields(known: Columns, incoming: Mapping[str, pa.DataType], path: str, added: list[tuple[str, pa.DataType]]) -> Columns:
    """The known fields plus those that only ``incoming`` has, which are appended to ``added``."""
    found = dict(known)
    by_lower_name = {name.lower(): name for name in known}
    for name, type_ in incoming.items():
        here = path + quote(name)
        if name in known:
            found[name] = _add_inside(known[name], type_, here, added)
            continue
        other = by_lower_name.setdefault(name.lower(), name)
        if other != name:
            raise SchemaError(f"columns {other} and {name} differ only in case, which Spark treats as the same name")
        _check_inside(type_, here)
        added.append((here, type_))
        found[name] = type_
    return found


def _check_inside(type_: pa.DataType, path: str) -> None:
    """Raises SchemaError for two fields of one struct whose names differ only in case."""
    if pa.types.is_struct(type_) and not is_variant(type_):
        _add_fields({}, {f.name: f.type for f in type_}, f"{path}.", [])
    elif pa.types.is_list(type_):
        _check_inside(type_.value_type, f"{path}.element")
    elif pa.types.is_map(type_):
        _check_inside(type_.key_type, f"{path}.key")
        _check_inside(type_.item_type, f"{path}.value")


def _add_inside(known: pa.DataType, incoming: pa.DataType, path: str, added: list[tuple[str, pa.DataType]]) -> pa.DataType:
    if _are_structs(known, incoming):
        fields = _add_fields({f.name: f.type for f in known}, {f.name: f.type for f in incoming}, f"{path}.", added)
        return pa.struct([pa.field(n, t) for n, t in fields.items()])
    if pa.types.is_list(known) and pa.types.is_list(incoming):
        return pa.list_(_add_inside(known.value_type, incoming.value_type, f"{path}.element", added))
    if pa.types.is_map(known) and pa.types.is_map(incoming):
        return pa.map_(known.key_type, _add_inside(known.item_type, incoming.item_type, f"{path}.value", added))
    return known


def check_names(columns: Iterable[str]) -> None:
    """Raises SchemaError for a name that no column can have, and for two names that differ only in case."""
    seen: dict[str, str] = {}
    for name in columns:
        if not name:
            raise SchemaError("a field has an empty name, which no column can have; rename it with a transformation")
        if name.startswith(RESERVED):
            raise SchemaError(f"column {name}: names that start with {RESERVED} are reserved")
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaError(f"columns {other} and {name} differ only in case, which Spark treats as the same name")


def check_depth(columns: Columns) -> None:
    """Raises SchemaError for a column that is nested so deeply that readers of Delta or Parquet refuse the table."""
    for name, type_ in columns.items():
        if _is_deeper(type_, MAX_DEPTH):
            raise SchemaError(
                f"column {name}: nested more than {MAX_DEPTH} levels deep, where a map counts as two, which readers refuse; "
                "leave it out, or make it text or VARIANT (variant.columns)"
            )


def _is_deeper(type_: pa.DataType, levels: int) -> bool:
    if not pa.types.is_nested(type_):
        return False
    return levels < 1 or any(_is_deeper(type_.field(at).type, levels - 1) for at in range(type_.num_fields))


def cast_column(column: pa.ChunkedArray, type_: pa.DataType, name: str, *, drops_fields: bool = False) -> pa.ChunkedArray:
    """Casts a column to the table's type without loss. Raises DataError (``args[1]`` is the first row that does not fit).

    Narrower integers and floats fit wider columns; wider ones fit narrower columns only if each value does. Text fits only text.
    A value in a nested field that the type lacks does not fit, unless ``drops_fields``.
    """
    values, lost = cast_known_fields(column, type_, name)
    if not drops_fields and lost.rows is not None and lost.rows.any():
        raise DataError(
            f"column {name}: the table has no field {lost.path}, for which the record has a value", int(lost.rows.argmax())
        )
    return values


def cast_known_fields(
    column: pa.ChunkedArray, type_: pa.DataType, name: str, *, counts_empty: bool = False
) -> tuple[pa.ChunkedArray, LostValues]:
    """Like :func:`cast_column`, without values in nested fields that the type lacks; also returns which rows had such,
    ``counts_empty`` also structs without fields."""
    lost = LostValues(counts_empty)
    if column.type == type_:
        return column, lost
    if find_uncastable(column, type_).any():
        remedy = "change the table's column, or write the records to another table with table.name.format"
        if is_variant(type_):
            remedy = f"add {name} to variant.columns to convert them"
        elif is_variant(column.type):
            remedy = f"change the table's column, or remove {name} from variant.columns (or json.columns=variant)"
        raise SchemaError(
            f"column {name} is {sql_type(type_)} in the table, but {sql_type(column.type)} in the records; {remedy}"
        )
    try:
        return _cast(column, type_, name, lost), lost
    except (pa.ArrowException, ValueError) as error:
        index = _first_uncastable(column, type_)
        if index is None:
            raise DataError(f"column {name}: {error}", 0) from error
        value = show_value(column, index)
        raise DataError(f"column {name}: {value} does not fit {sql_type(type_)} of the table", index) from error


def show_value(column: pa.ChunkedArray, index: int) -> str:
    """A value for messages. Python has none for dates after the year 9999, which Arrow shows unless they are nested."""
    try:
        return repr(column[index].as_py())
    except (ValueError, OverflowError):
        return "a value" if pa.types.is_nested(column.type) else str(column[index].cast(pa.string()))


@dataclass(slots=True)
class LostValues:
    """Values in nested fields that the type of a column lacks."""

    counts_empty: bool = False
    rows: Mask | None = None
    """By row, whether it had such a value. None: no field is unknown."""
    path: str = ""
    """The first such field."""

    def add(self, rows: Mask, path: str) -> None:
        if rows.any():
            self.path = self.path or path
            self.rows = rows if self.rows is None else self.rows | rows

    def add_elements(self, inner: LostValues, offsets: pa.Array) -> None:
        """Adds what the elements of lists or maps have lost, whose rows begin at these offsets."""
        if inner.rows is not None:
            self.add(_rows_of(inner.rows, offsets), inner.path)


def _first_uncastable(column: pa.ChunkedArray, type_: pa.DataType) -> int | None:
    """The first row that does not fit, found by bisection; None when each row alone fits."""

    def fits(start: int, count: int) -> bool:
        try:
            _cast(column.slice(start, count), type_, "", LostValues())
        except (pa.ArrowException, ValueError):
            return False
        return True

    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(low, middle - low) else (low, middle)
    return None if low == len(column) or fits(low, 1) else low


def find_uncastable(column: pa.ChunkedArray, type_: pa.DataType) -> Mask:
    """By row, whether it has a value whose type cannot be cast, whatever the value. A null fits every type, in nested fields,
    too."""
    if is_castable(column.type, type_):
        return np.zeros(len(column), bool)
    return _find_uncastable(as_array(column), type_)


def _find_uncastable(array: pa.Array, type_: pa.DataType) -> Mask:
    t = pa.types
    if is_castable(array.type, type_):
        return np.zeros(len(array), bool)
    if _are_structs(array.type, type_):
        # Flattened fields are null where the struct is.
        members = dict(zip([f.name for f in array.type], array.flatten(), strict=True))
        masks = [_find_uncastable(members[f.name], f.type) for f in type_ if f.name in members]
        return functools.reduce(np.logical_or, masks)
    if (t.is_list(array.type) and t.is_list(type_)) or (t.is_map(array.type) and t.is_map(type_)):
        start = copied(array)
        if t.is_list(type_):
            return _rows_of(_find_uncastable(start.values, type_.value_type), start.offsets)
        inside = _find_uncastable(start.keys, type_.key_type) | _find_uncastable(start.items, type_.item_type)
        return _rows_of(inside, start.offsets)
    found: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def copied(array: pa.Array) -> pa.Array:
    """A copy of lists or maps: the offsets of a slice do not start at zero, and it has what belongs to no row."""
    return array.take(pa.array(np.arange(len(array))))


def _rows_of(elements: Mask, offsets: pa.Array) -> Mask:
    """The lists or maps, whose elements begin at these offsets, of which a mask marks any element."""
    bounds = offsets.to_numpy()
    rows = np.zeros(len(bounds) - 1, bool)
    rows[np.repeat(np.arange(len(rows)), np.diff(bounds))[elements]] = True
    return rows


def is_castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a type can be cast to the other one, if they fit."""
    t = pa.types
    if t.is_null(given):
        return True
    if given == wanted or is_variant(given) or is_variant(wanted):
        return bool(given == wanted)
    if t.is_struct(given) and t.is_struct(wanted):
        return all(is_castable(f.type, wanted.field(f.name).type) for f in given if wanted.get_field_index(f.name) >= 0)
    if t.is_list(given) and t.is_list(wanted):
        return is_castable(given.value_type, wanted.value_type)
    if t.is_map(given) and t.is_map(wanted):
        return is_castable(given.key_type, wanted.key_type) and is_castable(given.item_type, wanted.item_type)
    if t.is_integer(given):
        return bool(t.is_integer(wanted) or t.is_floating(wanted) or t.is_decimal(wanted))
    if t.is_floating(given):
        return bool(t.is_float64(wanted))
    return bool(t.is_decimal(given) and t.is_decimal(wanted))


def cast_key(changes: ChangeBatch, name: str, type_: pa.DataType) -> pa.ChunkedArray:
    """Casts a field of the record keys to its type in the rows. Raises DataError that names the record."""
    assert changes.keys is not None
    column = changes.keys[name]
    if pa.types.is_floating(column.type) and pa.types.is_integer(type_):
        # Beside a key such as 7.5, those without a schema are read as doubles.
        with contextlib.suppress(pa.ArrowInvalid):
            return pc.cast(column, type_)
    try:
        return cast_column(column, type_, name)
    except DataError as e:
        at = e.args[1] if len(e.args) > 1 else pc.index(column.is_valid(), True).as_py()
        raise DataError(
            f"{changes.describe_record(at)}: {show_value(column, at)} in the field {name} of the record key, "
            f"{sql_type(column.type)}, does not fit {sql_type(type_)} of the row"
        ) from e


def _cast(column: pa.ChunkedArray, type_: pa.DataType, path: str, lost: LostValues) -> pa.ChunkedArray:
    if not pa.types.is_nested(type_) and column.null_count < len(column):
        return _cast_single(column, type_)
    return pa.chunked_array([_cast_nested(as_array(column), type_, path, lost)])


def _cast_single(values: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_integer(values.type) and pa.types.is_decimal(type_):
        # Arrow casts an integer only to a decimal that holds every value of its type.
        values = values.cast(pa.decimal256(_INTEGER_DIGITS + type_.scale, type_.scale))
    elif pa.types.is_decimal(values.type) and pa.types.is_decimal(type_) and type_.scale > values.type.scale:
        wide = values.cast(pa.decimal256(WIDEST_DECIMAL, values.type.scale))
        values = wide.cast(pa.decimal256(WIDEST_DECIMAL, type_.scale))
    return pc.cast(values, type_, safe=True)


def _cast_nested(array: pa.Array, type_: pa.DataType, path: str, lost: LostValues) -> pa.Array:
    if array.type == type_:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), type_)
    if not pa.types.is_nested(type_):
        return _cast_single(array, type_)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(type_):
        # Flattened fields are null where the struct is.
        members = dict(zip([f.name for f in array.type], array.flatten(), strict=True))
        for name, values in members.items():
            counts = lost.counts_empty or without_empty_structs(values.type, name) is not None
            if type_.get_field_index(name) < 0 and counts:
                lost.add(values.is_valid().to_numpy(zero_copy_only=False), f"{path}.{name}")
        parts = [
            _cast_nested(members[f.name], f.type, f"{path}.{f.name}", lost) if f.name in members else pa.nulls(len(array), f.type)
            for f in type_
        ]
        return pa.StructArray.from_arrays(parts, fields=list(type_), mask=mask if parts else array.is_null())
    start = copied(array)
    inner = LostValues(lost.counts_empty)
    if pa.types.is_list(type_):
        values = _cast_nested(start.values, type_.value_type, f"{path}.element", inner)
        found = pa.ListArray.from_arrays(start.offsets, values, mask=mask)
    else:
        of_keys = LostValues()
        keys = _cast_nested(start.keys, type_.key_type, f"{path}.key", of_keys)
        if of_keys.rows is not None:
            raise ValueError(f"the table has no field {of_keys.path}, for which a key of the map has a value")
        items = _cast_nested(start.items, type_.item_type, f"{path}.value", inner)
        found = pa.MapArray.from_arrays(start.offsets, keys, items, type_, mask=mask)
    lost.add_elements(inner, start.offsets)
    return found


def quote(name: str) -> str:
    """Quotes a name as a SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


_SIMPLE = {
    pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT", pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.string(): "STRING", pa.binary(): "BINARY", pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP", pa.timestamp("us"): "TIMESTAMP_NTZ",
}  # fmt: skip
_NAMES = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"), "variant": VARIANT,
}  # fmt: skip


def sql_type(type_: pa.DataType) -> str:
    """The Spark SQL type of an Arrow type. Raises SchemaError if there is none."""
    if type_ in _SIMPLE:
        return _SIMPLE[type_]
    if is_variant(type_):
        return "VARIANT"
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_struct(type_):
        return "STRUCT<" + ", ".join(f"{quote(f.name)}: {sql_type(f.type)}" for f in type_) + ">"
    if pa.types.is_list(type_):
        return f"ARRAY<{sql_type(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"MAP<{sql_type(type_.key_type)}, {sql_type(type_.item_type)}>"
    raise SchemaError(f"Spark has no column type for {type_}")


def arrow_type(node: object) -> pa.DataType:
    """The Arrow type of a type in Spark's JSON schema. Raises SchemaError for an unsupported type."""
    if isinstance(node, str):
        if node in _NAMES:
            return _NAMES[node]
        if node.startswith("decimal("):
            precision, scale = node[8:-1].split(",")
            return pa.decimal128(int(precision), int(scale))
        if node.startswith(("char(", "varchar(")):
            return pa.string()
    if isinstance(node, dict):
        match node.get("type"):
            case "struct":
                return pa.struct([pa.field(f["name"], arrow_type(f["type"])) for f in node["fields"]])
            case "array":
                return pa.list_(arrow_type(node["elementType"]))
            case "map":
                return pa.map_(arrow_type(node["keyType"]), arrow_type(node["valueType"]))
    raise SchemaError(f"columns of Spark type {node} are not supported")


def spark_json_type(type_: pa.DataType) -> object:
    """A type as Spark's JSON schema has it: the inverse of :func:`arrow_type`. Raises SchemaError if there is none."""
    for name, known in _NAMES.items():
        if known == type_:
            return name
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_struct(type_):
        return {"type": "struct", "fields": [spark_json_field(f.name, f.type) for f in type_]}
    if pa.types.is_list(type_):
        return {"type": "array", "elementType": spark_json_type(type_.value_type), "containsNull": True}
    if pa.types.is_map(type_):
        key, value = spark_json_type(type_.key_type), spark_json_type(type_.item_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    raise SchemaError(f"Spark has no column type for {type_}")


def spark_json_field(name: str, type_: pa.DataType) -> dict[str, object]:
    """A nullable column as Spark's JSON schema has it."""
    return {"name": name, "type": spark_json_type(type_), "nullable": True, "metadata": {}}


def contains_timestamp_ntz(type_: pa.DataType) -> bool:
    """True when the type contains TIMESTAMP_NTZ, which must be enabled first on an older Delta table."""
    return _contains(type_, lambda leaf: bool(leaf == pa.timestamp("us")))


def contains_variant(type_: pa.DataType) -> bool:
    """True when the type contains VARIANT, which must be enabled first on an existing Delta table."""
    return _contains(type_, is_variant)


def contains_decimal(type_: pa.DataType) -> bool:
    """True when the type is a decimal, or contains one."""
    return _contains(type_, pa.types.is_decimal)


def _contains(type_: pa.DataType, matches: Callable[[pa.DataType], bool]) -> bool:
    if is_variant(type_):
        return matches(type_)
    if pa.types.is_struct(type_):
        return any(_contains(f.type, matches) for f in type_)
    if pa.types.is_list(type_):
        return _contains(type_.value_type, matches)
    if pa.types.is_map(type_):
        return _contains(type_.key_type, matches) or _contains(type_.item_type, matches)
    return matches(type_)
