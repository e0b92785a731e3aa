"""The manifest of a Parquet table: numbered entries in ``_sluice/entries`` below the table, which readers ignore.

An entry is one commit. It carries the whole state of the table after it: the end offsets of all partitions of all connectors, and
the columns. So a task that starts reads one entry, however old the table is.

Three rules keep the directory and the offsets equal for every reader and after every crash:

- Each number is created once, by put-if-absent. A writer that loses its number reads the newer entries before it tries the next.
- An entry names the draft that holds its rows. Only after the entry exists is the draft renamed into the table.
- Whoever reads the newest entry finishes its rename, so only the newest entry can be unfinished: nobody creates the next before.
"""

from __future__ import annotations

import base64
import json
import logging
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connect import crash_points
from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.parquet_files import TableFiles

log = logging.getLogger(__name__)

FOLDER = "_sluice"
ENTRIES = f"{FOLDER}/entries"
FORMAT = 1
KEPT_ENTRIES = 100
_REMOVAL_INTERVAL = 50
_SUFFIX = ".json"
_MEMBERS = {"format", "number", "id", "swap", "state"}


@dataclass(frozen=True, slots=True)
class ConnectorOffsets:
    """One connector's position: the sequence of its last commit, and the offset after its last record in each partition."""

    sequence: int
    ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ManifestState:
    """The state of a table after an entry."""

    connectors: Mapping[str, ConnectorOffsets] = field(default_factory=dict)
    columns: Columns = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    """By task: drafts of earlier epochs are never committed."""


@dataclass(frozen=True, slots=True)
class FileSwap:
    """The change of data files that an entry commits: a draft gets its name, then the files that it replaces are deleted."""

    draft: str
    name: str
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One commit."""

    number: int
    id: str
    state: ManifestState
    swap: FileSwap | None = None
    description: Mapping[str, Any] = field(default_factory=dict)
    """For people, and for the Spark source: ``rows`` of the commit's file, or ``merged_rows`` of each file that it replaces."""

    def to_json(self) -> str:
        document: dict[str, Any] = {"format": FORMAT, "number": self.number, "id": self.id, **self.description}
        if self.swap is not None:
            document["swap"] = {"draft": self.swap.draft, "name": self.swap.name, "replaced": list(self.swap.replaced)}
        document["state"] = {
            "connectors": {
                name: {"sequence": one.sequence, "ends": partitions_to_json(one.ends.items())}
                for name, one in self.state.connectors.items()
            },
            "epochs": dict(self.state.epochs),
            "columns": _columns_to_text(self.state.columns),
        }
        return json.dumps(document, separators=(",", ":"))


def parse_entry(text: str | bytes) -> ManifestEntry:
    """Parses an entry. Raises ValueError."""
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']}, and this release knows only format {FORMAT}")
        state, swap = document["state"], document.get("swap")
        connectors = {
            name: ConnectorOffsets(int(one["sequence"]), {TopicPartition(t, int(p)): int(end) for t, p, end in one["ends"]})
            for name, one in state["connectors"].items()
        }
        epochs = {task: int(epoch) for task, epoch in state["epochs"].items()}
        return ManifestEntry(
            int(document["number"]),
            str(document["id"]),
            ManifestState(connectors, _columns_from_text(state["columns"]), epochs),
            None if swap is None else FileSwap(swap["draft"], swap["name"], tuple(swap["replaced"])),
            {name: value for name, value in document.items() if name not in _MEMBERS},
        )
    except (KeyError, TypeError, AttributeError, zlib.error, pa.ArrowException) as e:
        raise ValueError(f"it is damaged ({type(e).__name__}: {e})") from e


class Manifest:
    """Reads and adds entries of one table. Not thread-safe; any number of instances may be used at the same time."""

    def __init__(self, files: TableFiles, path: str) -> None:
        self._files = files
        self._path = path
        self._newest: ManifestEntry | None = None

    @property
    def newest(self) -> ManifestEntry | None:
        """The newest entry as last read or added."""
        return self._newest

    def refresh(self) -> ManifestEntry | None:
        """Reads the newest entry and finishes its change of files; None if there are no entries."""
        while True:
            numbers = self._numbers()
            if not numbers:
                self._newest = None
                return None
            try:
                entry = self._read(max(numbers))
            except FileNotFoundError:
                continue  # it was the newest long ago, and is removed by now
            if self._newest is None or self._newest.id != entry.id:
                self._finish(entry)
                self._newest = entry
            return entry

    def add(
        self, state: ManifestState, swap: FileSwap | None = None, description: Mapping[str, Any] | None = None
    ) -> ManifestEntry | None:
        """Adds the entry after the newest and changes the files; durable on return.

        Returns None if another writer was faster; then :attr:`newest` is its entry. After any error it is unknown whether the
        entry exists, so the draft must stay.
        """
        previous = self._newest
        number = 1 if previous is None else previous.number + 1
        entry = ManifestEntry(number, uuid.uuid4().hex, state, swap, description or {})
        if not self._files.put_if_absent(entry_name(number), entry.to_json().encode()):
            # A network file system or client that repeats a request finds its own file.
            if not self._exists(entry):
                self.refresh()
                return None
        elif not (self._is_among_newest(entry) if previous is None else self._exists(previous)):
            self._report_lost_place(entry)
        crash_points.point("parquet.entered")
        self._finish(entry)
        self._newest = entry
        if number % _REMOVAL_INTERVAL == 0:
            self._remove_old_entries(number)
        return entry

    def _finish(self, entry: ManifestEntry) -> None:
        """Renames the entry's draft and deletes the files that it replaces. Repeating this changes nothing.

        Readers that list the directory in between see the rows of replaced files twice, but never miss a row.
        """
        if entry.swap is None:
            return
        self._files.rename(entry.swap.draft, entry.swap.name)
        crash_points.point("parquet.renamed")
        for name in entry.swap.replaced:
            self._files.delete(name)

    def _report_lost_place(self, entry: ManifestEntry) -> None:
        """Raises the error for an entry whose predecessor is gone: its number was free only because entries were removed."""
        if max(self._numbers(), default=0) <= entry.number:
            self._files.delete(entry_name(entry.number))
            raise ConnectError(
                f"the table at {self._path} was removed while this task wrote to it; to continue with a new table, reset the "
                "connector's offsets and restart it"
            )
        # Entries are removed in order and only when many newer ones exist. Either this writer slept meanwhile, and its entry is
        # older than the newest and does not count, or others have read it and have finished its change of files.
        raise RetriableError(f"table at {self._path}: this task was suspended while others committed; its offsets are read again")

    def _exists(self, entry: ManifestEntry) -> bool:
        """Whether this very entry has its number."""
        try:
            return self._read(entry.number).id == entry.id
        except FileNotFoundError:
            return False

    def _is_among_newest(self, entry: ManifestEntry) -> bool:
        return max(self._numbers(), default=0) < entry.number + KEPT_ENTRIES

    def _read(self, number: int) -> ManifestEntry:
        name = entry_name(number)
        try:
            return parse_entry(self._files.read(name))
        except ValueError as e:
            raise ConnectError(f"{self._path}/{name} cannot be read: {e}") from e

    def _numbers(self) -> list[int]:
        return [number for file in self._files.files_in(ENTRIES) if (number := entry_number(file.name)) is not None]

    def _remove_old_entries(self, number: int) -> None:
        # In ascending order: an entry that exists proves that no later one was removed (see add).
        for old in sorted(self._numbers()):
            if old <= number - KEPT_ENTRIES:
                self._files.delete(entry_name(old))
        for file in self._files.files_in(ENTRIES):
            if entry_number(file.name) is None:
                self._files.delete(file.name)  # left by a crash, or its writer writes it again


def partitions_to_json(values: Iterable[tuple[TopicPartition, Any]]) -> list[list[Any]]:
    """Lists ``[topic, partition, value]``, sorted."""
    return [[tp.topic, tp.partition, value] for tp, value in sorted(values)]


def entry_name(number: int) -> str:
    """The name of an entry's file, below the table."""
    return f"{ENTRIES}/{number:020d}{_SUFFIX}"


def entry_number(name: str) -> int | None:
    """The number of the entry in a file of this name; None if it is none."""
    stem = name.removeprefix(f"{ENTRIES}/").removesuffix(_SUFFIX)
    return int(stem) if len(stem) == 20 and stem.isdigit() and name.endswith(_SUFFIX) else None


def _columns_to_text(columns: Columns) -> str:
    return base64.b64encode(zlib.compress(pa.schema(list(columns.items())).serialize().to_pybytes())).decode()


def _columns_from_text(text: str) -> Columns:
    schema = pa.ipc.read_schema(pa.py_buffer(zlib.decompress(base64.b64decode(text))))
    return {f.name: f.type for f in schema}
