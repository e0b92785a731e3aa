"""The block ``_cdc`` that the transformations of change events add to a row, and the operations in it."""

from __future__ import annotations

from typing import Any

from connect.data.java_text import java_text
from connect.errors import DataError
from connect.strict import STRICT
from connect.transforms.lossless import format_value

CDC = "_cdc"
OPERATION, TIME, OFFSET, SOURCE, TARGET, KEY = "op", "ts", "offset", "source", "target", "key"
INSERT, UPDATE, DELETE = "I", "U", "D"


def with_block(row: dict[str, Any], block: dict[str, Any], strict: bool) -> dict[str, Any]:
    """The row with the block. Raises DataError if it has such a field, and conversion is strict."""
    if strict and CDC in row:
        raise DataError(f'the block {CDC} would overwrite field "{CDC}" of the row: {format_value(row[CDC])} ({STRICT} is on)')
    return {**row, CDC: block}


def refuse_drop(reason: str, strict: bool) -> None:
    """Raises DataError for an event that is about to be dropped if conversion is strict."""
    if strict:
        raise DataError(f"{reason}, so the event would be dropped ({STRICT} is on)")


def required_text(value: Any, name: str, purpose: str) -> str:
    """The text of a field without which there is no result. Raises DataError if it is null."""
    if value is None:
        raise DataError(f"{name} is null or missing, which the {purpose} needs")
    return java_text(None, value)
