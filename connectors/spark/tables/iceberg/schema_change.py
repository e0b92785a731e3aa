"""Changes of an Iceberg table's columns."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from connect.errors import SchemaError
from connectors.spark.plan.evolution import Columns, contains_variant, missing_columns
from connectors.spark.tables.iceberg.defaults import default_to_json
from connectors.spark.tables.iceberg.types import INITIAL, Json, as_stored, new_schema, primitive_name

log = logging.getLogger(__name__)

_VERSION = 3
"""The first format version with VARIANT columns and with defaults."""
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def columns_to_add(known: Columns, wanted: Columns, defaults: Mapping[str, pa.Scalar], format_version: int, place: str) -> Json:
    """The schema with which a table of this format version is united: columns that it lacks, or whose fields it lacks.
    ``defaults`` are what existing rows have in new columns; records that lack a column are still null there.

    Logs which defaults the schema cannot have. Raises SchemaError for a VARIANT column that the table cannot have.
    """
    if format_version < _VERSION:
        _check_types(missing_columns(known, wanted), format_version, place)
    schema = new_schema(as_stored({name: type_ for name, type_ in wanted.items() if known.get(name) != type_}))
    for field in schema["fields"] if format_version >= _VERSION else ():
        if field["name"] in defaults and field["name"] not in known:
            value = default_to_json(defaults[field["name"]])
            if value is not None:
                field[INITIAL] = value
    _warn_of_unset(schema, defaults, place)
    return schema


def _check_types(added: Sequence[tuple[str, pa.DataType]], format_version: int, place: str) -> None:
    path = next((path for path, type_ in added if contains_variant(type_)), None)
    if path is not None:
        raise SchemaError(
            f"{place} lacks the column {path}, which is VARIANT, and has the format version {format_version}: only tables of "
            f"version {_VERSION} have VARIANT columns. Upgrade it with Spark (ALTER TABLE ... SET TBLPROPERTIES "
            f"('format-version' = '{_VERSION}')), or remove the column from variant.columns (or json.columns=variant)"
        )


def _warn_of_unset(schema: Json, defaults: Mapping[str, pa.Scalar], place: str) -> None:
    if unset := sorted(defaults.keys() - {field["name"] for field in schema["fields"] if INITIAL in field}):
        log.warning(
            "%s: existing rows are null in %s, because only tables of format version 3 have defaults, and only columns that are "
            "not nested; update the rows with Spark to set the default",
            place,
            ", ".join(unset),
        )


def types_to_change(widened: Sequence[tuple[str, pa.DataType]]) -> dict[str, str]:
    """By path of a column or nested field: its new type. Paths have dots and backquotes."""
    return {".".join(a.replace("``", "`") or b for a, b in _PART.findall(path)): primitive_name(type_) for path, type_ in widened}
