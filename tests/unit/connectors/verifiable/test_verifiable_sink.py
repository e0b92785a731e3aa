"""VerifiableSink: lines as in Apache Kafka."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from connect import Schema, SinkRecord
from connect.data.schema import SchemaBuilder
from connect.data.struct import Struct
from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.testing import SinkHarness
from connectors.verifiable import VerifiableSink, VerifiableSinkTask

CONFIG = {"name": "reader", "topics": "t", "id": "2"}


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def record(seqno: Any, offset: int, *, partition: int = 0, task: Any = 1) -> SinkRecord:
    return SinkRecord("t", partition, Schema.INT32, task, Schema.INT64, seqno, offset)


def test_each_task_has_the_configuration_and_its_number() -> None:
    connector = VerifiableSink()
    connector.start({"name": "reader", "topics": "t"})
    assert connector.task_configs(2) == [{"name": "reader", "topics": "t", "id": str(task)} for task in range(2)]
    assert connector.alter_offsets({}, {TopicPartition("t", 0): 5}) is False


def test_a_line_is_printed_for_each_put_record_and_each_flush(capfd: pytest.CaptureFixture[str]) -> None:
    with SinkHarness(VerifiableSinkTask(), CONFIG) as harness:
        harness.put([record(7, 70), record(8, 71)])
        put = lines(capfd)
        harness.commit()
        flushed = lines(capfd)
        harness.commit()
        assert lines(capfd) == []
    # The order in which Java's HashMap goes through these keys.
    assert list(put[0]) == ["task", "seqno", "offset", "time_ms", "name", "topic", "sinkTask"]
    assert list(flushed[0]) == ["task", "seqno", "offset", "time_ms", "name", "topic", "sinkTask", "flushed"]
    assert put[0].pop("time_ms") <= flushed[0].pop("time_ms")
    assert put[0] == {"name": "reader", "task": 1, "sinkTask": 2, "topic": "t", "seqno": 7, "offset": 70}
    assert flushed[0] == {**put[0], "flushed": True}
    assert [line["offset"] for line in put] == [line["offset"] for line in flushed] == [70, 71]


def test_only_partitions_that_are_committed_are_flushed(capfd: pytest.CaptureFixture[str]) -> None:
    with SinkHarness(VerifiableSinkTask(), CONFIG) as harness:
        harness.put([record(1, 0), record(2, 0, partition=1)])
        lines(capfd)
        harness.task.flush({TopicPartition("t", 1): 1})
        assert [line["seqno"] for line in lines(capfd)] == [2]
        harness.task.flush({TopicPartition("t", 0): 1, TopicPartition("t", 1): 1})
        assert [line["seqno"] for line in lines(capfd)] == [1]


def test_records_of_lost_partitions_are_never_reported_as_flushed(capfd: pytest.CaptureFixture[str]) -> None:
    with SinkHarness(VerifiableSinkTask(), CONFIG) as harness:
        harness.put([record(1, 0)])
        harness.task.close_partitions([TopicPartition("t", 0)], lost=True)
        lines(capfd)
        harness.task.flush({TopicPartition("t", 0): 1})
        assert lines(capfd) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        ("ü\n", "ü\n"),
        ({"seqno": 3, "name": "n"}, {"seqno": 3, "name": "n"}),
        (b"\x00\xff", "AP8="),
        (Decimal("1.50"), 1.5),
        (Struct(SchemaBuilder.struct().field("a", Schema.INT32).build(), [5]), {"a": 5}),
        (1 << 70, 1 << 70),
        (float, "Bad data can't be written as json: Type is not JSON serializable: type"),
    ],
)
def test_keys_and_values_are_shown_whatever_they_are(value: Any, shown: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with SinkHarness(VerifiableSinkTask(), CONFIG) as harness:
        harness.put([record(value, 0, task=value)])
    found = lines(capfd)[0]
    assert (found["task"], found["seqno"]) == (shown, shown)


def test_a_task_without_a_number_fails_with_apaches_message() -> None:
    with pytest.raises(ConnectError, match="Invalid VerifiableSinkTask configuration: id is missing, expected an integer"):
        SinkHarness(VerifiableSinkTask(), {"name": "reader"}).start()
