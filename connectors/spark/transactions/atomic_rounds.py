"""Commits the tables of a round at once, if their catalog can do that."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from connectors.spark.delivery.table_queue import TableQueue
from connectors.spark.tables.commit_group import CommitGroup

log = logging.getLogger(__name__)


class AtomicRounds:
    """Finds out whether the catalog commits several tables at once. Used on the task's thread."""

    def __init__(self) -> None:
        self.is_active: bool | None = None
        """Whether the tables of the last rounds were committed at once; None before the first one of several tables."""
        self._group: CommitGroup | None = None

    def group(self, tables: Sequence[TableQueue]) -> None:
        """The next commits of these tables take effect together, if that is possible."""
        if self._group is not None and not self._group.is_supported and self.is_active is not False:
            self.is_active = False
            log.info("The catalog does not commit several tables at once; readers need the table of transactions")
        if self.is_active is False or len(tables) < 2:
            return
        writers = [table.open_writer() for table in tables]
        members = [writer.group_member for writer in writers]
        names = [name for name in members if name is not None]
        if len(names) < len(writers):
            self.is_active = False
            return
        self.is_active = True
        self._group = CommitGroup(names)
        for table, writer in zip(tables, writers, strict=True):
            table.is_grouped = True
            writer.enter_group(self._group)
