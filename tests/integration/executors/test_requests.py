"""Requests to executor processes, and what a process may report. One pool serves all tests, which harm no process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from connect.errors import BadRequestError, ConnectError, PluginNotFoundError
from tests.integration.executors.conftest import Pool, processes
from tests.integration.executors.plugins import PATH
from tests.support.waiting import WAIT_S, eventually
from worker.cancellation import Cancellation
from worker.executor import ConnectorFacts
from worker.model import SystemQuestion, TaskId, TaskSignal
from worker.observability.log_lines import LogLine
from worker.observability.recent_logs import recent_logs

Name = Callable[[str], str]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    made = Pool(tmp_path_factory.mktemp("pool"), task__executors="1")
    made.start()
    yield made
    made.executor.close(3)
    assert not processes()


def test_plugin_requests_are_answered_by_a_process(pool: Pool) -> None:
    assert pool.executor.facts(PATH) == ConnectorFacts(PATH, "source", None)
    with pytest.raises(PluginNotFoundError):
        pool.executor.facts("NoSuch")
    config = {"name": "c", "connector.class": PATH}
    assert pool.executor.validate(config, config)["error_count"] == 0
    with pytest.raises(BadRequestError, match="contains no connector type"):
        pool.executor.validate({}, {})
    assert "file" in {key["name"] for key in pool.executor.plugin_config("FileStreamSource", None)}
    classes = {plugin["class"] for plugin in pool.executor.plugins(connectors_only=True)}
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in classes
    spec = pool.spec("altered")
    assert pool.executor.alter_offsets(spec, [({"a": 1}, {"b": 2})]).result(WAIT_S) is False


def test_cancelled_connection_test_ends_in_its_process(pool: Pool) -> None:
    spec, cancellation = pool.spec("asked"), Cancellation()
    question, folder = SystemQuestion.CONNECTION_TEST, pool.folder / "asked"
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(pool.executor.external_system, spec.config, question, (), cancellation)
        eventually((folder / "asked").exists, "the connector is asked")
        assert not (folder / "cancelled").exists()
        cancellation.cancel()
        assert answer.result(WAIT_S)["state"] == "skipped"
    assert (folder / "cancelled").exists()


def test_signals_reach_tasks_in_their_processes(pool: Pool) -> None:
    pool.running_task(pool.spec("signaled"))
    task = TaskId("signaled", 0)
    assert pool.executor.signal_task(task, TaskSignal("1", "log", '{"message": "x"}'))
    assert pool.executor.signal_task(task, TaskSignal("2", "log", None))
    progress = pool.executor.progress(task)
    assert progress is not None
    assert progress.details["signals"] == ['1 log {"message": "x"}', "2 log None"]
    with pytest.raises(BadRequestError, match="refused"):
        pool.executor.signal_task(task, TaskSignal("3", "refused", None))
    assert not pool.executor.signal_task(TaskId("other", 0), TaskSignal("4", "log", None))


def test_log_lines_of_processes_reach_the_worker_and_only_for_their_own_connectors(pool: Pool, unique_name: Name) -> None:
    name = unique_name("logged")
    pool.running_task(pool.spec(name))

    def lines() -> list[LogLine]:
        return [line for _, line in recent_logs().read(name, -1, 100).lines]

    # The task has no broker and says so.
    eventually(lambda: any("No Kafka broker answers" in line.message for line in lines()), "the line of a task")
    assert {line.task for line in lines()} == {0}
    (handle,) = [handle for handle in pool.executor._processes._handles.values() if handle.pid == pool.pid(name)]
    of_another = LogLine(f"{name}-other", None, 1, "ERROR", "x", "not mine", None)
    handle._handler.on_call("log_lines", {"lines": [of_another.to_plain()]})
    assert not recent_logs().knows(of_another.connector)


def test_process_cannot_read_offsets_or_report_states_of_other_connectors(pool: Pool) -> None:
    pool.running_task(pool.spec("mine"))
    (handle,) = [handle for handle in pool.executor._processes._handles.values() if handle.pid == pool.pid("mine")]
    handler = handle._handler
    assert handler.on_call("offset", {"connector": "mine", "partition": {"a": 1}}).result(WAIT_S) is None
    with pytest.raises(ConnectError, match="no longer runs in this executor"):
        handler.on_call("offset", {"connector": "other", "partition": {"a": 1}}).result(WAIT_S)
    handler.on_notification(
        "task_state", {"start_id": 77, "task": ["other", 0], "state": "FAILED", "trace": "x", "version": None}
    )
    assert pool.states(77, "other", 0) == []
