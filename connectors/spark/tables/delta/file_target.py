"""Writes data files of a Delta table in an executor of Spark."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.delta.change import DeltaChange
from connectors.spark.tables.delta.data_files import DataFileWriter
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.executor_files import NewFile, missing_files
from connectors.spark.tables.staging import open_location


@dataclass(frozen=True, slots=True)
class DeltaFileTarget:
    """Files of the table at ``path``."""

    path: str
    s3: S3Settings | None = field(repr=False)
    layout: TableLayout
    version: int
    row_group: int

    def check(self) -> None:
        files, folder = open_location(self.path, self.s3)
        log = f"{folder}/_delta_log"
        signs = files.get_file_info([f"{log}/{self.version:020}.json", f"{log}/_last_checkpoint"])
        if all(sign.type == fs.FileType.NotFound for sign in signs):
            raise ConnectError(
                f"host {socket.gethostname()} does not find version {self.version} of the table at {self.path}: table.location "
                "must be the same storage on every host of the cluster and on the worker, such as S3, HDFS, or a mounted share"
            )

    def write(self, rows: pa.Table) -> list[NewFile]:
        change = DeltaChange(self._writer(), self.layout, rows)
        with change.writing():
            change.write_rows()
        return [NewFile(str(add["path"]), add, change.new_rows[str(add["path"])]) for add in change.adds]

    def find_missing(self, paths: Sequence[str]) -> list[str]:
        files, folder = open_location(self.path, self.s3)
        return missing_files(files, {path: f"{folder}/{path}" for path in paths})

    def delete(self, paths: Collection[str]) -> None:
        self._writer().delete(paths)

    def _writer(self) -> DataFileWriter:
        files, folder = open_location(self.path, self.s3)
        return DataFileWriter(files, folder, self.row_group)
