"""Creates the manifest of a table that an earlier release wrote, with the commits in the footers of its files."""

from __future__ import annotations

import base64
import contextlib

import pyarrow as pa
import pyarrow.parquet as pq

from connect.errors import ConnectError
from connectors.spark.plan.evolution import Columns, with_additions
from connectors.spark.tables.committed_offsets import CommittedOffsets, parse_commit
from connectors.spark.tables.parquet_files import TableFiles
from connectors.spark.tables.parquet_manifest import FOLDER, ConnectorOffsets, Manifest, ManifestEntry, ManifestState

PREFIX = "sluice-"
SUFFIX = ".parquet"
MANIFEST_MARK = b"sluice.manifest"
"""Key in the footer of a file whose commit is in the manifest."""
_COMMIT_KEY = b"sluice"
_COLUMNS_KEY = b"sluice.columns"


def migrate(files: TableFiles, manifest: Manifest, path: str) -> ManifestEntry | None:
    """Reads all footers once and adds the first entry; None if there are no files.

    Tasks of earlier releases must have ended: nothing fences them. Any number of tasks of this release may do this at once.
    """
    found = sorted((f.name for f in files.files_in("") if is_table_file(f.name)), reverse=True)
    for file in files.files_in(""):
        # Drafts of earlier releases, which have no owner. Deleting one that is still being written fails its task.
        if file.name.startswith(f".{PREFIX}"):
            with contextlib.suppress(OSError):
                files.delete(file.name)
    if not found:
        return None
    # Another task may have added the first entry and its files since the manifest was read.
    if (entry := manifest.refresh()) is not None:
        return entry
    state = _read_footers(files, found, path)
    return manifest.add(state, description={"migrated_files": len(found)}) or manifest.newest


def is_table_file(name: str) -> bool:
    """Whether the sink has written the file of this name."""
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def _read_footers(files: TableFiles, names: list[str], path: str) -> ManifestState:
    connectors: dict[str, CommittedOffsets] = {}
    columns: Columns = {}
    for name in names:  # the newest of each connector first
        with files.open_input(name) as file:
            try:
                schema = pq.read_schema(file)
            except (pa.ArrowException, OSError) as e:
                raise ConnectError(f"{path}/{name} cannot be read: {e}; delete the file if its rows are not needed") from e
        metadata = schema.metadata or {}
        if MANIFEST_MARK in metadata:
            raise ConnectError(
                f"the manifest of the table at {path} is missing: restore {path}/{FOLDER}, or remove the whole "
                "directory and start over"
            )
        commit = parse_commit((metadata.get(_COMMIT_KEY) or b"").decode())
        if commit is not None:
            connectors.setdefault(commit.connector, CommittedOffsets()).add_older_commit(commit)
        listed = metadata.get(_COLUMNS_KEY)
        # A footer lists all columns that its task knew, with the types of the oldest files.
        known = schema if listed is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(listed)))
        columns = with_additions(columns, {f.name: f.type for f in known})
        columns = with_additions(columns, {f.name: f.type for f in schema})
    offsets = {name: ConnectorOffsets(one.sequence or 0, one.ends) for name, one in connectors.items()}
    return ManifestState(offsets, columns)
