"""Builds record keys from columns (``key.columns``). Without that key records have no keys, like Confluent's."""

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
class RecordKeyConfig:
    """``key.columns`` and ``key.format``."""

    automatic: bool = False
    columns: tuple[str, ...] = ()
    group_by_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    primitive: bool = False

    def columns_of(self, name: TableName | None, table: JdbcTable | None) -> tuple[str, ...]:
        """Returns the key columns of a table (None: of the query); empty: no key, for example ``auto`` without a primary key.

        Raises ConfigError for more than one column with key.format=primitive.
        """
        found = self.columns
        if self.automatic:
            found = table.primary_key if table is not None else ()
        elif self.group_by_table and name is not None:
            found = self.group_by_table.get(str(name), self.group_by_table.get(name.name, ()))
        if self.primitive and len(found) > 1:
            raise ConfigError(
                f"key.format=primitive needs one key column, but {name or 'the query'} has {', '.join(found)}", key="key.format"
            )
        return found


def parse_record_keys(text: str, *, primitive: bool) -> RecordKeyConfig:
    """Parses ``auto``, ``a,b`` or ``table:a,b;table:c``. Raises ConfigError."""
    text = text.strip()
    if text.lower() == AUTO:
        return RecordKeyConfig(automatic=True, primitive=primitive)
    if ":" not in text:
        return RecordKeyConfig(columns=_parse_columns(text, text) if text else (), primitive=primitive)
    group_by_table: dict[str, tuple[str, ...]] = {}
    for part in text.split(";"):
        if not part.strip():
            continue
        table, colon, columns = part.rpartition(":")
        if not colon or not table.strip():
            raise ConfigError.invalid("key.columns", text, f"{part.strip()!r} does not have the form <table>:<column>,<column>")
        group_by_table[table.strip()] = _parse_columns(columns, text)
    return RecordKeyConfig(group_by_table=group_by_table, primitive=primitive)


def _parse_columns(text: str, whole: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ConfigError.invalid("key.columns", whole, "a column name is empty")
    return names


@dataclass(frozen=True, slots=True)
class RecordKeyBuilder:
    """Builds the keys of one table's rows from their values, which are in the order of the value schema."""

    schema: Schema
    indexes: tuple[int, ...]
    primitive: bool

    @classmethod
    def create(cls, columns: Sequence[str], value: Schema, name: str | None, *, primitive: bool) -> RecordKeyBuilder:
        """``name`` is the name of the key schema. Raises ConnectError for a column that the rows do not have."""
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
            raise ConfigError(f"key.format=primitive: {present[0].name} is not a primitive value", key="key.format")
        schema = present[0].schema if primitive else Schema(Type.STRUCT, name=name, fields=[(f.name, f.schema) for f in present])
        return cls(schema, tuple(f.index for f in present), primitive)

    def keys(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Returns a key per row."""
        schema, indexes = self.schema, self.indexes
        if self.primitive:
            index = indexes[0]
            return [row[index] for row in rows]
        if len(indexes) == 1:
            index = indexes[0]
            return [Struct(schema, [row[index]]) for row in rows]
        return [Struct(schema, [row[index] for index in indexes]) for row in rows]
