"""Errors of DDL."""

from __future__ import annotations

from connect.errors import DataError
from connectors.mysql.schema.model import TableId


class DdlSyntaxError(DataError):
    """A statement has something that is not understood. Never leaves the package: see UnparsedDdlError."""


class UnparsedDdlError(DataError):
    """A statement is not understood, or does not fit the tables that are known.

    The statement was executed by the server, so what is known about ``tables`` (all those that are known, if it is empty) may no
    longer be true. The caller skips the statement only if none of them matters, or if
    ``schema.history.internal.skip.unparseable.ddl`` says so; otherwise it fails, or reads the tables from the server again.
    """

    def __init__(self, statement: str, reason: str, tables: tuple[TableId, ...] = ()) -> None:
        shown = statement if len(statement) <= 500 else statement[:500] + "..."
        super().__init__(f"DDL statement cannot be applied: {reason}; statement: {shown}")
        self.statement = statement
        self.reason = reason
        self.tables = tables
