"""Writes the data files of Iceberg tables. Their statistics are read from their footers when they are committed."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyarrow import fs

from connect.errors import DataError
from connectors.spark.plan.row_limits import find_missing, with_requirements
from connectors.spark.plan.stored_variants import for_file
from connectors.spark.tables.files.file_writer import FileWriter
from connectors.spark.tables.iceberg.file_format import LINEAGE, LINEAGE_FIELDS
from connectors.spark.tables.iceberg.partitioning import Values
from connectors.spark.tables.iceberg.types import INITIAL, Json, arrow_type, file_schema
from connectors.spark.tables.iceberg.variant_annotation import open_parquet_writer
from connectors.spark.tables.staging import path_in_file_system

Entry = dict[str, Any]
_open_writer = functools.partial(
    open_parquet_writer, compression="zstd", compression_level=1, store_decimal_as_integer=True, store_schema=False
)


class IcebergFileWriter:
    """Writes files under ``folder``, a URI, for a table with this schema."""

    def __init__(self, files: fs.FileSystem, folder: str, schema: Json, spec_id: int, row_group_size: int) -> None:
        self._files = FileWriter(files, path_in_file_system, row_group_size, _open_writer)
        self._folder = folder
        self._schema = schema
        self._spec_id = spec_id
        self._required = with_requirements(schema["fields"])

    def write(self, rows: pa.Table, partition: Values, spec_id: int | None = None) -> Entry:
        """Writes the rows of one partition into a file; returns its entry. Until that is committed, the file belongs to nobody.

        Raises DataError when a required column has no value.
        """
        missing = find_missing(rows, self._required)
        if missing is not None:
            path, row = missing
            raise DataError(f"column {path} is required in the table, and null in the records", row)
        path = self._new_path("parquet")
        return self._entry(path, self._files.write(path, self._file_rows(rows)), partition, spec_id)

    def write_batches(self, batches: Iterable[pa.Table], partition: Values, spec_id: int) -> Entry | None:
        """Writes one file from batches with the same columns, as they come; None, and no file, when there are no rows."""
        path = self._new_path("parquet")
        count = self._files.write(path, (self._file_rows(batch) for batch in batches if batch.num_rows))
        return self._entry(path, count, partition, spec_id) if count else None

    def write_bytes(self, data: bytes) -> str:
        """Writes a Puffin file; returns its path."""
        path = self._new_path("puffin")
        self._files.write_bytes(path, data)
        return path

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes files that certainly no commit names."""
        self._files.delete(paths)

    def _file_rows(self, rows: pa.Table) -> pa.Table:
        """The rows with the IDs of their fields, and with null in columns that they lack and readers would take the initial
        default for."""
        for field in self._schema["fields"]:
            if field.get(INITIAL) is not None and field["name"] not in rows.column_names:
                rows = rows.append_column(field["name"], pa.nulls(rows.num_rows, arrow_type(field["type"], field["name"])))
        names = [name for name in rows.column_names if name not in LINEAGE]
        fields = {**{field.name: field for field in file_schema(self._schema, names)}, **LINEAGE_FIELDS}
        schema = pa.schema([fields[name] for name in rows.column_names])
        columns = [column.cast(field.type) for column, field in zip(for_file(rows).columns, schema, strict=True)]
        return pa.Table.from_arrays(columns, schema=schema)

    def _new_path(self, suffix: str) -> str:
        if isinstance(self._files.files, fs.LocalFileSystem):
            self._files.files.create_dir(path_in_file_system(self._folder), recursive=True)
        return f"{self._folder}/{uuid.uuid4()}.{suffix}"

    def _entry(self, path: str, count: int, partition: Values, spec_id: int | None) -> Entry:
        return {
            "path": path,
            "format": "PARQUET",
            "size": self._files.size(path),
            "rows": count,
            "spec": self._spec_id if spec_id is None else spec_id,
            "partition": list(partition),
            "schema": self._schema.get("schema-id"),
        }
