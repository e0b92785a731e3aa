"""Apache's tools connectors on a standalone worker: counting through Kafka, and failing when told to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.conftest import StartWorker, StateHistory, Worker
from tests.support.waiting import eventually
from worker.model import State, TargetState, TaskId

TOOLS = "org.apache.kafka.connect.tools."
JSON = "org.apache.kafka.connect.json.JsonConverter"


class Lines:
    """What the tasks have printed so far, from a file: pytest's capture loses what is written while it reads."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, connector: str, mark: str | None = None) -> list[dict[str, Any]]:
        """The lines of a connector that say ``committed`` or ``flushed``, or neither."""
        text = self._path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        found = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in found if line["name"] == connector and _mark(line) == mark]


def _mark(line: dict[str, Any]) -> str | None:
    return next((mark for mark in ("committed", "flushed") if mark in line), None)


@contextmanager
def standard_output_in(path: Path) -> Iterator[Lines]:
    with path.open("a", encoding="utf-8") as file, redirect_stdout(file):
        yield Lines(path)


def test_every_number_that_was_acknowledged_reaches_the_sink_once(
    start_worker: StartWorker, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    worker = start_worker(key_converter=JSON, value_converter=JSON)
    with standard_output_in(tmp_path / "stdout") as lines:
        count_and_compare(worker, lines, unique_name)


def count_and_compare(worker: Worker, lines: Lines, unique_name: Callable[[str], str]) -> None:
    topic, source, sink = unique_name("numbers"), unique_name("source"), unique_name("sink")
    made = {"connector.class": f"{TOOLS}VerifiableSourceConnector", "tasks.max": "2", "topic": topic, "throughput": "400"}
    worker.create(source, made)
    worker.create(sink, {"connector.class": f"{TOOLS}VerifiableSinkConnector", "topics": topic})
    assert [info.config["id"] for info in worker.herder.task_infos(source)] == ["0", "1"]
    assert worker.herder.task_infos(source)[0].config["task.class"] == f"{TOOLS}VerifiableSourceTask"
    eventually(lambda: len(lines.of(source, "committed")) >= 300, "300 numbers acknowledged")

    worker.herder.restart_task(TaskId(source, 0))
    worker.wait_for(source, State.RUNNING)
    so_far = len(lines.of(source, "committed"))
    eventually(lambda: len(lines.of(source, "committed")) >= so_far + 100, "numbers after the restart")
    worker.herder.set_target_state(source, TargetState.STOPPED)
    # Its tasks have ended when there are none: before, all may be acknowledged for a moment and more may follow.
    eventually(lambda: not worker.herder.connector_status(source).tasks, "the source has stopped")
    eventually(lambda: len(lines.of(source, "committed")) == len(lines.of(source)), "all acknowledged")
    committed = sorted((line["task"], line["seqno"]) for line in lines.of(source, "committed"))
    eventually(lambda: len(lines.of(sink, "flushed")) >= len(committed), "the sink has flushed them")

    # After a clean stop nothing is lost and nothing comes twice: each task has counted from 0 on, and the sink has just that.
    for task in (0, 1):
        numbers = [seqno for of_task, seqno in committed if of_task == task]
        assert numbers == list(range(len(numbers)))
    assert sorted((line["task"], line["seqno"]) for line in lines.of(sink, "flushed")) == committed
    assert {line["sinkTask"] for line in lines.of(sink)} == {0}
    offsets = {(entry.partition or {})["id"]: entry.offset for entry in worker.herder.offsets(source)}
    assert offsets == {task: {"seqno": max(n for t, n in committed if t == task)} for task in (0, 1)}


def test_mock_connectors_fail_as_configured_and_run_again_after_a_restart(
    worker: Worker, state_history: StateHistory, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("mock")
    worker.create(name, {"connector.class": f"{TOOLS}MockSourceConnector", "mock_mode": "connector-failure", "delay_ms": "300"})
    status = worker.herder.connector_status
    eventually(lambda: status(name).connector.state is State.FAILED, "the connector fails")
    assert "mock_mode=connector-failure" in (status(name).connector.trace or "")
    worker.wait_for(name, State.RUNNING)  # a task goes on without its connector
    worker.herder.restart_connector(name, only_failed=True, include_tasks=True)
    eventually(lambda: state_history.of(name) == [State.RUNNING, State.FAILED] * 2, "the connector has run again, and failed")


@pytest.mark.parametrize("kind", ["Source", "Sink"])
def test_mock_tasks_fail_as_configured_and_run_again_after_a_restart(
    worker: Worker, state_history: StateHistory, unique_name: Callable[[str], str], kind: str
) -> None:
    name = unique_name("mock")
    config = {"connector.class": f"{TOOLS}Mock{kind}Connector", "mock_mode": "task-failure", "delay_ms": "300"}
    worker.create(name, config | ({"topics": unique_name("nothing")} if kind == "Sink" else {}))
    worker.wait_for(name, State.FAILED)
    assert worker.herder.connector_status(name).connector.state is State.RUNNING
    assert "mock_mode=task-failure" in worker.trace(name)
    worker.herder.restart_task(TaskId(name, 0))
    eventually(lambda: state_history.of(name, 0) == [State.RUNNING, State.FAILED] * 2, "the task has run again, and failed")
