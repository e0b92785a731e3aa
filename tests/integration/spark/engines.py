"""Runs one history through every engine, and compares the tables: with each other, and with a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.executors import engine, job
from tests.integration.spark.histories import Event, Model, make_history, sorted_rows
from tests.integration.spark.table_access import CATALOG, FORMATS, catalog_props
from tests.support import randomness

BAD = b'{"schema":'
"""A value that is no JSON."""


@dataclass(frozen=True)
class Case:
    """A history, and the tables that it is written to."""

    number: int
    table_format: str
    mode: str
    delete_mode: str = "hard"
    raw: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    def logs(self, events: int = 64) -> list[list[Event | None]]:
        """Records by partition; None is a bad one, if the task decodes them."""
        chance = randomness.chance(f"bad-{self.number}")
        found: list[list[Event | None]] = [list(log) for log in make_history(self.number, steps=0, events=events).logs]
        for log in found if self.raw else ():
            log.insert(chance.randrange(len(log)), None)
        return found


def check_engines(
    case: Case, props: Mapping[str, str], run: Callable[..., Any], topic: Callable[..., Any], events: int = 64
) -> None:
    """The worker and Spark's executors write the rows of the model, with the same types, and refuse the same records.

    ``props`` choose the Spark; the executors' ranges are small.
    """
    logs = case.logs(events)
    model = Model(case.mode, case.delete_mode)
    for partition, log in enumerate(logs):
        model.apply([(partition, offset, event) for offset, event in enumerate(log) if event is not None])
    found = [_write(case, engine_name, props, logs, run, topic) for engine_name in ("worker", "executors")]
    for rows, _, refused in found:
        assert sorted_rows(rows) == model.table()
        assert refused == sum(log.count(None) for log in logs)
    assert found[0][1] == found[1][1]


def _write(
    case: Case,
    engine_name: str,
    props: Mapping[str, str],
    logs: Sequence[Sequence[Event | None]],
    run: Callable[..., Any],
    topic: Callable[..., Any],
) -> tuple[list[dict[str, Any]], dict[str, pa.DataType], int]:
    source = topic("t", schemas=True)
    for partition, log in enumerate(logs):
        source.logs[partition] = [(None, BAD) if event is None else (event.key(), event.value()) for event in log]
    settings = _settings(case, engine_name, props)
    location = Path(settings.pop("test.location"))
    group: dict[TopicPartition, int] = {}
    # Small ranges, so that keys have changes in several of them.
    with mock.patch.object(engine, "_FIRST_RECORDS", 9), mock.patch.object(job, "_LEAST_RECORDS", 8):
        running = run(settings, [source], raw=case.raw, group=group)
        if engine_name == "worker":
            for partition in source.logs:
                running.deliver_partition(source, partition, len(source.logs[partition]), batch=7)
                running.commit()
        else:
            running.finish()
        progress = running.task.progress()
        assert progress["engine"]["in_use"] == engine_name
        running.close()
    assert group == {TopicPartition("t", partition): len(log) for partition, log in enumerate(logs)}
    access = FORMATS[case.table_format](location / "t")
    lease = session.lease(parse_config(settings).spark)
    try:
        by_spark = access.by_spark(lease.session())
    finally:
        lease.release()
    rows = by_spark.to_pylist()
    assert sorted_rows(access.by_second_engine().to_pylist()) == sorted_rows(rows)
    return rows, dict(_types(by_spark.schema)), progress["refused"]


def _types(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    yield from zip(schema.names, schema.types, strict=True)


def _settings(case: Case, engine_name: str, props: Mapping[str, str]) -> dict[str, str]:
    location = f"{props['table.location']}/{engine_name}"
    found = {
        **props,
        "test.location": location,
        "table.location": location,
        "table.format": case.table_format,
        "spark.engine": engine_name,
        "write.mode": case.mode,
        "delete.mode": case.delete_mode,
        "metadata.columns": "__op,__partition,__offset" if case.mode == "append" else "none",
        "errors.tolerance": "all",
        "vacuum.interval.ms": "0",
        **case.settings,
    }
    if case.table_format == "iceberg":
        del found["table.location"]
        found |= {f"spark.conf.{key}": value for key, value in catalog_props(location).items()}
        found |= {"table.catalog": CATALOG}
    return found
