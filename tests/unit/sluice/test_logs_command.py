"""``sluice logs`` against a worker's REST API."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from uuid import uuid4

import click
import pytest

from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.cli.logs import since_to_ms
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import TargetState
from worker.observability.log_lines import LogLine
from worker.observability.recent_logs import recent_logs

Sluice = Callable[..., tuple[int, str, str]]


@pytest.fixture
def name() -> str:
    return f"orders-{uuid4().hex[:8]}"


@pytest.fixture
def sluice(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Sluice]:
    herder, server = FakeHerder(), RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    herder.worker_id = "worker:8083"
    herder.configs[name], herder.targets[name] = {}, TargetState.STARTED
    server.start(herder)
    monkeypatch.setenv("SLUICE_CONNECT_URL", server.url)

    def call(*words: str) -> tuple[int, str, str]:
        code = run(build(COMMANDS), list(words))
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    yield call
    server.stop()


def line(name: str, message: str, *, task: int | None = 0, level: str = "INFO", trace: str | None = None) -> LogLine:
    return LogLine(name, task, 1_764_155_122_007, level, "worker.sink", message, trace)


def test_lines_are_shown_as_in_the_log_or_as_json(sluice: Sluice, name: str) -> None:
    recent_logs().add([line(name, "first", task=None), line(name, "second", level="ERROR", trace="Traceback:\n  x")])
    code, out, err = sluice("logs", name)
    assert (code, err) == (0, "")
    first, second, *trace = out.splitlines()
    assert first.endswith(",007] INFO worker:8083 first (worker.sink)")
    assert second.endswith(",007] ERROR worker:8083 task 0: second (worker.sink)")
    assert trace == ["Traceback:", "  x"]
    code, out, _ = sluice("logs", name, "-o", "json", "-n", "1")
    assert (code, json.loads(out)["message"]) == (0, "second")
    assert sluice("logs", name, "--level", "warn", "--task", "1") == (0, "", "")
    code, _, err = sluice("logs", f"{name}-absent")
    assert (code, err) == (1, f"error: Connector {name}-absent not found\n")


def test_follow_continues_until_interrupted(
    sluice: Sluice, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recent_logs().add([line(name, "earlier")])
    seen: list[str] = []

    def format_line(one: dict[str, str], *, color: bool) -> str:
        seen.append(one["message"])
        if len(seen) == 2:
            raise KeyboardInterrupt
        threading.Thread(target=recent_logs().add, args=([line(name, "later")],)).start()
        return one["message"]

    monkeypatch.setattr("sluice.cli.logs.format_line", format_line)
    code, out, _ = sluice("logs", name, "-f")
    assert (code, out, seen) == (130, "earlier\n", ["earlier", "later"])


def test_since_is_a_time_or_a_duration() -> None:
    assert since_to_ms("2026-11-26T08:00:00Z") == 1_795_680_000_000
    assert 0 <= since_to_ms("1m") - since_to_ms("61s") <= 60_000
    with pytest.raises(click.BadParameter, match="neither a time, such as"):
        since_to_ms("yesterday")
