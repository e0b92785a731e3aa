"""Appends with files and with DataFrames, of raw batches and of records, give the same Delta table for every type."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from connect.errors import DataError
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables import open_table
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FIELDS: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("i8", {"type": "int8"}, [-128, 127, None]),
    ("i16", {"type": "int16"}, [-32768, 32767, None]),
    ("i32", {"type": "int32"}, [-(2**31), 2**31 - 1, None]),
    ("i64", {"type": "int64"}, [-(2**63), 2**63 - 1, None]),
    ("f32", {"type": "float"}, [0.5, -1.25, None]),
    ("f64", {"type": "double"}, [0.1, -1e300, None]),
    ("yes", {"type": "boolean"}, [True, False, None]),
    ("text", {"type": "string"}, ["", 'näme \U0001f600 "\\\n', None]),
    ("data", {"type": "bytes"}, [base64.b64encode(b"\x00\xff").decode(), "", None]),
    (
        "dec",
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1, "parameters": {"scale": "4"}},
        [base64.b64encode((-12345).to_bytes(2, "big", signed=True)).decode(), "AA==", None],
    ),
    ("day", {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1}, [-400000, 20000, None]),
    ("clock", {"type": "int32", "name": "org.apache.kafka.connect.data.Time", "version": 1}, [0, 86_399_999, None]),
    (
        "instant",
        {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
        [-1, 1_700_000_000_123, None],
    ),
    ("dday", {"type": "int32", "name": "io.debezium.time.Date", "version": 1}, [-700000, 3, None]),
    ("dtime", {"type": "int64", "name": "io.debezium.time.MicroTime", "version": 1}, [86_400_000_000, 1, None]),
    ("dstamp", {"type": "int64", "name": "io.debezium.time.Timestamp", "version": 1}, [-62_135_596_800_000, 5, None]),
    ("dmicro", {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1}, [-1, 1_700_000_000_000_001, None]),
    (
        "dzoned",
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "version": 1},
        ["2026-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", None],
    ),
    ("uuid", {"type": "string", "name": "io.debezium.data.Uuid", "version": 1}, ["a-b", "c", None]),
    ("tags", {"type": "array", "items": {"type": "string", "optional": True}}, [["a", None], [], None]),
    (
        "inner",
        {"type": "struct", "fields": [{"field": "a", "type": "int32", "optional": True}]},
        [{"a": 1}, {"a": None}, None],
    ),
    (
        "var",
        {
            "type": "struct",
            "name": "io.debezium.data.VariableScaleDecimal",
            "version": 1,
            "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
        },
        [{"scale": 3, "value": base64.b64encode(b"\x01\x00").decode()}, {"scale": 0, "value": "BQ=="}, None],
    ),
    ("dflt", {"type": "int32", "default": 7}, [1, None, None]),
]


def messages() -> list[bytes]:
    fields = [{"field": name, "optional": True, **schema} for name, schema, _ in FIELDS]
    schema = json.dumps({"type": "struct", "optional": False, "fields": fields}, separators=(",", ":"))
    rows = [{name: values[i] for name, _, values in FIELDS} for i in range(3)]
    return [f'{{"schema":{schema},"payload":{json.dumps(r, separators=(",", ":"))}}}'.encode() for r in rows]


def test_every_type_is_equal_on_all_write_paths(
    props: Any, run: Any, topic: Any, read: Any, columns_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = []
    for raw, files in ((True, True), (True, False), (False, True)):
        monkeypatch.setattr(open_table, "reaches_jvm", lambda spark, files=files: files)
        t = topic(f"t{raw}{files}", schemas=True)
        for message in messages():
            t.add(None, message)
        task_run = run({**props, "metadata.columns": "__offset"}, [t], raw=raw, group={})
        if raw:
            # The fast path supports all of these types.
            monkeypatch.setattr(task_run.task.sink.decoder(t.name), "decode_records", None)
        task_run.deliver()
        task_run.close()
        tables.append((sorted(read(t.name), key=lambda r: r["__offset"]), columns_of(t.name)))
    assert tables[0] == tables[1]
    assert tables[0] == tables[2]
    first, second, third = tables[0][0]
    assert str(first["dec"]) == "-1.2345"
    assert first["dtime"] == "24:00:00.000000"
    assert second["clock"] == "23:59:59.999000"
    assert first["var"] == "0.256"
    assert second["dzoned"].isoformat() == "1969-12-31T23:59:59.999999+00:00"
    assert first["dstamp"].isoformat() == "0001-01-01T00:00:00"
    assert (second["dflt"], third["text"]) == (7, None)


FAR_SCHEMA = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"field": "day", "type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
    ],
}


def far_message(day: int, at: int) -> bytes:
    return json.dumps({"schema": FAR_SCHEMA, "payload": {"day": day, "at": at}}).encode()


def deliver_and_commit(task_run: Any) -> None:
    """Delivers and commits: decoded records are rejected by the first call, raw ones by the second."""
    task_run.deliver()
    task_run.commit()


def read_as_numbers(props: dict[str, str], table: str) -> list[tuple[int, int]]:
    """Returns the rows as numbers since 1970, because Python does not support such dates."""
    lease = session.lease(parse_config(props).spark)
    try:
        frame = lease.session().read.format("delta").load(f"{props['table.location']}/{table}")
        return sorted(tuple(row) for row in frame.selectExpr("unix_date(day)", "unix_millis(at)").collect())
    finally:
        lease.release()


FAR = [(-719_164, -62_135_769_600_000), (0, 0), (2_932_897, 253_402_300_800_000)]


def test_dates_outside_pythons_years_are_appended(props: Any, run: Any, topic: Any) -> None:
    t = topic("t", schemas=True)
    for row in FAR:
        t.add(None, far_message(*row))
    task_run = run({**props, "metadata.columns": "none"}, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    assert read_as_numbers(props, "t") == FAR


@pytest.mark.long
def test_dates_outside_pythons_years_can_be_keys(props: Any, run: Any, topic: Any) -> None:
    t = topic("t", schemas=True)
    own = {**props, "write.mode": "upsert", "key.columns": "day", "metadata.columns": "none"}
    task_run = run(own, [t], raw=False, group={})
    for rows in (FAR, [(-719_164, 5), (7, 7)]):
        for row in rows:
            t.add(None, far_message(*row))
        deliver_and_commit(task_run)
    task_run.close()
    assert read_as_numbers(props, "t") == [(-719_164, 5), FAR[1], (7, 7), FAR[2]]


@pytest.mark.parametrize("raw", [True, False])
def test_timestamp_outside_the_spark_range_is_reported_with_its_field(props: Any, run: Any, topic: Any, raw: bool) -> None:
    t = topic("t", schemas=True)
    t.add(None, far_message(0, 9_223_372_036_825_200_000))
    task_run = run(props, [t], raw=raw, group={})
    with pytest.raises(DataError, match=r"topic t, partition 0, offset 0: field at: .*9223372036825200000"):
        deliver_and_commit(task_run)
    task_run.task.close()


def test_partitioned_table_is_appended_to(props: Any, run: Any, topic: Any, read: Any, tmp_path: Path) -> None:
    lease = session.lease(parse_config(props).spark)
    table_path = f"{props['table.location']}/t"
    lease.session().sql(f"CREATE TABLE delta.`{table_path}` (id BIGINT, v STRING) USING delta PARTITIONED BY (v)")
    lease.release()
    t = topic("t", schemas=False)
    for i in range(4):
        t.add(None, json.dumps({"id": i, "v": "ab"[i % 2]}).encode())
    task_run = run({**props, "metadata.columns": "none"}, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    assert sorted((r["id"], r["v"]) for r in read("t")) == [(0, "a"), (1, "b"), (2, "a"), (3, "b")]


@pytest.mark.long
def test_jvm_exits_when_its_worker_is_killed(spark_props: dict[str, str], tmp_path: Path) -> None:
    program = f"""
import time
from connectors.spark import session
from connectors.spark.config import SparkConfig
lease = session.lease(SparkConfig("local[1]", "", (), ({spark_props["spark.jars"]!r},)))
lease.session()
print("up", flush=True)
time.sleep(600)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={tmp_path}"}
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=tmp_path
    )
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == b"up\n"
        jvms = [int(p) for p in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()]
        jvms += [
            int(p)
            for task in Path(f"/proc/{child.pid}/task").iterdir()
            for p in (task / "children").read_text().split()
            if int(p) not in jvms
        ]
        assert jvms
        child.send_signal(signal.SIGKILL)
        child.wait()
    eventually(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in jvms) and not any(tmp_path.iterdir()),
        "the end of the JVMs and of their files",
        lambda: (jvms, list(tmp_path.iterdir())),
    )
