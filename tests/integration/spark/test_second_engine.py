"""The second engine reads what Spark writes: every type, deletion vectors, checkpoints, and columns added later."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from connect.errors import NotFoundError
from connectors.spark import session
from connectors.spark.config import parse_config
from sluice.demo.delta_table import DeltaTableReader, read_delta_table

UTC = datetime.UTC
COLUMNS = """
    id BIGINT, tiny TINYINT, small SMALLINT, whole INT, wide DECIMAL(38, 10), price DECIMAL(12, 2), real FLOAT, exact DOUBLE,
    flag BOOLEAN, text STRING, bytes BINARY, day DATE, instant TIMESTAMP, local TIMESTAMP_NTZ, list ARRAY<STRING>,
    pairs MAP<STRING, BINARY>, nested STRUCT<price: DECIMAL(20, 3), `items`: ARRAY<STRUCT<at: TIMESTAMP_NTZ, `the-text`: STRING>>>
"""
ROWS = """
    (1, 127Y, 32767S, 2147483647, 9999999999999999999999999999.0123456789BD, -0.01BD, float('inf'), double('-0.0'),
     true, 'näme \U0001f600', X'00ff', DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00.000001Z',
     TIMESTAMP_NTZ'0001-01-01 00:00:00.000001',
     array('a', NULL, ''), map('k', X'01'), named_struct('price', 1.125BD, 'items',
     array(named_struct('at', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 'the-text', 'x')))),
    (2, -128Y, -32768S, -2147483648, -0.0000000001BD, 9999999999.99BD, float('nan'), double('4.9E-324'),
     false, '', X'', DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999Z', TIMESTAMP_NTZ'1969-12-31 23:59:59.999999',
     array(), map(), named_struct('price', NULL, 'items', NULL)),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""
FIRST: dict[str, Any] = {
    "id": 1,
    "tiny": 127,
    "small": 32767,
    "whole": 2147483647,
    "wide": Decimal("9999999999999999999999999999.0123456789"),
    "price": Decimal("-0.01"),
    "real": float("inf"),
    "flag": True,
    "text": "näme \U0001f600",
    "bytes": b"\x00\xff",
    "day": datetime.date(1, 1, 1),
    "instant": datetime.datetime(1, 1, 1, 0, 0, 0, 1, UTC),
    "local": datetime.datetime(1, 1, 1, 0, 0, 0, 1),
    "list": ["a", None, ""],
    "pairs": [("k", b"\x01")],
    "nested": {
        "price": Decimal("1.125"),
        "items": [{"at": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), "the-text": "x"}],
    },
}
SECOND: dict[str, Any] = {
    "id": 2,
    "tiny": -128,
    "small": -32768,
    "whole": -2147483648,
    "wide": Decimal("-0.0000000001"),
    "price": Decimal("9999999999.99"),
    "exact": 5e-324,
    "flag": False,
    "text": "",
    "bytes": b"",
    "day": datetime.date(9999, 12, 31),
    "instant": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    "local": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    "list": [],
    "pairs": [],
    "nested": {"price": None, "items": None},
}


@pytest.fixture
def spark(props: dict[str, str]) -> Iterator[Any]:
    lease = session.lease(parse_config(props).spark)
    yield lease.session()
    lease.release()


def create_with_vectors(spark: Any, path: Path, columns: str, **properties: str) -> str:
    settings = {"delta.enableDeletionVectors": "true", **properties}
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta TBLPROPERTIES ({shown})")
    return f"delta.`{path}`"


def vectors_in(path: Path) -> int:
    return sum(log.read_text(encoding="utf-8").count('"deletionVector":{') for log in (path / "_delta_log").glob("*.json"))


def test_every_type_is_read_exactly(spark: Any, tmp_path: Path) -> None:
    name = create_with_vectors(spark, tmp_path / "t", COLUMNS)
    spark.sql(f"INSERT INTO {name} VALUES {ROWS}")
    found = read_delta_table(tmp_path / "t").sort_by("id")
    first, second, third = found.to_pylist()
    assert {key: value for key, value in first.items() if key != "exact"} == FIRST
    assert str(first["exact"]) == "-0.0"
    assert {key: value for key, value in second.items() if key != "real"} == SECOND
    assert str(second["real"]) == "nan"
    assert third == {**dict.fromkeys(FIRST), "exact": None, "id": 3}
    assert found.schema.field("text").type == pa.string()
    assert found.schema.field("list").type.value_type == pa.string()
    assert found.schema.field("instant").type == pa.timestamp("us", tz="UTC")
    assert found.schema.field("local").type == pa.timestamp("us")


def test_dates_beyond_python_are_read_exactly(spark: Any, tmp_path: Path) -> None:
    name = create_with_vectors(spark, tmp_path / "t", "day DATE, local TIMESTAMP_NTZ")
    spark.sql(
        f"INSERT INTO {name} SELECT date_from_unix_date(n), CAST(timestamp_micros(m) AS TIMESTAMP_NTZ)"
        " FROM VALUES (-2147483648, -9223372036854775808), (2147483647, 9223372036854775807) AS v(n, m)"
    )
    found = read_delta_table(tmp_path / "t")
    assert sorted(found["day"].cast(pa.int32()).to_pylist()) == [-2147483648, 2147483647]
    assert sorted(found["local"].cast(pa.int64()).to_pylist()) == [-9223372036854775808, 9223372036854775807]


@pytest.mark.long
def test_rows_in_deletion_vectors_are_not_read(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    # A checkpoint after each third commit: vectors come from checkpoints and from commits.
    name = create_with_vectors(spark, path, "id BIGINT, text STRING", **{"delta.checkpointInterval": "3"})
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, 'first' FROM range(1000)")
    spark.sql(f"DELETE FROM {name} WHERE id % 3 = 0")
    spark.sql(f"UPDATE {name} SET text = 'changed' WHERE id = 1")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (more STRING)")
    spark.sql(f"DELETE FROM {name} WHERE id = 2")
    assert vectors_in(path) > 0
    assert list((path / "_delta_log").glob("*.checkpoint*.parquet"))
    found = read_delta_table(path).sort_by("id")
    assert found["id"].to_pylist() == [id for id in range(1000) if id % 3 and id != 2]
    assert found.slice(0, 1).to_pylist() == [{"id": 1, "text": "changed", "more": None}]
    assert pc.all(pc.is_null(found["more"])).as_py()
    earlier = DeltaTableReader(path, version=1)
    assert (earlier.version, earlier.columns) == (1, ["id", "text"])
    assert earlier.read(["id"]).num_rows == 1000


def test_folder_without_a_table_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no Delta table"):
        read_delta_table(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="no Delta table"):
        read_delta_table(tmp_path / "empty")
