"""Schema evolution: compares a table's columns with the columns of records, adds columns, and casts values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError, SchemaError
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.variant import VARIANT, is_variant

Columns = dict[str, pa.DataType]
_WIDTHS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
RESERVED = "__sluice_"


def common_type(known: pa.DataType, other: pa.DataType, path: str) -> pa.DataType:
    """The type that can hold all values of both types, for a column that is not in a table yet. Raises SchemaError."""
    if known == other:
        return known
    if known in _WIDTHS and other in _WIDTHS:
        return max(known, other, key=_WIDTHS.index)
    if pa.types.is_floating(known) and pa.types.is_floating(other):
        return pa.float64()
    if pa.types.is_decimal(known) and pa.types.is_decimal(other):
        return pa.decimal128(38, max(known.scale, other.scale))
    if _are_structs(known, other):
        fields = {f.name: f.type for f in known}
        for member in other:
            name = member.name
            fields[name] = common_type(fields[name], member.type, f"{path}.{name}") if name in fields else member.type
        return pa.struct([pa.field(n, t) for n, t in fields.items()])
    if pa.types.is_list(known) and pa.types.is_list(other):
        return pa.list_(common_type(known.value_type, other.value_type, f"{path}.element"))
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
            try:
                found[name] = common_type(found[name], type_, name) if name in found else type_
            except SchemaError:
                if name not in table:
                    raise
    return found


def missing_columns(table: Columns, incoming: Mapping[str, pa.DataType]) -> list[tuple[str, pa.DataType]]:
    """Columns and nested fields that the table lacks, as ``(path with dots and backquotes, type)``.

    Raises SchemaError for two names that differ only in case, which Spark does not support.
    """
    return _missing_fields(pa.struct([pa.field(n, t) for n, t in table.items()]), pa.struct(list(incoming.items())), "")


def _missing_fields(known: pa.DataType, incoming: pa.DataType, path: str) -> list[tuple[str, pa.DataType]]:
    fields = {f.name: f.type for f in known}
    by_lower_name = {n.lower(): n for n in fields}
    found: list[tuple[str, pa.DataType]] = []
    for member in incoming:
        name, here = member.name, path + quote(member.name)
        if name not in fields:
            other = by_lower_name.get(name.lower())
            if other is not None:
                raise SchemaError(f"columns {other} and {name} differ only in case, which Spark treats as the same name")
            found.append((here, member.type))
            by_lower_name[name.lower()] = name
            continue
        found += _missing_inside(fields[name], member.type, here)
    return found


def _missing_inside(known: pa.DataType, incoming: pa.DataType, path: str) -> list[tuple[str, pa.DataType]]:
    if _are_structs(known, incoming):
        return _missing_fields(known, incoming, f"{path}.")
    if pa.types.is_list(known) and pa.types.is_list(incoming):
        return _missing_inside(known.value_type, incoming.value_type, f"{path}.element")
    return []


def with_additions(table: Columns, incoming: Mapping[str, pa.DataType]) -> Columns:
    """The table's columns plus the missing ones; existing columns keep their type."""
    return {n: _with_new_fields(t, incoming[n]) if n in incoming else t for n, t in table.items()} | {
        n: t for n, t in incoming.items() if n not in table
    }


def _with_new_fields(known: pa.DataType, incoming: pa.DataType) -> pa.DataType:
    if _are_structs(known, incoming):
        grown = with_additions({f.name: f.type for f in known}, {f.name: f.type for f in incoming})
        return pa.struct([pa.field(n, t) for n, t in grown.items()])
    if pa.types.is_list(known) and pa.types.is_list(incoming):
        return pa.list_(_with_new_fields(known.value_type, incoming.value_type))
    return known


def check_names(columns: Iterable[str]) -> None:
    """Raises SchemaError for a reserved column name, and for two names that differ only in case."""
    seen: dict[str, str] = {}
    for name in columns:
        if name.startswith(RESERVED):
            raise SchemaError(f"column {name}: names that start with {RESERVED} are reserved")
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaError(f"columns {other} and {name} differ only in case, which Spark treats as the same name")


def cast_column(column: pa.ChunkedArray, type_: pa.DataType, name: str) -> pa.ChunkedArray:
    """Casts a column to the table's type without loss. Raises DataError (``args[1]`` is the first row that does not fit).

    Narrower integers and floats fit wider columns; wider ones fit narrower columns only if each value does. Text fits only text.
    """
    if column.type == type_:
        return column
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), type_)])
    if not _is_castable(column.type, type_):
        remedy = "change the table's column, or write the records to another table with table.name.format"
        if is_variant(type_):
            remedy = f"add {name} to variant.columns to convert them"
        elif is_variant(column.type):
            remedy = f"change the table's column, or remove {name} from variant.columns (or json.columns=variant)"
        raise SchemaError(
            f"column {name} is {sql_type(type_)} in the table, but {sql_type(column.type)} in the records; {remedy}"
        )
    try:
        return _cast(column, type_)
    except (pa.ArrowException, ValueError) as error:
        index = _first_uncastable(column, type_)
        if index is None:
            raise DataError(f"column {name}: {error}", 0) from error
        value = column[index].as_py()
        raise DataError(f"column {name}: {value!r} does not fit {sql_type(type_)} of the table", index) from error


def _first_uncastable(column: pa.ChunkedArray, type_: pa.DataType) -> int | None:
    """The first row that does not fit, found by bisection; None when each row alone fits."""

    def fits(start: int, count: int) -> bool:
        try:
            _cast(column.slice(start, count), type_)
        except (pa.ArrowException, ValueError):
            return False
        return True

    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(low, middle - low) else (low, middle)
    return None if low == len(column) or fits(low, 1) else low


def _is_castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    t = pa.types
    if is_variant(given) or is_variant(wanted):
        return bool(given == wanted)
    if t.is_struct(given) and t.is_struct(wanted):
        return all(_is_castable(f.type, wanted.field(f.name).type) for f in given if wanted.get_field_index(f.name) >= 0)
    if t.is_list(given) and t.is_list(wanted):
        return _is_castable(given.value_type, wanted.value_type)
    if t.is_map(given) and t.is_map(wanted):
        return _is_castable(given.key_type, wanted.key_type) and _is_castable(given.item_type, wanted.item_type)
    if t.is_integer(given):
        return bool(t.is_integer(wanted) or t.is_floating(wanted) or t.is_decimal(wanted))
    if t.is_floating(given):
        return bool(t.is_float64(wanted))
    if t.is_decimal(given):
        return bool(t.is_decimal(wanted))
    return bool(given == wanted)


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_nested(type_):
        return pc.cast(column, type_, safe=True)
    return pa.chunked_array([_cast_nested(as_array(column), type_)])


def _cast_nested(array: pa.Array, type_: pa.DataType) -> pa.Array:
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(type_):
        parts = []
        for member in type_:
            index = array.type.get_field_index(member.name)
            parts.append(pa.nulls(len(array), member.type) if index < 0 else _cast_nested(array.field(index), member.type))
        return pa.StructArray.from_arrays(parts, fields=list(type_), mask=mask)
    if pa.types.is_list(type_):
        # Copied, because the offsets of a slice do not start at zero.
        start = pa.concat_arrays([array]) if array.offset == 0 else array.take(pa.array(range(len(array))))
        return pa.ListArray.from_arrays(start.offsets, _cast_nested(start.values, type_.value_type), mask=mask)
    if pa.types.is_map(type_):
        start = pa.concat_arrays([array]) if array.offset == 0 else array.take(pa.array(range(len(array))))
        keys, items = _cast_nested(start.keys, type_.key_type), _cast_nested(start.items, type_.item_type)
        return pa.MapArray.from_arrays(start.offsets, keys, items, type_, mask=mask)
    return pc.cast(array, type_, safe=True)


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
