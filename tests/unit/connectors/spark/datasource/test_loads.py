"""When a load is complete: once a process has said that all tasks have loaded what existed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from connect.spool.status import WriterState, WriterStatus
from connect.spool.writer import SpoolWriter
from connectors.spark.datasource import source
from connectors.spark.datasource.columns import RECORDS
from connectors.spark.datasource.source import SpoolBatchReader
from tests.unit.connect.spool.spools import NOW_MS, numbers


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_load_of_which_a_task_was_killed_continues(has_begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[Path] = []

    class Process:
        """Stands for the process that fills a spool: it reads what the second task has."""

        def __init__(self, *_: object) -> None: ...

        def ensure_running(self) -> None:
            starts.append(tmp_path)
            with_second_task(numbers_from=105, loaded=True)

        def check(self) -> WriterStatus:
            return WriterStatus(WriterState.LOADED, os.getpid())

    def with_second_task(*, numbers_from: int, loaded: bool) -> None:
        writer = SpoolWriter(tmp_path, "shop")
        writer.add_segment(1, [(numbers(numbers_from, 5), NOW_MS)], {"p1": str(numbers_from + 4)}, loaded=loaded)
        writer.close()

    monkeypatch.setattr(source, "SpoolerProcess", Process)
    writer = SpoolWriter(tmp_path, "shop")
    writer.add_segment(0, [(numbers(0, 3), NOW_MS)], {"p0": "2"}, loaded=True)
    writer.close()
    if has_begun:
        with_second_task(numbers_from=100, loaded=False)
    given = {"connector.class": "JdbcSourceConnector", "spool.location": str(tmp_path), "tasks.max": "2"}
    reader = SpoolBatchReader(given, from_arrow_schema(RECORDS), True)
    for _ in range(2):  # the second time, nothing is left to load
        found = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
        assert (found, len(starts)) == (13 if has_begun else 8, 1)
