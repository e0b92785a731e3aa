"""Promise 5: with exactly-once, a task that fails at any point leaves whole versions in the topic, each change once."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect import crash_points
from connect.plugins import Plugins
from connectors.spark import SparkSource
from connectors.spark.source.task import SparkSourceTask
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.worker.transactions import RecordingTaskListener, Run, Setting, read_topic
from tests.support import randomness
from tests.support.delta_writer import DeltaWriter
from tests.support.iceberg_writer import IcebergWriter
from tests.support.parquet_directory import ParquetDirectory, rows_of
from tests.support.replayed_events import in_json, read_all
from tests.support.waiting import WAIT_S, eventually
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executors.task_factory import TaskFactory, TaskRequest
from worker.model import TaskId

pytestmark = pytest.mark.long

_JSON = {
    f"{role}.converter{key}": value
    for role in ("key", "value")
    for key, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "false"))
}


def _table(table_format: str, folder: Path) -> tuple[DeltaWriter | IcebergWriter, int]:
    """A table, and its newest version."""
    first = [{"id": i, "v": "a"} for i in range(40)]
    if table_format == "delta":
        delta = DeltaWriter(folder, {"id": pa.int64(), "v": pa.string()}, group_rows=7).create(first)
        _change(delta)
        return delta, len(delta.versions) - 1
    iceberg = IcebergWriter(folder, group_rows=7).insert(first)
    _change(iceberg)
    return iceberg, iceberg.version


def _change(table: DeltaWriter | IcebergWriter) -> None:
    for number in range(6):
        _change_once(table, number)


def _change_once(table: DeltaWriter | IcebergWriter, number: int) -> None:
    table.update(lambda row: row["id"] % 6 == number, lambda row: {**row, "v": f"u{number}"})
    table.optimize()
    table.delete(lambda row: row["id"] % 11 == number)
    table.insert([{"id": 100 * (number + 1) + i, "v": "b"} for i in range(15)])


def _start(setting: Setting, config: Mapping[str, str], run: int) -> Run:
    properties = {"bootstrap.servers": setting.bootstrap, "offset.storage.file.filename": "unused", **_JSON}
    factory = TaskFactory(WorkerConfig.standalone(properties), Plugins.discover(), setting.services, SecretMask())
    connector = SparkSource()
    connector.start(config)
    (task_config,) = connector.task_configs(1)
    request = TaskRequest(
        TaskId(setting.name, 0), SparkSource, SparkSourceTask, dict(config), task_config, None, False, f"t-{setting.name}", run
    )
    listener = RecordingTaskListener()
    return Run(factory.create(request, listener), listener)


def _committed(setting: Setting) -> list[dict[str, Any] | None]:
    return [None if value is None else json.loads(value) for _, value in read_topic(setting.bootstrap, setting.topic)]


def _fail_at(monkeypatch: pytest.MonkeyPatch, name: str, hits: int) -> None:
    left = [hits]

    def point(reached: str) -> None:
        if reached == name:
            left[0] -= 1
            if left[0] == 0:
                raise RuntimeError(f"failed at {name}")

    monkeypatch.setattr(crash_points, "point", point)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_failed_tasks_leave_whole_versions_with_each_change_once(
    tmp_path: Path, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, table_format: str
) -> None:
    table, newest = _table(table_format, tmp_path / "orders")
    setting = Setting(broker.bootstrap, f"feed-{uuid.uuid4().hex[:8]}")
    config = {
        "name": setting.name,
        "connector.class": "SparkSource",
        "source.format": table_format,
        "source.location": str(table.folder),
        "topic": setting.topic,
        "source.start": "0",
        "key.columns": "id",
        "batch.max.rows": "8",
        "poll.interval.ms": "10",
        "transaction.boundary": "connector",
    }
    records = read_all(table.folder, source_format=table_format, source_start="0", key_columns="id", name=setting.name)
    expected = [_without_time(json.loads(in_json(record)[1] or b"null")) for record in records]
    whole = Counter(_versions(expected))
    chance = randomness.chance("failures")
    for number in range(5):
        _fail_at(monkeypatch, chance.choice(["source.polled", "source.produced", "offsets.written"]), chance.randint(1, 3))
        run = _start(setting, config, number + 1)
        assert run.listener.ended.wait(WAIT_S), "the task did not fail"
        found = Counter(_versions(list(map(_without_time, _committed(setting)))))
        assert all(found[version] == whole[version] for version in found), (found, whole)
        assert "failed at" in str(run.listener.error)
    monkeypatch.undo()
    run = _start(setting, config, 99)
    eventually(lambda: len(_committed(setting)) >= len(expected), "all records")
    run.stop()
    setting.wait_for_markers()
    assert list(map(_without_time, _committed(setting))) == expected
    stored = setting.services.offsets.get(setting.name, {"table": str(table.folder)}, timeout_s=60)
    assert stored is not None
    assert stored["version"] >= newest


def _payload(event: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if event is None else event.get("payload", event)


def _without_time(event: dict[str, Any] | None) -> dict[str, Any] | None:
    payload = _payload(event)
    return None if payload is None else {name: value for name, value in payload.items() if name != "ts_ms"}


def _versions(events: list[dict[str, Any] | None]) -> list[int]:
    return [event["source"]["table_version"] for event in events if event is not None]


@pytest.mark.timeout(300)
def test_failed_tasks_leave_each_row_of_a_directory_once_in_whole_listings(
    tmp_path: Path, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = ParquetDirectory(tmp_path / "orders")
    setting = Setting(broker.bootstrap, f"files-{uuid.uuid4().hex[:8]}")
    config = {
        "name": setting.name,
        "connector.class": "SparkSource",
        "source.format": "parquet",
        "source.location": str(directory.folder),
        "topic": setting.topic,
        "key.columns": "id",
        "batch.max.rows": "8",
        "poll.interval.ms": "10",
        "transaction.boundary": "connector",
    }
    chance = randomness.chance("ages")

    def add_files() -> None:
        for _ in range(4):
            number = len(directory.rows)
            # Within the lag, in any order.
            directory.add(f"{number}.parquet", rows_of(*range(number, number + 7)), age_s=chance.choice([0, 1, 5, 30]))

    for number, point in enumerate(["source.polled", "source.produced", "offsets.written", "source.polled"]):
        add_files()
        _fail_at(monkeypatch, point, 1 + number // 3)
        run = _start(setting, config, number + 1)
        assert run.listener.ended.wait(WAIT_S), "the task did not fail"
        assert "failed at" in str(run.listener.error)
        # A listing is one transaction: whole files.
        assert len(_committed(setting)) % 7 == 0
    monkeypatch.undo()
    run = _start(setting, config, 99)
    eventually(lambda: len(_committed(setting)) >= len(directory.rows), "all records")
    run.stop()
    setting.wait_for_markers()
    found = [(event or {})["after"] for event in map(_payload, _committed(setting))]
    assert sorted(row["id"] for row in found) == list(range(len(directory.rows)))
