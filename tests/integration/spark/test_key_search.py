"""Upserts whose rows the key index finds, and those that Spark finds, give equal tables."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from connectors.spark.tables.delta import key_search
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.key_index import Matches
from tests.support import randomness

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

HISTORIES = randomness.size("SLUICE_HISTORIES", 1)
"""Number of random histories of changes."""
PLACEHOLDER = "__debezium_unavailable_value"
KEY = [
    {"field": "n", "type": "int64", "optional": False},
    {"field": "s", "type": "string", "optional": False},
    {"field": "f", "type": "double", "optional": False},
    {"field": "at", "type": "int64", "optional": False, "name": "io.debezium.time.MicroTimestamp"},
    {
        "field": "d",
        "type": "bytes",
        "optional": False,
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "1"},
    },
]
ROW = [*KEY, {"field": "v", "type": "string", "optional": True}, {"field": "large", "type": "string", "optional": True}]


def message(fields: list[dict[str, Any]], payload: Any) -> bytes:
    return json.dumps({"schema": {"type": "struct", "optional": False, "fields": fields}, "payload": payload}).encode()


def fill(topic: Any, chosen: random.Random, count: int) -> None:
    for _ in range(count):
        unscaled = chosen.choice([-5, 0, 300])
        key = {
            "n": chosen.choice([-(2**63), 0, 2**63 - 1]),
            "s": chosen.choice(["", "ä", "x" * 200]),
            "f": chosen.choice([0.0, 1.5]),
            "at": chosen.choice([-1, 1_700_000_000_000_001]),
            "d": base64.b64encode(unscaled.to_bytes(2, "big", signed=True)).decode(),
        }
        value = {**key, "v": chosen.choice([None, "a", "b"]), "large": chosen.choice([PLACEHOLDER, "text " * 9, None])}
        topic.add(message(KEY, key), None if chosen.random() < 0.2 else message(ROW, value))


@pytest.mark.parametrize("number", range(HISTORIES))
def test_the_index_and_spark_find_the_same_rows(
    props: Any, run: Any, topic: Any, read_by_spark: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    searches: list[Matches] = []
    find = key_search.KeySearch.find

    def record(self: key_search.KeySearch, *given: Any) -> Matches:
        searches.append(find(self, *given))
        return searches[-1]

    monkeypatch.setattr(key_search.KeySearch, "find", record)
    t = topic("t", schemas=True)
    cuts = []
    chosen = randomness.chance(f"keys-{number}")
    for _ in range(3):
        fill(t, chosen, 60)
        cuts.append(len(t.logs[0]))
    runs = []
    for name, max_keys in (("index", "1000"), ("spark ü%20+", "1")):
        location = {"table.location": f"{props['table.location']}/{name}", "upsert.index.max.keys": max_keys}
        runs.append(run({**props, **location, "write.mode": "upsert"}, [t], raw=True, group={}))
    tables = []
    for end in cuts:
        for task_run in runs:
            task_run.deliver(end, batch=23)
            task_run.commit()
    for name, task_run in zip(("index", "spark ü%20+"), runs, strict=True):
        progress = task_run.task.progress()["tables"]["t"]
        assert (progress["index_keys"] == 0) == (name != "index")
        task_run.close()
        props["table.location"] += f"/{name}"
        tables.append(sorted(read_by_spark("t"), key=repr))
        props["table.location"] = props["table.location"].removesuffix(f"/{name}")
    assert tables[0] == tables[1]
    assert len(searches) >= 2
    assert sum(len(matches.keys) for matches in searches) > 30


def test_no_index_is_built_for_a_table_above_the_limit(
    props: Any, run: Any, topic: Any, read_by_spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = topic("t", schemas=False)
    group: dict[Any, int] = {}

    def write(first: int, end: int, max_keys: int, *, deletes: bool = False) -> None:
        for n in range(first, end):
            t.add(json.dumps({"id": n}).encode(), None if deletes else json.dumps({"id": n, "v": first}).encode())
        settings = {**props, "write.mode": "upsert", "upsert.index.max.keys": str(max_keys)}
        task_run = run(settings, [t], raw=True, group=group)
        task_run.deliver()
        task_run.close()

    write(0, 20, 100)
    with monkeypatch.context() as patched:
        patched.setattr(IndexedFiles, "_read_keys", None)  # calling it would fail
        write(10, 15, 19)
        write(0, 5, 19, deletes=True)
    write(12, 30, 40)  # small enough again
    assert {row["id"]: row["v"] for row in read_by_spark("t")} == {
        **dict.fromkeys(range(5, 10), 0),
        10: 10,
        11: 10,
    } | dict.fromkeys(range(12, 30), 12)
