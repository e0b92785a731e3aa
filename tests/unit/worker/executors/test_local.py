"""Connectors and tasks as threads: their life cycle, isolation from each other, and reports."""

from __future__ import annotations

import threading

import orjson
import pytest

from connect.errors import BadRequestError, ConfigError, ConnectError, IllegalStateError, PluginNotFoundError
from connect.plugins import APACHE_VERSION
from tests.support.waiting import WAIT_S
from tests.unit.worker.executors.conftest import MemoryServices, RecordingListener, connector_spec, task_spec
from tests.unit.worker.executors.plugins import PATH, SCRIPTS, ScriptedConnector
from worker.config.secrets import SecretMask
from worker.executor import ConnectorFacts, ConnectorSpec
from worker.executors.connector_instance import ConnectorClass, ConnectorInstance
from worker.executors.local import LocalExecutor
from worker.model import TargetState, TaskId, TaskSignal

STARTED, PAUSED, STOPPED = TargetState.STARTED, TargetState.PAUSED, TargetState.STOPPED


def test_connector_starts_configures_tasks_and_stops(executor: LocalExecutor, listener: RecordingListener, name: str) -> None:
    executor.start_connector(1, connector_spec(name, tasks__max="2"), STARTED).result(WAIT_S)
    assert listener.reported(1, name) == ["RUNNING"]
    configs = executor.task_configs(name).result(WAIT_S)
    assert [config["task"] for config in configs] == ["0", "1"]
    assert configs[0]["task.class"] == PATH.replace("ScriptedConnector", "ScriptedTask")
    executor.stop_connector(name).result(WAIT_S)
    assert SCRIPTS[name].calls == ["start", "task_configs", "stop"]
    with pytest.raises(IllegalStateError):
        executor.task_configs(name).result(WAIT_S)


def test_task_configs_keep_the_config_provider_references_of_the_connector(executor: LocalExecutor, name: str) -> None:
    spec = connector_spec(name)
    given = {**spec.given, "password": "${file:x:y}"}
    executor.start_connector(1, type(spec)(name, given, {**given, "password": "hunter2"}), STARTED).result(WAIT_S)
    (config,) = executor.task_configs(name).result(WAIT_S)
    assert config["password"] == "${file:x:y}"
    assert SCRIPTS[name].connectors[0].config["password"] == "hunter2"


def test_target_states_are_applied_and_reported(executor: LocalExecutor, listener: RecordingListener, name: str) -> None:
    executor.start_connector(1, connector_spec(name), PAUSED).result(WAIT_S)
    executor.set_connector_target(name, STARTED).result(WAIT_S)
    executor.set_connector_target(name, STOPPED).result(WAIT_S)
    executor.set_connector_target(name, STARTED).result(WAIT_S)
    assert listener.reported(1, name) == ["PAUSED", "RUNNING", "STOPPED", "RUNNING"]
    assert SCRIPTS[name].calls == ["start", "stop", "start"]
    assert len({id(connector) for connector in SCRIPTS[name].connectors}) == 1


@pytest.mark.parametrize("target", [PAUSED, STOPPED])
def test_version_is_reported_for_a_connector_that_never_ran(
    executor: LocalExecutor, listener: RecordingListener, name: str, target: TargetState
) -> None:
    executor.start_connector(1, connector_spec(name, connector__class="FileStreamSource"), target).result(WAIT_S)
    assert listener.reported(1, name) == [target.value]
    assert listener.versions == {APACHE_VERSION}


def test_connector_of_an_unknown_class_can_be_stopped(executor: LocalExecutor, listener: RecordingListener, name: str) -> None:
    executor.start_connector(1, connector_spec(name, connector__class="nowhere:Nothing"), STOPPED).result(WAIT_S)
    assert listener.reported(1, name) == ["STOPPED"]


def test_failure_is_reported_without_secrets_and_fails_the_future(
    executor: LocalExecutor, listener: RecordingListener, name: str
) -> None:
    SCRIPTS[name].fail_in = "start"
    with pytest.raises(ValueError, match="start fails"):
        executor.start_connector(1, connector_spec(name), STARTED).result(WAIT_S)
    trace = listener.wait_for(1, name, "FAILED") or ""
    assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: ValueError: start fails with [hidden]")
    assert "s3cret" not in trace
    executor.set_connector_target(name, PAUSED).result(WAIT_S)
    assert listener.reported(1, name) == ["FAILED"]
    SCRIPTS[name].fail_in = None
    executor.set_connector_target(name, STARTED).result(WAIT_S)
    assert listener.reported(1, name) == ["FAILED", "RUNNING"]


class SilentError(Exception):
    def __str__(self) -> str:
        raise LookupError("no text")


@pytest.mark.parametrize("step", ["start", "task_configs"])
@pytest.mark.parametrize(
    ("failure", "first"),
    [
        (SystemExit(5), "SystemExit: 5"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (SilentError(), "SilentError: (no message: str() raised LookupError)"),
    ],
)
def test_any_exception_fails_the_connector(
    executor: LocalExecutor, listener: RecordingListener, name: str, step: str, failure: BaseException, first: str
) -> None:
    SCRIPTS[name].fail_in, SCRIPTS[name].failure = step, failure
    starting = executor.start_connector(1, connector_spec(name), STARTED)
    if step == "task_configs":
        starting.result(WAIT_S)
        assert executor.task_configs(name).exception(10) is failure
    else:
        assert starting.exception(10) is failure
    trace = listener.wait_for(1, name, "FAILED") or ""
    assert trace.splitlines()[0] == f"org.apache.kafka.connect.errors.ConnectException: {first}"
    trace.encode()  # the trace must be encodable for the status topic


def test_error_message_too_long_for_a_status_is_shortened_in_the_middle(
    executor: LocalExecutor, listener: RecordingListener, name: str
) -> None:
    SCRIPTS[name].fail_in, SCRIPTS[name].failure = "start", ValueError("first" + "\0" * 3_000_000 + "last")
    executor.start_connector(1, connector_spec(name), STARTED).exception(10)
    trace = listener.wait_for(1, name, "FAILED") or ""
    assert len(orjson.dumps(trace)) < 1_000_000
    assert "ValueError: first" in trace
    assert trace.endswith("last")
    assert "characters are omitted" in trace


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (5, "must return a list of dicts, one for each task, but returned int"),
        ({"a": "b"}, "must return a list of dicts, one for each task, but returned dict"),
        (["a"], "must return dicts, but what it returned for task 0 is str"),
        ([{"a": "b"}, {1: "b"}], "task 1 has the key 1, which is int"),
        ([{"port": 5432}], "but port of task 0 is int"),
    ],
)
def test_invalid_task_configs_fail_the_connector_with_the_reason(
    executor: LocalExecutor, listener: RecordingListener, name: str, returned: object, message: str
) -> None:
    SCRIPTS[name].task_configs = returned
    executor.start_connector(1, connector_spec(name, tasks__max="2"), STARTED).result(WAIT_S)
    with pytest.raises(ConnectError, match=message):
        executor.task_configs(name).result(WAIT_S)
    assert message in (listener.wait_for(1, name, "FAILED") or "")


def test_unknown_class_fails_the_connector(executor: LocalExecutor, listener: RecordingListener, name: str) -> None:
    with pytest.raises(PluginNotFoundError):
        executor.start_connector(1, connector_spec(name, connector__class="nowhere:Nothing"), STARTED).result(WAIT_S)
    assert "nowhere" in (listener.wait_for(1, name, "FAILED") or "")


def test_incomplete_topic_creation_config_fails_the_connector(
    executor: LocalExecutor, listener: RecordingListener, name: str
) -> None:
    spec = connector_spec(name, topic__creation__groups="compacted")
    with pytest.raises(ConfigError, match=r"topic\.creation\.default\.replication\.factor"):
        executor.start_connector(1, spec, STARTED).result(WAIT_S)
    assert "topic.creation.default.replication.factor" in (listener.wait_for(1, name, "FAILED") or "")


def test_error_raised_through_the_context_is_reported(executor: LocalExecutor, listener: RecordingListener, name: str) -> None:
    executor.start_connector(1, connector_spec(name), STARTED).result(WAIT_S)
    context = SCRIPTS[name].connectors[0].context
    context.request_task_reconfiguration()
    listener.wait_for(1, name, "reconfigure")
    context.raise_error(ConnectError("the system is gone"))
    assert "the system is gone" in (listener.wait_for(1, name, "FAILED") or "")


def test_more_task_configs_than_allowed_fail_the_connector(
    executor: LocalExecutor, listener: RecordingListener, name: str
) -> None:
    SCRIPTS[name].tasks = 3
    executor.start_connector(1, connector_spec(name), STARTED).result(WAIT_S)
    with pytest.raises(ConnectError, match="generated 3 tasks, which is greater than 1"):
        executor.task_configs(name).result(WAIT_S)
    listener.wait_for(1, name, "FAILED")


@pytest.mark.parametrize("where", ["start", "task_configs"])
def test_hanging_connector_blocks_no_other_connectors_or_tasks(
    executor: LocalExecutor, listener: RecordingListener, name: str, where: str
) -> None:
    script = SCRIPTS[name]
    script.hang_in = where
    executor.start_connector(1, connector_spec(name), STARTED)
    pending = executor.task_configs(name)
    assert script.hanging.wait(WAIT_S)
    executor.start_connector(2, connector_spec(f"{name}-other"), STARTED).result(WAIT_S)
    executor.start_task(3, task_spec(name))
    listener.wait_for(3, f"{name}-0", "RUNNING")
    executor.stop_tasks([TaskId(name, 0)]).result(WAIT_S)
    assert not pending.done()
    script.proceed.set()
    assert len(pending.result(WAIT_S)) == 1


@pytest.mark.parametrize("where", ["start", "stop"])
def test_connector_that_does_not_stop_is_abandoned_and_can_be_started_again(
    short_timeout_executor: LocalExecutor, listener: RecordingListener, name: str, where: str
) -> None:
    script = SCRIPTS[name]
    script.hang_in = where
    short_timeout_executor.start_connector(1, connector_spec(name), STARTED)
    if where == "stop":
        listener.wait_for(1, name, "RUNNING")
    else:
        assert script.hanging.wait(WAIT_S)
    short_timeout_executor.stop_connector(name).result(WAIT_S)
    assert script.hanging.wait(WAIT_S)
    abandoned = script.connectors[0]
    script.hang_in = None
    short_timeout_executor.start_connector(2, connector_spec(name), STARTED).result(WAIT_S)
    abandoned.context.request_task_reconfiguration()
    abandoned.context.raise_error(ConnectError("too late"))
    script.proceed.set()
    short_timeout_executor.task_configs(name).result(WAIT_S)
    assert listener.reported(2, name) == ["RUNNING"]
    assert listener.reported(1, name) == (["RUNNING"] if where == "stop" else [])


def test_abandoned_connector_is_stopped_when_its_start_completes(short_timeout_executor: LocalExecutor, name: str) -> None:
    script = SCRIPTS[name]
    script.hang_in = "start"
    short_timeout_executor.start_connector(1, connector_spec(name), STARTED)
    assert script.hanging.wait(WAIT_S)
    short_timeout_executor.stop_connector(name).result(WAIT_S)
    thread = next(thread for thread in threading.enumerate() if thread.name == f"connector-{name}")
    script.proceed.set()
    thread.join(WAIT_S)
    assert script.calls == ["start", "stop"]


def test_start_queued_behind_a_hanging_stop_is_canceled_by_another_stop(
    short_timeout_executor: LocalExecutor, listener: RecordingListener, name: str
) -> None:
    script = SCRIPTS[name]
    short_timeout_executor.start_connector(1, connector_spec(name), STARTED).result(WAIT_S)
    script.hang_in = "stop"
    second_start = short_timeout_executor.start_connector(2, connector_spec(name), STARTED)
    assert script.hanging.wait(WAIT_S)
    thread = next(thread for thread in threading.enumerate() if thread.name == f"connector-{name}")
    short_timeout_executor.stop_connector(name).result(WAIT_S)
    with pytest.raises(ConnectError, match="was abandoned"):
        second_start.result(WAIT_S)
    script.proceed.set()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert script.calls == ["start", "stop"]
    assert listener.reported(2, name) == []


def test_start_of_an_abandoned_instance_does_not_happen(listener: RecordingListener, services: MemoryServices) -> None:
    loaded: list[str] = []

    def load(spec: ConnectorSpec) -> ConnectorClass:
        loaded.append(spec.name)
        return ConnectorClass(ScriptedConnector, PATH, None)

    instance = ConnectorInstance(1, connector_spec("late"), load, listener, services.offsets, SecretMask(), lambda job: job())
    instance.end_abandoned()
    instance.follow(STARTED)
    assert not loaded
    assert listener.reported(1, "late") == []


def test_connector_that_hangs_while_pausing_is_replaced_on_resume(
    short_timeout_executor: LocalExecutor, listener: RecordingListener, name: str
) -> None:
    script = SCRIPTS[name]
    short_timeout_executor.start_connector(1, connector_spec(name), STARTED).result(WAIT_S)
    script.hang_in = "stop"
    short_timeout_executor.set_connector_target(name, PAUSED).result(WAIT_S)
    thread = next(thread for thread in threading.enumerate() if thread.name == f"connector-{name}")
    short_timeout_executor.set_connector_target(name, STARTED).result(WAIT_S)
    assert len(script.connectors) == 2
    assert script.connectors[0] is not script.connectors[1]
    script.proceed.set()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert listener.reported(1, name) == ["RUNNING", "PAUSED", "RUNNING"]


def test_tasks_report_their_states(executor: LocalExecutor, listener: RecordingListener, name: str) -> None:
    executor.start_task(1, task_spec(name, 0))
    executor.start_task(2, task_spec(name, 1, paused=True))
    listener.wait_for(1, f"{name}-0", "RUNNING")
    listener.wait_for(2, f"{name}-1", "PAUSED")
    progress = executor.progress(TaskId(name, 0))
    assert progress is not None
    assert progress.details == {"values": ["[hidden]", 1]}
    with pytest.raises(BadRequestError, match="take no signals"):
        executor.signal_task(TaskId(name, 0), TaskSignal("1", "log", None))
    assert not executor.signal_task(TaskId(name, 1), TaskSignal("1", "log", None))  # it was created paused
    executor.set_task_paused(TaskId(name, 1), False)
    listener.wait_for(2, f"{name}-1", "RUNNING")
    executor.stop_tasks([TaskId(name, 0), TaskId(name, 1)]).result(WAIT_S)
    assert listener.reported(1, f"{name}-0") == ["RUNNING", "UNASSIGNED"]
    assert executor.progress(TaskId(name, 0)) is None


def test_task_that_does_not_stop_is_abandoned_and_its_later_reports_are_ignored(
    short_timeout_executor: LocalExecutor, listener: RecordingListener, name: str, services: MemoryServices
) -> None:
    script = SCRIPTS[name]
    script.hang_in = "poll"
    short_timeout_executor.start_task(1, task_spec(name))
    assert script.hanging.wait(WAIT_S)
    thread = next(thread for thread in threading.enumerate() if thread.name == f"task-{name}-0")
    short_timeout_executor.stop_tasks([TaskId(name, 0)]).result(WAIT_S)
    script.hang_in = None
    short_timeout_executor.start_task(2, task_spec(name))
    listener.wait_for(2, f"{name}-0", "RUNNING")
    script.proceed.set()
    thread.join(WAIT_S)
    assert listener.reported(1, f"{name}-0") == ["RUNNING"]


def test_failed_task_reports_its_trace(executor: LocalExecutor, listener: RecordingListener, name: str) -> None:
    SCRIPTS[name].fail_in = "task 0 start"
    executor.start_task(1, task_spec(name))
    assert "ValueError: task 0 start fails with [hidden]" in (listener.wait_for(1, f"{name}-0", "FAILED") or "")


def test_idle_connectors_have_no_threads_and_leave_no_state(executor: LocalExecutor, name: str) -> None:
    names = [f"{name}-{i}" for i in range(50)]
    for future in [executor.start_connector(i, connector_spec(one), STARTED) for i, one in enumerate(names)]:
        future.result(WAIT_S)
    for thread in threading.enumerate():
        if thread.name.startswith(f"connector-{name}"):
            thread.join(WAIT_S)
            assert not thread.is_alive()
    for future in [executor.stop_connector(one) for one in names]:
        future.result(WAIT_S)
    for thread in threading.enumerate():
        if thread.name.startswith(f"connector-{name}"):
            thread.join(WAIT_S)
    assert not [one for one in executor._instances if one.startswith(name)]
    assert not [key for key in executor._queues._queues if key[1].startswith(name)]


def test_offsets_are_altered_by_the_connector_class(executor: LocalExecutor, name: str) -> None:
    assert executor.alter_offsets(connector_spec(name), [({"a": 1, "b": 2}, {"at": 3}), ({"a": 2}, None)]).result(WAIT_S) is True
    assert SCRIPTS[name].calls == ["alter {(('a', 1), ('b', 2)): {'at': 3}, (('a', 2),): None}"]
    with pytest.raises(BadRequestError):
        executor.alter_offsets(connector_spec(name), []).result(WAIT_S)


def test_facts_describe_connector_classes(executor: LocalExecutor) -> None:
    facts = executor.facts("FileStreamSource")
    assert facts == ConnectorFacts("org.apache.kafka.connect.file.FileStreamSourceConnector", "source", facts.version)
    assert executor.facts(PATH) == ConnectorFacts(PATH, "source", None)
    with pytest.raises(PluginNotFoundError):
        executor.facts("NoSuch")


def test_close_stops_connectors_and_tasks(executor: LocalExecutor, listener: RecordingListener, name: str) -> None:
    executor.start_connector(1, connector_spec(name), STARTED).result(WAIT_S)
    executor.start_task(2, task_spec(name))
    listener.wait_for(2, f"{name}-0", "RUNNING")
    executor.close(5)
    assert SCRIPTS[name].calls[-1] == "stop"
    assert listener.reported(2, f"{name}-0") == ["RUNNING", "UNASSIGNED"]
    assert not [thread for thread in threading.enumerate() if thread.name == f"task-{name}-0"]
