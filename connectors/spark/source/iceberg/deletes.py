"""Which rows of a data file are deleted: deletion vectors, files of position deletes, and files of equality deletes.

Format: "Delete Formats" and "Scan Planning" of Iceberg's specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connect.errors import ConnectError
from connectors.spark.source.errors import UnsupportedTableError
from connectors.spark.source.iceberg.columns import ROW_TYPES
from connectors.spark.source.iceberg.manifests import EQUALITY_DELETES, PARQUET, POSITION_DELETES, FileEntry
from connectors.spark.source.iceberg.metadata import Json, TableMetadata
from connectors.spark.tables.files.file_columns import FileColumns
from connectors.spark.tables.files.file_reader import FileRows
from connectors.spark.tables.files.key_encoding import comparable_bytes
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles, reading
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.iceberg import puffin
from connectors.spark.tables.iceberg.columns import file_columns, identity_values

NO_ROWS: Rows = np.empty(0, np.int64)
_BATCH_ROWS = 50_000
_KEPT_KEYS_BYTES = 64 << 20


@dataclass(slots=True)
class DeleteReader:
    """Reads the delete files of one table. What it has read of a snapshot is kept until :meth:`forget`."""

    files: LiveFiles
    metadata: TableMetadata
    table: str
    """Its name in messages."""
    _positions: dict[str, Mapping[str, Rows]] = field(default_factory=dict)
    _matches: dict[tuple[str, str], Rows] = field(default_factory=dict)
    """By data file and file of equality deletes."""
    _equal_keys: dict[str, pa.ChunkedArray] = field(default_factory=dict)
    """By file of equality deletes, at most :data:`_KEPT_KEYS_BYTES` and one file."""

    def forget(self) -> None:
        """Releases what was read."""
        self._positions.clear()
        self._equal_keys.clear()
        self._matches.clear()

    def forget_matches(self) -> None:
        """Releases what was computed of data files that were read."""
        self._matches.clear()

    def live_file(self, entry: FileEntry) -> LiveFile:
        """The data file, or a file of equality deletes, of an entry. Raises UnsupportedTableError if it is not Parquet."""
        if entry.format != PARQUET:
            raise UnsupportedTableError(
                f"the file {entry.path} of table {self.table} has the format {entry.format}, and SparkSource reads Parquet. "
                "Rewrite the data files as Parquet with Spark (CALL <catalog>.system.rewrite_data_files), and read from there on"
            )
        spec = self.metadata.specs.get(entry.spec)
        if spec is None and entry.partition:
            raise ConnectError(
                f"the file {entry.path} of table {self.table} has the partition spec {entry.spec}, which the table's metadata no "
                "longer has. Rewrite the data files with Spark (CALL <catalog>.system.rewrite_data_files), and read from there on"
            )
        return LiveFile(0, {}, entry.path, 0, entry.rows, values=identity_values(entry.partition, spec or {}))

    def paths(self, delete: FileEntry) -> Iterable[str]:
        """The data files in which a vector or a file of position deletes has rows."""
        return (delete.of,) if delete.of is not None else self._read_positions(delete)

    def deleted_rows(self, data: FileEntry, deletes: Sequence[FileEntry]) -> Rows:
        """The rows of a data file that these delete files delete, sorted; they must apply to it."""
        # A deletion vector replaces all other position deletes of its file.
        vectors = [one for one in deletes if one.is_vector]
        parts = [self._read_vector(one) for one in vectors]
        for one in deletes:
            if one.content == POSITION_DELETES and not vectors:
                parts.append(self._read_positions(one).get(data.path, NO_ROWS))
            elif one.content == EQUALITY_DELETES:
                parts.append(self._matching_rows(data, one))
        if len(parts) == 1:
            return parts[0]
        return np.unique(np.concatenate(parts)) if parts else NO_ROWS

    def _read_vector(self, delete: FileEntry) -> Rows:
        path = self.files.format.location(delete.path)
        with reading(path, self.files.format.restore_hint), self.files.files.open_input_file(path) as stream:
            stream.seek(delete.offset)
            return puffin.read_vector(bytes(stream.read(delete.length)), 0, delete.length, delete.rows)

    def _read_positions(self, delete: FileEntry) -> Mapping[str, Rows]:
        """By data file: the rows that a file of position deletes deletes."""
        if delete.path not in self._positions:
            path = self.files.format.location(self.live_file(delete).path)
            with reading(path, self.files.format.restore_hint), self.files.files.open_input_file(path) as stream:
                parquet = pq.ParquetFile(stream, read_dictionary=["file_path"])
                rows = parquet.read(columns=["file_path", "pos"], use_threads=False).unify_dictionaries().combine_chunks()
            paths = rows["file_path"].combine_chunks()
            if isinstance(paths, pa.ChunkedArray):  # no rows
                paths = pa.array([], pa.dictionary(pa.int32(), pa.string()))
            places = paths.indices.to_numpy(zero_copy_only=False)
            numbers = rows["pos"].to_numpy()
            names = paths.dictionary.to_pylist()
            self._positions[delete.path] = {n: np.unique(numbers[places == place]) for place, n in enumerate(names)}
        return self._positions[delete.path]

    # --- equality deletes

    def _matching_rows(self, data: FileEntry, delete: FileEntry) -> Rows:
        """The rows of a data file that equal one of a file of equality deletes."""
        known = self._matches.get((data.path, delete.path))
        if known is not None:
            return known
        columns = self._equality_columns(delete)
        gone = self._keys_of(delete, columns)
        found, first = [], 0
        for rows in self._read(data, columns):
            matches = pc.is_in(_keys(rows), gone).to_numpy(zero_copy_only=False)
            found.append(np.flatnonzero(matches) + first)
            first += rows.num_rows
        self._matches[data.path, delete.path] = rows_found = np.concatenate(found) if found else NO_ROWS
        return rows_found

    def _keys_of(self, delete: FileEntry, columns: FileColumns) -> pa.ChunkedArray:
        if delete.path not in self._equal_keys:
            if sum(keys.nbytes for keys in self._equal_keys.values()) > _KEPT_KEYS_BYTES:
                self._equal_keys.clear()
            parts = [_keys(rows) for rows in self._read(delete, columns)]
            self._equal_keys[delete.path] = pa.chunked_array(parts, pa.binary())
        return self._equal_keys[delete.path]

    def _read(self, entry: FileEntry, columns: FileColumns) -> Iterator[pa.Table]:
        return FileRows(self.live_file(entry)).read(self.files, columns, _BATCH_ROWS)

    def _equality_columns(self, delete: FileEntry) -> FileColumns:
        # A column that was dropped since is in an older schema.
        known: dict[int, Json] = {}
        for schema in [*self.metadata.schemas.values(), self.metadata.schemas[self.metadata.current_schema_id]]:
            known |= {column["id"]: column for column in schema["fields"]}
        missing = [number for number in delete.equality_ids if number not in known]
        if missing or not delete.equality_ids:
            raise UnsupportedTableError(
                f"the file {delete.path} of table {self.table} deletes rows by nested fields (IDs {missing}), which SparkSource "
                "does not read. Rewrite the data files with Spark (CALL <catalog>.system.rewrite_data_files with "
                "'delete-file-threshold' => '1'), and read from there on"
            )
        return file_columns([known[number] for number in delete.equality_ids], self.metadata.properties, ROW_TYPES)


def _keys(rows: pa.Table) -> pa.Array:
    """The columns of each row as one value: equal for equal rows, where nulls are equal too."""
    parts = []
    for column in rows.columns:
        data = comparable_bytes(column)
        size = pc.binary_length(data).cast(pa.string()).cast(pa.binary())
        parts += [pc.fill_null(size, b"null"), pc.fill_null(data, b"")]
    found = pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.binary()))
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def applies(delete: FileEntry, data: FileEntry) -> bool:
    """Whether a delete file may have rows of a data file."""
    if delete.content == EQUALITY_DELETES:
        in_scope = delete.is_global or (delete.spec, delete.partition) == (data.spec, data.partition)
        return in_scope and data.sequence < delete.sequence
    if delete.of is not None and delete.of != data.path:
        return False
    return (delete.spec, delete.partition) == (data.spec, data.partition) and data.sequence <= delete.sequence
