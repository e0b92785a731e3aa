"""Writes Parquet files with chosen modification times into a directory, as the writers of a lake do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = Mapping[str, Any]
COLUMNS: dict[str, pa.DataType] = {"id": pa.int64(), "v": pa.string()}


def rows_of(*ids: int) -> list[Row]:
    return [{"id": number, "v": f"v{number}"} for number in ids]


class ParquetDirectory:
    """A directory. Times of files are in seconds before now; files are complete when they appear."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[Row] = []
        """All rows that were added."""
        folder.mkdir(parents=True)

    def add(
        self,
        name: str,
        rows: Iterable[Row],
        columns: Mapping[str, pa.DataType] | None = None,
        *,
        age_s: float = 100_000,
        group_rows: int = 3,
    ) -> Path:
        """Adds a file, or replaces one."""
        listed = list(rows)
        table = pa.Table.from_pylist(listed, pa.schema(list((columns or COLUMNS).items())))
        self.rows += listed
        return self.add_table(name, table, age_s=age_s, group_rows=group_rows)

    def add_table(self, name: str, table: pa.Table, *, age_s: float = 100_000, group_rows: int = 1000) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        pq.write_table(table, temporary, row_group_size=group_rows)
        set_age(temporary, age_s)
        temporary.rename(path)
        return path


def set_age(path: Path, age_s: float) -> None:
    """Sets the modification time."""
    at = time.time_ns() - int(age_s * 1_000_000_000)
    os.utime(path, ns=(at, at))
