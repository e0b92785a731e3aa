"""Which statements are stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from connectors.mysql.history_keys import HistorySettings
from connectors.mysql.schema.ddl import Change, DatabaseChange, changed_tables
from connectors.mysql.schema.model import TableId

_TRUNCATE = re.compile(r"(SET STATEMENT .*)?TRUNCATE TABLE .*", re.IGNORECASE | re.DOTALL)


def compile_ddl_filter(expressions: Sequence[str]) -> Callable[[str], bool]:
    """Returns a function that says whether one of the expressions matches a whole statement."""
    patterns = [re.compile(expression, re.IGNORECASE | re.DOTALL) for expression in expressions]
    return lambda ddl: any(pattern.fullmatch(ddl) for pattern in patterns)


class DdlSelection:
    """Says which DDL is stored."""

    def __init__(
        self,
        settings: HistorySettings,
        is_table_captured: Callable[[TableId], bool],
        is_database_captured: Callable[[str], bool],
    ) -> None:
        self._settings = settings
        self._is_filtered = compile_ddl_filter(settings.ddl_filter)
        self._is_table_captured = is_table_captured
        self._is_database_captured = is_database_captured

    def is_ignored(self, ddl: str) -> bool:
        """Returns whether a statement is filtered out: neither stored nor an event. TRUNCATE is not, since it may be an event."""
        return not _TRUNCATE.fullmatch(ddl) and self._is_filtered(ddl)

    def is_stored(self, ddl: str, database: str | None, changes: Collection[Change]) -> bool:
        """Returns whether a statement with these changes is stored; ``database`` is that of its session, which counts only
        without changes. Statements of no database that set variables are stored.

        Those that change a captured database are, because tables created later may have its character set.
        """
        if self.is_ignored(ddl):
            return False
        tables = changed_tables(changes)
        changed = {change.name for change in changes if isinstance(change, DatabaseChange)}
        databases = changed | {id.database for id in tables} or ({database} if database else set())
        has_captured = any(map(self._is_database_captured, databases))
        if self._settings.only_captured_databases and databases and not has_captured:
            return False
        if not self._settings.only_captured_tables or (not database and ddl.upper().startswith("SET ")):
            return True
        return any(map(self._is_table_captured, tables)) or any(map(self._is_database_captured, changed))
