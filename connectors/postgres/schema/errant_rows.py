"""Rows that cannot be converted: what becomes of them, and what is reported."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from connect.errors import ErrantRecordError
from connect.record import ErrantSourceRecord
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.schema.value_errors import name_value

log = logging.getLogger(__name__)

_LEVELS = {"warn": logging.WARNING, "skip": logging.DEBUG, "ignore": logging.DEBUG}
"""How modes of ``event.processing.failure.handling.mode`` that skip a row log it."""
_HIDDEN = "(masked)"


def errant_row(
    rows: TableRows,
    texts: Sequence[Any],
    error: Exception,
    mode: str,
    partition: Mapping[str, Any],
    offset: Mapping[str, Any],
) -> ErrantSourceRecord:
    """The record of a row that cannot be converted; ``texts`` are those of ``rows.columns``, None for null.

    The worker decides by ``errors.*`` unless the mode skips the row.
    """
    named = name_value(rows, texts, error)
    skip = mode in _LEVELS
    if skip:
        log.log(
            _LEVELS[mode], "%s; skipping it (event.processing.failure.handling.mode=%s), offset %s", named.message, mode, offset
        )
    found = ErrantRecordError(named.message, skip=skip)
    found.__cause__ = error
    shown = {
        column.name: _HIDDEN if column.is_masked else text if text is None or isinstance(text, str) else repr(text)
        for column, text in zip(rows.columns, texts, strict=True)
    }
    return ErrantSourceRecord(partition, offset, rows.topic, {"table": str(rows.table), "row": shown}, found)
