"""Writes data files of an Iceberg table in an executor of Spark."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.executor_files import NewFile, missing_files
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.partitioning import Partitioning
from connectors.spark.tables.iceberg.types import Json
from connectors.spark.tables.staging import open_location, path_in_file_system


@dataclass(frozen=True, slots=True)
class IcebergFileTarget:
    """Files of a table in the folder ``data``, a URI."""

    location: str
    data: str
    s3: S3Settings | None = field(repr=False)
    schema: Json
    spec: Json
    row_group: int

    def check(self) -> None:
        files, folder = open_location(self.location, self.s3)
        if isinstance(files, fs.LocalFileSystem) and files.get_file_info(f"{folder}/metadata").type == fs.FileType.NotFound:
            raise ConnectError(
                f"host {socket.gethostname()} does not find the table at {self.location}: its catalog must place tables in "
                "storage that is the same on every host of the cluster and on the worker, such as S3, HDFS, or a mounted share"
            )

    def write(self, rows: pa.Table) -> list[NewFile]:
        change = IcebergChange(self._writer(), Partitioning.read(self.spec, self.schema), rows)
        with change.writing():
            change.write_rows()
        return [NewFile(str(entry["path"]), entry, change.new_rows[str(entry["path"])]) for entry in change.added]

    def find_missing(self, paths: Sequence[str]) -> list[str]:
        files, _ = open_location(self.data, self.s3)
        return missing_files(files, {path: path_in_file_system(path) for path in paths})

    def delete(self, paths: Collection[str]) -> None:
        self._writer().delete(paths)

    def _writer(self) -> IcebergFileWriter:
        files, _ = open_location(self.data, self.s3)
        folder = self.data.rpartition("/")[0]
        return IcebergFileWriter(files, folder, self.schema, int(self.spec["spec-id"]), self.row_group)
