"""Rows that cannot be converted: what becomes of them, and what is reported."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from connect.errors import DataError, ErrantRecordError
from connect.record import ErrantSourceRecord
from connectors.cdc.schema.column_mapping import RowColumn

log = logging.getLogger(__name__)

SKIP_LEVELS = {"warn": logging.WARNING, "skip": logging.DEBUG, "ignore": logging.DEBUG}
"""How modes of ``event.processing.failure.handling.mode`` that skip a row log it."""
_HIDDEN = "(masked)"


def errant_record(
    error: DataError,
    topic: str,
    table: str,
    columns: Sequence[RowColumn],
    values: Sequence[Any],
    mode: str,
    partition: Mapping[str, Any],
    offset: Mapping[str, Any],
) -> ErrantSourceRecord:
    """The record of a row that cannot be converted because of ``error``, which names table and key. ``values`` are those of
    ``columns`` as the source has them, None for null.

    The worker decides by ``errors.*`` unless the mode skips the row.
    """
    skip = mode in SKIP_LEVELS
    if skip:
        log.log(
            SKIP_LEVELS[mode],
            "%s; skipping it (event.processing.failure.handling.mode=%s), offset %s",
            error.message,
            mode,
            offset,
        )
    found = ErrantRecordError(error.message, skip=skip)
    found.__cause__ = error.__cause__ or error
    shown = {
        column.name: _HIDDEN if column.is_masked else value if value is None or isinstance(value, str) else repr(value)
        for column, value in zip(columns, values, strict=True)
    }
    return ErrantSourceRecord(partition, offset, topic, {"table": table, "row": shown}, found)
