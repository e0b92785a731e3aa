"""Reads single files of a Delta log: what a commit did, and a version's checksum.

Snapshots, checkpoints, and listings are read by Delta in Spark's JVM. A commit that follows a known version is one small file,
and reading it here takes no job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.tables.committed_offsets import TableCommit, parse_commit
from connectors.spark.tables.effects import Effect

Action = dict[str, Any]
_FEW_COMMITS = 100
"""Reading so many takes milliseconds; the first job of a Spark takes seconds."""
_MOVING = ("RESTORE", "REPLACE", "CREATE OR REPLACE", "CLONE", "CONVERT")
"""Operations that keep the transaction identifiers, with the offsets, and exchange the rows."""


@dataclass(slots=True)
class LoggedCommit:
    """One commit in the log."""

    version: int
    info: Mapping[str, Any] = field(default_factory=dict)
    adds: list[Action] = field(default_factory=list)
    removes: list[Action] = field(default_factory=list)
    cdc: list[Action] = field(default_factory=list)
    """Files of the change data feed."""
    transactions: dict[str, int] = field(default_factory=dict)
    alters: bool = False
    """Whether it has other actions than those of files and transactions."""
    metadata: Action | None = None
    protocol: Action | None = None

    @property
    def operation(self) -> str:
        return str(self.info.get("operation", "an unknown operation"))

    @property
    def read_version(self) -> int:
        """The version that it was planned on."""
        return int(self.info.get("readVersion", self.version - 1))

    @property
    def user_metadata(self) -> TableCommit | None:
        return parse_commit(self.info.get("userMetadata"))

    @property
    def effect(self) -> Effect:
        """By its actions; by its name only where these do not tell that all rows were replaced."""
        found = Effect.ALTERS if self.alters else Effect(0)
        removes_rows = any(map(_changes_data, self.removes))
        if removes_rows:
            found |= Effect.CHANGES_ROWS
        elif any(map(_changes_data, self.adds)):
            found |= Effect.ADDS_ROWS
        if not all(map(_changes_data, (*self.removes, *self.adds))):
            found |= Effect.REARRANGES
        if self.operation.startswith(_MOVING) or (removes_rows and self._names_all_rows()):
            found |= Effect.MOVES_HISTORY
        return found

    def _names_all_rows(self) -> bool:
        """Whether it is a truncate, or an overwrite of the whole table, that is not the connector's own."""
        if self.operation.startswith("TRUNCATE"):
            return True
        parameters = self.info.get("operationParameters") or {}
        is_partial = parameters.get("predicate") not in (None, "", "[]") or _is_true(
            parameters.get("isDynamicPartitionOverwrite")
        )
        return (
            self.operation == "WRITE" and parameters.get("mode") == "Overwrite" and not is_partial and self.user_metadata is None
        )


def _changes_data(action: Action) -> bool:
    return bool(action.get("dataChange", True))


def _is_true(parameter: Any) -> bool:
    """Of an operation: writers have it as a boolean or as text."""
    return str(parameter).lower() == "true"


class DeltaLog:
    """The log of the table at ``folder`` of a file system."""

    def __init__(self, files: fs.FileSystem, folder: str) -> None:
        self.files = files
        self.table_folder = folder

    def commit(self, version: int) -> LoggedCommit | None:
        """Reads a commit; None when its file does not exist (yet, or because it has expired)."""
        text = self._read(f"{version:020d}.json")
        if text is None:
            return None
        found = LoggedCommit(version)
        for line in text.splitlines():
            if not line.strip():
                continue
            try:
                action = json.loads(line)
            except ValueError as e:
                path = f"{self.table_folder}/_delta_log/{version:020d}.json"
                raise ConnectError(f"the commit {path} is damaged: {e}. Restore the file from a backup") from e
            if "add" in action:
                found.adds.append(action["add"])
            elif "remove" in action:
                found.removes.append(action["remove"])
            elif "cdc" in action:
                found.cdc.append(action["cdc"])
            elif "txn" in action:
                found.transactions[action["txn"]["appId"]] = int(action["txn"]["version"])
            elif "commitInfo" in action:
                found.info = action["commitInfo"]
            else:
                found.alters = True
                found.metadata = action.get("metaData", found.metadata)
                found.protocol = action.get("protocol", found.protocol)
        return found

    def backwards(self, version: int) -> Iterator[LoggedCommit]:
        """Commits from this version to older ones, as far as their files exist."""
        while version >= 0:
            found = self.commit(version)
            if found is None:
                return
            yield found
            version -= 1

    def checksum(self, version: int) -> Mapping[str, Any] | None:
        """The checksum file of a version, which names metadata, protocol, and transactions; None when there is none."""
        text = self._read(f"{version:020d}.crc")
        if text is None:
            return None
        try:
            document = json.loads(text)
        except ValueError:
            return None  # half written: every user of checksums has another way
        return document if isinstance(document, dict) else None

    def figures(self, version: int) -> dict[str, int]:
        """Sizes of a version for the progress of a task, if its checksum file has them."""
        checksum = self.checksum(version)
        if checksum is None or "numFiles" not in checksum or "tableSizeBytes" not in checksum:
            return {}
        return {
            "files": checksum["numFiles"],
            "bytes": checksum["tableSizeBytes"],
            "deleted_rows": checksum.get("numDeletedRecordsOpt", 0),
        }

    def listed_files(self, version: int) -> list[Action] | None:
        """The ``add`` actions of a version's data files, if its checksum file lists them, or if they are in few commits."""
        checksum = self.checksum(version) or {}
        listed: list[Action] | None = checksum.get("allFiles")
        if listed is None and checksum.get("numFiles") == 0:
            return []
        return self._files_of_commits(version) if listed is None and version < _FEW_COMMITS else listed

    def _files_of_commits(self, version: int) -> list[Action] | None:
        """The ``add`` actions of the data files at a version, from all commits up to it; None when one of them has expired or is
        damaged, which does not matter if there is a checkpoint."""
        live: dict[str, Action] = {}
        for number in range(version + 1):
            try:
                logged = self.commit(number)
            except ConnectError:
                return None
            if logged is None:
                return None
            # A file that gets another deletion vector is removed and added.
            for removed in logged.removes:
                live.pop(removed["path"], None)
            live |= {added["path"]: added for added in logged.adds}
        return list(live.values())

    def _read(self, name: str) -> bytes | None:
        try:
            with self.files.open_input_file(f"{self.table_folder}/_delta_log/{name}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None
