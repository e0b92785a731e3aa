"""What a Delta table's log says of its newest version, without the data files, read without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connect.errors import ConnectError
from connectors.spark.tables.application_ids import is_id_of
from connectors.spark.tables.delta.checks import RETENTION
from connectors.spark.tables.delta.layout import TableLayout, read_layout
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.delta.log_files import LogFiles, checkpoint_actions, list_log
from connectors.spark.tables.key_property import read_key

_TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_DAMAGE = (ConnectError, ValueError, TypeError, KeyError, AttributeError)
"""What reading a file raises that is not one of a log."""
_Found = tuple[Mapping[str, int], Mapping[str, Any] | None]
"""The transaction identifiers and the metadata in a file."""


@dataclass(frozen=True, slots=True)
class LogState:
    """One version of a table."""

    version: int
    metadata: Mapping[str, Any]
    transactions: Mapping[str, int]
    """The transaction identifiers with their versions."""

    @property
    def table_id(self) -> str:
        return str(self.metadata["id"])

    @property
    def layout(self) -> TableLayout:
        """Without clustering columns, which only matter to who writes files."""
        return read_layout(self.metadata, ())

    @property
    def computed_columns(self) -> frozenset[str]:
        """The generated and identity columns: if a row lacks them, Spark makes their values."""
        return frozenset(name for name, settings in self._settings_of_columns() if any(map(_computes, settings)))

    @property
    def padded_columns(self) -> frozenset[str]:
        """Those of type CHAR, whose values Spark fills up with spaces."""
        return frozenset(n for n, settings in self._settings_of_columns() if settings.get(_TEXT_TYPE, "").startswith("char("))

    @property
    def keys(self) -> tuple[str, ...]:
        return read_key(self.metadata.get("configuration") or {})

    def _settings_of_columns(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for member in json.loads(self.metadata["schemaString"])["fields"]:
            yield member["name"], member.get("metadata") or {}


def _computes(setting: str) -> bool:
    return setting.startswith(("delta.generationExpression", "delta.identity."))


def read_newest_state(log: DeltaLog, place: str) -> LogState | None:
    """The newest version; None if there is no table, or one without columns. Raises ConnectError for a damaged log."""
    folder = f"{log.table_folder}/_delta_log"
    listed = list_log(log.files, folder)
    if listed.newest < 0:
        return None
    metadata: Mapping[str, Any] | None = None
    found: Mapping[str, int] = {}
    for transactions, described in _read_backwards(log, listed, folder, place):
        found = {**transactions, **found}
        metadata = metadata or described
    if metadata is None:
        raise ConnectError(f"{place}: no file in {folder} has the table's schema. Restore the log from a backup")
    return _with_columns(LogState(listed.newest, metadata, found))


def _read_backwards(log: DeltaLog, listed: LogFiles, folder: str, place: str) -> Iterator[_Found]:
    """What the files of the newest version say, from the newest file to the oldest."""
    checksum = log.checksum(listed.newest) or {}
    metadata, known = checksum.get("metadata"), checksum.get("setTransactions")
    if metadata is not None and known is not None:
        yield {action["appId"]: int(action["version"]) for action in known}, metadata
        return
    base = listed.base(listed.newest)
    for version in range(listed.newest, -1 if base is None else base, -1):
        logged = log.commit(version)
        if logged is None:
            raise ConnectError(f"{place}: commit {version} is missing in {folder}. Restore the file from a backup")
        yield logged.transactions, logged.metadata
    for name in () if base is None else listed.checkpoints[base]:
        yield _read_checkpoint(log, f"{folder}/{name}")


def _read_checkpoint(log: DeltaLog, path: str) -> _Found:
    transactions: dict[str, int] = {}
    metadata = None
    for action in checkpoint_actions(log.files, path, ["metaData", "txn"]):
        if "txn" in action:
            transactions[action["txn"]["appId"]] = int(action["txn"]["version"])
        metadata = action.get("metaData", metadata)
    return transactions, metadata


def _with_columns(state: LogState) -> LogState | None:
    return state if state.layout.columns else None


def has_offsets_of(log: DeltaLog, connector: str, place: str) -> bool:
    """Whether a table may have offsets of a connector, by its transaction identifiers. Where these expire, and where a file of
    the log is damaged, everything that the log still has counts.

    Raises ConnectError for a damaged log that does not name the connector, and OSError.
    """
    folder = f"{log.table_folder}/_delta_log"
    listed = list_log(log.files, folder)
    if listed.newest < 0:
        return False
    metadata: Mapping[str, Any] | None = None
    damage: Exception | None = None
    try:
        for transactions, described in _read_backwards(log, listed, folder, place):
            if any(is_id_of(text, connector) for text in transactions):
                return True
            metadata = metadata or described
    except _DAMAGE as e:
        damage = e
    if damage is None and RETENTION not in ((metadata or {}).get("configuration") or {}):
        return False
    if any(_commit_names(log, version, connector) for version in listed.commits):
        return True
    names = (name for names in listed.checkpoints.values() for name in names)
    if any(_checkpoint_names(log, f"{folder}/{name}", connector) for name in names):
        return True
    if isinstance(damage, ConnectError):
        raise damage
    if damage is not None:
        raise ConnectError(f"{place}: a file in {folder} is damaged ({damage!r}). Restore it from a backup") from damage
    return False


def _commit_names(log: DeltaLog, version: int, connector: str) -> bool:
    """Whether a commit is one of the connector; False if it is damaged."""
    try:
        logged = log.commit(version)
        document = None if logged is None else logged.user_metadata
    except _DAMAGE:
        return False
    if document is not None and document.connector == connector:
        return True
    return logged is not None and any(is_id_of(text, connector) for text in logged.transactions)


def _checkpoint_names(log: DeltaLog, path: str, connector: str) -> bool:
    """Whether a file of a checkpoint has identifiers of the connector; False if it is damaged."""
    try:
        return any(is_id_of(text, connector) for text in _read_checkpoint(log, path)[0])
    except _DAMAGE:
        return False
