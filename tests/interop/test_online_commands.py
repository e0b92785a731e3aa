"""``sluice plan``, ``apply``, and the other online commands against a worker of Apache Kafka Connect 4.3.1."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.worker_process import WorkerProcess
from tests.interop.apache_worker import APACHE_STANDALONE
from tests.support.waiting import WAIT_S

pytestmark = pytest.mark.long

Sluice = Callable[..., tuple[int, str, str]]
_WAIT_S = 180.0
"""A sink of a Java worker takes some seconds to its first record, and a busy machine ten times as long."""


@pytest.fixture
def sluice(capsys: pytest.CaptureFixture[str]) -> Sluice:
    def call(*words: object) -> tuple[int, str, str]:
        code = run(build(COMMANDS), [str(word) for word in words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


async def _ask_assistant(url: str, root: Path) -> list[str]:
    """Returns what has problems, as ``sluice mcp`` tells an assistant."""
    words = ["-c", "from sluice.cli import main; main()", "mcp", "--url", url, "--root", str(root)]
    server = StdioServerParameters(command=sys.executable, args=words, env={"PYTHONPATH": str(Path.cwd())})
    async with Client(server, read_timeout_seconds=60) as client:
        (described,) = (await client.call_tool("describe", {"name": "broken"})).content
        assert '"password": "[hidden]"' in getattr(described, "text", "")
        (answer,) = (await client.call_tool("diagnose", {"name": "broken"})).content
    return [one["name"] for one in json.loads(getattr(answer, "text", ""))["problems"]]


@pytest.mark.timeout(900)
def test_online_commands_work_with_an_apache_worker(
    broker: EmbeddedBroker,
    sluice: Sluice,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unique_name: Callable[[str], str],
) -> None:
    # Other tests may have stored offsets in the group of a connector with the same name.
    copy, dead_letters, topic = unique_name("copy"), unique_name("dead"), unique_name("online-commands")
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "offset.flush.interval.ms": "100",
    }
    worker = WorkerProcess(APACHE_STANDALONE, tmp_path, "apache", settings)
    worker.start()
    try:
        worker.wait_until_up()
        monkeypatch.setenv("SLUICE_CONNECT_URL", worker.client.url)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        (tmp_path / "lines.txt").write_text("one\ntwo\n")
        files = tmp_path / "files"
        files.mkdir()
        source = files / "lines.yaml"
        text = (
            "name: lines\nconnector.class: org.apache.kafka.connect.file.FileStreamSourceConnector\n"
            f"file: {tmp_path}/lines.txt\ntopic: {topic}\n"
        )
        source.write_text(text + "tasks.max: one\n")
        code, out, _ = sluice("apply", files)
        assert code == 2
        assert f"{source}:5: tasks.max: Invalid value one for configuration tasks.max" in out
        source.write_text(text)
        code, out, err = sluice("apply", files, "--wait")
        assert (code, out.splitlines()[-1]) == (0, "created lines"), err
        assert sluice("plan", files, "--exit-code")[0] == 0
        code, out, _ = sluice("get", "-o", "json")
        (row,) = json.loads(out)
        assert {**row, "worker": None} == {
            "name": "lines", "type": "source", "state": "RUNNING", "tasks": "1/1", "failed": [], "worker": None,
            "class": "FileStreamSourceConnector",
        }  # fmt: skip
        worker.wait_for(
            lambda: json.loads(sluice("describe", "lines", "-o", "json")[1])[0]["topics"] == [topic], WAIT_S, "topics"
        )
        source.write_text(text + "batch.size: 7\n")
        assert sluice("plan", files)[1].splitlines()[1:] == ["    + batch.size = 7", "1 to update"]
        assert sluice("apply", files, "--wait")[0] == 0
        for command, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPED")):
            assert sluice(command, "l*")[0] == 0
            worker.client.wait_for("lines", state, timeout_s=WAIT_S)
        before = json.loads(sluice("offsets", "get", "lines", "-o", "json")[1])
        assert sluice("offsets", "reset", "lines")[0] == 0
        assert json.loads(sluice("offsets", "get", "lines", "-o", "json")[1]) == []
        assert sluice("offsets", "undo", "lines")[0] == 0
        assert json.loads(sluice("offsets", "get", "lines", "-o", "json")[1]) == before
        worker.client.resume("lines")
        worker.client.wait_for("lines", timeout_s=WAIT_S)
        sink = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "topics": topic,
            "file": str(tmp_path / "copy.txt"),
        }  # fmt: skip
        worker.client.create(copy, sink)

        def position() -> int | None:
            entries = json.loads(sluice("offsets", "get", copy, "-o", "json")[1])
            return entries[0]["offset"]["kafka_offset"] if entries else None

        worker.wait_for(lambda: position() == 2, _WAIT_S, "the sink")
        to_time = ("offsets", "set", copy, "--stop", "--bootstrap-server", broker.bootstrap, "--to-time")
        assert sluice(*to_time, "2020-01-01T00:00:00Z", "--dry-run", "-o", "json")[1].count('"kafka_offset": 0') == 1
        code, _, err = sluice(*to_time, "2020-01-01T00:00:00Z")
        assert code == 0, err
        worker.wait_for(lambda: (tmp_path / "copy.txt").read_text() == "one\ntwo\n" * 2, _WAIT_S, "the records again")
        assert sluice("restart", "lines")[0] == sluice("restart", "lines", "--failed")[0] == 0
        code, _, err = sluice("history", "lines")
        assert (code, "keeps no history: it is one of Apache Kafka Connect" in err) == (1, True)
        # The worker has no resource for dead letters; the command reads the queue that the worker has written.
        dead = {
            **sink, "file": str(tmp_path / "dead.txt"), "errors.tolerance": "all", "transforms": "cast",
            "errors.deadletterqueue.topic.name": f"{topic}-dlq", "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true", "transforms.cast.spec": "int32",
            "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        }  # fmt: skip
        worker.client.create(dead_letters, dead)
        direct = ("--bootstrap-server", broker.bootstrap, "--worker", tmp_path / "apache.properties")

        def letters() -> list[str]:
            return sluice("dlq", "show", dead_letters, *direct, "-o", "json")[1].splitlines()

        worker.wait_for(lambda: len(letters()) == 2, _WAIT_S, "dead letters")
        assert json.loads(letters()[0])["context"]["topic"] == topic
        code, out, err = sluice("dlq", "group", dead_letters, *direct, "-o", "json")
        assert [(one["count"], one["transform"]) for one in json.loads(out)] == [(2, "cast")], err
        code, out, err = sluice("dlq", "replay", dead_letters, *direct, "--yes", "--apply", "--set", "transforms=")
        assert (code, out) == (0, "2 of 2 dead letters were replayed\n"), err
        worker.wait_for(lambda: (tmp_path / "dead.txt").exists(), _WAIT_S, "the file of the sink")
        worker.wait_for(lambda: (tmp_path / "dead.txt").read_text() == "one\ntwo\n", _WAIT_S, "the replayed records")
        worker.client.delete(dead_letters)
        code, _, err = sluice("logs", "lines")
        assert (code, "keeps no lines of single connectors (read its log files): it is one of Apache" in err) == (1, True)
        assert "FileStreamSource" in sluice("plugins")[1]
        assert sluice("loggers", "set", "org.apache.kafka.connect", "WARN")[0] == 0
        assert '"name": "org.apache.kafka.connect", "level": "WARN"' in sluice("loggers", "ls", "-o", "json")[1]
        # The diagnosis goes by what Apache's REST API tells, and says what it does not.
        code, out, err = sluice("diagnose")
        assert (code, out, "not looked at: whether running tasks move" in err) == (0, "nothing is wrong\n", True), out
        broken = {**sink, "file": "/nowhere/copy.txt", "password": "planted-secret"}
        worker.client.create("broken", broken)
        worker.wait_for(lambda: sluice("diagnose", "broken", "-o", "name")[1] == "broken\n", _WAIT_S, "the failed sink")
        (problem,) = json.loads(sluice("diagnose", "broken", "-o", "json")[1])["problems"]
        assert (problem["name"], problem["code"], problem["command"]) == (
            "broken/0", "file-missing", "sluice restart broken --failed",
        )  # fmt: skip
        assert "nothing is wrong" not in sluice("diagnose")[1]
        assert asyncio.run(_ask_assistant(worker.client.url, files)) == ["broken/0"]
        assert sluice("delete", "broken")[0] == 0
        assert sluice("delete", "lines", copy) == (0, f"lines was deleted\n{copy} was deleted\n", "")
        assert sluice("get", "-o", "name")[1] == ""
    finally:
        worker.stop()
