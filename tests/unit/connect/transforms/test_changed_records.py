"""Batches that stay columns until somebody looks at a record."""

from __future__ import annotations

import pytest

from connect.converters.json.converter import JsonConverter
from connect.data import Headers, Schema, Struct, Type
from connect.plugins import Plugins
from connect.record import SourceRecord
from connect.transforms.chain import apply_steps_batch, build_steps
from connect.transforms.columnar.columns import ChangedRecords
from worker.errors.batch_failures import BatchFailures
from worker.source.encoding import encode
from worker.tasks.converters import Converters

HOIST = {
    "transforms": "a",
    "transforms.a.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.a.field": "w",
}
ROUTE = {
    "transforms": "r,a",
    "transforms.r.type": "RegexRouter",
    "transforms.r.regex": "(t)1?",
    "transforms.r.replacement": "$1-new",
    **{key: value for key, value in HOIST.items() if key != "transforms"},
}


def _records(*topics: str, headers: bool = False) -> list[SourceRecord]:
    return [
        SourceRecord(
            {}, {"at": i}, topic, i, None, None, Schema.STRING, str(i), 7 + i, Headers().add("h", i) if headers else None
        )
        for i, topic in enumerate(topics)
    ]


def _apply_batch(config: dict[str, str], records: list[SourceRecord]) -> ChangedRecords:
    changed = apply_steps_batch(build_steps(config, Plugins.discover()), records)
    assert isinstance(changed, ChangedRecords)
    return changed


def test_changed_records_behave_as_a_sequence_of_records() -> None:
    changed = _apply_batch(HOIST, _records("t", "t", "u", "t"))
    schema = Schema(Type.STRUCT, fields=[("w", Schema.STRING)])
    assert len(changed) == 4
    assert [r.value for r in changed] == [Struct(schema, [str(i)]) for i in range(4)]
    assert changed[2] is changed[2]
    assert [r.topic for r in changed[1:3]] == ["t", "u"]
    assert None not in changed
    assert changed[3] in changed


@pytest.mark.parametrize("config", [HOIST, ROUTE], ids=["one side", "topics"])
@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize("topics", [("t",) * 6, ("t", "t", "t1", "t1", "u", "t")], ids=["one topic", "several"])
def test_changed_records_encode_to_the_same_bytes_as_their_records(
    config: dict[str, str], headers: bool, topics: tuple[str, ...]
) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, False)
    converters = Converters(converter, converter, converter)
    records = _records(*topics, headers=headers)
    from_columns = encode(converters, _apply_batch(config, records), BatchFailures())
    from_records = encode(converters, list(_apply_batch(config, records)), BatchFailures())
    assert from_columns == from_records
    assert [value for run, _ in from_columns for value in run.values] == [b'{"w":"%d"}' % i for i in range(6)]
