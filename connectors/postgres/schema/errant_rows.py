"""Rows that cannot be converted: what becomes of them, and what is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.record import ErrantSourceRecord
from connectors.cdc.schema.errant_rows import errant_record
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.schema.value_errors import name_value


def errant_row(
    rows: TableRows,
    texts: Sequence[Any],
    error: Exception,
    mode: str,
    partition: Mapping[str, Any],
    offset: Mapping[str, Any],
) -> ErrantSourceRecord:
    """The record of a row that cannot be converted; ``texts`` are those of ``rows.columns``, None for null."""
    named = name_value(rows, texts, error)
    named.__cause__ = error
    return errant_record(named, rows.topic, str(rows.table), rows.columns, texts, mode, partition, offset)
