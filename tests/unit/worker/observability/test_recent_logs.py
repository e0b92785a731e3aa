"""The recent log lines of connectors: which records belong to one, bounds, positions, and forwarding from executors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connect.errors import DataError
from worker.config.secrets import SecretMask
from worker.model import TaskId
from worker.observability.log_context import log_context
from worker.observability.log_lines import MAX_MESSAGE_CHARACTERS, LogLine, line_json, line_of, matches
from worker.observability.recent_logs import LogForwarder, RecentLogs, forward_logs, keep_recent_logs, recent_logs

SECRET = "hunter2hunter2"


def record(message: str, *arguments: object, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("worker.sink", level, __file__, 1, message, arguments, None)


def line(connector: str, message: str = "text", task: int | None = None, level: str = "INFO", at_ms: int = 0) -> LogLine:
    return LogLine(connector, task, at_ms, level, "worker.sink", message, None)


def texts(logs: RecentLogs, connector: str, after: int = 0, limit: int = 100) -> list[str]:
    return [one.message for _, one in logs.read(connector, after, limit).lines]


def test_a_record_belongs_to_the_connector_of_its_thread_or_to_the_one_it_is_about() -> None:
    mask = SecretMask()
    with log_context("a|b", 3):
        found = line_of(record("started %s", TaskId("other", 1)), mask)
    assert found is not None
    assert (found.connector, found.task, found.message) == ("a|b", 3, "started other-1")
    with log_context("orders"):
        found = line_of(record("validated"), mask)
    assert found is not None
    assert (found.connector, found.task) == ("orders", None)
    for message, arguments, expected in (
        ("Task %s failed", (TaskId("orders", 2),), ("orders", 2)),
        ("Connector %s was deleted", ("orders",), ("orders", None)),
        ("%d%% done: connector %s keeps %s", (5, "orders", "x"), ("orders", None)),
        ("Fencing %d producers of connector '%s'", (3, "orders"), ("orders", None)),
    ):
        found = line_of(record(message, *arguments), mask)
        assert found is not None, message
        assert (found.connector, found.task) == expected
    assert line_of(record("REST API listening at %s", "url"), mask) is None
    assert line_of(record("Connector %s", 7), mask) is None
    assert line_of(logging.LogRecord("x", 20, "f", 1, "Connector %(name)s", ({"name": "orders"},), None), mask) is None


def test_lines_have_levels_of_log4j_traces_and_no_secrets() -> None:
    mask = SecretMask()
    mask.add({"db.password": SECRET})
    try:
        raise ValueError(f"login with {SECRET} failed")
    except ValueError as e:
        failed = logging.LogRecord("x", logging.CRITICAL, "f", 1, "used %s", (SECRET,), (ValueError, e, e.__traceback__))
    with log_context("orders", 0):
        found = line_of(failed, mask)
    assert found is not None
    assert (found.level, found.message) == ("FATAL", "used [hidden]")
    assert found.trace is not None
    assert found.trace.splitlines()[-1] == "ValueError: login with [hidden] failed"
    assert SECRET not in str(line_json(1, found, "w:1"))
    with log_context("orders"):
        levels = [one.level for number in (1, 5, 10, 20, 30, 40) if (one := line_of(record("m", level=number), mask))]
        long = line_of(record("x" * (MAX_MESSAGE_CHARACTERS + 7)), mask)
    assert levels == ["ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR"]
    assert long is not None
    assert long.message.endswith("x ... (7 characters are omitted)")


def test_lines_of_another_process_are_checked_and_masked_again() -> None:
    mask = SecretMask()
    mask.add({"db.password": SECRET})
    plain = line("orders", f"used {SECRET}", task=1).to_plain()
    assert LogLine.of_plain(plain, mask) == line("orders", "used [hidden]", task=1)
    for bad in (None, [], plain[:-1], [1, *plain[1:]], [*plain[:-1], 5]):
        with pytest.raises(DataError, match="not a log line"):
            LogLine.of_plain(bad, mask)


def test_filters() -> None:
    one = line("orders", task=1, level="WARN", at_ms=1000)
    assert matches(one, min_level=30, task=1, since_ms=1000)
    assert not matches(one, min_level=40, task=None, since_ms=0)
    assert not matches(one, min_level=0, task=0, since_ms=0)
    assert not matches(one, min_level=0, task=None, since_ms=1001)


def test_reading_starts_with_the_newest_lines_and_continues_without_loss() -> None:
    logs = RecentLogs()
    assert logs.size_bytes == 0
    logs.add([line("a", f"a{number}") for number in range(5)])
    logs.add([line("b", "b0")])
    first = logs.read("a", 0, 2)
    assert [one.message for _, one in first.lines] == ["a3", "a4"]
    logs.add([line("a", f"a{number}") for number in range(5, 8)])
    second = logs.read("a", first.next_seq, 2)
    assert [one.message for _, one in second.lines] == ["a5", "a6"]
    third = logs.read("a", second.next_seq, 2)
    assert [one.message for _, one in third.lines] == ["a7"]
    assert logs.read("a", third.next_seq, 2).lines == []
    assert texts(logs, "a", -1) == [f"a{number}" for number in range(8)]
    assert texts(logs, "unknown") == []
    assert (logs.knows("a"), logs.knows("unknown")) == (True, False)
    wanted = logs.read("a", -1, 10, lambda one: one.message.endswith("7"))
    assert [one.message for _, one in wanted.lines] == ["a7"]


def test_a_chatty_connector_displaces_its_own_lines_only_and_readers_see_the_gap() -> None:
    logs = RecentLogs(max_bytes=200_000)
    logs.add([line("quiet", "kept")])
    logs.add([line("chatty", "first")])
    position = logs.read("chatty", 0, 1).next_seq
    for number in range(2000):
        logs.add([line("chatty", f"{number}")])
        assert logs.size_bytes <= 200_000
    assert texts(logs, "quiet") == ["kept"]
    assert texts(logs, "chatty")[-1] == "1999"
    behind = logs.read("chatty", position, 10)
    assert behind.has_gap
    assert not logs.read("chatty", behind.next_seq, 10).has_gap


def test_watchers_are_called_for_their_connector_until_they_leave() -> None:
    logs, called = RecentLogs(), list[int]()

    def note() -> None:
        called.append(1)

    with logs.watch("a", note):
        logs.add([line("b")])
        assert called == []
        logs.add([line("a"), line("a")])
        assert called == [1]
    logs.add([line("a")])
    assert called == [1]


def test_forwarder_sends_one_batch_at_a_time_and_tells_what_it_omits() -> None:
    sent: list[list[list[Any]]] = []
    acknowledge: list[Callable[[], None]] = []

    def send(lines: list[list[Any]], acknowledged: Callable[[], None]) -> None:
        sent.append(lines)
        acknowledge.append(acknowledged)

    forwarder = LogForwarder(send, max_bytes=5_000)
    forwarder.add(line("a", "first"))
    for number in range(100):
        forwarder.add(line("a", str(number)))
    assert [[one[5] for one in batch] for batch in sent] == [["first"]]
    acknowledge[0]()
    assert len(sent) == 2
    omission, *rest = [one[5] for one in sent[1]]
    assert omission.startswith(f"{100 - len(rest)} lines are omitted here")
    assert rest == [str(number) for number in range(100 - len(rest), 100)]
    acknowledge[1]()
    assert len(sent) == 2
    forwarder.add(line("a", "later"))
    assert [one[5] for one in sent[2]] == ["later"]


@pytest.fixture
def handlers() -> Iterator[list[logging.Handler]]:
    found: list[logging.Handler] = []
    yield found
    for handler in found:
        logging.getLogger().removeHandler(handler)


def test_handlers_keep_lines_of_all_threads_and_ignore_malformed_records(handlers: list[logging.Handler]) -> None:
    sent: list[list[list[Any]]] = []

    def send(lines: list[list[Any]], acknowledged: Callable[[], None]) -> None:
        sent.append(lines)
        acknowledged()

    handlers += [keep_recent_logs(SecretMask()), forward_logs(send, SecretMask())]
    log = logging.getLogger("tests.recent_logs")

    def work() -> None:
        with log_context("handled-here", 1):
            log.error("one")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    log.error("of no connector")
    for handler in handlers:
        with log_context("handled-here"):
            handler.handle(record("%d", "no number"))
    assert texts(recent_logs(), "handled-here") == ["one"]
    assert [[one[5] for one in batch] for batch in sent] == [["one"]]
