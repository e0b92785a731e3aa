"""Changes of the primary key in topics that Debezium writes: large values of the new row come from the old one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connectors.spark import session
from connectors.spark.config import parse_config
from tests.integration.spark.change_events import PLACEHOLDER, change, field, key
from tests.integration.spark.table_access import CATALOG, DeltaAccess, IcebergAccess, TableAccess, catalog_props
from tests.support.cases import first_fast

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("no_maintenance_thread"),
]

ROW = [field("id", "int64"), field("name", "string"), field("n", "int32")]


def write(topic: Any, op: str, id_: int, name: str | None, old: bytes | None = None) -> None:
    image = {"id": id_, "name": name, "n": id_}
    before, after = (image, None) if op == "d" else (None, image)
    headers = None if old is None else [("__debezium.oldkey", old), ("__debezium.context.taskId", b"0")]
    topic.add(key(id_), change(op, before, after, ROW), headers=headers)


def move(topic: Any, old: int, new: int, header: bytes) -> None:
    write(topic, "d", old, None)
    topic.add(key(old), None)
    write(topic, "c", new, PLACEHOLDER, header)


@pytest.mark.parametrize("format_", first_fast(["delta", "iceberg"]))
def test_large_values_follow_rows_to_their_new_keys(format_: str, props: dict[str, str], run: Any, topic: Any) -> None:
    location = Path(props["table.location"])
    access: TableAccess = DeltaAccess(location / "t")
    settings = {**props, "write.mode": "upsert"}
    if format_ == "iceberg":
        del settings["table.location"]
        access = IcebergAccess(location / "t")
        settings |= {f"spark.conf.{key}": value for key, value in catalog_props(location).items()}
        settings |= {"table.format": "iceberg", "table.catalog": CATALOG}
    t = topic("t", schemas=True)
    raw = run(settings, [t], raw=True, group={})
    for id_ in (1, 2, 3, 4):
        write(t, "c", id_, f"large {id_}")
    raw.deliver()
    raw.commit()
    # The text of SimpleHeaderConverter, and JsonConverter's with a schema; a chain of changes, and a header in another form.
    move(t, 1, 10, b'{"id":1}')
    move(t, 10, 11, key(10))
    move(t, 2, 20, key(2))
    move(t, 3, 30, b"Struct{id=3}")
    raw.deliver()
    raw.commit()
    assert raw.task.progress()["tables"]["t"]["unavailable"] == 1
    raw.close()
    records = run(settings, [t], raw=False, group={})
    move(t, 4, 40, json.dumps({"id": 4}).encode())
    records.deliver()
    records.commit()
    assert records.task.progress()["tables"]["t"]["unavailable"] == 0
    records.close()
    lease = session.lease(parse_config(settings).spark)
    found = {row["id"]: row["name"] for row in access.by_spark(lease.session()).to_pylist()}
    lease.release()
    assert found == {11: "large 1", 20: "large 2", 30: None, 40: "large 4"}
