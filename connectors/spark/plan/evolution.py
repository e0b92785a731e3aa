"""A table's columns against the columns that records bring: what to add, what fits, what does not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError, SchemaError

Columns = dict[str, pa.DataType]
_WIDTHS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
RESERVED = "__sluice_"


def wider(known: pa.DataType, other: pa.DataType, path: str) -> pa.DataType:
    """The type that holds every value of both, for a column that is not in a table yet. Raises SchemaError."""
    if known == other:
        return known
    if known in _WIDTHS and other in _WIDTHS:
        return max(known, other, key=_WIDTHS.index)
    if pa.types.is_floating(known) and pa.types.is_floating(other):
        return pa.float64()
    if pa.types.is_decimal(known) and pa.types.is_decimal(other):
        return pa.decimal128(38, max(known.scale, other.scale))
    if pa.types.is_struct(known) and pa.types.is_struct(other):
        fields = {f.name: f.type for f in known}
        for member in other:
            name = member.name
            fields[name] = wider(fields[name], member.type, f"{path}.{name}") if name in fields else member.type
        return pa.struct([pa.field(n, t) for n, t in fields.items()])
    if pa.types.is_list(known) and pa.types.is_list(other):
        return pa.list_(wider(known.value_type, other.value_type, f"{path}.element"))
    raise SchemaError(f"column {path} is both {sql_type(known)} and {sql_type(other)} in the same records")


def union(tables: Iterable[Mapping[str, pa.DataType]], table: Collection[str] = ()) -> Columns:
    """All columns of some records, in the order in which they came, each wide enough for all.

    ``table`` names columns that the table has: their types are settled, so it is no matter if those of records are at odds.
    """
    found: Columns = {}
    for columns in tables:
        for name, type_ in columns.items():
            try:
                found[name] = wider(found[name], type_, name) if name in found else type_
            except SchemaError:
                if name not in table:
                    raise
    return found


def additions(table: Columns, incoming: Mapping[str, pa.DataType]) -> list[tuple[str, pa.DataType]]:
    """Columns and nested fields that the table lacks, as ``(path with dots and back quotes, type)``.

    Raises SchemaError for two names that only differ in case, which no Spark table can hold.
    """
    return _missing(pa.struct([pa.field(n, t) for n, t in table.items()]), pa.struct(list(incoming.items())), "")


def _missing(known: pa.DataType, incoming: pa.DataType, path: str) -> list[tuple[str, pa.DataType]]:
    fields = {f.name: f.type for f in known}
    folded = {n.lower(): n for n in fields}
    found: list[tuple[str, pa.DataType]] = []
    for member in incoming:
        name, here = member.name, path + quote(member.name)
        if name not in fields:
            other = folded.get(name.lower())
            if other is not None:
                raise SchemaError(f"columns {other} and {name} differ only in case, which Spark takes for the same name")
            found.append((here, member.type))
            folded[name.lower()] = name
            continue
        found += _missing_inside(fields[name], member.type, here)
    return found


def _missing_inside(known: pa.DataType, incoming: pa.DataType, path: str) -> list[tuple[str, pa.DataType]]:
    if pa.types.is_struct(known) and pa.types.is_struct(incoming):
        return _missing(known, incoming, f"{path}.")
    if pa.types.is_list(known) and pa.types.is_list(incoming):
        return _missing_inside(known.value_type, incoming.value_type, f"{path}.element")
    return []


def with_additions(table: Columns, incoming: Mapping[str, pa.DataType]) -> Columns:
    """The table's columns after what it lacks was added; what it has keeps its type."""
    return {n: _grown(t, incoming[n]) if n in incoming else t for n, t in table.items()} | {
        n: t for n, t in incoming.items() if n not in table
    }


def _grown(known: pa.DataType, incoming: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(known) and pa.types.is_struct(incoming):
        grown = with_additions({f.name: f.type for f in known}, {f.name: f.type for f in incoming})
        return pa.struct([pa.field(n, t) for n, t in grown.items()])
    if pa.types.is_list(known) and pa.types.is_list(incoming):
        return pa.list_(_grown(known.value_type, incoming.value_type))
    return known


def check_names(columns: Iterable[str]) -> None:
    """Raises SchemaError for a column name that is the sink's own, and for two that Spark takes for one."""
    seen: dict[str, str] = {}
    for name in columns:
        if name.startswith(RESERVED):
            raise SchemaError(f"column {name}: names that start with {RESERVED} are the sink's own")
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaError(f"columns {other} and {name} differ only in case, which Spark takes for the same name")


def fit(column: pa.ChunkedArray, type_: pa.DataType, name: str) -> pa.ChunkedArray:
    """The column in the table's type, every value the same. Raises DataError (``args[1]`` is the first row that does not fit).

    Narrower integers and floats go into wider columns; wider ones into narrower only value by value. Text goes into text only.
    """
    if column.type == type_:
        return column
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), type_)])
    if not _may_fit(column.type, type_):
        raise SchemaError(
            f"column {name} is {sql_type(type_)} in the table, and the records bring {sql_type(column.type)}; "
            "change the table's column, or take the records elsewhere with another table.name.format"
        )
    try:
        return _cast(column, type_)
    except (pa.ArrowException, ValueError) as error:
        index = _first_misfit(column, type_)
        if index is None:
            raise DataError(f"column {name}: {error}", 0) from error
        value = column[index].as_py()
        raise DataError(f"column {name}: {value!r} does not fit {sql_type(type_)} of the table", index) from error


def _first_misfit(column: pa.ChunkedArray, type_: pa.DataType) -> int | None:
    """The first row that does not fit; None when each does alone. Looks into ever smaller parts, for columns are long."""

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


def _may_fit(given: pa.DataType, wanted: pa.DataType) -> bool:
    t = pa.types
    if t.is_struct(given) and t.is_struct(wanted):
        return all(_may_fit(f.type, wanted.field(f.name).type) for f in given if wanted.get_field_index(f.name) >= 0)
    if t.is_list(given) and t.is_list(wanted):
        return _may_fit(given.value_type, wanted.value_type)
    if t.is_integer(given):
        return bool(t.is_integer(wanted) or t.is_floating(wanted) or t.is_decimal(wanted))
    if t.is_floating(given):
        return bool(t.is_float64(wanted))
    if t.is_decimal(given):
        return bool(t.is_decimal(wanted))
    return bool(given == wanted)


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if not (pa.types.is_struct(type_) or pa.types.is_list(type_)):
        return pc.cast(column, type_, safe=True)
    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    return pa.chunked_array([_nested(array, type_)])


def _nested(array: pa.Array, type_: pa.DataType) -> pa.Array:
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(type_):
        parts = []
        for member in type_:
            index = array.type.get_field_index(member.name)
            parts.append(pa.nulls(len(array), member.type) if index < 0 else _nested(array.field(index), member.type))
        return pa.StructArray.from_arrays(parts, fields=list(type_), mask=mask)
    if pa.types.is_list(type_):
        # Written anew, for a slice's offsets do not start at nought.
        start = pa.concat_arrays([array]) if array.offset == 0 else array.take(pa.array(range(len(array))))
        return pa.ListArray.from_arrays(start.offsets, _nested(start.values, type_.value_type), mask=mask)
    return pc.cast(array, type_, safe=True)


def quote(name: str) -> str:
    """A SQL identifier, whatever is in the name."""
    return "`" + name.replace("`", "``") + "`"


_SIMPLE = {
    pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT", pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.string(): "STRING", pa.binary(): "BINARY", pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP", pa.timestamp("us"): "TIMESTAMP_NTZ",
}  # fmt: skip
_NAMES = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


def sql_type(type_: pa.DataType) -> str:
    """The type in Spark's SQL. Raises SchemaError for a type that Spark lacks."""
    if type_ in _SIMPLE:
        return _SIMPLE[type_]
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
    """The Arrow type of a type in the JSON form of Spark's schemas. Raises SchemaError for one that we do not write."""
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
    raise SchemaError(f"a column of Spark's type {node} is not one this sink can write")


def holds_wall_clock(type_: pa.DataType) -> bool:
    """True when TIMESTAMP_NTZ is in the type somewhere: an older Delta table must be told of it first."""
    if pa.types.is_struct(type_):
        return any(holds_wall_clock(f.type) for f in type_)
    if pa.types.is_list(type_):
        return holds_wall_clock(type_.value_type)
    if pa.types.is_map(type_):
        return holds_wall_clock(type_.key_type) or holds_wall_clock(type_.item_type)
    return bool(type_ == pa.timestamp("us"))
