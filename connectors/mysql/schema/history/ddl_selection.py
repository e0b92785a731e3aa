"""Which statements are stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from connectors.mysql.history_keys import HistorySettings
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

    def is_stored(self, ddl: str, database: str | None, tables: Iterable[TableId]) -> bool:
        """Returns whether a statement that concerns these tables is stored. Statements of no database that set variables are."""
        if self.is_ignored(ddl):
            return False
        if self._settings.only_captured_databases and database and not self._is_database_captured(database):
            return False
        if not self._settings.only_captured_tables or (not database and ddl.upper().startswith("SET ")):
            return True
        return any(self._is_table_captured(id) for id in tables)
