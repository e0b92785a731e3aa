"""Upsert tables compared with a model: the table has the last change of each key."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Iterable
from typing import Any

import pytest

from connect.errors import ConnectError, DataError
from tests.integration.spark.change_events import ADDED, PLACEHOLDER, ROW, change, decimal_bytes, field, key
from tests.integration.spark.table_access import FORMATS
from tests.support import randomness

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

HISTORIES = randomness.size("SLUICE_HISTORIES", 1)
"""Number of random histories of changes."""
UTC = dt.UTC


def by_id(rows: Iterable[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {r["id"]: {n: v for n, v in r.items() if v is not None} for r in rows}


class Shop:
    """A changing table: its rows, and the topic with its changes."""

    def __init__(self, topic: Any, number: int) -> None:
        self.topic = topic
        self.random = randomness.chance(f"shop-{number}")
        self.rows: dict[int, dict[str, Any]] = {}
        self.fields = list(ROW)

    def step(self) -> None:
        choice = self.random.random()
        if not self.rows or choice < 0.4:
            self.create(self.random.randrange(40))
        elif choice < 0.7:
            self.update(self.random.choice(list(self.rows)))
        elif choice < 0.85:
            self.delete(self.random.choice(list(self.rows)))
        else:
            self.move(self.random.choice(list(self.rows)), self.random.randrange(40))

    def values(self, id_: int) -> dict[str, Any]:
        r = self.random
        row = {
            "id": id_,
            "name": r.choice([None, "näme", 'quo"te', "line\nbreak", "plain", "ä" * 50]),
            "credit": r.choice([None, decimal.Decimal(f"{r.randrange(-(10**30), 10**30)}.{r.randrange(100):02d}")]),
            "made": r.choice([None, dt.datetime(1500, 1, 1) + dt.timedelta(microseconds=r.randrange(10**16))]),
            "seen": r.choice([None, dt.datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=r.randrange(10**12))]),
            "photo": r.choice([None, r.randbytes(9)]),
        }
        if len(self.fields) > len(ROW):
            row["level"] = r.choice([None, r.randrange(-5, 5)])
        return row

    def wire(self, row: dict[str, Any]) -> dict[str, Any]:
        encoded = dict(row)
        if encoded["credit"] is not None:
            encoded["credit"] = decimal_bytes(encoded["credit"])
        if encoded["made"] is not None:
            encoded["made"] = (encoded["made"] - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
        if encoded["seen"] is not None:
            encoded["seen"] = encoded["seen"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if encoded["photo"] is not None:
            encoded["photo"] = base64.b64encode(encoded["photo"]).decode()
        return encoded

    def create(self, id_: int) -> None:
        op = "u" if id_ in self.rows else self.random.choice("cr")
        self.rows[id_] = self.values(id_)
        self.topic.add(key(id_), change(op, None, self.wire(self.rows[id_]), self.fields))

    def update(self, id_: int) -> None:
        row = self.values(id_)
        sent = self.wire(row)
        for name, placeholder in (("name", PLACEHOLDER), ("photo", base64.b64encode(PLACEHOLDER.encode()).decode())):
            if self.random.random() < 0.5:
                # The log has no unchanged TOAST value.
                row[name] = self.rows[id_][name]
                sent[name] = placeholder
        self.rows[id_] = row
        self.topic.add(key(id_), change("u", None, sent, self.fields))

    def delete(self, id_: int, *, tombstone: bool = True) -> None:
        del self.rows[id_]
        self.topic.add(key(id_), change("d", {**dict.fromkeys(f["field"] for f in self.fields), "id": id_}, None, self.fields))
        if tombstone and self.random.random() < 0.8:
            self.topic.add(key(id_), None)

    def move(self, old: int, new: int) -> None:
        if new in self.rows:
            return
        row = {**self.rows[old], "id": new}
        self.delete(old)
        self.rows[new] = row
        self.topic.add(key(new), change("c", None, self.wire(row), self.fields))

    def add_column(self) -> None:
        self.fields = [*self.fields[:3], ADDED, *self.fields[3:]]
        for row in self.rows.values():
            row["level"] = None


@pytest.mark.long
@pytest.mark.parametrize("number", range(HISTORIES))
def test_random_changes_give_the_rows_of_the_model_with_raw_batches_and_records(
    props: Any, run: Any, topic: Any, read: Any, columns_of: Any, number: int
) -> None:
    shop = Shop(topic("t", schemas=True), number)
    cuts = []
    for part in range(3):
        for _ in range(60):
            shop.step()
        if part == 0:
            shop.add_column()
        cuts.append((len(shop.topic.logs[0]), {k: dict(v) for k, v in shop.rows.items()}))
    tables = []
    for raw in (True, False):
        settings = {**props, "write.mode": "upsert", "table.location": f"{props['table.location']}/{raw}"}
        props["table.location"] = settings["table.location"]
        task_run = run(settings, [shop.topic], raw=raw, group={})
        for end, rows in cuts:
            task_run.deliver(end, batch=shop.random.randrange(5, 80))
            task_run.commit()
            # An added column without values may be missing.
            assert by_id(read("t")) == by_id(rows.values())
        task_run.close()
        tables.append((sorted(read("t"), key=lambda r: r["id"]), columns_of("t")))
        props["table.location"] = props["table.location"].removesuffix(f"/{raw}")
    assert tables[0] == tables[1]


def test_soft_delete_marks_the_row(props: Any, run: Any, topic: Any, read: Any) -> None:
    shop = Shop(topic("t", schemas=True), 3)
    for id_ in (1, 2, 3):
        shop.create(id_)
    expected = dict(shop.rows)
    task_run = run({**props, "write.mode": "upsert", "delete.mode": "soft"}, [shop.topic], raw=True, group={})
    task_run.deliver()
    task_run.commit()
    shop.delete(1)
    shop.create(4)
    expected[4] = shop.rows[4]
    shop.delete(4)
    task_run.deliver()
    task_run.close()
    got = {r["id"]: r for r in read("t")}
    assert {k for k, r in got.items() if r["__deleted"]} == {1, 4}
    assert {k: {n: v for n, v in r.items() if n != "__deleted"} for k, r in got.items()} == expected


def test_ignored_deletes_do_not_change_the_table(props: Any, run: Any, topic: Any, read: Any) -> None:
    shop = Shop(topic("t", schemas=True), 3)
    shop.create(1)
    shop.create(2)
    shop.delete(1)
    task_run = run({**props, "write.mode": "upsert", "delete.mode": "ignore"}, [shop.topic], raw=True, group={})
    task_run.deliver()
    task_run.close()
    assert sorted(r["id"] for r in read("t")) == [1, 2]


def test_truncate_empties_the_table_in_order(props: Any, run: Any, topic: Any, read: Any) -> None:
    shop = Shop(topic("t", schemas=True), 4)
    for id_ in range(5):
        shop.create(id_)
    task_run = run({**props, "write.mode": "upsert"}, [shop.topic], raw=True, group={})
    task_run.deliver()
    task_run.commit()
    shop.create(7)
    shop.topic.add(None, change("t", None, None, shop.fields))
    shop.rows.clear()
    shop.create(2)
    shop.create(9)
    task_run.deliver()
    task_run.close()
    assert {r["id"]: r for r in read("t")} == shop.rows


def test_record_without_a_key_is_rejected(props: Any, run: Any, topic: Any) -> None:
    t = topic("t", schemas=True)
    t.add(None, change("c", None, Shop(t, 1).wire(Shop(t, 1).values(1)), ROW))
    task_run = run({**props, "write.mode": "upsert"}, [t], raw=True, group={})
    task_run.deliver()
    expected = r"topic t, partition 0, offset 0: the record has no key.*key\.columns.*write\.mode=append"
    with pytest.raises(DataError, match=expected):
        task_run.commit()
    task_run.task.close()


def test_key_columns_replace_the_record_key(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    for n, v in ((1, "a"), (2, "b"), (1, "c")):
        t.add(None, json.dumps({"n": n, "v": v}).encode())
    task_run = run({**props, "write.mode": "upsert", "key.columns": "n"}, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    assert {(r["n"], r["v"]) for r in read("t")} == {(1, "c"), (2, "b")}


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_task_that_starts_later_knows_the_key_of_the_table(
    props: Any, run: Any, topic: Any, tmp_path: Any, format_: str
) -> None:
    config = {**props, "write.mode": "upsert", "table.format": format_}
    table = FORMATS[format_](tmp_path / "lake" / "t")
    t = topic("t", schemas=False)
    for region in ("eu", "us"):
        t.add(b'{"region":"%b","id":1}' % region.encode(), b'{"region":"%b","id":1}' % region.encode())
    first = run(config, [t], raw=True, group={})
    first.deliver()
    first.close()
    t.add(b'{"id":1}', b'{"region":"eu","id":1}')
    second = run(config, [t], raw=True, group={})
    second.deliver()
    with pytest.raises(DataError, match=r"the record key has the fields id, and table t has the key region, id"):
        second.commit()
    second.task.close()
    assert sorted(row["region"] for row in table.by_second_engine().to_pylist()) == ["eu", "us"]


def test_value_of_the_wrong_type_is_reported_with_its_field_and_offset(props: Any, run: Any, topic: Any) -> None:
    t = topic("t", schemas=False)
    t.add(b'{"id":1}', b'{"id":1,"price":5}')
    t.add(b'{"id":2}', b'{"id":2,"price":"many"}')
    task_run = run({**props, "write.mode": "upsert"}, [t], raw=True, group={})
    task_run.deliver(1)
    task_run.commit()
    task_run.deliver()
    with pytest.raises(DataError, match="topic t, partition 0, offset 1: field price: "):
        task_run.commit()
    task_run.task.close()


def test_evolution_can_be_disabled(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    t.add(b'{"id":1}', b'{"id":1,"a":1}')
    task_run = run({**props, "write.mode": "upsert", "schema.evolution": "fail"}, [t], raw=True, group={})
    task_run.deliver()
    task_run.commit()
    t.add(b'{"id":2}', b'{"id":2,"a":2,"b":3}')
    task_run.deliver()
    with pytest.raises(ConnectError, match="has no column `b`"):
        task_run.commit()
    task_run.task.close()


def array(name: str, items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "optional": True, "field": name}


def test_unavailable_arrays_and_maps_keep_the_value_of_the_table(props: Any, run: Any, topic: Any, read: Any) -> None:
    text = {"type": "string", "optional": True}
    amount = {"type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    instant = {"type": "string", "optional": True, "name": "io.debezium.time.ZonedTimestamp"}
    row = [
        field("id", "int64"),
        array("tags", text),
        array("numbers", {"type": "int32", "optional": True}),
        array("amounts", amount),
        array("seen", instant),
        {"type": "map", "keys": {"type": "string", "optional": False}, "values": text, "optional": True, "field": "attributes"},
    ]
    first = {
        "id": 1, "tags": ["a", None], "numbers": [1, 2], "amounts": [decimal_bytes(decimal.Decimal("1.25"))],
        "seen": ["2024-01-02T03:04:05Z"], "attributes": {"k": "v"},
    }  # fmt: skip
    data = PLACEHOLDER.encode()
    unchanged = {
        "id": 1, "tags": [PLACEHOLDER], "numbers": list(data), "amounts": [base64.b64encode(bytes([b])).decode() for b in data],
        "seen": [PLACEHOLDER], "attributes": {PLACEHOLDER: PLACEHOLDER},
    }  # fmt: skip
    shop = topic("t", schemas=True)
    shop.add(key(1), change("c", None, first, row))
    task_run = run({**props, "write.mode": "upsert"}, [shop], raw=True, group={})
    task_run.deliver()
    task_run.commit()
    before = read("t")
    shop.add(key(1), change("u", None, unchanged, row))
    task_run.deliver()
    task_run.commit()
    assert read("t") == before
    shop.add(key(1), change("u", None, {**unchanged, "numbers": [3]}, row))
    task_run.deliver()
    task_run.close()
    assert read("t") == [{**before[0], "numbers": [3]}]


def test_a_truncate_is_an_errant_record_where_several_partitions_feed_the_table(
    props: Any, run: Any, topic: Any, read: Any
) -> None:  # fmt: skip
    t = topic("t", schemas=False)

    def add(operation: str, key: int | None, partition: int) -> None:
        after = None if key is None else {"id": key, "v": "x"}
        value = {"before": None, "after": after, "source": {"ts_ms": 1, "table": "t", "lsn": 1}, "op": operation}
        t.add(None if key is None else json.dumps({"id": key}).encode(), json.dumps(value).encode(), partition)

    t.logs[1] = []
    task_run = run({**props, "write.mode": "upsert", "key.columns": "id"}, [t], raw=True, group={})
    add("c", 1, 0)
    add("c", 2, 1)
    task_run.deliver()
    task_run.commit()
    add("t", None, 0)
    add("c", 3, 0)
    task_run.deliver()
    with pytest.raises(
        DataError, match=r"topic t, partition 0, offset 1: .*several partitions: t-0, t-1\. .*sequence\.by=source"
    ):
        task_run.commit()
    task_run.task.close()
    assert {1, 2} <= {row["id"] for row in read("t")}
