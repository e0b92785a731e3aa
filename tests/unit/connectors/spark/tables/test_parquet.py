"""Parquet directories as tables: columns in the footers after a restart."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from connect.record import TopicPartition
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.parquet import ParquetTable

PARTITION = TopicPartition("t", 0)


def append(table: ParquetTable, sequence: int, columns: dict[str, pa.Array]) -> None:
    table.append(pa.table(columns), TableCommit("c", sequence, {PARTITION: (sequence, sequence + 1)}, {PARTITION: sequence + 1}))


def test_a_column_missing_in_newer_files_keeps_its_type_after_a_restart(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path / "t"), "c")
    assert table.columns() is None
    append(table, 1, {"a": pa.array([1]), "old": pa.array(["x"]), "s": pa.array([{"p": 1}])})
    for sequence in range(2, 130):
        append(table, sequence, {"a": pa.array([1]), "s": pa.array([{"q": "x"}])})
    found = ParquetTable(str(tmp_path / "t"), "c").columns()
    nested = pa.struct([("p", pa.int64()), ("q", pa.string())])
    assert found == {"a": pa.int64(), "old": pa.string(), "s": nested}


def test_columns_of_two_tasks_are_put_together(tmp_path: Path) -> None:
    one, other = ParquetTable(str(tmp_path / "t"), "c"), ParquetTable(str(tmp_path / "t"), "c")
    append(one, 1, {"a": pa.array([1]), "one": pa.array([1.0])})
    append(other, 2, {"a": pa.array([1]), "other": pa.array([True])})
    found = ParquetTable(str(tmp_path / "t"), "c").columns()
    assert found == {"a": pa.int64(), "one": pa.float64(), "other": pa.bool_()}


def test_files_without_a_column_list_are_read_by_their_own_columns(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path / "t"), "c")
    append(table, 1, {"a": pa.array([1])})
    (written,) = (tmp_path / "t").glob("*.parquet")
    rows = pq.read_table(written)
    metadata = {key: value for key, value in rows.schema.metadata.items() if key != b"sluice.columns"}
    pq.write_table(rows.replace_schema_metadata(metadata), written)
    assert ParquetTable(str(tmp_path / "t"), "c").columns() == {"a": pa.int64()}
