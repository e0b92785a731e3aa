"""``schema.evolution=widen``: columns of Delta tables get wider types, and the rows of before keep their values."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pytest

from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables import open_table
from tests.integration.spark.change_events import change, decimal_bytes, field, key
from tests.support.cases import first_fast

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

D = decimal.Decimal
DECIMAL = "org.apache.kafka.connect.data.Decimal"
NARROW = [field("id", "int16"), field("n", "int32"), field("f", "float"), field("kept", "string")]
WIDE = [field("id", "int64"), field("n", "double"), field("f", "double"), field("kept", "string")]
AMOUNT = field("amount", "bytes", semantic=DECIMAL, scale="4")
PLACEHOLDER = "__debezium_unavailable_value"


def by_id(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in rows}


@pytest.mark.parametrize("way", first_fast(["files", "merge"]))
def test_upserts_widen_key_and_columns_and_still_find_the_old_rows(
    props: Any, run: Any, topic: Any, read_by_spark: Any, columns_of: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(open_table, "reaches_jvm", lambda spark: way == "files")
    t = topic("t", schemas=True)
    for i in range(4):
        t.add(key(i), change("c", None, {"id": i, "n": i, "f": 0.5, "kept": f"k{i}"}, NARROW))
    settings = {**props, "write.mode": "upsert", "key.columns": "id", "schema.evolution": "widen"}
    group: dict[Any, int] = {}
    task_run = run(settings, [t], raw=True, group=group)
    task_run.deliver()
    task_run.commit()
    t.add(key(1), change("u", None, {"id": 1, "n": 0.1, "f": 0.1, "kept": PLACEHOLDER}, WIDE))
    t.add(key(2**40), change("c", None, {"id": 2**40, "n": 1.0, "f": 1e300, "kept": "new"}, WIDE))
    t.add(key(2), change("d", {"id": 2}, None, NARROW))
    task_run.deliver()
    task_run.commit()
    found = {"id": pa.int64(), "n": pa.float64(), "f": pa.float64(), "kept": pa.string()}
    assert columns_of("t") == found
    # Records of the narrow schema may still follow.
    t.add(key(3), change("u", None, {"id": 3, "n": 33, "f": 0.25, "kept": PLACEHOLDER}, NARROW))
    task_run.deliver()
    task_run.close()
    expected = {
        0: {"id": 0, "n": 0.0, "f": 0.5, "kept": "k0"},
        1: {"id": 1, "n": 0.1, "f": 0.1, "kept": "k1"},
        3: {"id": 3, "n": 33.0, "f": 0.25, "kept": "k3"},
        2**40: {"id": 2**40, "n": 1.0, "f": 1e300, "kept": "new"},
    }
    assert by_id(read_by_spark("t")) == expected
    # Another task finds the old rows by the wider key, and compaction keeps them.
    t.add(key(0), change("u", None, {"id": 0, "n": 7, "f": 0.5, "kept": PLACEHOLDER}, WIDE))
    task_run = run({**settings, "compaction.min.files": "2"}, [t], raw=True, group=group)
    task_run.deliver()
    task_run.commit()
    for table in task_run.task.sink.tables.queues():
        table.writer.maintain(lambda: False)
    task_run.close()
    assert by_id(read_by_spark("t")) == expected | {0: {"id": 0, "n": 7.0, "f": 0.5, "kept": "k0"}}


@pytest.mark.long
def test_decimal_partition_and_nested_columns_become_wider(
    props: Any, run: Any, topic: Any, read_by_spark: Any, columns_of: Any
) -> None:
    path = f"{props['table.location']}/t"
    lease = session.lease(parse_config(props).spark)
    lease.session().sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, day SMALLINT, amount DECIMAL(5,2), s STRUCT<a: INT>, l ARRAY<INT>) "
        "USING delta PARTITIONED BY (day)"
    )
    lease.session().sql(f"INSERT INTO delta.`{path}` VALUES (1, 7, 1.25, struct(1), array(1))")
    lease.release()
    nested = {"type": "struct", "optional": True, "field": "s", "fields": [field("a", "int64")]}
    listed = {"type": "array", "optional": True, "field": "l", "items": {"type": "int64", "optional": True}}
    row = [field("id", "int64"), field("day", "int32"), AMOUNT, nested, listed]
    t = topic("t", schemas=True)
    after = {"id": 2, "day": 70000, "amount": decimal_bytes(D("12345678.9012")), "s": {"a": 2**40}, "l": [2**40]}
    t.add(key(2), change("c", None, after, row))
    task_run = run({**props, "schema.evolution": "widen", "metadata.columns": "none"}, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    assert by_id(read_by_spark("t")) == {
        1: {"id": 1, "day": 7, "amount": D("1.2500"), "s": {"a": 1}, "l": [1]},
        2: {"id": 2, "day": 70000, "amount": D("12345678.9012"), "s": {"a": 2**40}, "l": [2**40]},
    }
    assert columns_of("t") == {
        "id": pa.int64(),
        "day": pa.int32(),
        "amount": pa.decimal128(38, 4),
        "s": pa.struct([("a", pa.int64())]),
        "l": pa.list_(pa.int64()),
    }
