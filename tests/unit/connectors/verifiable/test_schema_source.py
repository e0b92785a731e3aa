"""SchemaSource: structs as in Apache Kafka."""

from __future__ import annotations

import pytest

from connect import Schema
from connect.data.schema import Type
from connect.errors import ConnectError
from connect.testing import MemoryOffsets, SourceHarness
from connectors.verifiable import SchemaSource, SchemaSourceTask

CONFIG = {"name": "structs", "topic": "t", "throughput": "-1", "num.messages": "3", "id": "1"}
NUMBERS = {"boolean": True, "int": 12, "long": 12, "float": 12.2, "double": 12.2, "partitioning": 0}
TYPES = [Type.BOOLEAN, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.INT32]


def source(offsets: MemoryOffsets | None = None, **config: str) -> SourceHarness:
    return SourceHarness(SchemaSourceTask(), CONFIG | {k.replace("_", "."): v for k, v in config.items()}, offsets)


def test_each_task_has_its_number() -> None:
    connector = SchemaSource()
    connector.start({"topic": "t"})
    assert connector.task_configs(2) == [{"topic": "t", "id": "0"}, {"topic": "t", "id": "1"}]


def test_records_go_to_the_partition_of_the_tasks_number(capfd: pytest.CaptureFixture[str]) -> None:
    with source() as harness:
        records = harness.poll()
    assert capfd.readouterr().out == "".join(f'{{"task": 1, "seqno": {n}}}\n' for n in range(3))
    record = records[2]
    assert (record.topic, record.partition, record.key_schema, record.key) == ("t", 1, Schema.STRING, "key")
    assert (record.source_partition, record.source_offset) == ({"id": 1}, {"seqno": 2})
    schema = record.value_schema
    assert schema is not None
    assert schema.fields is not None
    assert (schema.name, schema.version) == ("record", 1)
    assert [field.schema.type for field in schema.fields] == [*TYPES, Type.INT32, Type.INT64]
    assert {name: record.value.get(name) for name in schema.field_names} == {**NUMBERS, "id": 1, "seqno": 2}


def test_two_versions_of_the_schema_take_turns() -> None:
    with source(multiple_schema="true", partition_count="2") as harness:
        records = harness.poll()
    assert [record.value.schema.version for record in records] == [1, 2, 1]
    second = records[1].value
    assert {name: second.get(name) for name in second.schema.field_names} == {
        **NUMBERS, "partitioning": 1, "string": "def", "id": 1, "seqno": 1,
    }  # fmt: skip
    assert second.schema.field("string").schema.default == "abc"


def test_each_start_produces_its_number_of_messages() -> None:
    offsets = MemoryOffsets()
    with source(offsets) as harness:
        assert len(harness.poll()) == 3
        harness.commit()
        harness.task.stop()
        assert harness.poll() == []
    with source(offsets, multiple_schema="true") as harness:
        records = harness.poll()
    assert [record.value.get("seqno") for record in records] == [3, 4, 5]
    assert [record.value.schema.version for record in records] == [1, 2, 1]


def test_an_invalid_key_fails_the_task_with_apaches_message() -> None:
    with pytest.raises(ConnectError, match=r"Invalid SchemaSourceTask configuration: num\.messages is missing"):
        SourceHarness(SchemaSourceTask(), {k: v for k, v in CONFIG.items() if k != "num.messages"}).start()
