"""Errors as text for statuses."""

from __future__ import annotations

from connect import ConfigError, DataError, RetriableError
from worker.config.secrets import SecretMask
from worker.errors.stages import RecordStage, StageError, TaskPutError, ToleranceExceededError
from worker.errors.trace import trace_of


def test_a_trace_begins_with_apaches_class_and_the_cause() -> None:
    mask = SecretMask()
    assert trace_of(RetriableError("later"), mask).startswith("org.apache.kafka.connect.errors.RetriableException: later\n")
    assert trace_of(ConfigError("wrong"), mask).startswith("org.apache.kafka.common.config.ConfigException: wrong\n")
    assert trace_of(ZeroDivisionError("by zero"), mask).splitlines()[0] == (
        "org.apache.kafka.connect.errors.ConnectException: ZeroDivisionError: by zero"
    )
    staged = StageError(RecordStage.VALUE_CONVERTER, object(), "topic t", DataError("no such field"))
    assert trace_of(staged, mask).splitlines()[0] == (
        "org.apache.kafka.connect.errors.DataException: no such field (in value converter object, topic t)"
    )


def test_a_trace_can_be_written_whatever_bytes_a_name_has() -> None:
    trace = trace_of(OSError("no file a\udcff"), SecretMask())
    assert trace.splitlines()[0] == "org.apache.kafka.connect.errors.ConnectException: OSError: no file a\\udcff"
    assert trace.encode()


def test_a_trace_of_a_failed_record_begins_with_apaches_words_and_goes_on_with_what_happened() -> None:
    failure = StageError(RecordStage.VALUE_CONVERTER, object(), "topic t", DataError("no such field"))
    assert trace_of(ToleranceExceededError(failure), SecretMask()).splitlines()[:2] == [
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler: no such field "
        "(in value converter object, topic t)",
        "Caused by: org.apache.kafka.connect.errors.DataException: no such field (in value converter object, topic t)",
    ]
    assert trace_of(TaskPutError(object(), "2 records", ValueError("full")), SecretMask()).splitlines()[:2] == [
        "org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable exception. "
        "ValueError: full (in task put object, 2 records)",
        "Caused by: org.apache.kafka.connect.errors.ConnectException: ValueError: full",
    ]
