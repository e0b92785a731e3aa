"""Commits of an Iceberg table together with those of others, which REST catalogs support."""

from __future__ import annotations

import contextlib

from connectors.spark.tables.commit_group import AtomicCommitsUnsupported, CommitGroup
from connectors.spark.tables.iceberg.library import IcebergName
from connectors.spark.tables.iceberg.snapshots import TableReader
from connectors.spark.tables.iceberg.types import Json


def can_be_grouped(reader: TableReader, name: IcebergName) -> bool:
    """Whether the table's catalog may be able to commit several tables at once."""
    reader.open()
    return reader.library is not None and reader.library.commits_together(name.catalog)


def commit_in_group(group: CommitGroup | None, reader: TableReader, name: IcebergName, request: Json) -> Json | None:
    """Commits together with the other tables of the group; returns the answer. None without a group, or if the catalog turns out
    to be unable. Raises CommitConflict and CommitGroupAborted."""
    library, handle = reader.library, reader.handle
    if group is None or not group.is_supported or library is None or handle is None:
        return None
    with contextlib.suppress(AtomicCommitsUnsupported):
        answer: Json = group.commit(str(name), handle.stage(name, request), library.commit_all)
        return answer
    return None
