"""What becomes of a failed record: retries by a clock that the test turns, tolerance, counts, reports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from connect import DataError, RetriableError, SinkRecord
from connect.converters.string import StringConverter
from connect.sink import RawRecord
from connect.testing import ManualClock, MemorySinkTask
from worker.errors.config import ErrorSettings, error_settings
from worker.errors.dead_letter import ConsumedRecord
from worker.errors.handler import DeadLetterQueue, ErrorHandler
from worker.errors.stages import RecordStage, StageError, ToleranceExceededError
from worker.model import TaskId, TaskStopped
from worker.sink.errant_reporter import ErrantReporter
from worker.tasks.converters import Converters

RECORD = ConsumedRecord("orders", 2, 77, 1_700_000_000_123, "CreateTime", b"k", b"\xff{", [("h", b"1"), ("n", None)])


class Waits:
    """A clock, and a wait that turns it and is remembered."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.waited: list[float] = []
        self.stop_at: int | None = None

    def wait(self, seconds: float) -> bool:
        if seconds:
            self.waited.append(round(seconds, 3))
            self.clock.advance(seconds)
        return self.stop_at is not None and len(self.waited) >= self.stop_at


class Letters:
    """Stands in for the producer of a dead letter queue, and for who makes its topic."""

    topic = "dlq"
    unacknowledged = 0
    max_record_bytes = 1_000_000

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.ensured: list[str] = []
        self.full = False

    def send(self, *letter: Any) -> Future[None]:
        if self.full:
            raise TaskStopped
        self.sent.append(letter[:-1])
        return Future()

    def flush(self, timeout_s: float) -> bool:
        return True

    def check(self) -> None: ...

    def ensure(self, topic: str, wait: Callable[[float], bool]) -> bool:
        self.ensured.append(topic)
        return True


def handler_of(waits: Waits, settings: ErrorSettings, letters: Letters | None = None, *, headers: bool = False) -> ErrorHandler:
    queue = None if letters is None else DeadLetterQueue(letters, letters, headers)  # type: ignore[arg-type]  # a double
    handler = ErrorHandler(TaskId("c", 0), settings, queue=queue, clock=waits.clock, fraction=lambda: 0.5)
    assert handler.open(waits.wait)
    return handler


def failing(times: int, error: Exception) -> Callable[[], str]:
    left = [error] * times

    def operation() -> str:
        if left:
            raise left.pop()
        return "done"

    return operation


def failure(error: BaseException, stage: RecordStage = RecordStage.VALUE_CONVERTER) -> StageError:
    return StageError(stage, StringConverter(), "topic orders, partition 2, offset 77", error)


# --- retries


def test_retry_delays_double_from_300_ms_and_have_jitter_beyond_the_maximum() -> None:
    waits = Waits()
    handler = handler_of(waits, ErrorSettings(retry_timeout_ms=-1, retry_delay_max_ms=2000))
    assert handler.attempt(failing(5, RetriableError("not yet"))) == "done"
    assert waits.waited == [0.3, 0.6, 1.2, 1.0, 1.0]
    assert (handler.counts.failures, handler.counts.retries) == (5, 5)


def test_the_last_retry_delay_ends_at_the_retry_timeout() -> None:
    waits = Waits()
    handler = handler_of(waits, ErrorSettings(retry_timeout_ms=1000))
    with pytest.raises(RetriableError, match="not yet"):
        handler.attempt(failing(9, RetriableError("not yet")))
    assert waits.waited == [0.3, 0.6, 0.1]
    assert (handler.counts.failures, handler.counts.retries) == (4, 3)


def test_without_a_timeout_nothing_is_retried() -> None:
    waits = Waits()
    handler = handler_of(waits, ErrorSettings())
    with pytest.raises(RetriableError):
        handler.attempt(failing(1, RetriableError("not yet")))
    assert waits.waited == []
    assert handler.counts.failures == 1


def test_only_retriable_errors_are_retried() -> None:
    handler = handler_of(Waits(), ErrorSettings(retry_timeout_ms=-1))
    with pytest.raises(DataError):
        handler.attempt(failing(1, DataError("wrong")))
    assert handler.counts.retries == 0


def test_a_stop_ends_a_retry_delay_without_a_failure() -> None:
    waits = Waits()
    waits.stop_at = 2
    handler = handler_of(waits, ErrorSettings(tolerant=True, retry_timeout_ms=-1))
    with pytest.raises(TaskStopped):
        handler.attempt(failing(9, RetriableError("not yet")))
    assert handler.counts.skipped == 0


# --- tolerance


def test_a_failure_that_is_not_tolerated_fails_the_task_even_if_it_is_caught() -> None:
    letters = Letters()
    handler = handler_of(Waits(), ErrorSettings(), letters)
    error = failure(DataError("wrong"))
    with pytest.raises(ToleranceExceededError) as raised:
        handler.handle_failure(error, RECORD)
    assert raised.value.message == (
        "Tolerance exceeded in error handler: wrong (in value converter StringConverter, topic orders, partition 2, offset 77)"
    )
    assert letters.sent == [(b"k", b"\xff{", RECORD.headers, RECORD.timestamp)]
    counts = handler.counts
    assert (counts.failures, counts.errors, counts.skipped, counts.dead_letters) == (1, 1, 0, 1)
    with pytest.raises(ToleranceExceededError):
        handler.check()


def test_a_tolerated_failure_is_counted_as_skipped() -> None:
    waits = Waits()
    handler = handler_of(waits, ErrorSettings(tolerant=True))
    assert handler.handle_failure(failure(DataError("wrong")), RECORD).done()
    handler.check()
    counts = handler.counts
    assert (counts.failures, counts.errors, counts.skipped, counts.last_error_ms) == (1, 1, 1, waits.clock.time_ms())


def test_a_retriable_error_without_retries_left_is_counted_once() -> None:
    handler = handler_of(Waits(), ErrorSettings(tolerant=True, retry_timeout_ms=500))
    error = RetriableError("not yet")
    with pytest.raises(RetriableError):
        handler.attempt(failing(9, error))
    handler.handle_failure(failure(error), RECORD)
    assert (handler.counts.failures, handler.counts.errors, handler.counts.skipped) == (3, 1, 1)


def test_a_record_reported_by_the_task_is_not_counted_as_skipped() -> None:
    letters = Letters()
    handler = handler_of(Waits(), ErrorSettings(tolerant=True), letters)
    handler.handle_failure(failure(DataError("wrong"), RecordStage.TASK_PUT), RECORD)
    counts = handler.counts
    assert (counts.failures, counts.errors, counts.skipped, counts.dead_letters) == (1, 0, 0, 1)


def test_no_offset_is_committed_after_a_report_failed() -> None:
    letters = Letters()
    handler = handler_of(Waits(), ErrorSettings(tolerant=True), letters)
    handler.handle_failure(failure(DataError("wrong")), RECORD)
    assert handler.flush(1.0)
    letters.full = True
    with pytest.raises(TaskStopped):
        handler.handle_failure(failure(DataError("wrong")), RECORD)
    letters.full = False
    assert not handler.flush(1.0)
    with pytest.raises(TaskStopped):
        handler.check()


def test_the_dead_letter_topic_is_created_first() -> None:
    letters = Letters()
    handler_of(Waits(), ErrorSettings(), letters)
    assert letters.ensured == ["dlq"]


def test_the_log_shows_the_record_only_if_configured(caplog: pytest.LogCaptureFixture) -> None:
    for include in (False, True):
        handler = handler_of(Waits(), ErrorSettings(tolerant=True, log=True, log_messages=include))
        handler.handle_failure(failure(DataError("wrong")), RECORD)
        assert handler.counts.logged == 1
    plain, whole = caplog.records
    assert plain.levelno == logging.ERROR
    begin = "Error encountered in task c-0. Executing stage 'VALUE_CONVERTER' with class 'StringConverter'"
    error = "org.apache.kafka.connect.errors.DataException: wrong"
    assert plain.getMessage() == f"{begin}.\n{error}"
    assert whole.getMessage() == (
        f"{begin}, where consumed record is "
        f"{{topic='orders', partition=2, offset=77, timestamp=1700000000123, timestampType=CreateTime}}.\n{error}"
    )
    assert "DataError: wrong" in (caplog.text)


# --- reports of sink tasks


def reporter_of(handler: ErrorHandler) -> ErrantReporter:
    converter = StringConverter()
    converter.configure({}, False)
    return ErrantReporter(MemorySinkTask(), Converters(converter, converter, converter), handler)


def test_a_record_created_by_the_task_is_reported_as_converters_write_it() -> None:
    letters = Letters()
    reporter = reporter_of(handler_of(Waits(), ErrorSettings(tolerant=True), letters))
    record = SinkRecord("made", 1, None, "k", None, 5, 9, 123, "CreateTime")
    record.ensure_headers().add("a", "b")
    assert not reporter.report(record, ValueError("full")).done()
    assert letters.sent == [(b"k", b"5", [("a", b"b")], 123)]


def test_an_undecoded_record_is_reported_unchanged() -> None:
    letters = Letters()
    handler = handler_of(Waits(), ErrorSettings(tolerant=True), letters, headers=True)
    reporter_of(handler).report_raw(RawRecord("t", 3, 4, None, b"\x00", 5, [("h", b"x")]), ValueError("full"))
    ((key, value, headers, timestamp),) = letters.sent
    assert (key, value, timestamp) == (None, b"\x00", 5)
    found = dict(headers)
    assert found["h"] == b"x"
    assert found["__connect.errors.stage"] == b"TASK_PUT"
    assert found["__connect.errors.class.name"] == b"org.apache.kafka.connect.sink.SinkTask"
    assert [found[f"__connect.errors.{name}"] for name in ("topic", "partition", "offset")] == [b"t", b"3", b"4"]


def test_a_report_fails_the_task_if_failures_are_not_tolerated() -> None:
    letters = Letters()
    handler = handler_of(Waits(), ErrorSettings(), letters)
    with pytest.raises(ToleranceExceededError):
        reporter_of(handler).report_raw(RawRecord("t", 3, 4, None, b"x"), ValueError("full"))
    assert len(letters.sent) == 1
    with pytest.raises(ToleranceExceededError):
        handler.check()


# --- settings


def test_sinks_and_sources_have_separate_dead_letter_keys() -> None:
    config = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": " dlq ",
        "errors.deadletterqueue.context.headers.enable": "true",
        "errors.deadletterqueue.source.topic.name": "lost",
        "errors.deadletterqueue.source.topic.replication.factor": "-1",
    }
    sink, source = error_settings(config, "sink").dead_letters, error_settings(config, "source").dead_letters
    assert sink is not None
    assert source is not None
    assert (sink.name, sink.replication_factor, sink.context_headers) == ("dlq", 3, True)
    assert (source.name, source.replication_factor, source.context_headers) == ("lost", -1, True)
    assert not error_settings({}, "sink").reports
    assert error_settings({"errors.log.enable": "true"}, "sink").reports
