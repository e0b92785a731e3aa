"""Log lines as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from worker.config.secrets import SecretMask
from worker.observability.log_context import log_context
from worker.observability.log_setup import LOG_FORMAT_VARIABLE, LogFormat, find_log_format, follow_log_format, set_up_logging

log = logging.getLogger("test.lines")


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_json_line_names_connector_and_task_and_has_the_trace(written: io.StringIO) -> None:
    set_up_logging(SecretMask(), stream=written, format=LogFormat.JSON)
    log.info("Kafka Connect started\nwith %s", "a line end")
    with log_context("orders"):
        log.warning("starts")
    with log_context("orders", 3):
        try:
            raise ValueError("boom")
        except ValueError:
            log.exception("failed")
    plain, connector, task = lines(written)
    assert (plain["level"], plain["logger"], plain["message"]) == ("INFO", "test.lines", "Kafka Connect started\nwith a line end")
    assert plain["time"].endswith("Z")
    assert not {"connector", "task", "trace"} & set(plain)
    assert (connector["connector"], "task" in connector) == ("orders", False)
    assert (task["connector"], task["task"], task["level"]) == ("orders", 3, "ERROR")
    assert task["trace"].startswith("Traceback")
    assert task["trace"].endswith("ValueError: boom")


def test_secrets_are_masked_also_with_characters_that_json_escapes(written: io.StringIO) -> None:
    mask = SecretMask()
    mask.learn(['pass"wo\\rd-1'])
    set_up_logging(mask, stream=written, format=LogFormat.JSON)
    try:
        raise ValueError('rejected pass"wo\\rd-1')
    except ValueError:
        log.exception('login with pass"wo\\rd-1')
    (line,) = lines(written)
    assert "wo\\rd" not in line["message"] + line["trace"]


def test_format_follows_the_workers_file_then_the_environment(monkeypatch: pytest.MonkeyPatch, written: io.StringIO) -> None:
    monkeypatch.delenv(LOG_FORMAT_VARIABLE, raising=False)
    assert find_log_format({}) is LogFormat.TEXT
    monkeypatch.setenv(LOG_FORMAT_VARIABLE, "JSON")
    assert find_log_format({}) is LogFormat.JSON
    assert find_log_format({"log.format": "text"}) is LogFormat.TEXT
    assert find_log_format({"log.format": "invalid"}) is LogFormat.JSON
    set_up_logging(SecretMask(), stream=written)
    log.info("one")
    follow_log_format(SecretMask(), {"log.format": "text"})
    log.info("two")
    first, second = written.getvalue().splitlines()
    assert json.loads(first)["message"] == "one"
    assert second.endswith("INFO two (test.lines)")
