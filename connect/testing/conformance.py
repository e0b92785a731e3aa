"""Conformance checks for connectors, to be called from their tests.

    def test_source_conforms(tmp_path):
        check_source_connector(MySource, {"url": ...}, records=100)

Each check raises AssertionError that describes the violated rule. The rules are those of the docstrings in
:mod:`connect.connector`, :mod:`connect.source`, and :mod:`connect.sink`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from connect.config.definition import NO_DEFAULT
from connect.connector import Connector, SinkConnector, SourceConnector
from connect.converters.json.converter import JsonConverter
from connect.errors import ConnectError
from connect.external_system import MAX_COLLECTIONS, ConnectionStep, ExternalSystem, StepState, error_finding
from connect.record import SinkRecord, SourceRecord, TopicPartition
from connect.sink import SinkTask
from connect.source import SourceTask
from connect.testing.harness import MemoryOffsets, SinkHarness, SourceHarness

PROMPT_S = 2.0
T = TypeVar("T")


def check_source_connector(connector_class: type[SourceConnector], config: Mapping[str, str], *, records: int) -> None:
    """Checks a source that returns at least this many records, always the same ones, with this configuration."""
    _check_connector(connector_class, config)
    whole = _read(connector_class, config, MemoryOffsets(), records)
    _check_records(whole)
    _check_restart(connector_class, config, whole, records)
    _check_prompt_stop(connector_class, config)


def check_sink_connector(connector_class: type[SinkConnector], config: Mapping[str, str], records: Sequence[SinkRecord]) -> None:
    """Checks a sink with some records that it accepts."""
    _check_connector(connector_class, config)
    task = _new_task(connector_class, config)
    assert isinstance(task, SinkTask), f"{type(task).__name__} is no SinkTask"
    partitions = sorted({TopicPartition(record.topic, record.partition) for record in records})
    with SinkHarness(task, _task_config(connector_class, config)) as harness:
        harness.open(*partitions)
        harness.put([])
        harness.put(records)
        committed = harness.commit()
        for partition, offset in committed.items():
            assert partition in harness.delivered, f"pre_commit returned {partition}, which was never put"
            assert offset <= harness.delivered[partition], f"pre_commit returned {offset} for {partition}, beyond what was put"
        harness.put(records)  # records may be delivered again after a crash
        harness.commit()
        harness.task.close_partitions(partitions[:1])
        harness.context.assigned -= set(partitions[:1])
        harness.put([record for record in records if TopicPartition(record.topic, record.partition) not in partitions[:1]])


def check_external_system(
    connector_class: type[Connector], config: Mapping[str, str], unreachable: Mapping[str, str] | None = None
) -> None:
    """Checks the external system of a connector class: with ``config``, which reaches it, and ``unreachable``, which does not."""
    assert connector_class.external_system is not Connector.external_system, f"{connector_class.__name__} has no external_system"
    known = connector_class().config_def().keys
    for name in connector_class.collection_keys:
        assert name in known, f"collection_keys has {name}, which config_def does not define"
    steps = _test_steps(connector_class, config)
    failed = [step for step in steps if step.state is StepState.FAILED]
    assert not failed, f"the connection test fails with the configuration under test: {failed}"
    if unreachable is not None:
        steps = _test_steps(connector_class, unreachable)
        assert any(step.state is StepState.FAILED for step in steps), "the connection test passes although nothing can be reached"
    collections = _use_system(connector_class, config, lambda system: list(system.data_collections()))
    names = [one.name for one in collections]
    assert len(names) <= MAX_COLLECTIONS + 1, f"data_collections returned {len(names)} entries"
    assert len(set(names)) == len(names), "data_collections returned a name twice"
    for one in collections:
        json.dumps(one.as_json())
        selected = [name for name in names if re.fullmatch(one.entry, name)]
        assert selected == [one.name], f"the entry {one.entry} of {one.name} selects {selected}"
        assert "," not in one.entry, f"the entry {one.entry} is no single entry of a list"
    cancelled = connector_class().external_system(config)
    assert cancelled is not None
    cancelled.cancel()
    cancelled.close()


def _test_steps(connector_class: type[Connector], config: Mapping[str, str]) -> list[ConnectionStep]:
    try:
        steps = _use_system(connector_class, config, lambda system: list(system.test_connection()))
    except ConnectError as e:
        return [ConnectionStep("raised", findings=(error_finding("raised", e.message),))]
    assert steps, "the connection test has no steps"
    names = [step.name for step in steps]
    assert len(set(names)) == len(names), f"steps of the connection test have the same name: {names}"
    for step in steps:
        json.dumps(step.as_json())
        for finding in step.findings:
            assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", finding.code), f"{finding.code} is no code in kebab-case"
    return steps


def _use_system(connector_class: type[Connector], config: Mapping[str, str], use: Callable[[ExternalSystem], T]) -> T:
    system = connector_class().external_system(config)
    assert system is not None, "external_system returned None with the configuration under test"
    try:
        return use(system)
    finally:
        system.close()


def _check_connector(connector_class: type[Connector], config: Mapping[str, str]) -> None:
    for key in connector_class().config_def().keys.values():
        assert key.doc, f"{key.name} has no documentation"
    errors = [error for value in connector_class().validate(config) for error in value.errors]
    assert not errors, f"validate rejects the configuration under test: {errors}"
    required = [key.name for key in connector_class().config_def().keys.values() if key.default is NO_DEFAULT]
    for name in required:
        without = {key: value for key, value in config.items() if key != name}
        found = next((v for v in connector_class().validate(without) if v.name == name), None)
        assert found is not None, f"validate returns nothing for {name}"
        assert found.errors, f"validate accepts a configuration without {name}"
    connector = connector_class()
    connector.stop()  # may be called without a start
    connector.start(config)
    for wanted in (1, 3):
        configs = connector.task_configs(wanted)
        assert len(configs) <= wanted, f"task_configs({wanted}) returned {len(configs)} configurations"
        assert configs == connector.task_configs(wanted), "task_configs returned another list for the same job"
        texts = [text for one in configs for text in one.values()]
        assert all(isinstance(text, str) for text in texts), "task configurations must have text values only"
    connector.stop()
    connector.stop()
    connector.start(config)  # again after a stop: a resume
    connector.stop()


def _task_config(connector_class: type[Connector], config: Mapping[str, str]) -> dict[str, str]:
    connector = connector_class()
    connector.start(config)
    configs = connector.task_configs(1)
    connector.stop()
    assert configs, "task_configs(1) returned no task"
    return configs[0]


def _new_task(connector_class: type[Connector], config: Mapping[str, str]) -> SourceTask | SinkTask:
    connector = connector_class()
    connector.start(config)
    task = connector.task_class()()
    connector.stop()
    return task


def _source_harness(connector_class: type[SourceConnector], config: Mapping[str, str], offsets: MemoryOffsets) -> SourceHarness:
    task = _new_task(connector_class, config)
    assert isinstance(task, SourceTask), f"{type(task).__name__} is no SourceTask"
    return SourceHarness(task, _task_config(connector_class, config), offsets)


def _read(
    connector_class: type[SourceConnector], config: Mapping[str, str], offsets: MemoryOffsets, count: int
) -> list[SourceRecord]:
    with _source_harness(connector_class, config, offsets) as harness:
        try:
            return harness.poll_records(count)
        except ConnectError as e:
            raise AssertionError(f"the source did not return its records: {e.message}") from e


def _check_records(records: Sequence[SourceRecord]) -> None:
    keys, values = JsonConverter(), JsonConverter()
    for record in records:
        assert record.topic, f"{record!r} has no topic"
        for position in (record.source_partition, record.source_offset):
            assert position is None or _is_flat(position), f"{position!r} is not a flat dict of text to plain values"
        # A value that cannot be written as JSON does not match its schema.
        keys.from_connect_data(record.topic, record.key_schema, record.key)
        values.from_connect_data(record.topic, record.value_schema, record.value)


def _is_flat(position: Mapping[str, Any]) -> bool:
    plain = all(isinstance(k, str) and isinstance(v, str | int | float | bool | None) for k, v in position.items())
    return plain and json.loads(json.dumps(position)) == dict(position)


def _check_restart(
    connector_class: type[SourceConnector], config: Mapping[str, str], whole: Sequence[SourceRecord], count: int
) -> None:
    """Checks that after a restart at any record, the next one follows: none is lost or repeated."""
    for cut in sorted({1, count // 3, count // 2, count - 1} - {0}):
        at = whole[cut - 1]
        if at.source_partition is None or at.source_offset is None:
            continue
        if any(record.source_partition != at.source_partition for record in whole):
            continue  # several source partitions may come in any order
        offsets = MemoryOffsets()
        offsets.store(at.source_partition, at.source_offset)
        rest = _read(connector_class, config, offsets, count - cut)
        expected = [(r.key, r.value) for r in whole[cut:count]]
        assert [(r.key, r.value) for r in rest[: count - cut]] == expected, f"a restart does not continue after record {cut}"


def _check_prompt_stop(connector_class: type[SourceConnector], config: Mapping[str, str]) -> None:
    harness = _source_harness(connector_class, config, MemoryOffsets()).start()
    polled = threading.Event()
    failures: list[BaseException] = []

    def poll() -> None:
        try:
            while not polled.is_set():
                harness.poll()
        except BaseException as e:
            failures.append(e)

    thread = threading.Thread(target=poll, name="conformance-poll", daemon=True)
    thread.start()
    started = time.monotonic()
    harness.task.stop()
    polled.set()
    thread.join(PROMPT_S)
    took = time.monotonic() - started
    alive = thread.is_alive()
    harness.task.close()
    assert not alive, f"poll did not return within {PROMPT_S:g} s of stop"
    assert not failures, f"poll failed after stop: {failures[0]!r}"
    assert took < PROMPT_S, f"poll returned {took:.1f} s after stop"
