"""Events of tables that Spark writes add up to the table at every version, with and without keys and a change data feed."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from connectors.spark import session
from connectors.spark.config import parse_config
from sluice.demo.delta_table import DeltaTableReader
from tests.support.replayed_events import Replayed, as_counter, events, read_all

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_CREATE = """
CREATE TABLE {t} (id BIGINT, v STRING, amount DECIMAL(12,2), at TIMESTAMP, tags ARRAY<STRING>, place STRUCT<x: INT, d: DATE>)
USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')
"""
_ROWS = """
SELECT id, concat('v', id), CAST(id AS DECIMAL(12,2)) / 4, timestamp'2024-01-01 00:00:00.000001' + make_interval(0, 0, 0, id),
array('a', CAST(id AS STRING)), named_struct('x', CAST(id AS INT), 'd', date'2024-01-01') FROM range({first}, {end})
"""
_MERGE = """
MERGE INTO {t} t USING (SELECT * FROM {t} WHERE id BETWEEN 5 AND 25) s ON t.id = s.id + 10
WHEN MATCHED AND t.id > 20 THEN DELETE WHEN MATCHED THEN UPDATE SET v = concat(s.v, '+')
WHEN NOT MATCHED THEN INSERT (id, v, amount) VALUES (s.id + 10, 'merged', s.amount)
"""
_STATEMENTS = [
    "INSERT INTO {t} " + _ROWS.format(first=0, end=20),
    "UPDATE {t} SET v = concat(v, '!'), amount = amount + 1 WHERE id % 5 = 0",
    "DELETE FROM {t} WHERE id IN (3, 4)",
    _MERGE,
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    _MERGE.replace("merged", "with feed"),
    "OPTIMIZE {t}",
    "ALTER TABLE {t} ADD COLUMN extra INT",
    "INSERT INTO {t} SELECT *, 7 FROM (" + _ROWS.format(first=100, end=105) + ")",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'false')",
    "ALTER TABLE {t} ADD COLUMNS (mapped STRUCT<inside: STRING>)",
    "INSERT INTO {t} SELECT *, 8, named_struct('inside', 'i') FROM (" + _ROWS.format(first=110, end=115) + ")",
    "UPDATE {t} SET mapped = named_struct('inside', v) WHERE id % 7 = 0",
    "DELETE FROM {t} WHERE id IN (5, 111)",
]


@pytest.mark.timeout(300)
def test_events_add_up_to_the_table_of_spark_at_every_version(props: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "lake" / "orders"
    lease = session.lease(parse_config(props).spark)
    try:
        spark = lease.session()
        for statement in [_CREATE, *_STATEMENTS]:
            spark.sql(statement.format(t=f"delta.`{folder}`")).collect()
        newest = spark.sql(f"DESCRIBE HISTORY delta.`{folder}` LIMIT 1").collect()[0]["version"]
    finally:
        lease.release()
    # delta-rs shares no code with Spark, nor with the source, and reads a version in milliseconds.
    versions = [DeltaTableReader(folder, v).read().to_pylist() for v in range(newest + 1)]
    for keys in ("", "id"):
        records = read_all(folder, source_start="0", key_columns=keys)
        replayed = Replayed()
        for version, rows in enumerate(versions):
            here = [record for record in records if (record.source_offset or {})["version"] == version]
            for record in here:
                replayed.apply(record)
            assert +replayed.rows == as_counter(map(_as_event, rows)), f"version {version}, keys {keys!r}"
        operations = Counter(op for op, _, _ in events(records))
        assert operations["u"] > 0
        if keys:
            # Statement by statement: 20 inserted, 4 updated, 2 deleted, and so on; a rewritten row is one update.
            assert _of_version(records, 2) == Counter(u=4)
            assert _of_version(records, 3) == Counter(d=2)
    snapshot = read_all(folder)
    assert as_counter(after for _, _, after in events(snapshot)) == as_counter(map(_as_event, versions[-1]))


def _of_version(records: list[Any], version: int) -> Counter[str]:
    return Counter(op for op, _, _ in events(r for r in records if r.source_offset["version"] == version))


def _as_event(row: dict[str, Any]) -> dict[str, Any]:
    """A row of Spark in the types of events."""
    place = row["place"]
    at = row["at"]
    return {
        **row,
        "at": None if at is None else at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "place": None if place is None else {"x": place["x"], "d": (place["d"] - dt.date(1970, 1, 1)).days},
    }
