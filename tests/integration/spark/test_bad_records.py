"""Records that a table cannot have, and records of unusual size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from connect.errors import ConnectError, DataError
from tests.integration.spark.lake import field, message
from tests.support.cases import first_fast

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NESTED = {
    "MAP<STRING, INT>": (field("k", "map", keys={"type": "string"}, values={"type": "int32"}), {"a": 1}),
    "STRUCT<`x`: INT>": (field("k", "struct", fields=[field("x", "int32")]), {"x": 1}),
    "ARRAY<INT>": (field("k", "array", items={"type": "int32"}), [1]),
}
WIDTH, NAME_LENGTH, VALUE_LENGTH = 1_000, 100_000, 20_000_000


@pytest.mark.parametrize("kind", first_fast(list(NESTED)))
def test_key_that_cannot_be_compared_fails_the_task_before_it_creates_a_table(
    props: dict[str, str], run: Any, topic: Any, kind: str
) -> None:
    t = topic("t", schemas=True)
    key, value = NESTED[kind]
    t.add(None, message([key, field("v", "int32")], {"k": value, "v": 1}))
    own = {**props, "write.mode": "upsert", "key.columns": "k", "errors.tolerance": "all"}
    task_run = run(own, [t], raw=True, group={})
    task_run.deliver()
    with pytest.raises(ConnectError) as refused:
        task_run.commit()
    assert f"table t: the key column k is {kind}, whose values cannot be compared; set key.columns" in refused.value.message
    assert not isinstance(refused.value, DataError)  # the configuration is wrong, not one record
    task_run.task.close()
    assert not Path(props["table.location"], "t").exists()


def test_records_with_unusable_keys_are_named_and_the_others_written(
    props: dict[str, str], run: Any, topic: Any, read: Any
) -> None:
    t = topic("t", schemas=True)
    id_, v = field("id", "int64"), field("v", "int32")
    own = {**props, "write.mode": "upsert", "key.columns": "id", "metadata.columns": "none"}
    t.add(None, message([id_, v], {"id": 1, "v": 1}))
    task_run = run(own, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    for fields, row in (
        ([v], {"v": 2}),
        ([id_, v], {"id": None, "v": 2}),
        ([field("id", "string"), v], {"id": "x", "v": 2}),
        ([field("id", "double"), v], {"id": 1.5, "v": 2}),
    ):
        t.add(None, message(fields, row))
    t.add(None, message([id_, v], {"id": 2, "v": 3}))
    for first, reason in (
        (1, "key column id has no value; set key.columns"),
        (2, "key column id has no value; set key.columns"),
        (3, "column id is BIGINT in the table, but STRING in the records; change the table's column"),
        (4, "column id is BIGINT in the table, but DOUBLE in the records; change the table's column"),
    ):
        strict = run(own, [t], raw=True, group={})
        strict._put(t, 0, first, first + 1)
        with pytest.raises(DataError, match=f"topic t, partition 0, offset {first}: .*{reason}"):
            strict.task.flush({})
        strict.task.close()
    tolerant = run({**own, "errors.tolerance": "all"}, [t], raw=True, group={})
    tolerant.deliver()
    tolerant.commit()
    assert tolerant.task.progress()["refused"] == 4
    tolerant.close()
    assert sorted((r["id"], r["v"]) for r in read("t")) == [(1, 1), (2, 3)]


def test_conflicting_topics_of_one_table_are_reported_with_column_and_types(
    props: dict[str, str], run: Any, topic: Any, read: Any
) -> None:
    one, two = topic("one", schemas=True), topic("two", schemas=True)
    for n in range(3):
        one.add(None, message([field("id", "int64"), field("v", "string")], {"id": n, "v": "x"}))
    two.add(None, message([field("id", "int64"), field("v", "int32")], {"id": 9, "v": 5}))
    own = {**props, "topics": "one,two", "table.name.format": "shared", "metadata.columns": "none"}
    strict = run(own, [one, two], raw=True, group={})
    strict.deliver()
    expected = "topic two, partition 0, offset 0: table shared: column v is both STRING and INT .* table.name.format"
    with pytest.raises(DataError, match=expected):
        strict.commit()
    strict.task.close()
    tolerant = run({**own, "errors.tolerance": "all"}, [one, two], raw=True, group={})
    tolerant.deliver()
    tolerant.close()
    assert sorted(r["id"] for r in read("shared")) == [0, 1, 2]
    two.add(None, message([field("id", "int64"), field("v", "int32")], {"id": 10, "v": 5}))
    later = run(own, [one, two], raw=True, group={})
    later.deliver()
    with pytest.raises(
        DataError, match=r"topic two.*column v is STRING in the table, but INT in the records.*table\.name\.format"
    ):
        later.commit()
    later.task.close()


@pytest.mark.long
def test_huge_records_are_written(props: dict[str, str], run: Any, topic: Any) -> None:
    t = topic("t", schemas=True)
    columns = {f"c{n}": n for n in range(WIDTH)} | {"n" * NAME_LENGTH: 1}
    fields = [field("id", "int64"), field("v", "string"), *(field(name, "int64") for name in columns)]
    own = {**props, "write.mode": "upsert", "key.columns": "id", "metadata.columns": "none"}
    task_run = run(own, [t], raw=True, group={})
    for n in range(2):  # the second commit reads nothing of the first, and replaces its row
        t.add(None, message(fields, {"id": 1, "v": str(n) * VALUE_LENGTH, **columns}))
        task_run.deliver()
        task_run.commit()
    task_run.close()
    newest = max(Path(props["table.location"], "t").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    assert pq.ParquetFile(newest).read().to_pylist() == [{"id": 1, "v": "1" * VALUE_LENGTH, **columns}]
