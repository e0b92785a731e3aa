"""From schemas to columns and from records to rows, by the rules of Debezium's sink: key columns first, then the row's others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from connect.data.headers import Header
from connect.data.schema import Schema, Type
from connect.errors import SchemaError
from connect.generated_code import evaluate
from connect.record import SinkRecord
from connectors.jdbc.debezium_sink.rules import KeyMode, Rules
from connectors.jdbc.sink.row_changes import Row
from connectors.jdbc.sink.rows import COORDINATES

RowsOf = Callable[[Sequence[SinkRecord]], list[Row]]


@dataclass(frozen=True, slots=True)
class Column:
    """A field of the rows, and Python for its value: ``r`` is the record, ``k``, ``v`` and ``h`` the values of its key, its row
    and its headers."""

    name: str
    schema: Schema
    source: str
    is_key: bool = False
    divisor: int = 1
    """What its numbers are divided by, without the rest."""
    rounding: int = 0
    """What is added before that."""

    @property
    def code(self) -> str:
        """Python for the column's value."""
        if self.divisor == 1:
            return self.source
        return f"(None if {self.source} is None else ({self.source} + {self.rounding}) // {self.divisor})"


@dataclass(frozen=True, slots=True)
class Kind:
    """What records of one plan have in common."""

    topic: str
    key: Schema | None
    value: Schema | None
    headers: tuple[tuple[str, Schema | None], ...] = ()


def write_columns(rules: Rules, kind: Kind, row: Schema) -> list[Column]:
    """The columns of rows of the schema ``row``. Raises SchemaError when the key mode asks for what is not there."""
    keys = key_columns(rules, kind, row)
    names = {column.name for column in keys}
    rest = [
        Column(one.name, one.schema, f"v[{one.index}]")
        for one in row.fields or ()
        if one.name not in names and rules.fields.keeps(kind.topic, one.name)
    ]
    if not keys and not rest:
        raise SchemaError(f"No field of topic {kind.topic} is left to write: see field.include.list and field.exclude.list")
    return [*keys, *rest]


def key_columns(rules: Rules, kind: Kind, row: Schema | None) -> list[Column]:
    """The key's columns; none without a key. Raises SchemaError as above."""
    match rules.key_mode:
        case KeyMode.NONE:
            return []
        case KeyMode.KAFKA:
            parts = zip(COORDINATES, (Schema.STRING, Schema.INT32, Schema.INT64), ("topic", "partition", "offset"), strict=True)
            return [Column(name, schema, f"r.{part}", is_key=True) for name, schema, part in parts]
        case KeyMode.RECORD_KEY:
            found = _of_record_key(rules, kind)
        case KeyMode.RECORD_VALUE:
            assert row is not None
            found = _members(rules, kind, row, "v", "value")
        case KeyMode.RECORD_HEADER:
            found = _of_headers(rules, kind)
    if not found and rules.needs_key:
        raise SchemaError(
            f"Cannot write to the table of topic {kind.topic} with no key fields defined: field.include.list or "
            "field.exclude.list leaves all of them out; name them in primary.key.fields or in the list"
        )
    return found


def _of_record_key(rules: Rules, kind: Kind) -> list[Column]:
    schema = kind.key
    if schema is None:
        raise SchemaError(
            "Configured primary key mode 'record_key' cannot have null schema: the record has no key, or one without a schema "
            "(JsonConverter gives one with key.converter.schemas.enable=true)"
        )
    if schema.type is Type.STRUCT:
        return _members(rules, kind, schema, "k", "key")
    if not schema.type.is_primitive:
        raise SchemaError(f"An unsupported record key schema type detected: {schema.type.name}")
    if len(rules.key_fields) != 1:
        raise SchemaError(
            f"The key of topic {kind.topic} is {schema.type.name} and no struct: primary.key.fields must name its column"
        )
    return [Column(rules.key_fields[0], schema, "r.key", is_key=True)]


def _members(rules: Rules, kind: Kind, schema: Schema, variable: str, side: str) -> list[Column]:
    """Named fields stay whatever the lists of fields say; without names all that the lists leave are the key."""
    for name in rules.key_fields:
        if schema.field(name) is None:
            raise SchemaError(
                f"primary.key.fields has {name}, which is no field of the {side} of topic {kind.topic} "
                f"(it has {', '.join(schema.field_names)})"
            )
    return [
        Column(one.name, one.schema, f"{variable}[{one.index}]", is_key=True)
        for one in schema.fields or ()
        if (one.name in rules.key_fields if rules.key_fields else rules.fields.keeps(kind.topic, one.name))
    ]


def _of_headers(rules: Rules, kind: Kind) -> list[Column]:
    if not kind.headers:
        raise SchemaError("Configured primary key mode 'record_header' cannot have empty message headers")
    found: dict[str, Column] = {}
    for place, (name, schema) in enumerate(kind.headers):
        if rules.key_fields and name not in rules.key_fields:
            continue
        if schema is None:
            raise SchemaError(f"Header {name} has no schema, so that it cannot be a key; see header.converter")
        found[name] = Column(name, schema, f"h[{place}]", is_key=True)
    missing = [name for name in rules.key_fields if name not in found]
    if missing:
        raise SchemaError(
            f"primary.key.fields has {', '.join(missing)}, but the headers are {', '.join(name for name, _ in kind.headers)}"
        )
    return list(found.values())


def header_values(headers: Sequence[Header]) -> list[object]:
    return [header.value for header in headers]


def compiled(columns: Sequence[Column], row: str, width: int) -> RowsOf:
    """A function that makes rows of records; ``row`` is Python for the list of a record's values, of which there are ``width``.
    Names are no part of its text."""
    sources = [column.source for column in columns]
    codes = [column.code for column in columns]
    if codes == [f"v[{place}]" for place in range(width)]:
        whole: RowsOf = evaluate(f"lambda records: [{row} for r in records]", title="rows of change events")
        return whole
    loops = "for r in records"
    if any(source.startswith("k[") for source in sources):
        loops += " for k in (r.key.values,)"
    if any(source.startswith("v[") for source in sources):
        loops += f" for v in ({row},)"
    if any(source.startswith("h[") for source in sources):
        loops += " for h in (headers(r.headers),)"
    expression = f"lambda records: [({', '.join(codes)},) {loops}]"
    made: RowsOf = evaluate(expression, {"headers": header_values}, title="rows of change events")
    return made
