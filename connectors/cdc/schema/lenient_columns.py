"""Values that cannot be converted become null (``event.converting.failure.handling.mode``)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from connect.text_records import TextKind
from connectors.cdc.schema.column_mapping import RowColumn
from connectors.cdc.schema.column_type import CONVERSION_ERRORS, Inline

log = logging.getLogger(__name__)

_LEVELS = {"warn": logging.WARNING, "skip": logging.DEBUG}


def lenient_column(column: RowColumn, table: str, mode: str | None, *, in_key: bool) -> RowColumn:
    """The column with nulls in place of values that cannot be converted, if ``mode`` is warn or skip and null is possible."""
    if mode not in _LEVELS or in_key or not column.schema.optional:
        return column
    decode = _lenient(column.type.decode, f"{table}.{column.name}", _LEVELS[mode], shows_values=not column.is_masked)
    return replace(column, type=replace(column.type, decode=decode, inline=Inline.CALL, call_kind=TextKind.OTHER))


def _lenient(decode: Callable[[str], Any], column: str, level: int, *, shows_values: bool) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return decode(text)
        except CONVERSION_ERRORS as e:
            reason = str(e) if shows_values else "the value is masked"
            log.log(level, "a value of %s cannot be converted and becomes null: %s", column, reason)
            return None

    return convert
