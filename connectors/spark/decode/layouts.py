"""How values and keys of a schema become rows, cached by schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from connect.data.schema import Schema, Type
from connect.errors import DataError, SchemaError
from connectors.spark.decode.arrow_types import (
    ColumnConversion,
    column_for_schema,
    column_of_row,
    default_value,
    row_for_schema,
    struct_column,
)
from connectors.spark.decode.map_text import Rewrite, map_rewriter
from connectors.spark.decode.recently_used import RecentlyUsed
from connectors.spark.variant_columns import NO_VARIANTS, VariantColumns

SINGLE_FIELD = "value"


@dataclass(frozen=True, slots=True)
class ValueLayout:
    """The layout of values of one schema: an envelope, a plain row, or a single value (a row with one column)."""

    envelope: bool
    row: ColumnConversion
    single: bool = False
    rewrite_maps: Rewrite | None = None
    """Rewrites the JSON of a value for the batch path, if it has maps."""
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """By column: the default of its field, if defaults are wanted."""


def detect_layout(schema: Schema, variants: VariantColumns = NO_VARIANTS, *, fills_defaults: bool = True) -> ValueLayout:
    """The layout of values of this schema. Raises SchemaError."""
    if schema.type is not Type.STRUCT:
        column = column_of_row(SINGLE_FIELD, schema, variants, fills_defaults=fills_defaults)
        return ValueLayout(False, struct_column([(SINGLE_FIELD, column)]), True, map_rewriter([(SINGLE_FIELD, schema)]))
    names = set(schema.field_names)
    rewrite_maps = map_rewriter([(f.name, f.schema) for f in schema.fields or ()])
    if (schema.name or "").endswith(".Envelope") or {"before", "after", "op", "source"} <= names:
        after = schema.field("after")
        if after is None or after.schema.type is not Type.STRUCT:
            raise SchemaError(f"envelope {schema.name} has no struct field 'after'")
        _require_fields(after.schema)
        row = row_for_schema(after.schema, variants, fills_defaults=fills_defaults)
        return ValueLayout(True, row, rewrite_maps=rewrite_maps)
    _require_fields(schema)
    return ValueLayout(False, row_for_schema(schema, variants, fills_defaults=fills_defaults), rewrite_maps=rewrite_maps)


def _require_fields(row: Schema) -> None:
    if not row.fields:
        raise SchemaError(f"the records' schema {row.name or 'without a name'} has no fields, so they have no columns")


def _defaults(schema: Schema, *, in_json: bool) -> dict[str, pa.Scalar]:
    """The defaults of the row's fields, as values of their columns."""
    row = schema
    if detect_layout(schema).envelope:
        after = schema.field("after")
        assert after is not None
        row = after.schema
    found = {member.name: default_value(member.schema, in_json=in_json) for member in row.fields or ()}
    return {name: value for name, value in found.items() if value is not None}


class SchemaCache:
    """The layouts of one topic's schemas that were used last, by identity of the schema: a cached schema stays alive, so no other
    gets its id."""

    def __init__(
        self,
        topic: str,
        key_name: str | None,
        variants: VariantColumns = NO_VARIANTS,
        *,
        fills_defaults: bool = True,
        wants_defaults: bool = False,
    ) -> None:
        """``fills_defaults``: JSON has null where a field has its default. ``wants_defaults``: layouts name the defaults."""
        self.variants = variants
        """Applies to schemas whose layout is not known yet."""
        self._topic = topic
        self._key_name = key_name
        self._fills_defaults = fills_defaults
        self._wants_defaults = wants_defaults
        self._layouts: RecentlyUsed[int, tuple[Schema, ValueLayout]] = RecentlyUsed()
        self._key_columns: RecentlyUsed[int, tuple[Schema, ColumnConversion]] = RecentlyUsed()

    def layout(self, schema: Schema, *, in_json: bool = False) -> ValueLayout:
        """The layout of values of this schema, whose defaults may be in JSON form. Raises SchemaError."""
        return self._layouts.get(id(schema), lambda: (schema, self._find_layout(schema, in_json)))[1]

    def _find_layout(self, schema: Schema, in_json: bool) -> ValueLayout:
        try:
            found = detect_layout(schema, self.variants, fills_defaults=self._fills_defaults)
        except SchemaError as e:
            raise SchemaError(f"topic {self._topic}: {e.message}") from e
        return replace(found, defaults=_defaults(schema, in_json=in_json)) if self._wants_defaults else found

    def key_column(self, schema: Schema) -> ColumnConversion:
        """The row of keys of this schema. Raises DataError for a single value without a name, and SchemaError."""

        def make() -> tuple[Schema, ColumnConversion]:
            if schema.type is Type.STRUCT:
                return schema, column_for_schema(schema)
            name = self.key_name()
            return schema, struct_column([(name, column_of_row(name, schema, NO_VARIANTS))])

        return self._key_columns.get(id(schema), make)[1]

    def key_name(self) -> str:
        """The column of a key that is a single value. Raises DataError when the configuration names none."""
        if self._key_name is None:
            raise DataError(
                f"topic {self._topic}: the record key is a single value without a name; set key.columns to its column name"
            )
        return self._key_name
