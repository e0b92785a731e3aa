"""Writes the data files of Iceberg tables. Their statistics are read from their footers when they are committed."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import DataError
from connectors.spark.plan.stored_variants import for_file
from connectors.spark.tables.iceberg.file_format import LINEAGE, LINEAGE_IDS
from connectors.spark.tables.iceberg.partitioning import Values
from connectors.spark.tables.iceberg.types import FIELD_ID, Json, file_schema
from connectors.spark.tables.iceberg.variant_annotation import open_parquet_writer
from connectors.spark.tables.staging import path_in_file_system

Entry = dict[str, Any]
_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "store_decimal_as_integer": True,
    "store_schema": False,
}


class IcebergFileWriter:
    """Writes files under ``folder``, a URI, for a table with this schema."""

    def __init__(self, files: fs.FileSystem, folder: str, schema: Json, spec_id: int, row_group_size: int) -> None:
        self._files = files
        self._folder = folder
        self._schema = schema
        self._spec_id = spec_id
        self._row_group_size = row_group_size
        self._required = [field["name"] for field in schema["fields"] if field.get("required")]

    def write(self, rows: pa.Table, partition: Values, spec_id: int | None = None) -> Entry:
        """Writes the rows of one partition into a file; returns its entry. Until that is committed, the file belongs to nobody.

        Raises DataError when a required column has no value.
        """
        self._check_required(rows)
        path = self._new_path()
        in_file = self._file_rows(rows)
        with self._create(path) as stream, open_parquet_writer(stream, in_file.schema, **_OPTIONS) as parquet:
            parquet.write_table(in_file, self._row_group_size)
        return self._entry(path, rows.num_rows, partition, spec_id)

    def write_batches(self, batches: Iterable[pa.Table], partition: Values, spec_id: int) -> Entry | None:
        """Writes one file from batches with the same columns, as they come; None, and no file, when there are no rows."""
        path, count = self._new_path(), 0
        parquet: pq.ParquetWriter | None = None
        with self._create(path) as stream, contextlib.ExitStack() as opened:
            for batch in batches:
                if not batch.num_rows:
                    continue
                rows = self._file_rows(batch)
                parquet = parquet or opened.enter_context(open_parquet_writer(stream, rows.schema, **_OPTIONS))
                parquet.write_table(rows, self._row_group_size)
                count += batch.num_rows
        if not count:
            self.delete([path])
            return None
        return self._entry(path, count, partition, spec_id)

    def write_bytes(self, data: bytes) -> str:
        """Writes a Puffin file; returns its path."""
        path = f"{self._folder}/{uuid.uuid4()}.puffin"
        with self._create(path) as stream:
            stream.write(data)
        return path

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes files that certainly no commit names."""
        for path in paths:
            with contextlib.suppress(OSError):
                self._files.delete_file(path_in_file_system(path))

    def _check_required(self, rows: pa.Table) -> None:
        for name in self._required:
            if name not in rows.column_names:
                raise DataError(f"column {name} is required in the table, and the records do not have it", 0)
            if rows[name].null_count:
                index = rows[name].is_null().to_pylist().index(True)
                raise DataError(f"column {name} is required in the table, and null in the records", index)

    def _file_rows(self, rows: pa.Table) -> pa.Table:
        """The rows with the IDs of their fields."""
        names = [name for name in rows.column_names if name not in LINEAGE]
        fields = {field.name: field for field in file_schema(self._schema, names)}
        fields |= {n: pa.field(n, t, metadata={FIELD_ID: str(LINEAGE_IDS[n]).encode()}) for n, t in LINEAGE.items()}
        schema = pa.schema([fields[name] for name in rows.column_names])
        columns = [column.cast(field.type) for column, field in zip(for_file(rows).columns, schema, strict=True)]
        return pa.Table.from_arrays(columns, schema=schema)

    def _new_path(self) -> str:
        return f"{self._folder}/{uuid.uuid4()}.parquet"

    def _entry(self, path: str, count: int, partition: Values, spec_id: int | None) -> Entry:
        return {
            "path": path,
            "format": "PARQUET",
            "size": self._files.get_file_info(path_in_file_system(path)).size,
            "rows": count,
            "spec": self._spec_id if spec_id is None else spec_id,
            "partition": list(partition),
        }

    @contextlib.contextmanager
    def _create(self, path: str) -> Iterator[pa.NativeFile]:
        """A new file, deleted if the block fails."""
        place = path_in_file_system(path)
        if isinstance(self._files, fs.LocalFileSystem):
            self._files.create_dir(place.rpartition("/")[0], recursive=True)
        try:
            with self._files.open_output_stream(place) as stream:
                yield stream
        except BaseException:
            self.delete([path])
            raise
