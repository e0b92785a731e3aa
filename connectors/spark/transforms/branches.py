"""A record as SQL expressions, while its chain is compiled.

Records of one topic and schema take different ways through a chain: predicates select some, and many transformations treat a null
apart. Each way is a :class:`Branch`, with the conditions under which a record takes it. Conditions are never null, and no two
branches hold for one record. A record of no branch, for example one that would fail, is left to the transformations themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from connect.data.schema import Field, Schema
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.stored_types import field_name, literal, spark_type, struct_of

KEY, VALUE = "key", "value"
_PATH = re.compile(r"\w+(\.\w+)*")


class Nullness(Enum):
    """What is known about a key or value."""

    NULL = "null"
    PRESENT = "present"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Datum:
    """A key or value. ``null_schema`` is its schema where it is null; ``members`` are the fields of a struct that a
    transformation created, which is present."""

    schema: Schema | None
    null_schema: Schema | None
    sql: str
    nullness: Nullness = Nullness.UNKNOWN
    members: tuple[str, ...] | None = None

    @classmethod
    def of_members(cls, schema: Schema, members: Sequence[str]) -> Datum:
        """A struct of these values."""
        spark_type(schema)
        return cls(schema, schema, struct_of(list(members)), Nullness.PRESENT, tuple(members))

    @classmethod
    def null(cls, schema: Schema | None) -> Datum:
        return cls(schema, schema, "NULL", Nullness.NULL)

    def require_schema(self, part: str) -> Schema:
        """The schema. Raises NotCompilable if there is none."""
        if self.schema is None:
            raise NotCompilable(f"the {part} has no schema")
        return self.schema

    def read_members(self) -> list[str]:
        """The fields of the struct."""
        if self.members is not None:
            return list(self.members)
        return [member_of(self.sql, f) for f in (self.schema.fields if self.schema is not None else None) or ()]


def member_of(struct: str, member: Field) -> str:
    """A field of a struct; null if the struct is null."""
    return f"{struct if _PATH.fullmatch(struct) else f'({struct})'}.{field_name(member.index)}"


@dataclass(frozen=True, slots=True)
class AddedHeader:
    """A header that the chain adds."""

    key: str
    schema: Schema | None
    sql: str


@dataclass(frozen=True, slots=True)
class Branch:
    """The records of one way through the chain. ``topic`` is the topic if all of them have the same, and ``topic_sql`` in any
    case. ``present`` are expressions that are not null here."""

    topic: str | None
    topic_sql: str
    key: Datum
    value: Datum
    conditions: tuple[str, ...] = ()
    present: frozenset[str] = frozenset()
    dropped_headers: frozenset[str] = frozenset()
    added_headers: tuple[AddedHeader, ...] = ()
    dropped: bool = field(default=False)

    def datum(self, part: str) -> Datum:
        return self.key if part == KEY else self.value

    def with_datum(self, part: str, datum: Datum) -> Branch:
        return replace(self, key=datum) if part == KEY else replace(self, value=datum)

    def where(self, condition: str) -> Branch:
        """The records for which a condition holds."""
        return self if condition in self.conditions else replace(self, conditions=(*self.conditions, condition))

    def where_present(self, sql: str) -> Branch:
        """The records for which an expression is not null."""
        return self if sql in self.present else replace(self.where(f"{sql} IS NOT NULL"), present=self.present | {sql})

    def known_present(self, sql: str) -> Branch:
        """The same records; says that an expression is not null for them."""
        return replace(self, present=self.present | {sql})

    def split_nulls(self, part: str) -> list[Branch]:
        """The records whose key or value is null, and the others."""
        datum = self.datum(part)
        if datum.nullness is not Nullness.UNKNOWN:
            return [self]
        null = self.where(f"{datum.sql} IS NULL").with_datum(part, Datum.null(datum.null_schema))
        there = self.where_present(datum.sql).with_datum(part, replace(datum, nullness=Nullness.PRESENT))
        return [null, there]

    def fill_nulls(self, fields: Sequence[Field], members: Sequence[str], *, replace_null: bool) -> tuple[Branch, list[str]]:
        """Reads fields as ``Struct.get`` does, with nulls replaced by defaults, and leaves out records with a null in a required
        field, which are errors."""
        branch, filled = self, []
        for member_field, member in zip(fields, members, strict=True):
            schema = member_field.schema
            if replace_null and schema.default is not None:
                branch, read = branch.with_default(member, schema)
                filled.append(read)
                continue
            if not schema.optional:
                branch = branch.where_present(member)
            filled.append(member)
        return branch, filled

    def with_default(self, sql: str, schema: Schema) -> tuple[Branch, str]:
        """An expression with its nulls replaced by the default of the schema, which is not null."""
        if sql in self.present:
            return self, sql
        filled = f"coalesce({sql}, {literal(schema, schema.default)})"
        return self.known_present(filled), filled
