"""Random rows of many types round-trip."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.jdbc.options import InsertMode
from tests.integration.jdbc.postgres.conftest import Desk

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from(
    ["\\N", "\\.", "NULL", "\\", "\t", "\r\n", "{}", '"', ",", "'", "\\x00"]
)
MILLIS = st.integers(0, 999).map(lambda ms: dt.timedelta(milliseconds=ms))
SECONDS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)).map(lambda at: at.replace(microsecond=0))
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "smallint": st.integers(-(1 << 15), (1 << 15) - 1),
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "double precision": st.floats(),
    "numeric(20,5)": st.decimals(-(10**14), 10**14, places=5),
    "numeric": st.integers(-(10**40), 10**40).map(Decimal),
    "boolean": st.booleans(),
    "text": TEXT,
    "bytea": st.binary(max_size=50),
    "date": st.dates(),
    "timestamp": st.builds(lambda at, ms: at + ms, SECONDS, MILLIS),
    "timestamptz": st.builds(lambda at, ms: (at + ms).replace(tzinfo=dt.UTC), SECONDS, MILLIS),
    "text[]": st.lists(st.none() | TEXT, max_size=4),
    "bigint[]": st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), max_size=4),
    "interval": st.timedeltas(dt.timedelta(days=-10_000), dt.timedelta(days=10_000)),
    "jsonb": TEXT.map(lambda text: json.dumps({"a": text})),
}
ROWS = st.lists(st.tuples(*(st.none() | strategy for strategy in COLUMNS.values())), min_size=1, max_size=40)
NAMES = [f"c{i}" for i in range(len(COLUMNS))]


@pytest.mark.long
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, mode=st.sampled_from([InsertMode.INSERT, InsertMode.UPSERT]))
def test_random_rows_round_trip(desk: Desk, rows: list[tuple[Any, ...]], mode: InsertMode) -> None:
    columns = ", ".join(f"{name} {type}" for name, type in zip(NAMES, COLUMNS, strict=True))
    desk.sql(f"DROP TABLE IF EXISTS a, b; CREATE TABLE a (k int PRIMARY KEY, {columns}); CREATE TABLE b (LIKE a INCLUDING ALL)")
    marks = ", ".join(f"%s::{type}" for type in COLUMNS)
    with desk.own.cursor() as cursor:
        cursor.executemany(f"INSERT INTO a VALUES (%s, {marks})", [(i, *row) for i, row in enumerate(rows)])
    fields, found = desk.read("SELECT * FROM a ORDER BY k")
    desk.write("b", fields, found, mode=mode)
    assert desk.sql("SELECT a::text FROM a EXCEPT SELECT b::text FROM b") == []
    assert desk.sql("SELECT count(*) FROM b") == [(len(rows),)]
