"""What a table must know of the order of changes beyond its rows: positions of deleted keys, and of the last truncate.

The state is a few immutable files in a folder that readers of the table ignore. A commit of the table names the newest one by a
number, so state and rows change atomically. A file has the deletes of its commit, and names the files with earlier ones.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import secrets
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.config_keys import DELETED_RETENTION
from connectors.spark.errors import explain

FOLDER = "_sluice/source-order"
POSITION, DELETED_MS = "__position", "__deleted_ms"
_METADATA = b"sluice.source-order"
_FORMAT = 2
_UNUSED_DAYS = 7
"""How long files that the newest state no longer needs are kept, for readers of older ones and for rollbacks."""


@dataclass(frozen=True, slots=True)
class DeletedKeysFile:
    """A file with positions of deleted keys. ``until_ms`` is when the last one was deleted."""

    id: int
    rows: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class LastTruncate:
    """The last truncate of a table, which concerns changes of its topic: positions of several topics cannot be compared."""

    topic: str
    position: str

    def is_before(self, other: LastTruncate | None) -> bool:
        """Whether the other one is of the same topic and later."""
        return other is not None and other.topic == self.topic and self.position < other.position


@dataclass(frozen=True, slots=True)
class OrderState:
    """``id`` is 0 for a table without a state. ``segments`` are in the order of their age."""

    id: int = 0
    truncated: LastTruncate | None = None
    segments: tuple[DeletedKeysFile, ...] = field(default=())


class LostStateError(ConnectError):
    """A file of the state is missing or damaged."""


class OrderStateFiles:
    """The files of one table, in ``folder`` of a file system."""

    def __init__(self, files: fs.FileSystem, folder: str) -> None:
        self._files = files
        self._folder = folder
        self.are_shared = False
        """Whether branches of the table have states of their own here, which may need files that the others do not."""

    def read(self, state_id: int) -> OrderState:
        """Reads a state. Raises LostStateError, or another ConnectError when its file cannot be read now."""
        if not state_id:
            return OrderState()
        with self._reading(state_id), self._files.open_input_file(self.path(state_id)) as stream:
            schema = pq.read_schema(stream)
            document = json.loads((schema.metadata or {})[_METADATA])
            segments = tuple(DeletedKeysFile(**one) for one in document["segments"])
            truncated = document["truncated"]
            return OrderState(state_id, None if truncated is None else LastTruncate(**truncated), segments)

    def read_rows(self, segment: DeletedKeysFile) -> pa.Table:
        """Reads the keys of a segment, with ``POSITION`` and ``DELETED_MS``. Raises as :meth:`read`."""
        with self._reading(segment.id), self._files.open_input_file(self.path(segment.id)) as stream:
            return pq.read_table(stream)

    def write(self, rows: pa.Table, truncated: LastTruncate | None, earlier: Collection[DeletedKeysFile]) -> OrderState:
        """Writes a state: these rows, and earlier segments. Until a commit names it, it belongs to nobody."""
        state_id = secrets.randbits(62) | 1
        segments = tuple(earlier)
        if rows.num_rows:
            until_ms = max(rows[DELETED_MS].to_pylist())
            segments = (*segments, DeletedKeysFile(state_id, rows.num_rows, until_ms))
        document = {
            "format": _FORMAT,
            "truncated": None if truncated is None else asdict(truncated),
            "segments": [asdict(segment) for segment in segments],
        }
        rows = rows.replace_schema_metadata({_METADATA: json.dumps(document)})
        path = self.path(state_id)
        if isinstance(self._files, fs.LocalFileSystem):
            self._files.create_dir(self._folder, recursive=True)
        try:
            with self._files.open_output_stream(path) as stream:
                pq.write_table(rows, stream, compression="zstd", compression_level=1)
        except BaseException:
            self.delete(state_id)
            raise
        return OrderState(state_id, truncated, segments)

    def delete(self, state_id: int) -> None:
        """Deletes a file that certainly no commit names."""
        with contextlib.suppress(OSError):
            self._files.delete_file(self.path(state_id))

    def delete_unused(self, state: OrderState, now: dt.datetime) -> None:
        """Deletes old files that the table's newest state does not need, unless branches share them."""
        if self.are_shared:
            return
        needed = {self.path(number).rpartition("/")[2] for number in (state.id, *(s.id for s in state.segments))}
        for info in self._files.get_file_info(fs.FileSelector(self._folder, allow_not_found=True)):
            is_old = info.mtime is not None and now - info.mtime > dt.timedelta(days=_UNUSED_DAYS)
            if is_old and info.base_name.endswith(".parquet") and info.base_name not in needed:
                with contextlib.suppress(OSError):
                    self._files.delete_file(info.path)

    def path(self, state_id: int) -> str:
        return f"{self._folder}/{state_id:020d}.parquet"

    @contextlib.contextmanager
    def _reading(self, state_id: int) -> Iterator[None]:
        path = self.path(state_id)
        try:
            yield
        except (FileNotFoundError, pa.ArrowInvalid, KeyError, ValueError, TypeError) as e:
            raise LostStateError(
                f"the file {path} with the positions of deleted keys is missing or damaged: {e}. Restore it; or have the "
                f"connector forget deleted keys and the last truncate: run it with {DELETED_RETENTION}=0 until it has committed "
                "a change, after which late changes from before may bring rows back"
            ) from e
        except OSError as e:
            raise explain(e, f"cannot read {path}") from e


KeyTypes = Mapping[str, pa.DataType]
"""The key columns of a table, with their types in it."""
