"""What online commands print for a small cluster, in each form. Run with SLUICE_WRITE_GOLDEN=1 after a change, and read it.

``golden_online.txt`` has a command line, its stdout and stderr, and its exit code, for each.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from sluice.cli import COMMANDS, dlq
from sluice.cli.app import build
from sluice.cli.errors import run
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import ConfigVersion, OffsetEntry, Origin, TargetState
from worker.progress_reports import OnProgress, ignore_progress

GOLDEN = Path(__file__).parent / "golden_online.txt"
COMMAND_LINES = """
get
get -o yaml
get -o name
describe orders
describe orders -o yaml
history orders
history orders -o yaml
history orders -o name
history orders --version 1 -o name
plugins
plugins -o name
plugins -o yaml
loggers ls -o yaml
loggers set worker.source debug
loggers set worker.source debug -o json
loggers set worker.source debug --cluster -o yaml
rollback orders 1
rollback orders 1 -o yaml
context set staging http://connect.staging:8083
context set prod http://connect.prod:8083 -o json
context use prod
context use prod -o json
context delete staging
context delete prod -o yaml
pause lines -o json
offsets get orders
offsets get orders -o yaml
dlq ls
dlq ls -o name
dlq show orders --trace
dlq show orders -o yaml
dlq group orders
dlq group orders -o name
dlq group orders -o yaml
dlq replay orders --dry-run --set transforms.amount.spec=amount:string
dlq replay orders --dry-run -o yaml
dlq replay orders --yes
dlq replay orders --yes --cause ffffffff
dlq replay orders --yes --set a=b
dlq replay orders --yes --config other.properties
dlq show absent
get absent -o json
""".strip().splitlines()

CONTEXT = {
    "topic": "orders", "partition": "0", "offset": "4711", "connector": "orders", "task": "0", "stage": "TRANSFORMATION",
    "class": "org.apache.kafka.connect.transforms.Cast$Value", "exception_class": "org.apache.kafka.connect.errors.DataException",
    "message": "Value (x) was out of range for requested data type",
}  # fmt: skip


class Herder(FakeHerder):
    """Has two connectors, of which one has two dead letters."""

    def __init__(self) -> None:
        super().__init__()
        config = {
            "name": "orders", "connector.class": "shop.Sink", "db.password": "hunter2", "transforms.amount.spec": "amount:int32",
            "errors.deadletterqueue.topic.name": "orders-dlq",
        }  # fmt: skip
        self.put_connector("orders", config, replace=False)
        self.put_connector("lines", {"name": "lines", "connector.class": "FileStreamSource"}, replace=False)
        self.targets["lines"] = TargetState.PAUSED
        self.versions["orders"] = [ConfigVersion(1, 1_764_155_122_000, Origin.REST, config)]

    def offsets(self, name: str) -> list[OffsetEntry]:
        return [OffsetEntry({"kafka_topic": "orders", "kafka_partition": 0}, {"kafka_offset": 9})]

    def topics(self, name: str) -> list[str]:
        return ["orders"]

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return [{"class": "shop.Sink", "type": "sink", "version": "1.0"}, {"class": "FileStreamSource", "type": "source"}]

    def dead_letters(self, name: str, request: Mapping[str, Any], edits: Mapping[str, str | None] | None) -> dict[str, Any]:
        self.connector_info(name)
        shown = {"connector": name, "topic": "orders-dlq", "complete": True}
        match request["action"]:
            case "list":
                letters = [_letter(0), _letter(1)][: request["limit"]]
                if request.get("with_trace"):
                    letters = [{**one, "context": {**CONTEXT, "trace": "DataException: ...\n  at a\n"}} for one in letters]
                return {**shown, "records": 2, "left": 1, "newest_ms": 1_764_155_122_000, "letters": letters}
            case "causes":
                cause = {
                    "id": "222134b3", "count": 2, "first_ms": 1_764_155_121_000, "last_ms": 1_764_155_122_000,
                    "stage": CONTEXT["stage"], "class": CONTEXT["class"], "transform": "amount",
                    "exception_class": CONTEXT["exception_class"], "field": None, "message": "value (...) was out of range",
                    "hint": "Change the settings of transforms.amount",
                    "example": {"partition": 0, "offset": 1, "message": CONTEXT["message"], "origin": ["orders", 0, 4711]},
                }  # fmt: skip
                return {**shown, "letters": 2, "causes": [cause]}
        dry_run = request["dry_run"]
        if request["selection"]["cause"] == "ffffffff":
            counts = {"checked": 2, "replayed": 0, "verdicts": {"fails": 2}, "next": {"0": 2}}
            return {**shown, "dry_run": dry_run, **counts, "letters": []}
        before = {"topic": "orders", "key": None, "value": {"schema": None, "payload": {"amount": "x", "id": 1}}}
        after = {**before, "value": {"schema": None, "payload": {"amount": 5, "added": True}}}
        error = {"class": "DataException", "message": CONTEXT["message"], "stage": "apply", "transform": "amount"}
        checks = [
            {"partition": 0, "offset": 0, "verdict": "passes", "error": None, "before": before, "after": after},
            {"partition": 0, "offset": 1, "verdict": "fails", "error": error, "before": before, "after": None},
        ]
        counts = {"checked": 2, "replayed": 0 if dry_run else 1, "verdicts": {"passes": 1, "fails": 1}, "next": {"0": 2}}
        return {**shown, "dry_run": dry_run, **counts, "letters": checks if dry_run else checks[1:]}


def _letter(offset: int) -> dict[str, Any]:
    return {
        "partition": 0, "offset": offset, "timestamp_ms": 1_764_155_121_000 + offset * 1000, "cause": "222134b3",
        "replayed": offset == 0, "context": CONTEXT, "key": {"size": 2, "text": "k1", "decoded": "k1"},
        "value": {"size": 15, "text": '{"amount": "x"}', "decoded": {"amount": "x"}},
        "headers": [{"key": "mine", "value": {"size": 2, "hex": "00 ff"}}, {"key": "none", "value": None}],
    }  # fmt: skip


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    server.start(Herder())
    monkeypatch.setenv("SLUICE_CONNECT_URL", server.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.properties").write_text("name=other\nconnector.class=Other\n")
    yield server.url
    server.stop()


def test_command_draws_one_progress_at_a_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    @contextmanager
    def show(title: str) -> Iterator[OnProgress]:
        assert shown == []
        shown.append(title)
        yield ignore_progress
        shown.clear()

    monkeypatch.setattr(dlq, "progress", show)
    monkeypatch.setattr(dlq, "waiting", show)
    for line in COMMAND_LINES:
        if line.startswith("dlq "):
            run(build(COMMANDS), shlex.split(line))


def test_output_of_online_commands(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    parts = []
    for line in COMMAND_LINES:
        code = run(build(COMMANDS), shlex.split(line))
        shown = capsys.readouterr()
        parts.append(f"$ sluice {line}\n{shown.out}-- stderr\n{shown.err}-- exit {code}\n")
    text = "\n".join(parts).replace(url.rstrip("/"), "http://worker:8083")
    if os.environ.get("SLUICE_WRITE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
