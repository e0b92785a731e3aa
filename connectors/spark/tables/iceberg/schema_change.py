"""Changes of an Iceberg table's columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.iceberg.types import Json, as_stored, new_schema, primitive_name

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def columns_to_add(known: Columns, wanted: Columns) -> Json:
    """The schema with which a table is united: columns that it lacks, or whose fields it lacks."""
    return new_schema(as_stored({name: type_ for name, type_ in wanted.items() if known.get(name) != type_}))


def types_to_change(widened: Sequence[tuple[str, pa.DataType]]) -> dict[str, str]:
    """By path of a column or nested field: its new type. Paths have dots and backquotes."""
    return {".".join(a.replace("``", "`") or b for a, b in _PART.findall(path)): primitive_name(type_) for path, type_ in widened}
