"""Connectors that hang in start, poll, or put: the worker finds them, answers for them, and runs the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect.errors import NotFoundError, UnreachableError
from rest.client import ConnectClient
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.worker_process import SLUICE_STANDALONE, WorkerProcess
from tests.integration.executors.plugins import PATH
from tests.support.waiting import WAIT_S

_LINES = 2000


@pytest.mark.timeout(180)
def test_hung_connectors_are_found_and_cost_the_others_nothing(
    broker: EmbeddedBroker, unique_name: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = unique_name("lines")
    settings = {
        "bootstrap.servers": broker.bootstrap, "key.converter": "String", "value.converter": "String", "task.executors": "2",
        "offset.storage.file.filename": str(tmp_path / "offsets"), "offset.flush.interval.ms": "500",
        "task.stall.timeout.ms": "1000", "task.stall.quiet.timeout.ms": "1000", "task.executor.hang.timeout.ms": "3000",
        "task.shutdown.graceful.timeout.ms": "1000",
    }  # fmt: skip
    (tmp_path / "go").touch()
    lines, copy = tmp_path / "lines.txt", tmp_path / "copy.txt"
    lines.write_text("0\n")
    worker = WorkerProcess(SLUICE_STANDALONE, tmp_path, "worker", settings)
    worker.start()
    try:
        worker.wait_until_up()
        client = worker.client
        client.create("source", {"connector.class": "FileStreamSource", "file": str(lines), "topic": topic})
        client.create("copy", {"connector.class": "FileStreamSink", "file": str(copy), "topics": topic})
        rogue = {"folder": str(tmp_path), "tasks.max": "1"}
        client.create("hung-poll", {"connector.class": PATH, "does": "hang@poll", **rogue})
        sink = PATH.replace(":Rogue", ":RogueSink")
        client.create("hung-put", {"connector.class": sink, "does": "hang@put", "topics": topic, **rogue})
        with ConnectClient(client.url, timeout_s=1.0) as impatient, pytest.raises(UnreachableError):
            impatient.create("hung-start", {"connector.class": PATH, "does": "hang@start", **rogue})

        def stalls() -> dict[str, str]:
            found = {}
            for name in ("hung-poll", "hung-put", "hung-start"):
                try:
                    status = client.status(name)
                except NotFoundError:  # deleted
                    continue
                for one in (status["connector"], *status["tasks"]):
                    if "stalled" in one:
                        found[name] = one["stalled"]["phase"]
            return found

        expected = {"hung-poll": "polling", "hung-put": "putting", "hung-start": "start"}
        worker.wait_for(lambda: stalls() == expected, WAIT_S, f"stalls, not {stalls()}")

        # What asks about them answers, also although the sink's progress() hangs.
        assert client.health()["status"] == "healthy"
        assert sorted(client.connectors_expanded("status", "info")) == ["copy", "hung-poll", "hung-put", "hung-start", "source"]
        worker.wait_for(lambda: _stalled(client.progress("hung-put")) == ["putting"], WAIT_S, "progress of the hung sink")
        # A call of the others takes longer than the timeout at times if the machine is busy, but it returns.
        others = ("source", "copy")
        worker.wait_for(
            lambda: all("stalled" not in json.dumps(client.status(name)) for name in others), WAIT_S, "the others to move"
        )

        # The others lose nothing.
        with lines.open("a") as file:
            file.writelines(f"{number}\n" for number in range(1, _LINES))
        everything = [str(number) for number in range(_LINES)]
        worker.wait_for(lambda: copy.exists() and copy.read_text().split() == everything, WAIT_S, "all lines")

        found: dict[str, Any] = {}

        def diagnosed() -> bool:
            found.clear()
            found.update({one["name"]: one for one in client.diagnosis()["problems"]})
            stalled = {name for name, one in found.items() if one["code"] == "stalled-call"}
            return stalled == {"hung-poll/0", "hung-put/0", "hung-start"}

        worker.wait_for(diagnosed, WAIT_S, "the diagnosis of the stalls alone")
        assert found["hung-put/0"]["message"] == "task 0 is RUNNING and does not move: put() has not returned"
        assert found["hung-put/0"]["command"] == "sluice restart hung-put --task 0"
        assert "[hung-put|task-0] Task hung-put-0 has stalled since" in worker.log_tail(1_000_000)
        code = run(build(COMMANDS), ["diagnose", "hung-put", "--url", client.url])
        shown = capsys.readouterr().out
        assert (code, "hung-put/0: error: task 0 is RUNNING and does not move" in shown) == (1, True)
        worker.wait_for(
            lambda: run(build(COMMANDS), ["diagnose", "source", "--url", client.url]) == 0, WAIT_S, "a source without problems"
        )

        # They move again, and the stall is over.
        client.delete("hung-start")
        client.restart_task("hung-put", 0)
        (tmp_path / "go").unlink()
        client.restart_task("hung-poll", 0)
        worker.wait_for(lambda: "hung-poll" not in stalls(), WAIT_S, "the end of a stall")
    finally:
        worker.kill()


def _stalled(tasks: list[dict[str, Any]]) -> list[str]:
    return [one["stalled"]["phase"] for one in tasks if one["stalled"]]
