"""What is known of an Iceberg table, kept in step with its snapshots."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
from pyarrow import fs

from connect.errors import ConnectError, RetriableError
from connectors.spark.config import WantedLayout
from connectors.spark.config_keys import MAIN_BRANCH
from connectors.spark.errors import is_jvm_gone
from connectors.spark.plan.evolution import Columns
from connectors.spark.s3_settings import read_s3_settings
from connectors.spark.tables.application_ids import Identify, ids_of
from connectors.spark.tables.conflicts import CommitConflict
from connectors.spark.tables.files.compaction import CompactionSettings
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.live_files import Entry, LiveFiles, UnreadableFile
from connectors.spark.tables.iceberg.columns import NAME_MAPPING
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.file_format import IcebergFormat
from connectors.spark.tables.iceberg.library import IcebergHandle, IcebergLibrary, IcebergName
from connectors.spark.tables.iceberg.offsets import WRITER, TableOffsets, find_offsets, refuse_lost, refuse_replacement
from connectors.spark.tables.iceberg.partitioning import Partitioning
from connectors.spark.tables.iceberg.types import Json, read_columns
from connectors.spark.tables.source_order.order_state import FOLDER, OrderStateFiles
from connectors.spark.tables.staging import local_folder, open_location, path_in_file_system
from connectors.spark.tables.table import OffsetCommit
from connectors.spark.tables.table_lock import TableLock, commit_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_APPEND_ROW_GROUP = 256 * 1024
_UPSERT_ROW_GROUP = 20_000
_VECTORS_VERSION = 3


@dataclass(frozen=True, slots=True)
class IcebergTableSettings:
    """How a connector writes a table."""

    name: IcebergName
    connector: str
    upserts: bool
    fail_unavailable: bool
    max_index_keys: int
    layout: WantedLayout
    compaction: CompactionSettings
    expire_interval_s: float
    deleted_retention_ms: int = 0
    conf: Mapping[str, str] = field(default_factory=dict)
    """Of Spark."""
    branch: str = MAIN_BRANCH

    @property
    def writer_property(self) -> str:
        """The table property that marks the branch as written by the connector."""
        return WRITER + self.connector + ("" if self.branch == MAIN_BRANCH else f"@{self.branch}")

    @property
    def row_group(self) -> int:
        """Rows of a row group in data files."""
        return _UPSERT_ROW_GROUP if self.upserts else _APPEND_ROW_GROUP


@dataclass(slots=True)
class KnownSnapshot:
    """The state of the table that the next commit is planned on. ``snapshot`` is 0 while the table is empty."""

    state: Json
    snapshot: int
    sequence: int
    """Of the snapshot: later ones have higher numbers."""
    offsets: TableOffsets
    columns: Columns
    partitioning: Partitioning
    writer: IcebergFileWriter
    lock: TableLock
    order_files: OrderStateFiles
    indexed: IndexedFiles | None = None

    @property
    def has_vectors(self) -> bool:
        return int(self.state["format"]) >= _VECTORS_VERSION

    @property
    def has_branches(self) -> bool:
        """Whether a connector has written another branch than main."""
        return any(name.startswith(WRITER) and "@" in name for name in self.state["properties"])

    def claim(self, handle: IcebergHandle, name: str) -> None:
        """Marks the table as written by the connector after its first commit, so that lost offsets are noticed."""
        if name not in self.state["properties"]:
            handle.set_property(name, "true")
            self.state["properties"][name] = "true"

    def move_on(self, answer: Json, apply: Callable[[IndexedFiles], None]) -> None:
        """Moves on to an own commit; ``apply`` moves the files. If they cannot be read, nothing has moved, and the commit is
        followed later like those of others."""
        if (answer["parent"] or 0) != self.snapshot:
            self.indexed = None  # another writer was faster, and did not conflict
        if self.indexed is not None:
            apply(self.indexed)
        self.snapshot, self.sequence = int(answer["snapshot"]), int(answer["sequence"])
        self.offsets = find_offsets([{"id": self.snapshot, "summary": answer["summary"]}]) or self.offsets

    def has_schema_of(self, state: Json) -> bool:
        """Whether files have the same columns in another state, and under the same names."""
        if self.state["properties"].get(NAME_MAPPING) != state["properties"].get(NAME_MAPPING):
            return False
        return all(self.state[part] == state[part] for part in ("uuid", "schema", "spec", "format"))


class TableReader:
    """Reads one table. Used by one thread at a time.

    When Spark's JVM ends, the running call fails, and the next one continues with a new session.
    """

    def __init__(self, settings: IcebergTableSettings, new_session: Callable[[], SparkSession], identify: Identify) -> None:
        self._settings = settings
        self._new_session = new_session
        self._identify = identify
        self.library: IcebergLibrary | None = None
        self.handle: IcebergHandle | None = None
        """The table; None before it has been opened, and if it does not exist."""
        self.known: KnownSnapshot | None = None
        """The state that the next commit is planned on; None when it must be read again."""
        self._refusal = ""

    @property
    def _place(self) -> str:
        return f"table {self._settings.name}"

    def load(self) -> KnownSnapshot | None:
        """Reads the newest state, and keeps what is known of its files as far as the snapshots say how it came about.

        Raises ConnectError when the table's history is not that of the task's commits, and then each time: a task that is about
        to stop, or maintenance, must not go on from another state than the one that it has read records for.
        """
        before, self.known = self.known, None
        if self._refusal:
            raise ConnectError(self._refusal)
        handle = self.open()
        if handle is None:
            if before is not None:
                self._refuse_dropped(exists=False)
            return None
        state = self.read(handle)
        handle = self.handle or handle
        if before is not None and before.state["uuid"] != state["uuid"]:
            self._refuse_dropped(exists=True)
        history = handle.history(before.snapshot if before is not None else 0)
        follows = before is not None and history["end"] == "since"
        offsets = find_offsets(history["snapshots"]) or (before.offsets if before is not None and follows else TableOffsets())
        connector = self._settings.connector
        # A snapshot that is no ancestor may also have expired; then there are newer ones, with later offsets.
        if before is not None and not follows:
            is_older = before.sequence > int(state.get("sequence", 0))
            if is_older or (offsets.snapshot and offsets.is_behind(before.offsets, connector)):
                self._refuse(
                    f"{self._place} was rolled back to a snapshot before the connector's last commit, with the offsets in it. "
                    "Restart the task to continue from there; it writes what was rolled back again"
                )
        refuse_replacement(history["snapshots"], self._place)
        if not offsets.of(connector) and self._settings.writer_property in state["properties"]:
            refuse_lost(connector, self._place)
        known = self.describe(state, offsets)
        if before is not None and follows and before.indexed is not None and before.has_schema_of(state):
            known.indexed = self._moved_on(handle, before.indexed, history["snapshots"])
        self.known = known
        return known

    def require(self) -> tuple[KnownSnapshot, IcebergHandle]:
        """What is known of a table that exists."""
        known = self.known or self.load()
        assert known is not None
        assert self.handle is not None
        return known, self.handle

    def open(self) -> IcebergHandle | None:
        try:
            if self.library is None:
                self.library = IcebergLibrary(self._new_session())
                self.handle = None
            if self.handle is None:
                self.handle = self.library.load(self._settings.name, self._settings.branch)
        except Exception as e:
            self.check_jvm(e)
            raise
        return self.handle

    def check_jvm(self, error: BaseException) -> None:
        if is_jvm_gone(error):
            self.library = self.handle = None

    def read(self, handle: IcebergHandle) -> Json:
        try:
            return handle.read()
        except Exception as e:
            self.check_jvm(e)
            if is_jvm_gone(e):
                raise
            # A table without a catalog cannot be refreshed once the metadata that is known has been deleted.
            return self._open_again(handle).read()

    def _open_again(self, handle: IcebergHandle) -> IcebergHandle:
        """Loads the table anew after an error. Raises ConnectError if it was dropped, which catalogs report in different ways."""
        before, self.handle = handle.uuid, None
        again = self.open()
        if again is None or again.uuid != before:
            self._refuse_dropped(exists=again is not None)
        return again

    def _refuse(self, why: str) -> NoReturn:
        self.known, self._refusal = None, why
        raise ConnectError(why)

    def _refuse_dropped(self, *, exists: bool) -> NoReturn:
        self._refuse(
            f"{self._place} was dropped{' and created again' if exists else ''} while the connector was writing it, and its rows "
            "are gone. Restart the task to continue with new records, or reset the connector's offsets over REST "
            "(DELETE /connectors/<name>/offsets) to load the table again"
        )

    def _open_files(self, state: Json) -> fs.FileSystem:
        return open_location(state["data"], read_s3_settings(self._settings.conf, state["data"]))[0]

    def describe(self, state: Json, offsets: TableOffsets) -> KnownSnapshot:
        files = self._open_files(state)
        partitioning = Partitioning.read(state["spec"], state["schema"])
        folder = str(state["data"]).rpartition("/")[0]
        writer = IcebergFileWriter(files, folder, state["schema"], partitioning.spec_id, self._settings.row_group)
        lock = commit_lock(local_folder(f"{state['location']}/metadata"))
        columns = read_columns(state["schema"])
        return KnownSnapshot(
            state,
            int(state.get("snapshot", 0)),
            int(state.get("sequence", 0)),
            offsets,
            columns,
            partitioning,
            writer,
            lock,
            OrderStateFiles(files, f"{path_in_file_system(folder)}/{FOLDER}"),
        )

    def _moved_on(self, handle: IcebergHandle, indexed: IndexedFiles, newer: Sequence[Json]) -> IndexedFiles | None:
        """The files after snapshots of other writers (newest first); None when they must be read again."""
        try:
            for snapshot in reversed(newer):
                changes = handle.changes(int(snapshot["id"]))
                entries = _with_vectors(indexed.live, changes)
                if entries is None:
                    return None
                indexed.apply(entries, [{"path": path} for path in changes["removed"]])
        except UnreadableFile:
            return None
        except Exception:
            if self._has_expired(int(newer[0]["id"])):
                return None
            raise
        return indexed

    def begin(self, schema: pa.Schema, commit: OffsetCommit) -> KnownSnapshot | None:
        """The newest state; None when that differs from the known one in more than rows of others."""
        known = self.known
        handle = self.open()
        if known is None or handle is None:
            return None
        state = self.read(handle)
        if not known.has_schema_of(state):
            self.known = known if known.state["uuid"] == state["uuid"] else None
            if self.known is None:
                self._refuse_dropped(exists=True)
            return None
        # Another connector may have begun to write a branch.
        known.state = {**known.state, "properties": state["properties"]}
        if int(state.get("snapshot", 0)) != known.snapshot:
            own = known.offsets.of(self._settings.connector)
            newer = self.load()
            if newer is None:
                return None
            if commit.is_alone and own != newer.offsets.of(self._settings.connector):
                return None
            known = newer
        identities = ids_of(commit.ends, self._settings.connector, self._identify)
        if not commit.continues(known.offsets.of(self._settings.connector), identities):
            return None
        # A file without a column that has got an initial default since would have that, instead of null.
        written = set() if commit.files is None else {file.entry.get("schema") for file in commit.files.remaining()}
        if written - {known.state["schema"].get("schema-id")}:
            raise RetriableError(f"{self._place} has got another schema since Spark's executors wrote files for it")
        return known if all(known.columns.get(member.name) == member.type for member in schema) else None

    @contextlib.contextmanager
    def reading(self, known: KnownSnapshot) -> Iterator[None]:
        """For a with block that reads files of a snapshot. Raises CommitConflict if that fails because another process has
        committed, and the snapshot has expired, meanwhile."""
        try:
            yield
        except Exception as e:
            if self._has_expired(known.snapshot):
                raise CommitConflict(f"snapshot {known.snapshot} has expired") from e
            raise

    def _has_expired(self, snapshot: int) -> bool:
        """Whether the branch no longer has a snapshot that it had. False if that cannot be found out."""
        if self.handle is None or not snapshot:
            return False
        try:
            self.handle.read()
            return bool(self.handle.history(snapshot)["end"] != "since")
        except Exception:
            return False

    def read_files(self, known: KnownSnapshot, keys: Mapping[str, pa.DataType]) -> IndexedFiles:
        assert self.handle is not None
        limit = self._settings.max_index_keys
        indexed = IndexedFiles(self._open_files(known.state), IcebergFormat(known.state), keys, limit)
        indexed.apply(self.handle.files(known.snapshot) if known.snapshot else (), ())
        return indexed


def _with_vectors(live: LiveFiles, changes: Json) -> list[Entry] | None:
    """The files that a snapshot added or gave new deletion vectors; None when it deleted rows in another way."""
    entries = {entry["path"]: entry for entry in changes["added"]}
    gone = set(changes["removed"])
    for vector in changes["deletes"]:
        path = vector.get("of")
        entry = entries.get(path) or (live.by_path[path].entry if path in live.by_path else None)
        if vector["format"] != "PUFFIN" or entry is None:
            return None
        entries[path] = {**entry, "deletes": [vector]}
    if any(path not in entries and path not in gone for path in changes["undeleted"]):
        return None
    return list(entries.values())
