"""Levels of loggers: names of Apache's and ours, what a change touches, and when it was."""

from __future__ import annotations

import io
import itertools
import logging

import pytest

from connect.errors import ConnectError, NotFoundError
from worker.config.secrets import SecretMask
from worker.model import LoggerLevel
from worker.observability.log_setup import set_up_logging
from worker.observability.loggers import JAVA_LOGGERS, Loggers, parse_level

SINK = "org.apache.kafka.connect.runtime.WorkerSinkTask"


@pytest.fixture
def loggers(monkeypatch: pytest.MonkeyPatch) -> Loggers:
    """Over a logging of its own, as that of a worker that has just started."""
    root = logging.RootLogger(logging.INFO)
    manager = logging.Manager(root)
    monkeypatch.setattr(logging, "root", root)
    monkeypatch.setattr(logging.Logger, "root", root)
    monkeypatch.setattr(logging.Logger, "manager", manager)
    monkeypatch.setattr(root, "manager", manager, raising=False)
    clock = itertools.count(1000)
    return Loggers(lambda: next(clock))


def test_root_and_names_of_apache_are_there_from_the_start(loggers: Loggers) -> None:
    assert loggers.logger("root") == loggers.logger("ROOT") == loggers.logger("") == LoggerLevel("INFO", None)
    assert loggers.logger(SINK) == LoggerLevel("INFO", None)
    assert loggers.logger("com.example") is None
    assert set(loggers.all_loggers()) == {"root", *JAVA_LOGGERS}


def test_a_level_for_a_class_of_apache_holds_for_the_modules_that_do_its_work(loggers: Loggers) -> None:
    logging.getLogger("worker.sink.task")
    assert loggers.set_worker_logger(SINK, "debug") == [SINK]
    assert logging.getLogger("worker.sink.task").isEnabledFor(logging.DEBUG)
    assert logging.getLogger("worker.sink.loop").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("worker.source.task").isEnabledFor(logging.DEBUG)
    assert loggers.logger(SINK) == LoggerLevel("DEBUG", 1000)
    assert loggers.logger("worker.sink.task") == LoggerLevel("DEBUG", 1000)


def test_a_level_holds_for_all_names_that_begin_so(loggers: Loggers) -> None:
    loggers.set_worker_logger("com.x.child", "DEBUG")
    loggers.set_worker_logger("com.xz", "WARN")
    loggers.set_worker_logger("worker.sink.task", "TRACE")
    # Letters count, not packages, as in Apache's worker.
    assert loggers.set_worker_logger("com.x", "ERROR") == ["com.x", "com.x.child", "com.xz"]
    changed = loggers.set_worker_logger("org.apache.kafka.connect.runtime.Worker", "WARN")
    assert SINK in changed
    assert all(name.startswith("org.apache.kafka.connect.runtime.Worker") for name in changed)
    assert logging.getLogger("worker.sink.task").getEffectiveLevel() == logging.WARNING
    assert logging.getLogger("worker.standalone.herder").getEffectiveLevel() == logging.INFO


def test_the_same_level_again_changes_nothing(loggers: Loggers) -> None:
    assert loggers.set_worker_logger("com.x", "INFO") == []
    assert loggers.logger("com.x") == LoggerLevel("INFO", None)
    loggers.set_worker_logger("com.x", "WARN")
    before = loggers.logger("com.x")
    assert loggers.set_worker_logger("com.x", "warn") == []
    assert loggers.logger("com.x") == before == LoggerLevel("WARN", 1001)


def test_root_is_all(loggers: Loggers) -> None:
    logging.getLogger("kafka").setLevel(logging.ERROR)
    loggers.set_worker_logger("com.x", "ERROR")
    changed = loggers.set_worker_logger("Root", "DEBUG")
    assert {"root", "kafka", "com.x", SINK} <= set(changed)
    assert {level.level for level in loggers.all_loggers().values()} == {"DEBUG"}
    assert logging.getLogger("kafka.producer").isEnabledFor(logging.DEBUG)


def test_a_logger_that_is_off_is_not_listed(loggers: Loggers) -> None:
    assert loggers.set_worker_logger("com.x", "OFF") == ["com.x"]
    assert not logging.getLogger("com.x").isEnabledFor(logging.CRITICAL)
    assert "com.x" not in loggers.all_loggers()
    assert loggers.logger("com.x") == LoggerLevel("OFF", 1000)


@pytest.mark.parametrize("level", ["ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"])
def test_every_level_is_answered_as_it_was_set(level: str, loggers: Loggers) -> None:
    loggers.set_worker_logger("com.x", level.lower())
    assert loggers.logger("com.x") == LoggerLevel(level, None if level == "INFO" else 1000)


def test_blanks_around_a_level_do_not_count() -> None:
    assert parse_level(" info ") == "INFO"


def test_levels_that_there_are_not() -> None:
    with pytest.raises(NotFoundError, match=r"^invalid log level 'loud'\.$"):
        parse_level("loud")
    with pytest.raises(ConnectError, match="Illegal null or empty Level name"):
        parse_level("")


def test_whoever_has_to_follow_is_told(loggers: Loggers) -> None:
    told: list[tuple[str, str]] = []
    loggers.on_change(lambda namespace, level: told.append((namespace, level)))
    loggers.set_worker_logger("ROOT", "warn")
    loggers.set_worker_logger(SINK, "TRACE")
    with pytest.raises(NotFoundError):
        loggers.set_worker_logger(SINK, "loud")
    assert told == [("root", "WARN"), (SINK, "TRACE")]


def test_the_log_follows(loggers: Loggers) -> None:
    written = io.StringIO()
    set_up_logging(SecretMask(), stream=written)
    logging.captureWarnings(False)
    log = logging.getLogger("worker.sink.task")
    log.debug("before")
    loggers.set_worker_logger("org.apache.kafka.connect", "DEBUG")
    log.debug("while")
    loggers.set_worker_logger("root", "INFO")
    log.debug("after")
    assert "while" in written.getvalue()
    assert "before" not in written.getvalue()
    assert "after" not in written.getvalue()
