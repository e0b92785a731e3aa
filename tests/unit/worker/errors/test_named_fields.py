"""A failure names the field, also where the message is Apache's and does not; the message itself stays Apache's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect import Schema, SchemaBuilder, SinkRecord, Struct
from connect.converters.json.converter import JsonConverter
from connect.data.schema import Type
from connect.errors import DataError
from connect.plugins import Plugins
from connect.transforms.chain import build_steps
from worker.errors.batch_failures import BatchFailures
from worker.errors.stages import RecordStage, StageError, unnamed_field
from worker.tasks.transformation_chain import TransformationChain

ROW = SchemaBuilder.struct().field("id", Schema(Type.INT64)).field("amount", Schema(Type.STRING)).build()
TRANSFORMS: list[dict[str, str]] = [
    {"type": "org.apache.kafka.connect.transforms.Cast$Value", "spec": "amount:int32"},
    {
        "type": "org.apache.kafka.connect.transforms.TimestampConverter$Value",
        "field": "amount",
        "target.type": "Date",
        "format": "yyyy",
    },
]


@pytest.mark.parametrize("settings", TRANSFORMS, ids=lambda settings: settings["type"].rpartition(".")[2])
@pytest.mark.parametrize("schemaless", [False, True])
def test_of_a_transformation(settings: dict[str, str], schemaless: bool) -> None:
    records = [_record(i, schemaless, "abc" if i == 5 else "2020") for i in range(8)]
    chain = TransformationChain(
        build_steps({"transforms": "x", **{f"transforms.x.{k}": v for k, v in settings.items()}}, Plugins.discover())
    )
    failures = BatchFailures()
    chain.apply_batch(records, failures)
    ((place, failure),) = failures
    assert place == 5
    assert isinstance(failure.reason, DataError)
    assert failure.reason.field == "amount"
    assert "amount" in failure.message
    assert "topic orders, partition 3, offset 5" in failure.message
    assert "transformation x (" in failure.message


def _record(i: int, schemaless: bool, amount: Any) -> SinkRecord:
    if schemaless:
        return SinkRecord("orders", 3, None, None, None, {"id": i, "amount": amount}, i)
    return SinkRecord("orders", 3, None, None, ROW, Struct(ROW, [i, amount]), i)


def test_of_a_masked_field() -> None:
    settings = {"transforms.x.type": "MaskFieldValue", "transforms.x.fields": "amount", "transforms.x.replacement": "x"}
    chain = TransformationChain(build_steps({"transforms": "x", **settings}, Plugins.discover()))
    failures = BatchFailures()
    chain.apply_batch([_record(0, True, "text"), _record(1, True, 5)], failures)
    ((place, failure),) = failures
    assert place == 1
    assert "field amount" in failure.message


def test_of_a_value_inside_of_another_in_json() -> None:
    converter = JsonConverter()
    converter.configure({}, False)
    inner = {"type": "struct", "field": "address", "fields": [{"type": "int32", "field": "zip"}]}
    message = {"schema": {"type": "struct", "fields": [inner]}, "payload": {"address": {"zip": None}}}
    with pytest.raises(DataError) as raised:
        converter.to_connect_data("t", json.dumps(message).encode())
    assert raised.value.message == "Invalid null value for required INT32 field"
    assert raised.value.field == "address.zip"
    assert "(in value converter JsonConverter, field address.zip, here)" in str(
        StageError(RecordStage.VALUE_CONVERTER, converter, "here", raised.value)
    )


def test_a_field_that_the_message_names_is_not_named_twice() -> None:
    error = DataError('Invalid value: null used for required field: "id"')
    error.in_field("id")
    assert unnamed_field(error) is None
    error.in_field("row")
    assert unnamed_field(error) == "row.id"


def test_a_message_that_announces_a_reason_is_followed_by_it() -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, False)
    with pytest.raises(DataError) as raised:
        converter.to_connect_data("t", b'{"a": 1,}')
    assert raised.value.message.endswith("error: ")
    told = str(StageError(RecordStage.VALUE_CONVERTER, converter, "here", raised.value))
    assert "serialization error: MalformedJson: expected a name at character 8 (in value converter" in told
