"""Spark's executors decode and write: their tables equal those that the worker writes, and nothing is lost or doubled."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect import crash_points
from connect.converters.json.converter import JsonConverter
from connect.errors import ConnectError
from connect.sink import OffsetRange, RangeBatch
from connect.tracing import trace_of_thread
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.executors.job import RangeJob
from connectors.spark.executors.job_runner import NAME, source_of
from tests.integration.spark.change_events import change, field, key
from tests.integration.spark.conftest import ListRangeReader
from tests.integration.spark.crashes import Crash
from tests.integration.spark.engines import Case, check_engines
from tests.support import randomness
from tests.support.traces import MemoryTraces

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ID = field("id", "int64")
HISTORIES = randomness.size("SLUICE_HISTORIES", 1)
CASES = [
    Case(0, "delta", "upsert"),
    Case(1, "delta", "append", raw=False),
    Case(2, "iceberg", "upsert", raw=False),
    Case(3, "iceberg", "append"),
    Case(4, "delta", "upsert", "soft"),
    Case(5, "iceberg", "upsert", settings={"table.properties.format-version": "2"}),
]


@pytest.mark.long
@pytest.mark.parametrize("number", range(HISTORIES))
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case.table_format}-{case.mode}-{case.number}", marks=[pytest.mark.long] if case.number else [])
        for case in CASES
    ],
)
def test_engines_write_the_same_tables(props: Any, run: Any, topic: Any, case: Case, number: int) -> None:
    numbered = Case(case.number + 100 * number, case.table_format, case.mode, case.delete_mode, case.raw, case.settings)
    check_engines(numbered, props, run, topic, events=64 if case.number else 24)


def test_truncate_that_only_the_commit_finds_to_be_one_of_several_topics_is_refused(props: Any, run: Any, topic: Any) -> None:
    sources: dict[str, list[tuple[str, int | None]]] = {"a": [("c", 3)], "b": [("c", 1), ("t", None), ("c", 2)]}
    topics = []
    for name, events in sources.items():
        topics.append(topic(name, schemas=True))
        topics[-1].logs[0] = [
            (None, change(op, None, None, [ID])) if id_ is None else (key(id_), change(op, None, {"id": id_}, [ID]))
            for op, id_ in events
        ]
    settings = {
        **props,
        "topics": "a,b",
        "table.name.format": "t",
        "write.mode": "upsert",
        "spark.engine": "executors",
        "errors.tolerance": "all",
    }
    running = run(settings, topics, raw=True, group={})
    running.finish()
    progress = running.task.progress()
    assert (progress["refused"], progress["engine"]["in_use"]) == (1, "executors")
    running.close()
    lease = session.lease(parse_config(settings).spark)
    try:
        rows = lease.session().read.format("delta").load(f"{props['table.location']}/t").collect()
    finally:
        lease.release()
    assert sorted(row["id"] for row in rows) == [1, 2, 3]


@dataclass(frozen=True)
class FailingOnce(ListRangeReader):
    """The first process that reads from the middle of a log dies."""

    marker: str = ""

    def read(self, offset_range: OffsetRange) -> Iterator[RangeBatch]:
        for batch in super().read(offset_range):
            yield batch
            if offset_range.first and not os.path.exists(self.marker):
                Path(self.marker).touch()
                os._exit(1)


@pytest.mark.long
def test_nothing_is_lost_or_doubled_when_an_executor_or_the_driver_dies(
    props: dict[str, str],
    run: Any,
    topic: Any,
    read: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = topic("t", schemas=False)
    for partition in (0, 1):
        for number in range(1500):
            source.add(None, b'{"id":%d}' % number, partition)
    settings = {**props, "spark.engine": "executors", "executors.max.records": "1200"}
    group: dict[Any, int] = {}
    running = run(settings, [source], raw=True, group=group)
    reader = running.context.range_reader()
    marker = tmp_path / "died"
    failing = FailingOnce(reader.logs, reader.settings, reader.raw, reader.batch, str(marker))
    monkeypatch.setattr(running.context, "range_reader", lambda: failing)
    jobs = []

    def reach(point: str) -> None:
        jobs.append(point)
        if point == "spark.staged" and len(jobs) > 2:
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(crash_points, "point", reach)
        with pytest.raises(Crash):
            running.finish()
    running.task.close()
    assert marker.exists()
    traces = MemoryTraces()
    with trace_of_thread(traces.trace):
        again = run(settings, [source], raw=True, group=group)
        again.finish()
    assert again.task.pending_work.oldest() is None
    again.close()
    spans = traces.named()
    assert (spans["table commit"].attributes or {})["sluice.table"] == "t"
    assert spans.keys() >= {"executors job", "table commit"}
    rows = sorted((row["__partition"], row["__offset"], row["id"]) for row in read("t"))
    assert rows == [(partition, number, number) for partition in (0, 1) for number in range(1500)]


@dataclass(frozen=True)
class Broken(ListRangeReader):
    """Cannot read."""

    def converters(self) -> tuple[JsonConverter, JsonConverter]:
        raise ModuleNotFoundError("No module named 'orjson'", name="orjson")


@pytest.mark.long
def test_missing_package_fails_the_task_with_host_and_remedy(
    props: dict[str, str], run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = topic("t", schemas=False)
    source.add(None, b'{"id":1}')
    running = run({**props, "spark.engine": "executors"}, [source], raw=True, group={})
    reader = running.context.range_reader()
    monkeypatch.setattr(running.context, "range_reader", lambda: Broken(reader.logs, reader.settings, reader.raw))
    with pytest.raises(ConnectError, match=r"executor (driver )?on host \S+ lacks the package orjson.*spark\.archives"):
        running.finish()
    running.task.close()


def test_plans_and_settings_of_spark_show_nothing_of_a_job(props: dict[str, str], topic: Any) -> None:
    reader = ListRangeReader({}, {"sasl.password": "hidden"}, raw=True)
    job = RangeJob(parse_config(props), reader, [], {}, {}, {})
    lease = session.lease(parse_config(props).spark)
    try:
        spark: Any = lease.session()
        spark.sparkContext.pythonExec = sys.executable
        spark.dataSource.register(source_of(job))
        frame = spark.read.format(NAME).load()
        plan = frame._jdf.queryExecution().toString()
        assert NAME in plan
        for shown in (plan, str(spark.sparkContext.getConf().getAll()), str(spark.conf.getAll)):
            assert "hidden" not in shown
    finally:
        lease.release()
