"""How far tables contain the records of their topics, from the offsets in their commits (promise 6), read without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect.errors import ConnectError, NotFoundError
from connect.record import TopicPartition
from connectors.spark.config import SparkSinkConfig
from connectors.spark.config_keys import DELTA, ICEBERG
from connectors.spark.tables.application_ids import StoredOffsets
from connectors.spark.tables.committed_offsets import CommittedOffsets, TableCommit
from connectors.spark.tables.delta.log import DeltaLog, LoggedCommit
from connectors.spark.tables.iceberg.offsets import find_offsets
from connectors.spark.tables.iceberg.types import Json
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.tables.staging import open_location
from connectors.spark.verification.tables import newest_delta_version, open_iceberg_table

_MOST_COMMITS = 1000
"""So many commits are read backwards for offsets, if no checksum file lists them."""

Ends = dict[TopicPartition, int]


class WrittenOffsets:
    """Reads the offsets of one connector in its tables. Remembers what it has read, because it is asked again and again."""

    def __init__(self, config: SparkSinkConfig) -> None:
        self._config = config
        self._delta: dict[str, DeltaOffsets] = {}

    def of(self, table: str) -> Mapping[TopicPartition, int]:
        """Returns the offset after the last record of each partition in the newest version; nothing where it is unknown."""
        config = self._config
        try:
            if config.table_format == DELTA:
                return self._delta_of(table).read()
            if config.table_format == ICEBERG:
                return iceberg_ends(open_iceberg_table(config, table).history(), config.connector)
        except NotFoundError:
            return {}
        location = f"{config.location.rstrip('/')}/{table}"
        return ParquetTable(location, config.connector, lambda topic: None, config.spark.s3).stored_ends()

    def _delta_of(self, table: str) -> DeltaOffsets:
        found = self._delta.get(table)
        if found is None:
            location = f"{self._config.location.rstrip('/')}/{table}"
            version = newest_delta_version(location, self._config.spark.s3)
            log = DeltaLog(*open_location(location, self._config.spark.s3))
            found = self._delta[table] = DeltaOffsets(log, version, self._config.connector)
        return found


class DeltaOffsets:
    """The offsets in a Delta table. Each call of :meth:`read` reads only the commits that are new."""

    def __init__(self, log: DeltaLog, version: int, connector: str) -> None:
        self._log = log
        self._version = version
        self._connector = connector
        self._ends = self._read_version(version)

    def read(self) -> Mapping[TopicPartition, int]:
        """Returns the ends in the newest version."""
        try:
            while (commit := self._log.commit(self._version + 1)) is not None:
                for partition, end in self._ends_of(commit).items():
                    self._ends.pop(partition, None)
                    if end is not None:
                        self._ends[partition] = end
                self._version += 1
        except ConnectError:
            return self._ends  # of an earlier version, so they are in the table too
        return self._ends

    def _read_version(self, version: int) -> Ends:
        """The ends in a version: from its checksum file, or from its commit and older ones."""
        found = CommittedOffsets()
        for commit in self._newest_commits(version):
            listed = (self._log.checksum(commit.version) or {}).get("setTransactions")
            ends: Mapping[TopicPartition, int | None] = {}
            if listed:
                ends = StoredOffsets({one["appId"]: int(one["version"]) for one in listed}, self._connector).all_ends()
            is_complete = bool(ends)
            found.add_older_commit(TableCommit(self._connector, 0, {}, ends or self._ends_of(commit)))
            if is_complete:
                break
        return found.ends

    def _newest_commits(self, version: int) -> Iterator[LoggedCommit]:
        for count, commit in enumerate(self._log.backwards(version)):
            if count >= _MOST_COMMITS:
                return
            yield commit

    def _ends_of(self, commit: LoggedCommit) -> Mapping[TopicPartition, int | None]:
        """The partitions whose ends a commit moves; None for a deleted one."""
        document = commit.user_metadata
        return document.ends if document is not None and document.connector == self._connector else {}


def iceberg_ends(history: Iterable[Json], connector: str) -> Ends:
    """The ends in the newest of these snapshots that has some; other writers may have committed since."""
    stored = find_offsets(history)
    return {} if stored is None else StoredOffsets(stored.of(connector), connector).all_ends()
