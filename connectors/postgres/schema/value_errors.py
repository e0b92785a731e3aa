"""Errors of values that cannot be converted: they name table, column, and key (promise 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from connect.errors import DataError
from connectors.cdc.schema.column_type import CONVERSION_ERRORS
from connectors.databases.postgresql.text_format import unescape_copy
from connectors.postgres.schema.row_decoder import TableRows


class ReplicaIdentityError(DataError):
    """The server does not send what the record key needs. This is no error of a value: no mode skips it."""


def name_value(rows: TableRows, values: Sequence[Any], error: Exception) -> DataError:
    """The error for a row that cannot be decoded. ``values`` are the texts of ``rows.columns``; others are passed over."""
    names = [column.name for column in rows.columns]
    key = ", ".join(f"{name}={_shown(values[names.index(name)])}" for name in rows.key)
    reason = error.message if isinstance(error, DataError) else str(error)
    for column, value in zip(rows.columns, values, strict=True):
        if isinstance(value, str) and (wrong := _conversion_error(column.type.decode, value)) is not None:
            reason = f"column {column.name}: {wrong.message if isinstance(wrong, DataError) else wrong}"
            break
    return DataError(f"a row of table {rows.table} with the key ({key}) cannot be converted: {reason}")


def copy_texts(line: str) -> list[str | None]:
    """The texts of a line of COPY."""
    return [None if field == "\\N" else unescape_copy(field) for field in line.split("\t")]


def _conversion_error(decode: Callable[[str], Any], value: str) -> Exception | None:
    try:
        decode(value)
    except CONVERSION_ERRORS as e:
        return e
    return None


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        return "null" if value is None else "unavailable"
    return value if len(value) <= 60 else value[:57] + "..."
