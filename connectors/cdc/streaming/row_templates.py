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
    columns = list(zip(*rows, strict=True))
    has_nulls = any(None in columns[i] for i in optional)
    texts = chain.from_iterable(columns[i] for i in strings)
    text = "".join(filter(None, texts) if has_nulls else texts).encode()
    return TextRows(rows, has_nulls, len(text.translate(None, _SPECIAL)) == len(text), None)
