"""Templates of change events: envelopes and source blocks whose parts come from rows or are shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from connect.data.schema import Schema
from connect.text_records import Fixed, Part, StructTemplate, TextRows
from connectors.cdc.schema.envelope import RowSchemas

_SPECIAL = bytes(range(0x20)) + b'"\\' + bytes(range(0xF0, 0xF5))
"""Control characters, quotes, backslashes, and the first bytes of characters beyond U+FFFF."""


def struct_template(schema: Schema, parts: Mapping[str, Part]) -> StructTemplate:
    """A struct whose other fields are null."""
    return StructTemplate(schema, tuple(parts.get(field.name, Fixed(None)) for field in schema.fields or ()))


def envelope_template(
    schemas: RowSchemas,
    source: Part,
    op: str,
    now: Sequence[Part],
    before: Sequence[Part] | None,
    after: Sequence[Part] | None,
) -> StructTemplate:
    """An envelope without a transaction block. ``now`` is the time of processing in ms, us, and ns; ``before`` and ``after`` are
    the fields of a row, None without it."""
    parts: dict[str, Part] = {"source": source, "op": Fixed(op)}
    parts |= dict(zip(("ts_ms", "ts_us", "ts_ns"), now, strict=True))
    for name, fields in (("before", before), ("after", after)):
        if fields is not None:
            parts[name] = StructTemplate(schemas.value, tuple(fields))
    return struct_template(schemas.envelope, parts)


def text_rows(rows: Sequence[Sequence[Any]], optional: Sequence[int], strings: Sequence[int]) -> TextRows:
    """Describes rows for a writer. ``optional`` are the columns that may be null, ``strings`` those of texts."""
    # Slices of one list cost less than columns from zip(), which has an iterator per row.
    width = len(rows[0])
    cells = list(chain.from_iterable(rows))
    has_nulls = any(None in cells[i::width] for i in optional if i not in strings)
    columns = [cells[i::width] for i in strings]
    try:
        text = "".join(chain.from_iterable(columns))
    except TypeError:
        has_nulls = True
        text = "".join(filter(None, chain.from_iterable(columns)))
    data = text.encode()
    return TextRows(rows, has_nulls, len(data.translate(None, _SPECIAL)) == len(data), None)
