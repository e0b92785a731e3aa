"""Commands that talk to a worker: plan, apply, get, describe, changes of state, and contexts."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from connect.errors import BadRequestError, UnreachableError
from rest.client import ConnectClient
from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.online.rates import RateReader
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import ConfigVersion, OffsetEntry, Origin, TargetState, TaskId, TaskProgress

SECRET = "hunter2hunter2"


class Herder(FakeHerder):
    """Refuses the value ``bad``, has a key of type PASSWORD whose name does not tell, and keeps the offsets of one connector."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, Any] = {'{"file": "a"}': {"position": 6}, '{"file": "b"}': {"position": 9}}

    def validate(self, plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        found = super().validate(plugin, config)
        configs = [
            {
                "definition": {"name": key, "type": "PASSWORD" if key == "code" else "STRING"},
                "value": {"name": key, "value": value, "errors": [f"{value} is refused"] if value == "bad" else []},
            }
            for key, value in config.items()
        ]
        return {**found, "configs": configs}

    def offsets(self, name: str) -> list[OffsetEntry]:
        return [OffsetEntry(json.loads(partition), offset) for partition, offset in self.stored.items()]

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry] | None) -> str:
        if self.targets[name] is not TargetState.STOPPED:
            raise BadRequestError(f"Connectors must be in the STOPPED state before their offsets can be modified: {name}")
        for entry in offsets or ():
            self.stored[json.dumps(entry.partition, sort_keys=True)] = entry.offset
        self.stored = {partition: offset for partition, offset in self.stored.items() if offset is not None}
        return "done"

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        return [{"name": "code", "type": "PASSWORD"}]


class Result(NamedTuple):
    code: int
    out: str
    err: str


Sluice = Callable[..., Result]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Herder]]:
    herder, server = Herder(), RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    server.start(herder)
    yield server.url, herder
    server.stop()


@pytest.fixture
def herder(server: tuple[str, Herder]) -> Herder:
    found = server[1]
    found.__init__()  # type: ignore[misc]  # as new
    return found


@pytest.fixture
def sluice(
    server: tuple[str, Herder], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Sluice:
    monkeypatch.setenv("SLUICE_CONNECT_URL", server[0])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def call(*words: object) -> Result:
        code = run(build(COMMANDS), [str(word) for word in words])
        shown = capsys.readouterr()
        return Result(code, shown.out, shown.err)

    return call


def write(folder: Path, name: str, **config: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in {"name": name, "connector.class": "Source", **config}.items()))
    return path


def test_plan_shows_what_apply_then_does(sluice: Sluice, herder: Herder, tmp_path: Path) -> None:
    files = tmp_path / "files"
    herder.put_connector("same", {"name": "same", "connector.class": "Source"}, replace=False)
    herder.put_connector(
        "changed", {"connector.class": "Source", "gone": "1", "tasks.max": "1", "code": "old-code"}, replace=False
    )
    herder.put_connector("unknown", {"connector.class": "Source"}, replace=False)
    write(files, "same")
    write(files, "changed", **{"tasks.max": "2", "code": "new-code"})
    new = {"name": "new", "config": {"connector.class": "Source", "db.password": SECRET}, "initial_state": "paused"}
    (files / "new.yaml").write_text(yaml.safe_dump(new))
    (files / "worker.properties").write_text("bootstrap.servers=b:1\n")
    (files / "new.test.yaml").write_text("tests: []\n")
    planned = sluice("plan", files, "--prune", "--exit-code")
    assert planned.out.splitlines() == [
        f"~ update changed  ({files}/changed.properties)",
        "    ~ code: another value, hidden",
        "    - gone = 1",
        "    ~ tasks.max: 1 -> 2",
        f"+ create new  ({files}/new.yaml)",
        "    + connector.class = Source",
        "    + db.password = [hidden]",
        "    + name = new",
        "- delete unknown",
        "1 to create, 1 to update, 1 to delete, 1 unchanged",
    ]
    assert (planned.code, planned.err) == (4, f"{files}/worker.properties: not a connector file; skipped\n")
    assert set(herder.configs) == {"same", "changed", "unknown"}
    assert sluice("apply", files, "--dry-run", "--prune").out == planned.out
    applied = sluice("apply", files, "--prune", "--wait")
    assert (applied.code, applied.out.splitlines()[-3:]) == (0, ["updated changed", "created new", "deleted unknown"])
    assert herder.configs["new"]["db.password"] == SECRET
    assert herder.targets["new"] is TargetState.PAUSED
    assert "gone" not in herder.configs["changed"]
    again = sluice("plan", files, "--prune", "--exit-code", "-o", "json")
    assert (again.code, json.loads(again.out)["summary"]) == (0, {"create": 0, "update": 0, "delete": 0, "unchanged": 3})


def test_plan_hides_values_if_the_worker_does_not_know_the_keys(
    sluice: Sluice, herder: Herder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        raise BadRequestError("no such class")

    monkeypatch.setattr(herder, "validate", refuse)
    shown = sluice("plan", write(tmp_path / "files", "new", **{"mytransform.pin": SECRET}))
    assert SECRET not in shown.out + shown.err
    assert "mytransform.pin = [hidden]" in shown.out


def test_nothing_is_changed_if_the_worker_refuses_a_value(sluice: Sluice, herder: Herder, tmp_path: Path) -> None:
    good, bad = write(tmp_path, "good"), write(tmp_path, "wrong", topic="bad")
    for command in ("plan", "apply"):
        found = sluice(command, good, bad)
        assert found.code == 2
        assert f"    error: {bad}:3: topic: bad is refused" in found.out.splitlines()
    assert herder.configs == {}
    found = sluice("apply", good, bad, "-o", "json")
    (wrong,) = (one for one in json.loads(found.out)["connectors"] if one["name"] == "wrong")
    assert wrong["errors"] == [{"key": "topic", "message": "bad is refused"}]


def test_wait_shows_the_error_of_a_task(sluice: Sluice, herder: Herder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from worker.model import ConnectorStatus, State, Status

    def failed(name: str) -> ConnectorStatus:
        running, trace = Status(State.RUNNING, "w"), Status(State.FAILED, "w", trace="no such file")
        return ConnectorStatus(name, running, [(0, trace)], "source")

    monkeypatch.setattr(herder, "connector_status", failed)
    found = sluice("apply", write(tmp_path, "new"), "--wait", "-o", "json")
    assert found.code == 1
    assert json.loads(found.out)["failed"] == [{"name": "new", "message": "Task 0 of new FAILED: no such file"}]
    assert sluice("get", "-o", "json", "--failed").out.count('"failed": ["0"]') == 1
    assert "error of task 0:\n    no such file" in sluice("describe", "new").out


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"a.properties": "connector.class=S\n"}, "a.properties: the connector has no name"),
        ({"a.yaml": "name: x\nconnector.class: S\ntopic: {a: b}\n"}, "a.yaml:3: Value of topic is a mapping"),
        ({"a.yaml": "connector.class: S\nname: [\n"}, "a.yaml:3: not YAML"),
        ({"a.properties": "name=x\nconnector.class=S\n", "b.properties": "name=x\nconnector.class=S\n"}, "is also named x"),
        ({"a.properties": "bootstrap.servers=b:1\n"}, "The files have no connector"),
    ],
)
def test_bad_files_are_refused_with_file_and_line(
    sluice: Sluice, herder: Herder, tmp_path: Path, files: dict[str, str], problem: str
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    found = sluice("plan", folder)
    assert (found.code, problem in found.err) == (2, True), found.err


def test_connectors_are_listed_and_changed_by_pattern(sluice: Sluice, herder: Herder) -> None:
    for name in ("shop-a", "shop-b", "other"):
        herder.put_connector(name, {"connector.class": "a.b.Source", "password": SECRET}, replace=False)
    assert sluice("get", "-o", "name").out.split() == ["other", "shop-a", "shop-b"]
    assert sluice("get", "shop-*").out.splitlines()[1].split() == [
        "shop-a",
        "source",
        "RUNNING",
        "1/1",
        "-",
        "localhost:8083",
        "Source",
    ]
    assert [one["name"] for one in yaml.safe_load(sluice("get", "-o", "yaml", "*-b").out)] == ["shop-b"]
    assert sluice("pause", "shop-*").out == "shop-a will pause\nshop-b will pause\n"
    assert sluice("stop", "shop-a").code == sluice("resume", "shop-a", "shop-b").code == 0
    assert set(herder.targets.values()) == {TargetState.STARTED}
    nothing_failed = sluice("restart", "other", "--failed")
    assert (nothing_failed.code, nothing_failed.out) == (0, "other has no failure, so nothing restarts\n")
    assert sluice("restart", "other", "--task", "0").out == "other will restart\n"
    assert herder.restarted[0] == ("other", True, True)
    assert sluice("delete", "shop-*", "--yes").out == "shop-a was deleted\nshop-b was deleted\n"
    described = sluice("describe", "other")
    assert SECRET not in described.out
    assert "    password = [hidden]" in described.out
    assert SECRET not in sluice("describe", "other", "-o", "json").out
    missing = sluice("pause", "othr")
    assert (missing.code, missing.err) == (1, "error: No connector is named othr; did you mean other?\n")


def test_pattern_is_deleted_only_after_a_confirmation(sluice: Sluice, herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    herder.put_connector("a1", {"connector.class": "Source"}, replace=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: "n")
    assert sluice("delete", "a*").code == 130
    assert "a1" in herder.configs


def test_offsets_are_set_reset_and_restored(sluice: Sluice, herder: Herder, tmp_path: Path) -> None:
    herder.put_connector("s", {"connector.class": "Source"}, replace=False)
    before = dict(herder.stored)
    assert sluice("offsets", "get", "s").out.splitlines()[1].split("  ") == ['{"file": "a"}', '{"position": 6}']
    entries = json.loads(sluice("offsets", "get", "s", "-o", "json").out)
    entries[0]["offset"] = {"position": 1}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(entries))
    dry = sluice("offsets", "set", "s", file, "--dry-run", "-o", "json")
    change = {"partition": {"file": "a"}, "before": {"position": 6}, "after": {"position": 1}}
    assert json.loads(dry.out) == {"name": "s", "executed": False, "changes": [change]}
    refused = sluice("offsets", "set", "s", file)
    assert refused.err.startswith("error: Connector s is RUNNING, and only offsets of a stopped one can change: add --stop")
    assert refused.code == 2
    assert "No offsets of s at" in sluice("offsets", "undo", "s", "--stop").err, "a refused change is none"
    assert herder.stored == before
    assert sluice("offsets", "set", "s", file, "--stop").code == 0
    assert (herder.stored['{"file": "a"}'], herder.targets["s"]) == ({"position": 1}, TargetState.STARTED)
    assert sluice("offsets", "undo", "s", "--stop").code == 0
    assert herder.stored == before
    assert sluice("offsets", "undo", "s", "--stop").code == 0, "the undo was undone"
    assert herder.stored['{"file": "a"}'] == {"position": 1}
    sluice("pause", "s")
    assert sluice("offsets", "reset", "s", "--stop").code == 0
    assert (herder.stored, herder.targets["s"]) == ({}, TargetState.PAUSED)
    sluice("stop", "s")
    assert sluice("offsets", "undo", "s").code == 0
    assert (len(herder.stored), herder.targets["s"]) == (2, TargetState.STOPPED)
    assert "nothing was changed" in sluice("offsets", "set", "s", file).err


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "not JSON"), ("[]", "has no offsets"), ('[{"partition": {}}]', "entry 0 has no partition or no offset")],
)
def test_bad_offsets_are_refused(sluice: Sluice, herder: Herder, tmp_path: Path, text: str, problem: str) -> None:
    herder.put_connector("s", {"connector.class": "Source"}, replace=False)
    file = tmp_path / "offsets.json"
    file.write_text(text)
    found = sluice("offsets", "set", "s", file)
    assert (found.code, problem in found.err) == (2, True), found.err
    missing = sluice("offsets", "set", "s", tmp_path / "missing.json")
    assert (missing.code, "missing.json cannot be read" in missing.err) == (2, True)
    nothing = sluice("offsets", "undo", "s")
    assert (nothing.code, "No offsets of s at" in nothing.err) == (1, True)
    assert sluice("offsets", "set", "s", "--to-time", "noon").code == 2
    assert "is no sink" in sluice("offsets", "set", "s", "--to-time", "2026-01-01").err


def test_top_shows_rates_between_two_looks(sluice: Sluice, herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = itertools.count(0, 1000)

    def progress(task: TaskId) -> TaskProgress | None:
        if task.connector == "still":
            return None
        return TaskProgress(records=next(counts), bytes=7, lag={"t-0": 3, "t-1": 4})

    monkeypatch.setattr(herder, "progress", progress)
    for name in ("busy", "still", "other"):
        herder.put_connector(name, {"connector.class": "Source"}, replace=False)
    lines = sluice("top", "busy", "st*", "--interval", "0.1", "-o", "json", "--count", "3").out.splitlines()
    looks = [{one["name"]: one for one in json.loads(line)} for line in lines]
    assert [look["busy"]["lag"] for look in looks] == [7, 7, 7]
    assert looks[0]["busy"]["records_per_s"] is None
    assert 0 < looks[2]["busy"]["records_per_s"] <= 1000 / 0.1
    assert looks[2]["busy"]["bytes_per_s"] == 0
    assert set(looks[0]) == {"busy", "still"}
    assert looks[2]["still"]["lag"] is looks[2]["still"]["records_per_s"] is None
    table = [line.split() for line in sluice("top", "still", "--interval", "0.1").out.splitlines()]
    assert table[1] == ["still", "source", "RUNNING", "1/1", "-", "-", "-", "-"]


def test_rates_start_again_with_a_task(herder: Herder, server: tuple[str, Herder], monkeypatch: pytest.MonkeyPatch) -> None:
    records = iter([100, 300, 5, 25])
    monkeypatch.setattr(herder, "progress", lambda task: TaskProgress(records=next(records), bytes=0))
    herder.put_connector("s", {"connector.class": "Source"}, replace=False)
    seconds = itertools.count(0, 10)
    with ConnectClient(server[0]) as client, RateReader(client, clock=lambda: next(seconds)) as reader:
        assert [reader.read(list)[0].records_per_s for _ in range(4)] == [None, 20, None, 2]


def test_rates_behind_the_end_of_the_list_are_those_of_its_last_rows(
    herder: Herder, server: tuple[str, Herder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(herder, "progress", lambda task: TaskProgress(lag={"t-0": 3}))
    for name in ("a", "b", "c"):
        herder.put_connector(name, {"connector.class": "Source"}, replace=False)
    with ConnectClient(server[0]) as client, RateReader(client) as reader:
        found = reader.read(list, limit=2, first=50)
    assert [(one.name, one.lag) for one in found] == [("a", None), ("b", 3), ("c", 3)]


def test_results_are_shown_when_the_worker_stops_answering(
    sluice: Sluice, herder: Herder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        herder.put_connector(name, {"connector.class": "Source"}, replace=False)

    def pause(client: ConnectClient, name: str) -> None:
        if name == "b":
            raise UnreachableError("nobody answers")

    monkeypatch.setattr(ConnectClient, "pause", pause)
    result = sluice("pause", "*", "-o", "json")
    assert result.code == 3
    assert json.loads(result.out) == [{"name": "a", "result": "will pause", "error": None}]
    assert json.loads(result.err)["error"]["message"] == "nobody answers"


def test_loggers_and_plugins_of_a_worker(sluice: Sluice, herder: Herder) -> None:
    assert sluice("loggers", "set", "worker.source", "debug").code == 0
    assert sluice("loggers", "set", "root", "WARN", "--cluster").code == 0
    assert herder.cluster_levels == {"root": "WARN"}
    listed = {one["name"]: one["level"] for one in json.loads(sluice("loggers", "ls", "-o", "json").out)}
    assert listed["worker.source"] == "DEBUG"
    assert sluice("loggers", "set", "root", "LOUD").code == 2
    assert sluice("plugins").out.splitlines()[1:] == ["Source  source  1.0"]
    assert "Json" in sluice("plugins", "--all").out


def test_secret_keys_of_transformations_are_hidden_too(sluice: Sluice, herder: Herder) -> None:
    config = {"connector.class": "Source", "transforms": "sign", "transforms.sign.type": "Sign", "transforms.sign.code": SECRET}
    herder.put_connector("signed", {"name": "signed", **config}, replace=False)
    (described,) = json.loads(sluice("describe", "signed", "-o", "json").out)
    assert described["config"] == {"name": "signed", **config, "transforms.sign.code": "[hidden]"}
    herder.versions["signed"] = [ConfigVersion(1, 1_764_155_122_000, Origin.REST, config)]
    shown = json.loads(sluice("history", "signed", "--version", "1", "-o", "json").out)
    assert shown == {**config, "transforms.sign.code": "[hidden]"}


def test_history_is_listed_and_restored_without_secrets(sluice: Sluice, herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"connector.class": "Source", "password": SECRET}
    herder.versions["s"] = [
        ConfigVersion(1, 1_700_000_000_000, Origin.REST, config),
        ConfigVersion(2, 1_700_000_001_000, Origin.REST, {**config, "topic": "t"}),
        ConfigVersion(3, 1_700_000_002_000, Origin.REST, None),
    ]
    lines = [line.split() for line in sluice("history", "s").out.splitlines()]
    assert lines[1:] == [
        ["1", "2023-11-14T22:13:20.000Z", "rest", "+connector.class", "+password"],
        ["2", "2023-11-14T22:13:21.000Z", "rest", "+topic"],
        ["3", "2023-11-14T22:13:22.000Z", "rest", "deleted"],
    ]
    shown = json.loads(sluice("history", "s", "--version", "1", "-o", "json").out)
    assert shown == {"connector.class": "Source", "password": "[hidden]"}
    assert "its deletion" in sluice("history", "s", "--version", "3").err
    assert sluice("rollback", "s", "1").code == 0
    assert herder.configs["s"] == config


def test_shell_completes_commands_options_and_live_names(server: tuple[str, Herder], herder: Herder, tmp_path: Path) -> None:
    for name in ("shop-a", "shop-b", "other"):
        herder.put_connector(name, {"connector.class": "Source"}, replace=False)

    def completed(words: str) -> list[str]:
        asked = {"_SLUICE_COMPLETE": "bash_complete", "COMP_WORDS": f"sluice {words}", "COMP_CWORD": str(len(words.split(" ")))}
        environment = {**os.environ, **asked, "SLUICE_CONNECT_URL": server[0], "XDG_CONFIG_HOME": str(tmp_path)}
        command = [sys.executable, "-c", "from sluice.cli import main; main()"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("desc") == ["describe"]
    assert completed("restart --fa") == ["--failed"]
    assert completed("pause sh") == ["shop-a", "shop-b"]


def test_completion_prints_a_script_for_each_shell(sluice: Sluice) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_SLUICE_COMPLETE" in sluice("completion", shell).out


def test_contexts_name_workers(
    sluice: Sluice, herder: Herder, server: tuple[str, Herder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLUICE_CONNECT_URL")
    herder.put_connector("a", {"connector.class": "Source"}, replace=False)
    assert sluice("context", "set", "here", server[0]).code == 0
    assert sluice("context", "set", "gone", "http://127.0.0.1:9").code == 0
    assert json.loads(sluice("context", "ls", "-o", "json").out) == [
        {"name": "gone", "url": "http://127.0.0.1:9", "current": False},
        {"name": "here", "url": server[0].rstrip("/"), "current": True},
    ]
    assert sluice("get", "-o", "name").out == "a\n"
    assert sluice("get", "--context", "gone").code == 3
    unknown = sluice("get", "--context", "her")
    assert (unknown.code, unknown.err) == (2, "error: There is no context her; did you mean here?\n")
    assert sluice("context", "use", "gone").code == 0
    assert sluice("get").code == 3
    assert sluice("context", "delete", "gone").code == 0
    assert sluice("context", "set", "bad", "ftp://x").code == 2


def test_changes_of_state_are_told_as_json_with_errors_beside_successes(
    sluice: Sluice, herder: Herder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, state: TargetState) -> None:
        raise BadRequestError(f"{name} is refused")

    for name in ("a", "b"):
        herder.put_connector(name, {"connector.class": "Source"}, replace=False)
    done = sluice("pause", "*", "-o", "json")
    assert (done.code, json.loads(done.out)) == (0, [{"name": name, "result": "will pause", "error": None} for name in "ab"])
    monkeypatch.setattr(herder, "set_target_state", refuse)
    failed = sluice("pause", "a", "-o", "yaml")
    assert failed.code == 1
    assert yaml.safe_load(failed.out) == [{"name": "a", "result": None, "error": "a is refused"}]
