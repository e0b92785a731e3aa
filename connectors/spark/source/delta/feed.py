"""Reads one Delta table: a snapshot, then the changes of one version after the other."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.source.config import LATEST, SNAPSHOT
from connectors.spark.source.delta.commit_changes import CommitReader
from connectors.spark.source.delta.files import DeltaFiles, open_files
from connectors.spark.source.delta.table_state import DeltaStates, TableDefinition
from connectors.spark.source.errors import VersionGapError
from connectors.spark.source.key_columns import check_keys
from connectors.spark.source.offsets import FeedPosition
from connectors.spark.source.positioned_feed import FeedSettings, VersionedFeed
from connectors.spark.source.table_feed import (
    READ_CODE,
    FeedItem,
    FeedVersion,
    TableSchema,
    VersionEnd,
    Waiting,
    inserted,
)
from connectors.spark.tables.delta.log import LoggedCommit
from connectors.spark.tables.delta.log_files import LogFiles
from connectors.spark.tables.files.file_reader import FileRows
from connectors.spark.tables.files.live_files import UnreadableFile

_LIST_INTERVAL_S = 10.0
"""How often a backlog looks for the newest version, which its lag is relative to."""


@dataclass(frozen=True, slots=True)
class _CommitFile:
    """The file of a commit, as its folder lists it; size and time are None if there is none."""

    version: int
    size_bytes: int | None
    mtime_ns: int | None

    @property
    def exists(self) -> bool:
        return self.mtime_ns is not None


class DeltaFeed(VersionedFeed):
    """The feed of the table at ``folder`` of a file system (:class:`connectors.spark.source.table_feed.TableFeed`)."""

    def __init__(
        self, files: fs.FileSystem, folder: str, location: str, settings: FeedSettings, position: FeedPosition | None
    ) -> None:
        """``location`` names the table in messages; without a position, the feed starts as the settings say."""
        super().__init__(location, settings, position)
        self._files = files
        self._log_folder = f"{folder}/_delta_log"
        self._states = DeltaStates(files, folder, location)
        self._data: DeltaFiles = open_files(files, folder)
        self._reader = CommitReader(self._data, settings.keys, settings.pairing_rows, settings.batch_rows)
        self._listed_at = 0.0

    def figures(self) -> Mapping[str, Any]:
        position, newest = self.position, self._newest
        return self._figures(0 if position is None else newest - position.version + (not position.snapshot))

    # --- reading

    def items(self) -> Iterator[FeedItem]:
        listed = self._list()
        if self._position is None:
            self._position = self._first_position(listed)
        if self._position.snapshot:
            yield from self._snapshot(self._position, listed)
        anchor, definition = self._anchored(self._position)
        while True:
            position = self._position
            commit = self._states.log.commit(position.version)
            next_anchor = anchor if commit is None else self._commit_file(position.version)
            if self._commit_file(anchor.version) != anchor:
                # Cleaned up, or another table, whose commit this may be.
                anchor, definition = self._anchored(position)
                continue
            if commit is None:
                yield from self._wait_for(position)
                continue
            if next_anchor.exists:
                anchor = next_anchor
            self._phase = "changes"
            self._newest = max(self._newest, position.version)
            if time.monotonic() - self._listed_at > _LIST_INTERVAL_S:
                self._list()
            definition, old = self._after(definition, commit), definition
            yield from self._changes(commit, old, definition)
            self._position = self._position.after_version()
            self._position = replace(self._position, table_id=definition.table_id)
            yield VersionEnd()

    def _list(self) -> LogFiles:
        listed = self._states.list_log()
        self._newest, self._listed_at = listed.newest, time.monotonic()
        return listed

    def _first_position(self, listed: LogFiles) -> FeedPosition:
        start = self._start
        if start == SNAPSHOT:
            return FeedPosition(listed.newest, snapshot=True)
        return FeedPosition(listed.newest + 1 if start == LATEST else int(start))

    def _anchored(self, position: FeedPosition) -> tuple[_CommitFile, TableDefinition]:
        """A file of the log that a table which is created again cannot have, and :meth:`_definition_before`. A commit that was
        read belongs to the same table if the file is unchanged afterwards: a new log has the commit only once the old one is
        gone.
        """
        anchor = self._commit_file(max(position.version - 1, 0))
        if not anchor.exists:
            anchor = self._commit_file(position.version)
        return anchor, self._definition_before(position, self._list())

    def _definition_before(self, position: FeedPosition, listed: LogFiles) -> TableDefinition:
        """What the table was before a version, or, for its oldest version, at it. Raises VersionGapError."""
        version = position.version
        if version > listed.newest + 1:
            raise self._gap(
                listed, f"table {self._location} has no version {version - 1}: it may have been replaced, or the offset is wrong"
            )
        if version <= listed.newest and version < listed.oldest:
            raise self._gap(listed, f"the log of table {self._location} no longer has version {version}")
        state = None if version == 0 else self._states.read(version - 1, listed, with_files=False)
        if state is None and version <= listed.newest:
            state = self._states.read(version, listed, with_files=False)
            commit = self._states.log.commit(version)
            if commit is not None and commit.metadata is not None and commit.removes and not commit.cdc:
                raise VersionGapError(
                    f"version {version} of table {self._location} changes the table's metadata, and the log no longer has "
                    f"version {version - 1}, which says what columns the deleted rows have",
                    oldest=version + 1,
                    newest=listed.newest,
                )
        if state is None:
            raise self._gap(listed, f"the log of table {self._location} no longer has version {version}")
        definition = TableDefinition(self._location, state.metadata, state.protocol)
        self._check(position, definition, listed)
        return definition

    def _check(self, position: FeedPosition, definition: TableDefinition, listed: LogFiles) -> None:
        """Raises an error unless the position is one of this table, with these settings."""
        if position.table_id not in (None, definition.table_id):
            raise self._gap(
                listed,
                f"table {self._location} was replaced: its id is {definition.table_id}, and the offset is of {position.table_id}",
            )
        self._require_order(position)
        self._position = replace(position, table_id=definition.table_id)

    def _gap(self, listed: LogFiles, message: str) -> VersionGapError:
        return VersionGapError(message, oldest=listed.oldest, newest=listed.newest)

    def _after(self, definition: TableDefinition, commit: LoggedCommit) -> TableDefinition:
        if commit.metadata is None and commit.protocol is None:
            return definition
        metadata, protocol = commit.metadata or definition.metadata, commit.protocol or definition.protocol
        return TableDefinition(self._location, metadata, protocol)

    def _schema(self, definition: TableDefinition) -> TableSchema:
        found = definition.schema
        return self._schemas.setdefault(found, found)

    def _check_keys(self, schema: TableSchema, version: int) -> None:
        check_keys(self._settings.keys, schema, f"{self._location} at version {version}")

    def _snapshot(self, position: FeedPosition, listed: LogFiles) -> Iterator[FeedItem]:
        """Rows of the snapshot from the position on: files by age and path, rows by their number."""
        self._phase = "snapshot"
        state = self._states.read(position.version, listed, with_files=True)
        if state is None:
            raise self._gap(listed, f"the log of table {self._location} no longer has version {position.version} of the snapshot")
        definition = TableDefinition(self._location, state.metadata, state.protocol)
        self._check(position, definition, listed)
        schema = self._schema(definition)
        self._check_keys(schema, position.version)
        version = FeedVersion(definition.table_id, position.version, self._commit_ms(position.version), True, "")
        row = 0
        for action in sorted(state.files.values(), key=lambda add: (int(add.get("modificationTime") or 0), add["path"])):
            with self._naming_missing(position.version, is_snapshot=True):
                without = self._data.deleted_rows(action)
                rows = FileRows(self._data.described(action), without=without if len(without) else None)
                count = rows.count(self._data.files) if row < position.row else 0
                if row + count <= position.row and count:
                    row += count  # a restart: these rows are done
                    continue
                for table in rows.read(self._data.files, schema.file_columns(), self._settings.batch_rows):
                    yield from self._unread(version, schema, inserted(table, READ_CODE), row)
                    row += table.num_rows
        self._data.forget_vectors()
        assert self._position is not None
        self._position = self._position.after_version()
        yield VersionEnd()

    def _changes(self, commit: LoggedCommit, old: TableDefinition, new: TableDefinition) -> Iterator[FeedItem]:
        if not (commit.adds or commit.removes or commit.cdc):
            return
        schema = self._schema(new)
        self._check_keys(schema, commit.version)
        before = self._schema(old) if commit.removes else schema
        ms = self._commit_ms(commit.version, commit)
        version = FeedVersion(new.table_id, commit.version, ms, False, self._settings.order)
        row = 0
        with self._naming_missing(commit.version):
            for found in self._reader.read(commit, before, schema, was_partitioned=bool(old.partition_columns)):
                if found is None:
                    yield Waiting(is_idle=False)
                    continue
                if found.schema is not schema:
                    self._check_keys(found.schema, commit.version - 1)
                yield from self._unread(version, found.schema, found.changes, row)
                row += len(found.changes)

    def _commit_ms(self, version: int, commit: LoggedCommit | None = None) -> int:
        commit = commit or self._states.log.commit(version)
        info = {} if commit is None else commit.info
        ms = info.get("inCommitTimestamp", info.get("timestamp"))
        if ms is not None:
            return int(ms)
        found = self._commit_file(version)
        return 0 if found.mtime_ns is None else found.mtime_ns // 1_000_000

    # --- waiting

    def _commit_file(self, version: int) -> _CommitFile:
        info = self._files.get_file_info([f"{self._log_folder}/{version:020d}.json"])[0]
        return _CommitFile(version, info.size, info.mtime_ns)

    def _wait_for(self, position: FeedPosition) -> Iterator[FeedItem]:
        """Lets the caller wait for the next version. Raises VersionGapError if it is missing among those that exist."""
        if self._phase != "waiting":
            listed = self._list()
            if position.version <= listed.newest:
                if position.version not in listed.commits:
                    raise self._gap(listed, f"the log of table {self._location} no longer has version {position.version}")
                return
            self._phase = "waiting"
        yield Waiting(is_idle=True)

    @contextlib.contextmanager
    def _naming_missing(self, version: int, *, is_snapshot: bool = False) -> Iterator[None]:
        """Names the version when a file of it is missing or damaged."""
        try:
            yield
        except UnreadableFile as e:
            raise self._missing_file(version, e, is_snapshot) from e

    def _missing_file(self, version: int, error: UnreadableFile, is_snapshot: bool) -> ConnectError:
        """The error for a file that a version needs. Another snapshot helps only if it is of a newer version."""
        newest = self._list().newest
        if not isinstance(error.__cause__, FileNotFoundError) or (is_snapshot and newest == version):
            return ConnectError(f"version {version} of table {self._location}: {error.message}")
        return VersionGapError(
            f"version {version} of table {self._location} cannot be read any more: {error.message}",
            oldest=min(version + 1, newest + 1),
            newest=newest,
        )


def check_delta_table(files: fs.FileSystem, folder: str, location: str, keys: Sequence[str]) -> None:
    """Raises ConnectError if a table cannot be read with these keys, TableAbsentError if there is none."""
    states = DeltaStates(files, folder, location)
    listed = states.list_log()
    state = states.read(listed.newest, listed, with_files=False)
    if state is not None:
        check_keys(keys, TableDefinition(location, state.metadata, state.protocol).schema, location)
