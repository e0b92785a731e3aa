"""The bytes and texts by which a failed record is told of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect import DataError, Headers, Schema, SchemaBuilder, SourceRecord, Struct
from connect.config.parsing import HIDDEN
from connect.record import NO_TIMESTAMP_TYPE
from connect.record_format import record_from_json
from worker.config.secrets import SecretMask
from worker.errors.dead_letter import (
    ConsumedRecord,
    FailedRecord,
    build_dead_letter,
    context_headers,
    log_message,
    source_record_text,
)
from worker.errors.stages import RecordStage, StageError
from worker.model import TaskId

CONSUMED = ConsumedRecord("orders", 5, 100, None, NO_TIMESTAMP_TYPE, b"ab", b"x", [("h", b"1")])
CAST = "org.apache.kafka.connect.transforms.Cast$Value"


def failed(
    error: BaseException, original: ConsumedRecord | SourceRecord | None, stage: RecordStage = RecordStage.KEY_CONVERTER
) -> FailedRecord:
    return FailedRecord(TaskId("job", 0), StageError(stage, object(), "somewhere", error), CAST, original)


def source_record() -> SourceRecord:
    schema = SchemaBuilder.struct().name("shop.Order").field("id", Schema.INT32).field("note", Schema.OPTIONAL_STRING).build()
    value = Struct(schema, [7, "é"])
    return SourceRecord(
        {"table": "orders"}, {"lsn": 12}, "t", None, None, None, schema, value, 1700, Headers().add("a", "b", Schema.STRING)
    )


def test_the_log_line_equals_apaches() -> None:
    wrong = DataError("wrong")
    begin = f"Error encountered in task job-0. Executing stage 'KEY_CONVERTER' with class '{CAST}'"
    assert log_message(failed(wrong, CONSUMED), include_record=False) == f"{begin}."
    assert log_message(failed(wrong, CONSUMED), include_record=True) == (
        f"{begin}, where consumed record is {{topic='orders', partition=5, offset=100}}."
    )
    assert log_message(failed(wrong, None), include_record=True) == f"{begin}."
    assert log_message(failed(wrong, source_record(), RecordStage.KAFKA_PRODUCE), include_record=True) == (
        "Error encountered in task job-0. Executing stage 'KAFKA_PRODUCE' with class "
        "'org.apache.kafka.connect.runtime.WorkerSourceTask', where source record is = "
        f"{source_record_text(source_record())}."
    )


def test_a_source_record_is_shown_as_java_shows_it() -> None:
    assert source_record_text(source_record()) == (
        "SourceRecord{sourcePartition={table=orders}, sourceOffset={lsn=12}} ConnectRecord{topic='t', kafkaPartition=null, "
        "key=null, keySchema=null, value=Struct{id=7,note=é}, valueSchema=Schema{shop.Order:STRUCT}, timestamp=1700, "
        "headers=ConnectHeaders(headers=[ConnectHeader(key=a, value=b, schema=Schema{STRING})])}"
    )


def test_ten_headers_in_apaches_order() -> None:
    mask = SecretMask()
    mask.add({"db.password": "hunter22"})
    try:
        raise DataError("é: hunter22 is no number")
    except DataError as e:
        headers = context_headers(failed(e, CONSUMED, RecordStage.TRANSFORMATION), mask)
    *first, trace = headers
    assert first == [
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"5"),
        ("__connect.errors.offset", b"100"),
        ("__connect.errors.connector.name", b"job"),
        ("__connect.errors.task.id", b"0"),
        ("__connect.errors.stage", b"TRANSFORMATION"),
        ("__connect.errors.class.name", CAST.encode()),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        ("__connect.errors.exception.message", f"é: {HIDDEN} is no number".encode()),
    ]
    name, text = trace
    assert name == "__connect.errors.exception.stacktrace"
    assert text is not None
    assert text.startswith(f"org.apache.kafka.connect.errors.DataException: é: {HIDDEN} is no number\n".encode())
    assert text.endswith(b"\n")
    assert b"hunter22" not in text
    assert Path(__file__).name.encode() in text


def test_an_exception_without_a_message_has_a_null_header() -> None:
    found = dict(context_headers(failed(DataError(), CONSUMED), SecretMask()))
    assert found["__connect.errors.exception.message"] is None


def test_an_exception_of_python_is_named_in_the_message() -> None:
    found = dict(context_headers(failed(KeyError("gone"), CONSUMED), SecretMask()))
    assert found["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.ConnectException"
    assert found["__connect.errors.exception.message"] == b"KeyError: 'gone'"


def test_a_consumed_record_is_written_unchanged_with_its_headers_first() -> None:
    letter = build_dead_letter(failed(DataError("wrong"), CONSUMED._replace(timestamp=9)), [("more", b"2")], 1000)
    assert letter == (b"ab", b"x", [("h", b"1"), ("more", b"2")], 9)


@pytest.mark.parametrize(("timestamp", "written"), [(0, 0), (-1, None), (None, None)])
def test_a_consumed_record_without_a_timestamp_gets_the_time_of_writing(timestamp: int | None, written: int | None) -> None:
    letter = build_dead_letter(failed(DataError("wrong"), CONSUMED._replace(timestamp=timestamp)), [], 1000)
    assert letter is not None
    assert letter.timestamp == written


def test_a_source_record_is_written_as_json_that_can_be_read_back() -> None:
    record = source_record()
    found = failed(DataError("wrong"), record)
    letter = build_dead_letter(found, [], 100_000)
    assert letter is not None
    assert letter.key == b'{"table": "orders"}'
    assert letter.value is not None
    back = record_from_json(json.loads(letter.value))
    assert isinstance(back, SourceRecord)
    assert (back.topic, back.value, back.source_offset, back.timestamp) == ("t", record.value, {"lsn": 12}, 1700)
    headers = dict(context_headers(found, SecretMask()))
    places = [headers[f"__connect.errors.{name}"] for name in ("topic", "partition", "offset")]
    assert places == [b"t", b'{"table": "orders"}', b'{"lsn": 12}']


def test_a_source_record_with_invalid_values_is_shown_as_far_as_possible() -> None:
    record = SourceRecord({"p": 1}, {"o": object()}, "t", value={"a": {1, 2}})
    letter = build_dead_letter(failed(DataError("wrong"), record), [], 100_000)
    assert letter is not None
    assert letter.value is not None
    shown = json.loads(letter.value)
    assert shown["value"] == {"text": "{'a': {1, 2}}"}
    assert shown["sourcePartition"] == {"p": 1}
    assert "object" in shown["sourceOffset"]["o"]


def test_a_source_record_too_large_for_the_queue_is_written_without_contents() -> None:
    record = SourceRecord({"p": 1}, {"o": 2}, "t", value="x" * 5000)
    headers: list[tuple[str, bytes | None]] = [("h", b"y" * 3000)]
    whole, outline = (build_dead_letter(failed(DataError("wrong"), record), headers, most) for most in (10_000, 9_000))
    assert whole is not None
    assert outline is not None
    assert json.loads(whole.value or b"")["value"]["payload"] == "x" * 5000
    shown = json.loads(outline.value or b"")
    assert shown["value"] == {"omitted": f"the record has {len(whole.value or b'')} bytes as JSON"}
    assert (shown["sourcePartition"], shown["sourceOffset"]) == ({"p": 1}, {"o": 2})


def test_an_unknown_record_has_no_dead_letter() -> None:
    assert build_dead_letter(failed(DataError("wrong"), None), [], 1000) is None
