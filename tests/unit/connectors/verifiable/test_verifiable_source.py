"""VerifiableSource: task configs, records, offsets, and lines as in Apache Kafka (recordings tasks-get-two, life_cycle)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from connect import Schema
from connect.connector import ExactlyOnceSupport
from connect.errors import ConnectError
from connect.plugins import APACHE_VERSION, Kind, Plugins
from connect.testing import MemoryOffsets, SourceHarness
from connectors.verifiable import VerifiableSource, VerifiableSourceTask
from connectors.verifiable.verifiable_source import BATCH
from tests.support.waiting import call_with_timeout

CONFIG = {"name": "numbers", "topic": "t", "throughput": "-1", "id": "1"}


def source(config: Mapping[str, str] = {}, /, *, offsets: MemoryOffsets | None = None, **more_config: str) -> SourceHarness:
    """Creates a task's harness; key names have ``_`` for ``.``."""
    keys = {key.replace("_", "."): value for key, value in {**config, **more_config}.items()}
    return SourceHarness(VerifiableSourceTask(), CONFIG | keys, offsets)


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", ["VerifiableSource", "VerifiableSink", "MockSource", "MockSink", "SchemaSource"])
def test_the_connectors_are_listed_under_their_java_names_and_their_keys_are_not(name: str) -> None:
    # Recordings plugins-connectors-only-true and plugin-config-verifiable-source.
    plugins = Plugins.discover()
    desc = plugins.resolve(Kind.CONNECTOR, f"org.apache.kafka.connect.tools.{name}Connector")
    assert desc in plugins.connectors()
    assert desc.class_name == f"org.apache.kafka.connect.tools.{name}Connector"
    assert (desc.type, desc.version) == ("sink" if name.endswith("Sink") else "source", APACHE_VERSION)
    assert plugins.resolve(Kind.CONNECTOR, name) == plugins.resolve(Kind.CONNECTOR, f"{name}Connector") == desc
    assert not plugins.load(desc)().config_def().keys


def test_each_task_has_the_configuration_and_its_number() -> None:
    connector = VerifiableSource()
    config = {"connector.class": "VerifiableSource", "tasks.max": "2", "topic": "t", "throughput": "1", "name": "numbers"}
    connector.start(config)
    assert connector.task_configs(2) == [{**config, "id": "0"}, {**config, "id": "1"}]
    assert connector.task_configs(0) == []


def test_the_source_supports_exactly_once() -> None:
    assert VerifiableSource().exactly_once_support(CONFIG) is ExactlyOnceSupport.SUPPORTED


def test_alter_offsets_leaves_changes_to_the_worker() -> None:
    assert VerifiableSource().alter_offsets(CONFIG, {(("id", 0),): {"seqno": 5}}) is False


def test_records_count_up_with_the_tasks_number_as_key() -> None:
    with source() as harness:
        records = harness.poll()
    assert len(records) == BATCH
    first = records[0]
    assert (first.key_schema, first.key, first.value_schema, first.value) == (Schema.INT32, 1, Schema.INT64, 0)
    assert (first.topic, first.partition, first.timestamp) == ("t", None, None)
    assert (first.source_partition, first.source_offset) == ({"id": 1}, {"seqno": 0})
    assert [(r.value, r.source_offset) for r in records] == [(n, {"seqno": n}) for n in range(BATCH)]


def test_a_restart_continues_after_the_stored_number() -> None:
    offsets = MemoryOffsets()
    with source(offsets=offsets) as harness:
        harness.poll()
        harness.commit()
        uncommitted = harness.poll()
    with source(offsets=offsets) as harness:
        assert [r.value for r in harness.poll()] == [r.value for r in uncommitted]


def test_offsets_of_apaches_worker_are_continued() -> None:
    offsets = MemoryOffsets()
    offsets.store({"id": 1}, {"seqno": 125})
    with source(offsets=offsets) as harness:
        assert harness.poll()[0].value == 126


def test_an_invalid_stored_offset_is_rejected() -> None:
    offsets = MemoryOffsets()
    offsets.store({"id": 1}, {"position": 5})
    with pytest.raises(ConnectError, match=r"offset of \{'id': 1\} is \{'position': 5\}, expected an integer 'seqno'"):
        source(offsets=offsets).start()


def test_a_line_is_printed_for_each_record_and_each_acknowledgment(capfd: pytest.CaptureFixture[str]) -> None:
    before_ms = time.time_ns() // 1_000_000
    with source() as harness:
        harness.poll()
        made = lines(capfd)
        harness.commit()
        committed = lines(capfd)
    assert [line["seqno"] for line in made] == [line["seqno"] for line in committed] == list(range(BATCH))
    assert before_ms <= made[0].pop("time_ms") <= time.time_ns() // 1_000_000
    assert made[0] == {"name": "numbers", "task": 1, "topic": "t", "seqno": 0}
    assert committed[0].pop("time_ms") >= before_ms
    assert committed[0] == {"name": "numbers", "task": 1, "topic": "t", "seqno": 0, "committed": True}


def test_members_are_in_the_order_of_apaches_lines(capfd: pytest.CaptureFixture[str]) -> None:
    # The order in which Java's HashMap goes through these keys.
    with source() as harness:
        harness.poll()
        harness.commit()
    found = lines(capfd)
    assert list(found[0]) == ["task", "seqno", "time_ms", "name", "topic"]
    assert list(found[-1]) == ["committed", "task", "seqno", "time_ms", "name", "topic"]


def test_acknowledgments_are_printed_with_the_next_batch(capfd: pytest.CaptureFixture[str]) -> None:
    with source() as harness:
        for record in harness.poll():
            harness.task.commit_record(record, None)
        assert not any("committed" in line for line in lines(capfd))
        harness.poll()
        assert sum("committed" in line for line in lines(capfd)) == BATCH


def test_names_are_escaped_in_lines(capfd: pytest.CaptureFixture[str]) -> None:
    with source(name='say "ü"\n') as harness:
        harness.poll()
    assert lines(capfd)[0]["name"] == 'say "ü"\n'


def test_complete_records_contain_the_members_of_the_line(capfd: pytest.CaptureFixture[str]) -> None:
    with source(complete_record_data="TRUE") as harness:
        record = harness.poll()[3]
        line = lines(capfd)[3]
        harness.commit()
        # Apache's prints that a struct cannot be written as JSON.
        assert [told["seqno"] for told in lines(capfd)] == list(range(BATCH))
    value = record.value
    assert {name: value.get(name) for name in value.schema.field_names} == line
    assert [(field.name, field.schema) for field in value.schema.fields] == [
        ("name", Schema.STRING),
        ("task", Schema.INT32),
        ("topic", Schema.STRING),
        ("time_ms", Schema.INT64),
        ("seqno", Schema.INT64),
    ]


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"throughput": "fast"}, "Invalid value fast for configuration throughput: Not a number of type LONG"),
        ({"id": ""}, "Invalid value  for configuration id: Not a number of type INT"),
    ],
)
def test_an_invalid_key_fails_the_task_with_apaches_message_and_its_name(config: dict[str, str], what: str) -> None:
    with pytest.raises(ConnectError) as caught:
        source(config).start()
    assert caught.value.message == f"Invalid VerifiableSourceTask configuration: {what}"


@pytest.mark.parametrize("key", ["id", "topic", "throughput"])
def test_the_error_for_a_missing_key_names_it(key: str) -> None:
    config = {k: v for k, v in CONFIG.items() if k != key}
    with pytest.raises(ConnectError, match=f"Invalid VerifiableSourceTask configuration: {key} is missing"):
        SourceHarness(VerifiableSourceTask(), config).start()


def test_stop_ends_a_waiting_poll() -> None:
    with source(throughput="0") as harness:
        harness.task.stop()
        assert call_with_timeout(harness.poll, "poll") == []
