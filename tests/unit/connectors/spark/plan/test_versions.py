"""Versions of rows: batches of any size give the versions that the changes give one by one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT, SCD2, UNAVAILABLE, VALID_FROM, VALID_TO
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.decode.present_fields import fields_text
from connectors.spark.plan.projection import concat_batches
from connectors.spark.plan.versions import plan_versions
from connectors.spark.schema_settings import SchemaSettings

Change = tuple[str, int, str | None]
SETTINGS = TableConfig(SCD2, ("id",), "hard", "add", ("__op", VALID_FROM, VALID_TO, CURRENT), keep_tombstones=True)
KEEPING = replace(SETTINGS, schema=SchemaSettings(keeps_missing=True))
MISSING = "missing"
"""The record does not have the column."""
OWN = ("__op", VALID_FROM, VALID_TO, CURRENT)

operations = st.tuples(st.sampled_from("cuud"), st.integers(0, 3), st.sampled_from([None, "a", "b", UNAVAILABLE, MISSING]))


def at(number: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=number)


def batch(changes: Sequence[Change], first: int) -> ChangeBatch:
    numbers = pa.array(range(first, first + len(changes)), pa.int64())
    ms = pa.array([int(at(n).timestamp() * 1000) for n in numbers.to_pylist()], pa.int64())
    fields = pa.array([fields_text(["id"] if v == MISSING else ["id", "v"]) for _, _, v in changes], pa.string())
    changes = [(op, i, None if v == MISSING else v) for op, i, v in changes]
    meta = make_meta(
        numbers, pa.array([op for op, _, _ in changes]), ms, pa.array([0] * len(changes), pa.int32()), numbers, fields=fields
    )
    image = pa.table(
        {"id": pa.array([i for _, i, _ in changes], pa.int64()), "v": pa.array([v for _, _, v in changes], pa.string())}
    )
    return concat_batches([ChangeBatch("t", meta, image, None)])


def apply(table: list[dict[str, Any]], changes: ChangeBatch) -> list[dict[str, Any]]:
    """Does what a table does with the plan."""
    planned = plan_versions(changes, ("id",), KEEPING)
    open_rows = {row["id"]: row for row in table if row[CURRENT]}
    touched = set(planned.rows["id"].to_pylist())
    kept = [row for row in table if not (row[CURRENT] and row["id"] in touched)]
    for number, row in enumerate(planned.rows.to_pylist()):
        old = open_rows.get(row["id"])
        if planned.deleted[number].as_py() and old is None:
            continue
        for name, mask in planned.keep.items():
            if mask[number].as_py():
                row[name] = None if old is None else old[name]
        kept.append(row)
    return kept


def expected(changes: Sequence[Change]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    latest: dict[int, str | None] = {}
    for number, (op, id_, value) in enumerate(changes):
        row = next((r for r in rows if r["id"] == id_ and r[CURRENT]), None)
        if row is not None:
            row |= {VALID_TO: at(number), CURRENT: False}
        if op == "d":
            continue
        if value == MISSING:
            value = None if row is None else row["v"]
        elif value == UNAVAILABLE:
            value = latest.get(id_) if row is None else row["v"]
        latest[id_] = value
        rows.append({"id": id_, "v": value, **dict(zip(OWN, (op, at(number), None, True), strict=True))})
    return rows


def order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row[VALID_FROM])


@settings(max_examples=50, deadline=None)
@given(st.lists(operations, max_size=24), st.lists(st.integers(1, 9), min_size=24, max_size=24))
def test_batches_of_any_size_give_the_versions_of_the_changes(changes: list[Change], sizes: list[int]) -> None:
    # An unavailable value needs a version before it, as PostgreSQL's do.
    living: set[int] = set()
    valid: list[Change] = []
    for op, id_, value in changes:
        valid.append((op, id_, value if id_ in living or value != UNAVAILABLE else None))
        (living.discard if op == "d" else living.add)(id_)
    table: list[dict[str, Any]] = []
    first = 0
    for size in sizes:
        part = valid[first : first + size]
        if part:
            table = apply(table, batch(part, first))
        first += size
    assert order(table) == order(expected(valid))
