"""``schema.evolution=lenient``: records of any shape are written, and the table keeps its columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables import open_table
from tests.integration.spark.change_events import change, field, key
from tests.support.cases import first_fast

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def by_id(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    found = {row["id"]: {n: v for n, v in row.items() if n != "id"} for row in rows}
    for row in found.values():
        row["rest"] = None if row["rest"] is None else json.loads(row["rest"])
    return found


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "records"])
def test_json_without_schemas_is_written_into_an_existing_table(props: Any, run: Any, topic: Any, read: Any, raw: bool) -> None:
    lease = session.lease(parse_config(props).spark)
    lease.session().sql(f"CREATE TABLE delta.`{props['table.location']}/t` (id BIGINT, day DATE, n INT) USING delta")
    lease.release()
    t = topic("t", schemas=False)
    for row in (
        {"id": 1, "day": "2026-01-02", "n": 5},
        {"id": 2, "day": "soon", "n": 5e9, "extra": {"a": [1.50]}},
        {"id": 3, "extra": "other type", "N": 1},
    ):
        t.add(None, json.dumps(row).encode())
    settings = {**props, "schema.evolution": "lenient", "rescue.column": "rest", "metadata.columns": "__offset"}
    task_run = run(settings, [t], raw=raw, group={})
    task_run.deliver()
    task_run.close()
    rows = by_id(read("t"))
    assert [str(row.pop("day")) for row in rows.values()] == ["2026-01-02", "None", "None"]
    assert rows == {
        1: {"n": 5, "__offset": 0, "rest": None},
        2: {"n": None, "__offset": 1, "rest": {"day": "soon", "n": 5e9, "extra": {"a": [1.5]}}},
        3: {"n": None, "__offset": 2, "rest": {"extra": "other type", "N": 1}},
    }


@pytest.mark.parametrize("way", first_fast(["files", "merge"]))
def test_upserts_replace_what_was_rescued_and_soft_deletes_keep_it(
    props: Any, run: Any, topic: Any, read: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(open_table, "reaches_jvm", lambda spark: way == "files")
    narrow, other = (
        [field("id", "int64"), field("n", "int32")],
        [field("id", "int64"), field("n", "string"), field("x", "double")],
    )
    t = topic("t", schemas=True)
    settings = {**props, "write.mode": "upsert", "delete.mode": "soft", "schema.evolution": "lenient", "rescue.column": "rest"}
    task_run = run(settings, [t], raw=True, group={})
    for id_ in (1, 2, 3):
        t.add(key(id_), change("c", None, {"id": id_, "n": id_}, narrow))
    task_run.deliver()
    task_run.commit()
    for id_ in (1, 2):
        t.add(key(id_), change("u", None, {"id": id_, "n": "many", "x": 0.1}, other))
    task_run.deliver()
    task_run.commit()
    t.add(key(1), change("u", None, {"id": 1, "n": 7}, narrow))
    t.add(key(2), change("d", {"id": 2, "n": None}, None, narrow))
    task_run.deliver()
    task_run.close()
    assert by_id(read("t")) == {
        1: {"n": 7, "rest": None, "__deleted": False},
        2: {"n": None, "rest": {"n": "many", "x": 0.1}, "__deleted": True},
        3: {"n": 3, "rest": None, "__deleted": False},
    }
