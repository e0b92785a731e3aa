"""Runs a connector or transformations with one call, for tests: no broker, no worker, no waiting.

assert [r.value for r in run_source(counter, {"topic": "t"}, records=3)] == [0, 1, 2]
assert run_sink(totals, {"path": ...}, [1, 2, 3]) == {TopicPartition("test", 0): 3}
assert run_transforms({"transforms": "c", "transforms.c.type": "Python", ...}, [{"name": " x "}])[0].value == {"name": "x"}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.connector import SinkConnector, SourceConnector
from connect.data.schema import Schema
from connect.errors import ConnectError
from connect.functions.source import FunctionSourceTask
from connect.plugins import Plugins
from connect.record import ConnectRecord, SinkRecord, SourceRecord, TopicPartition
from connect.sink import Offsets, SinkTask
from connect.source import SourceTask
from connect.testing.clock import ManualClock
from connect.testing.harness import MemoryOffsets, SinkHarness, SourceHarness
from connect.transforms.chain import apply_steps_batch, build_steps, close_steps

TOPIC = "test"


def run_source(
    connector_class: type[SourceConnector], config: Mapping[str, str], *, records: int, offsets: MemoryOffsets | None = None
) -> list[SourceRecord]:
    """Returns the first records of a source, with all its source partitions in one task. Raises ConnectError if there are fewer.

    Stores the offsets of these records in ``offsets``; passing it to the next call simulates a restart after them. The pauses of
    a function source take no time.
    """
    task, task_config = _made(connector_class, config)
    if not isinstance(task, SourceTask):
        raise ConnectError(f"{connector_class.__name__} makes {type(task).__name__}, which is no SourceTask")
    offsets = MemoryOffsets() if offsets is None else offsets
    with SourceHarness(task, task_config, offsets) as harness:
        found = harness.poll_records(records)[:records] if records else []
    for record in found:
        if record.source_partition is not None:
            offsets.store(record.source_partition, record.source_offset)
    return found


def run_sink(
    connector_class: type[SinkConnector], config: Mapping[str, str], records: Sequence[Any], *, schema: Schema | None = None
) -> Offsets:
    """Puts records as one batch, commits, and stops. Returns the committed offsets: per partition, the one after the last record.

    Anything that is not a SinkRecord becomes the value, with ``schema``, of a record of the topic ``test``.
    """
    task, task_config = _made(connector_class, config)
    if not isinstance(task, SinkTask):
        raise ConnectError(f"{connector_class.__name__} makes {type(task).__name__}, which is no SinkTask")
    with SinkHarness(task, task_config) as harness:
        made = [one if isinstance(one, SinkRecord) else _sink_record(one, schema, i) for i, one in enumerate(records)]
        harness.open(*sorted({TopicPartition(record.topic, record.partition) for record in made}))
        harness.put(made)
        return harness.commit()


def run_transforms(
    config: Mapping[str, str], records: Sequence[Any], *, schema: Schema | None = None
) -> list[ConnectRecord | None]:
    """Applies the transformations of a connector's configuration to records as one batch; None replaces a dropped record.

    Anything that is not a record becomes the value, with ``schema``, of a sink record of the topic ``test``.
    """
    steps = build_steps(config, Plugins.discover())
    try:
        made = [one if isinstance(one, ConnectRecord) else _sink_record(one, schema, i) for i, one in enumerate(records)]
        return list(apply_steps_batch(steps, made))
    finally:
        close_steps(steps)


def _sink_record(value: Any, schema: Schema | None, offset: int) -> SinkRecord:
    return SinkRecord(TOPIC, 0, None, None, schema, value, offset)


def _made(
    connector_class: type[SourceConnector] | type[SinkConnector], config: Mapping[str, str]
) -> tuple[SourceTask | SinkTask, dict[str, str]]:
    """Creates a connector's only task; returns it with its configuration."""
    connector = connector_class()
    connector.start(config)
    try:
        configs = connector.task_configs(1)
    finally:
        connector.stop()
    if not configs:
        raise ConnectError(f"{connector_class.__name__} has nothing to do: task_configs(1) returned no task")
    task_class = connector.task_class()
    if issubclass(task_class, FunctionSourceTask):
        clock = ManualClock()
        return task_class(clock.monotonic, clock.advance), configs[0]
    return task_class(), configs[0]
