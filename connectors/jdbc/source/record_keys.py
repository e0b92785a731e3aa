"""Record keys from columns. The originals have none; without ``key.columns`` neither have we."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import ConfigError, ConnectError
from connectors.jdbc.catalog import JdbcTable
from connectors.jdbc.table_name import TableName

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class KeyRules:
    """``key.columns`` and ``key.format``."""

    automatic: bool = False
    columns: tuple[str, ...] = ()
    by_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    primitive: bool = False

    def columns_of(self, name: TableName | None, table: JdbcTable | None) -> tuple[str, ...]:
        """The key columns of a table (None: of the query), as the configuration writes them; none: no key.

        A table of ``auto`` that has no primary key has no key. Raises ConfigError for more than one with key.format=primitive.
        """
        found = self.columns
        if self.automatic:
            found = table.primary_key if table is not None else ()
        elif self.by_table and name is not None:
            found = self.by_table.get(str(name), self.by_table.get(name.name, ()))
        if self.primitive and len(found) > 1:
            raise ConfigError(
                f"key.format=primitive needs one key column, but {name or 'the query'} has {', '.join(found)}", key="key.format"
            )
        return found


def parse_key_columns(text: str, *, primitive: bool) -> KeyRules:
    """``auto``, ``a,b`` or ``table:a,b;table:c``. Raises ConfigError."""
    text = text.strip()
    if text.lower() == AUTO:
        return KeyRules(automatic=True, primitive=primitive)
    if ":" not in text:
        return KeyRules(columns=_names(text, text) if text else (), primitive=primitive)
    by_table: dict[str, tuple[str, ...]] = {}
    for part in text.split(";"):
        if not part.strip():
            continue
        table, colon, columns = part.rpartition(":")
        if not colon or not table.strip():
            raise ConfigError.invalid("key.columns", text, f"{part.strip()!r} is not of the form <table>:<column>,<column>")
        by_table[table.strip()] = _names(columns, text)
    return KeyRules(by_table=by_table, primitive=primitive)


def _names(text: str, whole: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ConfigError.invalid("key.columns", whole, "a column's name is empty")
    return names


@dataclass(frozen=True, slots=True)
class KeyMaker:
    """Makes the keys of one table's rows from their values, in the order of the value schema."""

    schema: Schema
    places: tuple[int, ...]
    primitive: bool

    @classmethod
    def of(cls, columns: Sequence[str], value: Schema, name: str | None, *, primitive: bool) -> KeyMaker:
        """``name`` of the key's struct. Raises ConnectError for a column that the rows have not got."""
        assert value.fields is not None
        folded = {f.name.lower(): f for f in value.fields}
        fields = [value.field(column) or folded.get(column.lower()) for column in columns]
        for column, found in zip(columns, fields, strict=True):
            if found is None:
                raise ConnectError(
                    f"key.columns names {column}, but the rows of {value.name or 'the query'} have {', '.join(value.field_names)}"
                )
        present = [found for found in fields if found is not None]
        if primitive and present[0].schema.type in (Type.STRUCT, Type.ARRAY, Type.MAP):
            raise ConfigError(f"key.format=primitive: {present[0].name} is no primitive value", key="key.format")
        schema = present[0].schema if primitive else Schema(Type.STRUCT, name=name, fields=[(f.name, f.schema) for f in present])
        return cls(schema, tuple(f.index for f in present), primitive)

    def keys(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """A key for each row."""
        schema, places = self.schema, self.places
        if self.primitive:
            at = places[0]
            return [row[at] for row in rows]
        if len(places) == 1:
            at = places[0]
            return [Struct(schema, [row[at]]) for row in rows]
        return [Struct(schema, [row[at] for at in places]) for row in rows]
