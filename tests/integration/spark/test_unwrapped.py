"""Flat records, change events, and what ExtractNewRecordState makes of them, into append and upsert tables."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.record import SinkRecord
from connect.transforms.debezium.extract_new_record_state import ExtractNewRecordState
from tests.integration.spark.change_events import change, field, key

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROW = [field("id", "int64"), field("name", "string")]
AT = [dt.datetime(2026, 1, 1, 0, 0, second, tzinfo=dt.UTC) for second in range(6)]
ADDED = {"add.fields": "op,table,source.ts_ms"}


def history() -> list[tuple[bytes, bytes | None]]:
    """Inserts 1, 2, and 3, changes 1, deletes 2 and 3, and inserts 3 again."""
    found: list[tuple[bytes, bytes | None]] = []
    for at, (op, id_, name) in enumerate(
        [("c", 1, "a"), ("r", 2, "b"), ("u", 1, "A"), ("d", 2, "b"), ("d", 3, "c"), ("c", 3, "C")]
    ):
        row = {"id": id_, "name": name}
        found.append(
            (key(id_), change(op, row if op == "d" else None, None if op == "d" else row, ROW, int(AT[at].timestamp() * 1000)))
        )
        if op == "d":
            found.append((key(id_), None))
    return found


class Unwrapping:
    """ExtractNewRecordState between JSON and JSON, as a source connector runs it."""

    def __init__(self, mode: str, more: dict[str, str]) -> None:
        self._transformation = ExtractNewRecordState()
        config = {"delete.tombstone.handling.mode": mode, **more}
        self._transformation.configure(ExtractNewRecordState.config_def().parse(config))
        self._keys, self._values = JsonConverter(), JsonConverter()
        self._keys.configure({"schemas.enable": "true"}, True)
        self._values.configure({"schemas.enable": "true"}, False)

    def __call__(self, k: bytes, v: bytes | None) -> tuple[bytes | None, bytes | None] | None:
        kk, vv = self._keys.to_connect_data("t", k), self._values.to_connect_data("t", v)
        found = self._transformation.apply(SinkRecord("t", 0, kk.schema, kk.value, vv.schema, vv.value, 0))
        if found is None:
            return None
        value = None if found.value is None else self._values.from_connect_data("t", found.value_schema, found.value)
        return self._keys.from_connect_data("t", found.key_schema, found.key), value


def unwrapped(topic: Any, mode: str, added: dict[str, str] | None = None) -> Any:
    """A topic with what the transformation makes of the change events."""
    one = topic(mode.replace("-", "_") + ("_added" if added else ""), schemas=True)
    unwrap = Unwrapping(mode, added or {})
    for k, v in history():
        found = unwrap(k, v)
        if found is not None:
            one.add(*found)
    return one


def write(run: Any, props: Any, chosen: list[Any]) -> None:
    task_run = run({**props, "topics": ",".join(t.name for t in chosen)}, chosen, raw=True, group={})
    for one in chosen:
        # One after the other, because tables of one location are created one after the other.
        task_run.deliver_partition(one, 0, len(one.logs[0]))
        task_run.commit()
    task_run.close()


def test_every_kind_of_records_gives_the_same_upsert_table(props: Any, run: Any, topic: Any, read: Any) -> None:
    events = topic("events", schemas=True)
    for k, v in history():
        events.add(k, v)
    # Flat records with tombstones, as two modes make them.
    flat = unwrapped(topic, "tombstone")
    assert unwrapped(topic, "delete-to-tombstone").logs == flat.logs
    chosen = [
        events,
        flat,
        unwrapped(topic, "drop"),
        unwrapped(topic, "rewrite-with-tombstone"),
        unwrapped(topic, "rewrite", ADDED),
    ]
    write(run, {**props, "write.mode": "upsert"}, chosen)
    for one in chosen:
        rows = sorted(read(one.name), key=lambda row: row["id"])
        # In mode drop, the topic has no deletes.
        survivors = [(1, "A"), (2, "b"), (3, "C")] if one.name.startswith("drop") else [(1, "A"), (3, "C")]
        assert [(row["id"], row["name"]) for row in rows] == survivors, one.name
        extra = ["__op", "__source_ts_ms", "__table"] if one.name.endswith("_added") else []
        assert sorted(set(rows[0]) - {"id", "name"}) == extra, one.name
        if extra:
            assert [row["__op"] for row in rows if row["id"] != 2] == ["u", "c"]


def test_soft_deletes_and_versions_of_unwrapped_records(props: Any, run: Any, topic: Any, read: Any) -> None:
    write(run, {**props, "write.mode": "upsert", "delete.mode": "soft"}, [unwrapped(topic, "rewrite")])
    rows = {row["id"]: (row["name"], row["__deleted"]) for row in read("rewrite")}
    assert rows == {1: ("A", False), 2: ("b", True), 3: ("C", False)}
    write(run, {**props, "name": "versions", "write.mode": "scd2"}, [unwrapped(topic, "rewrite", ADDED)])
    found = [(r["id"], r["name"], r["__valid_from"], r["__valid_to"], r["__current"]) for r in read("rewrite_added")]
    assert sorted(found, key=lambda row: row[:3]) == [
        (1, "A", AT[2], None, True),
        (1, "a", AT[0], AT[2], False),
        (2, "b", AT[1], AT[3], False),
        (3, "C", AT[5], None, True),
    ]


def test_append_keeps_marks_as_columns_and_takes_operation_and_time_from_the_record(
    props: Any, run: Any, topic: Any, read: Any
) -> None:
    write(run, props, [unwrapped(topic, "rewrite", ADDED), unwrapped(topic, "tombstone")])
    rows = sorted(read("rewrite_added"), key=lambda row: row["__offset"])
    assert [(r["id"], r["__deleted"], r["__op"], r["__source_ts"], r["__table"]) for r in rows] == [
        (1, "false", "c", AT[0], "t"),
        (2, "false", "r", AT[1], "t"),
        (1, "false", "u", AT[2], "t"),
        (2, "true", "d", AT[3], "t"),
        (3, "true", "d", AT[4], "t"),
        (3, "false", "c", AT[5], "t"),
    ]
    assert [(r["id"], r["__op"]) for r in sorted(read("tombstone"), key=lambda row: row["__offset"])] == [
        (1, None), (2, None), (1, None), (2, "tombstone"), (3, "tombstone"), (3, None),
    ]  # fmt: skip
