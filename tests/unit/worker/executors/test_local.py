"""Connectors and tasks as threads: who waits for whom, and what is told."""

from __future__ import annotations

import threading

import orjson
import pytest

from connect.errors import BadRequestError, ConfigError, ConnectError, IllegalStateError, PluginNotFoundError
from connect.plugins import APACHE_VERSION
from tests.unit.worker.executors.conftest import MemoryServices, RecordingListener, connector_spec, task_spec
from tests.unit.worker.executors.plugins import PATH, SCRIPTS, ScriptedConnector
from worker.config.secrets import SecretMask
from worker.executor import ConnectorFacts, ConnectorSpec
from worker.executors.connector_instance import ConnectorClass, ConnectorInstance
from worker.executors.local import LocalExecutor
from worker.model import TargetState, TaskId

STARTED, PAUSED, STOPPED = TargetState.STARTED, TargetState.PAUSED, TargetState.STOPPED


def test_a_connector_starts_makes_tasks_and_stops(executor: LocalExecutor, told: RecordingListener, name: str) -> None:
    executor.start_connector(1, connector_spec(name, tasks__max="2"), STARTED).result(10)
    assert told.of(1, name) == ["RUNNING"]
    configs = executor.task_configs(name).result(10)
    assert [config["task"] for config in configs] == ["0", "1"]
    assert configs[0]["task.class"] == PATH.replace("ScriptedConnector", "ScriptedTask")
    executor.stop_connector(name).result(10)
    assert SCRIPTS[name].calls == ["start", "task_configs", "stop"]
    with pytest.raises(IllegalStateError):
        executor.task_configs(name).result(10)


def test_configurations_of_tasks_have_references_where_the_connectors_has(executor: LocalExecutor, name: str) -> None:
    spec = connector_spec(name)
    given = {**spec.given, "password": "${file:x:y}"}
    executor.start_connector(1, type(spec)(name, given, {**given, "password": "hunter2"}), STARTED).result(10)
    (config,) = executor.task_configs(name).result(10)
    assert config["password"] == "${file:x:y}"
    assert SCRIPTS[name].connectors[0].config["password"] == "hunter2"


def test_targets_are_followed_and_told(executor: LocalExecutor, told: RecordingListener, name: str) -> None:
    executor.start_connector(1, connector_spec(name), PAUSED).result(10)
    executor.set_connector_target(name, STARTED).result(10)
    executor.set_connector_target(name, STOPPED).result(10)
    executor.set_connector_target(name, STARTED).result(10)
    assert told.of(1, name) == ["PAUSED", "RUNNING", "STOPPED", "RUNNING"]
    assert SCRIPTS[name].calls == ["start", "stop", "start"]
    assert len({id(connector) for connector in SCRIPTS[name].connectors}) == 1


@pytest.mark.parametrize("target", [PAUSED, STOPPED])
def test_the_version_is_told_of_a_connector_that_never_ran(
    executor: LocalExecutor, told: RecordingListener, name: str, target: TargetState
) -> None:
    executor.start_connector(1, connector_spec(name, connector__class="FileStreamSource"), target).result(10)
    assert told.of(1, name) == [target.value]
    assert told.versions == {APACHE_VERSION}


def test_a_class_that_is_not_there_can_still_be_stopped(executor: LocalExecutor, told: RecordingListener, name: str) -> None:
    executor.start_connector(1, connector_spec(name, connector__class="nowhere:Nothing"), STOPPED).result(10)
    assert told.of(1, name) == ["STOPPED"]


def test_what_fails_is_told_without_secrets_and_fails_the_future(
    executor: LocalExecutor, told: RecordingListener, name: str
) -> None:
    SCRIPTS[name].fail_in = "start"
    with pytest.raises(ValueError, match="start fails"):
        executor.start_connector(1, connector_spec(name), STARTED).result(10)
    trace = told.wait_for(1, name, "FAILED") or ""
    assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: ValueError: start fails with [hidden]")
    assert "s3cret" not in trace
    executor.set_connector_target(name, PAUSED).result(10)
    assert told.of(1, name) == ["FAILED"]
    SCRIPTS[name].fail_in = None
    executor.set_connector_target(name, STARTED).result(10)
    assert told.of(1, name) == ["FAILED", "RUNNING"]


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
def test_whatever_a_connector_raises_fails_it(
    executor: LocalExecutor, told: RecordingListener, name: str, step: str, failure: BaseException, first: str
) -> None:
    SCRIPTS[name].fail_in, SCRIPTS[name].failure = step, failure
    starting = executor.start_connector(1, connector_spec(name), STARTED)
    if step == "task_configs":
        starting.result(10)
        assert executor.task_configs(name).exception(10) is failure
    else:
        assert starting.exception(10) is failure
    trace = told.wait_for(1, name, "FAILED") or ""
    assert trace.splitlines()[0] == f"org.apache.kafka.connect.errors.ConnectException: {first}"
    trace.encode()  # it goes into the status topic


def test_a_failure_with_a_text_too_long_for_a_status_is_told_with_its_beginning_and_its_end(
    executor: LocalExecutor, told: RecordingListener, name: str
) -> None:
    SCRIPTS[name].fail_in, SCRIPTS[name].failure = "start", ValueError("first" + "\0" * 3_000_000 + "last")
    executor.start_connector(1, connector_spec(name), STARTED).exception(10)
    trace = told.wait_for(1, name, "FAILED") or ""
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
def test_task_configurations_that_are_none_fail_the_connector_and_say_what_is_wrong(
    executor: LocalExecutor, told: RecordingListener, name: str, returned: object, message: str
) -> None:
    SCRIPTS[name].task_configs = returned
    executor.start_connector(1, connector_spec(name, tasks__max="2"), STARTED).result(10)
    with pytest.raises(ConnectError, match=message):
        executor.task_configs(name).result(10)
    assert message in (told.wait_for(1, name, "FAILED") or "")


def test_a_class_that_is_not_there_fails_the_connector(executor: LocalExecutor, told: RecordingListener, name: str) -> None:
    with pytest.raises(PluginNotFoundError):
        executor.start_connector(1, connector_spec(name, connector__class="nowhere:Nothing"), STARTED).result(10)
    assert "nowhere" in (told.wait_for(1, name, "FAILED") or "")


def test_incomplete_rules_for_new_topics_fail_the_connector(executor: LocalExecutor, told: RecordingListener, name: str) -> None:
    spec = connector_spec(name, topic__creation__groups="compacted")
    with pytest.raises(ConfigError, match=r"topic\.creation\.default\.replication\.factor"):
        executor.start_connector(1, spec, STARTED).result(10)
    assert "topic.creation.default.replication.factor" in (told.wait_for(1, name, "FAILED") or "")


def test_an_error_that_a_connector_raises_itself_is_told(executor: LocalExecutor, told: RecordingListener, name: str) -> None:
    executor.start_connector(1, connector_spec(name), STARTED).result(10)
    context = SCRIPTS[name].connectors[0].context
    context.request_task_reconfiguration()
    told.wait_for(1, name, "reconfigure")
    context.raise_error(ConnectError("the system is gone"))
    assert "the system is gone" in (told.wait_for(1, name, "FAILED") or "")


def test_more_tasks_than_allowed_fail_the_connector(executor: LocalExecutor, told: RecordingListener, name: str) -> None:
    SCRIPTS[name].tasks = 3
    executor.start_connector(1, connector_spec(name), STARTED).result(10)
    with pytest.raises(ConnectError, match="generated 3 tasks, which is greater than 1"):
        executor.task_configs(name).result(10)
    told.wait_for(1, name, "FAILED")


@pytest.mark.parametrize("where", ["start", "task_configs"])
def test_a_connector_that_hangs_holds_up_no_other_nor_tasks(
    executor: LocalExecutor, told: RecordingListener, name: str, where: str
) -> None:
    script = SCRIPTS[name]
    script.hang_in = where
    executor.start_connector(1, connector_spec(name), STARTED)
    asked = executor.task_configs(name)
    assert script.hanging.wait(10)
    executor.start_connector(2, connector_spec(f"{name}-other"), STARTED).result(10)
    executor.start_task(3, task_spec(name))
    told.wait_for(3, f"{name}-0", "RUNNING")
    executor.stop_tasks([TaskId(name, 0)]).result(10)
    assert not asked.done()
    script.proceed.set()
    assert len(asked.result(10)) == 1


@pytest.mark.parametrize("where", ["start", "stop"])
def test_a_connector_that_does_not_stop_is_abandoned_and_another_starts(
    short_timeout_executor: LocalExecutor, told: RecordingListener, name: str, where: str
) -> None:
    script = SCRIPTS[name]
    script.hang_in = where
    short_timeout_executor.start_connector(1, connector_spec(name), STARTED)
    if where == "stop":
        told.wait_for(1, name, "RUNNING")
    else:
        assert script.hanging.wait(10)
    short_timeout_executor.stop_connector(name).result(10)
    assert script.hanging.wait(10)
    abandoned = script.connectors[0]
    script.hang_in = None
    short_timeout_executor.start_connector(2, connector_spec(name), STARTED).result(10)
    abandoned.context.request_task_reconfiguration()
    abandoned.context.raise_error(ConnectError("too late"))
    script.proceed.set()
    short_timeout_executor.task_configs(name).result(10)
    assert told.of(2, name) == ["RUNNING"]
    assert told.of(1, name) == (["RUNNING"] if where == "stop" else [])


def test_a_connector_that_starts_too_late_is_stopped(short_timeout_executor: LocalExecutor, name: str) -> None:
    script = SCRIPTS[name]
    script.hang_in = "start"
    short_timeout_executor.start_connector(1, connector_spec(name), STARTED)
    assert script.hanging.wait(10)
    short_timeout_executor.stop_connector(name).result(10)
    thread = next(thread for thread in threading.enumerate() if thread.name == f"connector-{name}")
    script.proceed.set()
    thread.join(10)
    assert script.calls == ["start", "stop"]


def test_a_start_behind_a_stop_that_hangs_does_not_come_when_nobody_waits_for_it(
    short_timeout_executor: LocalExecutor, told: RecordingListener, name: str
) -> None:
    script = SCRIPTS[name]
    short_timeout_executor.start_connector(1, connector_spec(name), STARTED).result(10)
    script.hang_in = "stop"
    anew = short_timeout_executor.start_connector(2, connector_spec(name), STARTED)
    assert script.hanging.wait(10)
    thread = next(thread for thread in threading.enumerate() if thread.name == f"connector-{name}")
    short_timeout_executor.stop_connector(name).result(10)
    with pytest.raises(ConnectError, match="was abandoned"):
        anew.result(10)
    script.proceed.set()
    thread.join(10)
    assert not thread.is_alive()
    assert script.calls == ["start", "stop"]
    assert told.of(2, name) == []


def test_a_start_whose_thread_was_held_up_until_it_was_abandoned_does_not_come(
    told: RecordingListener, services: MemoryServices
) -> None:
    loaded: list[str] = []

    def load(spec: ConnectorSpec) -> ConnectorClass:
        loaded.append(spec.name)
        return ConnectorClass(ScriptedConnector, PATH, None)

    instance = ConnectorInstance(1, connector_spec("late"), load, told, services.offsets, SecretMask(), lambda job: job())
    instance.end_abandoned()
    instance.follow(STARTED)
    assert not loaded
    assert told.of(1, "late") == []


def test_a_connector_that_hangs_when_it_is_paused_is_replaced_when_it_is_resumed(
    short_timeout_executor: LocalExecutor, told: RecordingListener, name: str
) -> None:
    script = SCRIPTS[name]
    short_timeout_executor.start_connector(1, connector_spec(name), STARTED).result(10)
    script.hang_in = "stop"
    short_timeout_executor.set_connector_target(name, PAUSED).result(10)
    thread = next(thread for thread in threading.enumerate() if thread.name == f"connector-{name}")
    short_timeout_executor.set_connector_target(name, STARTED).result(10)
    assert len(script.connectors) == 2
    assert script.connectors[0] is not script.connectors[1]
    script.proceed.set()
    thread.join(10)
    assert not thread.is_alive()
    assert told.of(1, name) == ["RUNNING", "PAUSED", "RUNNING"]


def test_tasks_tell_their_states(executor: LocalExecutor, told: RecordingListener, name: str) -> None:
    executor.start_task(1, task_spec(name, 0))
    executor.start_task(2, task_spec(name, 1, paused=True))
    told.wait_for(1, f"{name}-0", "RUNNING")
    told.wait_for(2, f"{name}-1", "PAUSED")
    progress = executor.progress(TaskId(name, 0))
    assert progress is not None
    assert progress.details == {"told": ["[hidden]", 1]}
    executor.set_task_paused(TaskId(name, 1), False)
    told.wait_for(2, f"{name}-1", "RUNNING")
    executor.stop_tasks([TaskId(name, 0), TaskId(name, 1)]).result(10)
    assert told.of(1, f"{name}-0") == ["RUNNING", "UNASSIGNED"]
    assert executor.progress(TaskId(name, 0)) is None


def test_a_task_that_does_not_stop_is_cut_off_and_no_more_listened_to(
    short_timeout_executor: LocalExecutor, told: RecordingListener, name: str, services: MemoryServices
) -> None:
    script = SCRIPTS[name]
    script.hang_in = "poll"
    short_timeout_executor.start_task(1, task_spec(name))
    assert script.hanging.wait(10)
    thread = next(thread for thread in threading.enumerate() if thread.name == f"task-{name}-0")
    short_timeout_executor.stop_tasks([TaskId(name, 0)]).result(10)
    script.hang_in = None
    short_timeout_executor.start_task(2, task_spec(name))
    told.wait_for(2, f"{name}-0", "RUNNING")
    script.proceed.set()
    thread.join(10)
    assert told.of(1, f"{name}-0") == ["RUNNING"]


def test_a_task_that_fails_tells_its_trace(executor: LocalExecutor, told: RecordingListener, name: str) -> None:
    SCRIPTS[name].fail_in = "task 0 start"
    executor.start_task(1, task_spec(name))
    assert "ValueError: task 0 start fails with [hidden]" in (told.wait_for(1, f"{name}-0", "FAILED") or "")


def test_idle_connectors_have_no_threads_and_leave_nothing_behind(executor: LocalExecutor, name: str) -> None:
    names = [f"{name}-{i}" for i in range(50)]
    for future in [executor.start_connector(i, connector_spec(one), STARTED) for i, one in enumerate(names)]:
        future.result(10)
    for thread in threading.enumerate():
        if thread.name.startswith(f"connector-{name}"):
            thread.join(10)
            assert not thread.is_alive()
    for future in [executor.stop_connector(one) for one in names]:
        future.result(10)
    for thread in threading.enumerate():
        if thread.name.startswith(f"connector-{name}"):
            thread.join(10)
    assert not [one for one in executor._instances if one.startswith(name)]
    assert not [key for key in executor._queues._queues if key[1].startswith(name)]


def test_offsets_are_altered_by_the_connectors_class(executor: LocalExecutor, name: str) -> None:
    assert executor.alter_offsets(connector_spec(name), [({"a": 1, "b": 2}, {"at": 3}), ({"a": 2}, None)]).result(10) is True
    assert SCRIPTS[name].calls == ["alter {(('a', 1), ('b', 2)): {'at': 3}, (('a', 2),): None}"]
    with pytest.raises(BadRequestError):
        executor.alter_offsets(connector_spec(name), []).result(10)


def test_facts_of_classes(executor: LocalExecutor) -> None:
    facts = executor.facts("FileStreamSource")
    assert facts == ConnectorFacts("org.apache.kafka.connect.file.FileStreamSourceConnector", "source", facts.version)
    assert executor.facts(PATH) == ConnectorFacts(PATH, "source", None)
    with pytest.raises(PluginNotFoundError):
        executor.facts("NoSuch")


def test_close_ends_everything(executor: LocalExecutor, told: RecordingListener, name: str) -> None:
    executor.start_connector(1, connector_spec(name), STARTED).result(10)
    executor.start_task(2, task_spec(name))
    told.wait_for(2, f"{name}-0", "RUNNING")
    executor.close(5)
    assert SCRIPTS[name].calls[-1] == "stop"
    assert told.of(2, f"{name}-0") == ["RUNNING", "UNASSIGNED"]
    assert not [thread for thread in threading.enumerate() if thread.name == f"task-{name}-0"]
