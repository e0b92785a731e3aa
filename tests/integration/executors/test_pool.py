"""Executor processes: placement, crashes, and the isolation of connectors from each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

from connect.errors import ConnectError, IllegalStateError
from tests.integration.executors.conftest import Pool, StartPool, processes
from tests.integration.executors.plugins import PATH
from tests.support.waiting import WAIT_S, eventually
from worker.model import TargetState, TaskId

Name = Callable[[str], str]


def test_two_tasks_of_a_connector_run_in_two_processes(pool: Pool) -> None:
    spec = pool.spec("c", tasks__max="2")
    start_id, started = pool.start_connector(spec)
    started.result(WAIT_S)
    configs = pool.executor.task_configs("c").result(WAIT_S)
    assert [config["task.class"] for config in configs] == [PATH.replace("Rogue", "RogueTask")] * 2
    assert len(processes()) == 1
    runs = [pool.running_task(spec, number) for number in range(2)]
    pids = {pool.pid("c", number) for number in range(2)}
    assert len(pids) == 2
    assert os.getpid() not in pids
    pool.executor.set_task_paused(TaskId("c", 0), True)
    pool.listener.wait_for(runs[0], "c-0", "PAUSED")
    pool.executor.set_connector_target("c", TargetState.PAUSED).result(WAIT_S)
    pool.executor.set_connector_target("c", TargetState.STARTED).result(WAIT_S)
    pool.executor.stop_tasks([TaskId("c", 0), TaskId("c", 1)]).result(WAIT_S)
    pool.executor.stop_connector("c").result(WAIT_S)
    assert pool.states(start_id, "c") == ["RUNNING", "PAUSED", "RUNNING"]
    assert pool.states(runs[1], "c", 1) == ["RUNNING", "UNASSIGNED"]
    assert pool.pid("c") is None
    with pytest.raises(IllegalStateError):
        pool.executor.task_configs("c").result(WAIT_S)


@contextmanager
def standard_error_in(path: Path) -> Iterator[None]:
    """Redirects the standard error of new processes to the file, because pytest's capture loses output while it reads."""
    before = os.dup(2)
    with path.open("a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def test_errors_and_logs_of_processes_hide_secrets(start_pool: StartPool, tmp_path: Path) -> None:
    stderr = tmp_path / "stderr"
    with standard_error_in(stderr):
        pool = start_pool()
    pool.config.providers.mask.add({"password": "hunter2"})
    spec = pool.spec("c", does="fail@start", password="hunter2")
    pool.allow("c")
    start_id, started = pool.start_connector(spec)
    with pytest.raises(ConnectError, match="no login with hunter2"):
        started.result(WAIT_S)
    trace = pool.listener.wait_for(start_id, "c", "FAILED") or ""
    assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: ValueError: no login with [hidden]")
    task = pool.spec("d", does="log@poll", once="1", password="hunter2")
    pool.allow("d")
    pool.running_task(task)
    eventually(lambda: "[d|task-0] my password is [hidden]" in stderr.read_text(), "the log line")
    crashing = pool.spec("e", does="crash@poll", once="1", password="hunter2")
    with standard_error_in(stderr):  # a process may be started only now
        pool.running_task(crashing)
        before = pool.pid("e")
        pool.allow("e")
        eventually(pool.has_moved("e", before), "another process")
    written = stderr.read_text()
    for expected in ("no thread with [hidden]", "no finalizer with [hidden]", "Fatal Python error: Segmentation fault"):
        assert expected in written
    assert "hunter2" not in written
    assert "hunter2" not in repr(pool.listener.__dict__)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("exit", "exited with code 3"),
        # Other tests kill a process, too.
        pytest.param("kill", "was ended by signal 9 (SIGKILL)", marks=pytest.mark.long),
        pytest.param("segfault", "was ended by signal 11 (SIGSEGV): a native library", marks=pytest.mark.long),
    ],
)
def test_exited_process_is_replaced_and_its_tasks_restart(
    pool: Pool, action: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = pool.spec("bad", does=f"{action}@poll", once="1"), pool.spec("good")
    connector_run, started = pool.start_connector(good)
    started.result(WAIT_S)
    good_run = pool.running_task(good)
    bad_run = pool.running_task(bad)
    other = pool.running_task(good, 1)
    before, good_pid = pool.pid("bad"), pool.pid("good")
    assert before != good_pid
    pool.allow("bad")
    eventually(pool.has_moved("bad", before), "another process")
    restarted = ["RUNNING", "RESTARTING", "RUNNING"]
    # A task has a process before it reports RUNNING.
    eventually(lambda: pool.states(bad_run, "bad", 0) == pool.states(other, "good", 1) == restarted, "both tasks restart")
    assert pool.pid("good") == good_pid
    assert pool.states(good_run, "good", 0) == ["RUNNING"]
    assert pool.states(connector_run, "good") == ["RUNNING"]
    assert f"{reason}" in caplog.text
    assert "Its connectors restart: bad" in caplog.text


def _has_last_state(pool: Pool, start_id: int, name: str, state: str) -> bool:
    return pool.states(start_id, name, 0)[-1] == state


@pytest.mark.long
def test_connector_that_crashes_processes_is_isolated_and_fails_while_others_continue(start_pool: StartPool) -> None:
    pool = start_pool(task__executors="1")
    names = ["good1", "bad", "good2"]
    specs = {name: pool.spec(name, **({"does": "kill@poll"} if name == "bad" else {})) for name in names}
    runs = {name: pool.running_task(spec) for name, spec in specs.items()}
    _, started = pool.start_connector(specs["good1"])
    started.result(WAIT_S)
    assert len({pool.pid(name) for name in names}) == 1
    pool.allow("bad")
    trace = pool.listener.wait_for(runs["bad"], "bad-0", "FAILED") or ""
    assert trace.startswith(
        "org.apache.kafka.connect.errors.ConnectException: The process of the connector (executor quarantine-"
    )
    assert "was ended by signal 9 (SIGKILL)" in trace.splitlines()[0]
    assert "it stays failed until it is restarted" in trace.splitlines()[0]
    for name in ("good1", "good2"):
        eventually(pool.has_moved(name, None), f"{name} has a process")
        eventually(partial(_has_last_state, pool, runs[name], name, "RUNNING"), f"{name} runs")
    assert pool.executor.task_configs("good1").result(WAIT_S)
    (pool.folder / "bad" / "go").unlink()
    pool.executor.stop_tasks([TaskId("bad", 0)]).result(WAIT_S)
    pool.running_task(specs["bad"])


@pytest.mark.long
def test_exits_because_of_a_silent_worker_fail_no_connector(start_pool: StartPool) -> None:
    pool = start_pool(task__executors="1")
    spec = pool.spec("good", does="silence@poll")
    start_id = pool.running_task(spec)
    pool.allow("good")
    eventually(lambda: pool.states(start_id, "good", 0).count("RESTARTING") > 3, "more exits than the crash limit")
    (pool.folder / "good" / "go").unlink()
    eventually(lambda: pool.states(start_id, "good", 0)[-1] == "RUNNING", "the task runs")
    assert "FAILED" not in pool.states(start_id, "good", 0)


@pytest.mark.long
def test_reconfiguration_is_requested_after_a_crash_in_task_configs(pool: Pool) -> None:
    start_id, started = pool.start_connector(pool.spec("c", does="exit@task_configs", once="1"))
    started.result(WAIT_S)
    pool.allow("c")
    with pytest.raises(ConnectError, match="has ended"):
        pool.executor.task_configs("c").result(WAIT_S)
    pool.listener.wait_for(start_id, "c", "reconfigure")
    assert len(pool.executor.task_configs("c").result(WAIT_S)) == 1


@pytest.mark.long
def test_reconfiguration_is_requested_when_task_configs_fails_before_a_restart(pool: Pool) -> None:
    start_id, started = pool.start_connector(pool.spec("c"))
    started.result(WAIT_S)
    (process,) = processes()
    with pool.listener.blocked_at("RESTARTING") as reached:
        process.kill()
        assert reached.wait(WAIT_S)
        with pytest.raises(ConnectError, match="has ended"):
            pool.executor.task_configs("c").result(WAIT_S)
    pool.listener.wait_for(start_id, "c", "reconfigure")
    assert len(pool.executor.task_configs("c").result(WAIT_S)) == 1


@pytest.mark.long
def test_start_that_crashes_its_process_completes_after_the_restart(pool: Pool) -> None:
    spec = pool.spec("c", does="exit@start", once="1")
    pool.allow("c")
    start_id, started = pool.start_connector(spec)
    started.result(WAIT_S)
    assert pool.states(start_id, "c") == ["RESTARTING", "RUNNING"]


def test_process_whose_gil_is_blocked_is_killed_with_a_stack_dump(
    start_pool: StartPool, caplog: pytest.LogCaptureFixture
) -> None:
    pool = start_pool(task__executor__hang__timeout__ms="3000")
    good, bad = pool.spec("good"), pool.spec("bad", does="hold@poll", once="1")
    start_id = pool.running_task(good)
    bad_run = pool.running_task(bad)
    before = pool.pid("bad")
    pool.allow("bad")
    pool.listener.wait_for(bad_run, "bad-0", "RESTARTING")
    eventually(pool.has_moved("bad", before), "another process")
    assert pool.states(start_id, "good", 0) == ["RUNNING"]
    assert "did not answer for 3000 ms (task.executor.hang.timeout.ms) and was killed" in caplog.text
    assert "Thread of task bad-0" in caplog.text
    assert "in misbehave" in caplog.text


def test_hanging_stop_affects_only_its_connector(start_pool: StartPool) -> None:
    pool = start_pool()
    bad, good = pool.spec("bad", does="hang@stop", once="1"), pool.spec("good")
    for spec in (bad, good):
        pool.start_connector(spec)[1].result(WAIT_S)
    start_id = pool.running_task(good)
    pool.allow("bad")
    stopping = pool.executor.stop_connector("bad")
    eventually(lambda: not (pool.folder / "bad" / "go").exists(), "the stop hangs")
    assert len(pool.executor.task_configs("good").result(WAIT_S)) == 1
    assert not stopping.done()
    assert pool.states(start_id, "good", 0) == ["RUNNING"]


def test_connector_whose_stop_hangs_starts_again_after_the_graceful_timeout(start_pool: StartPool) -> None:
    pool = start_pool(task__shutdown__graceful__timeout__ms="500")
    bad, good = pool.spec("bad", does="hang@stop"), pool.spec("good")
    for spec in (bad, good):
        pool.start_connector(spec)[1].result(WAIT_S)
    start_id = pool.running_task(good)
    pool.allow("bad")
    pool.executor.stop_connector("bad").result(WAIT_S)
    _, started = pool.start_connector(pool.spec("bad"))
    started.result(WAIT_S)
    assert pool.states(start_id, "good", 0) == ["RUNNING"]


@pytest.mark.long
def test_hanging_validation_affects_only_its_request(start_pool: StartPool) -> None:
    pool = start_pool(task__executor__hang__timeout__ms="3000")
    spec = pool.spec("bad", does="hold@validate", once="1")
    good = {"name": "good", "connector.class": PATH}
    pool.allow("bad")
    with pytest.raises(ConnectError, match="code of a plugin may have ended it"):
        pool.executor.validate(spec.config, spec.config)
    assert pool.executor.validate(good, good)["error_count"] == 0


@pytest.mark.parametrize(
    "allowed", ["io.debezium.*", pytest.param("io.debezium.*,tests.support.custom_converters:*", marks=pytest.mark.long)]
)
def test_classes_that_a_connector_looks_up_must_be_allowed(start_pool: StartPool, allowed: str) -> None:
    pool = start_pool(plugin__allow=allowed, task__executors="1")
    config = {
        "name": "shop", "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "shop",
        "database.hostname": "localhost", "database.port": "1", "database.user": "u", "database.dbname": "d",
        "converters": "cents", "cents.type": "tests.support.custom_converters:Cents",
    }  # fmt: skip
    found = pool.executor.validate(config, config)["configs"]
    errors = {one["value"]["name"]: one["value"]["errors"] for one in found if one["value"]}
    refused = [error for error in errors["cents.type"] if "is not allowed on this worker" in error]
    assert bool(refused) is ("tests" not in allowed)
    assert bool(errors["database.hostname"]) is ("tests" in allowed)  # the server is asked if all keys are right


def test_dedicated_process_is_killed_at_its_memory_limit(start_pool: StartPool) -> None:
    pool = start_pool(task__executors="1")
    good = pool.spec("good")
    start_id = pool.running_task(good)
    bad = pool.spec("bad", does="leak@poll", task__isolation="dedicated", task__memory__limit__mb="180")
    bad_run = pool.running_task(bad)
    assert pool.pid("bad") != pool.pid("good")
    pool.allow("bad")
    trace = pool.listener.wait_for(bad_run, "bad-0", "FAILED") or ""
    first = trace.splitlines()[0]
    assert "(executor dedicated-bad) used " in first
    assert "MiB of memory, and task.memory.limit.mb is 180: it was killed" in first
    assert pool.states(start_id, "good", 0) == ["RUNNING"]
    assert pool.executor.progress(TaskId("bad", 0)) is None


@pytest.mark.long
def test_process_that_serves_all_executors_survives_them_and_ends_with_the_worker(pool: Pool) -> None:
    spec = pool.spec("c", does="share@poll", once="true")
    start_id = pool.running_task(spec)
    pool.allow("c")
    file = pool.folder / "c" / "pid"
    eventually(file.exists, "the shared process has started")
    shared = psutil.Process(int(file.read_text()))
    executor = pool.pid("c")
    assert executor is not None
    psutil.Process(executor).kill()
    eventually(lambda: pool.pid("c") not in (None, executor), "another executor has replaced it")
    pool.listener.wait_for(start_id, "c-0", "RUNNING")
    assert shared.is_running()
    pool.executor.close(WAIT_S)
    shared.wait(WAIT_S)  # it has closed its files; the kernel may still be removing it


@pytest.mark.long
def test_killed_process_leaves_no_zombie(pool: Pool) -> None:
    pool.running_task(pool.spec("c"))
    before = pool.pid("c")
    assert before is not None
    os.kill(before, 9)
    eventually(pool.has_moved("c", before), "another process")
    assert not psutil.pid_exists(before)
