"""Source tasks with exactly-once when brokers go, transactions last too long, and processes are killed or frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import pytest

from connect import SourceRecord
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.worker.transactions import Setting, count_up
from tests.support.waiting import WAIT_S, eventually
from worker.source import task as source_task

Name = Callable[[str], str]


@pytest.mark.harms_broker
@pytest.mark.long
def test_a_broker_that_restarts_is_waited_for(setting: Setting, broker: EmbeddedBroker) -> None:
    setting.script.batches = [setting.records("a")]
    run = setting.tasks.start(setting.name, producer_override_reconnect_backoff_max_ms="200")
    eventually(lambda: setting.offset() == 0, "the first transaction")
    setting.wait_for_markers()  # Kafka 4.3 may forget those that it still had to write when it was killed (KAFKA-20734)
    broker.kill()
    setting.script.batches += [setting.records("b", first=1), setting.records("c", first=2)]
    broker.start()
    eventually(lambda: len(setting.script.commits) == 3, "the other transactions")
    setting.wait_for_markers()
    assert setting.read() == ["a", "b", "c"]
    assert run.listener.error is None


@pytest.mark.harms_broker
@pytest.mark.long
def test_a_task_waits_for_a_broker_beyond_the_transaction_timeout(setting: Setting, broker: EmbeddedBroker) -> None:
    count_up(setting.name, setting.topic, 100_000, lambda: None, 0.02)
    number, goes_on, given = setting.script.poll, threading.Event(), 0
    assert number is not None

    def poll() -> Sequence[SourceRecord] | None:
        """Commits one transaction, then leaves another one open; after a restart, commits one transaction per record."""
        nonlocal given
        if given == 1 and not goes_on.wait(0.02):
            return None
        if given == 0 or len(run.listener.events) > 1:
            setting.transactions.commit_transaction()
        given += 1
        return number()

    setting.script.poll = poll
    short = {"producer_override_transaction_timeout_ms": "8000", "producer_override_reconnect_backoff_max_ms": "200"}
    run = setting.tasks.start(setting.name, short, transaction_boundary="connector")
    eventually(lambda: bool(setting.script.commits), "the first transaction")
    setting.wait_for_markers()  # Kafka 4.3 may forget those that it still had to write when it was killed (KAFKA-20734)
    goes_on.set()
    eventually(lambda: len(setting.read(committed=False)) > 5, "a transaction that is open")
    broker.kill()
    confirmation = f"confirm 1 {setting.name}-0 with coordinator"
    eventually(lambda: confirmation in setting.services.calls, "the end of a transaction")
    broker.start()
    eventually(lambda: len(run.listener.events) > 1, "the next instance of the task")
    before = len(setting.script.commits)
    eventually(lambda: len(setting.script.commits) > before, "transactions of the next instance")
    run.stop()
    setting.wait_for_markers()
    found = setting.read()
    assert found == [str(i) for i in range(len(found))]
    assert setting.offset() == len(found) - 1
    assert run.listener.error is None
    assert set(run.listener.events) == {"running"}


@pytest.mark.long
def test_transactions_that_always_time_out_fail_the_task_with_a_suggestion(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_task, "_MAX_FAILED_RESTARTS", 1)
    done = threading.Event()
    count_up(setting.name, setting.topic, 1000, done.set, 0.02)
    endless = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "600000"}
    run = setting.tasks.start(setting.name, endless, producer_override_transaction_timeout_ms="1000")
    assert run.failure().startswith(
        f"The task {setting.name}-0 was unable to finish writing records to Kafka before its producer transaction expired. "
        "It may be necessary to reconfigure this connector"
    )
    assert run.listener.events == ["running", "running"]
    assert setting.read() == []


def child(setting: Setting, count: int, pause_s: float, crash_at: str = "") -> subprocess.Popen[bytes]:
    """A task in a process of its own that writes the numbers below ``count``."""
    command = [sys.executable, "-m", "tests.integration.worker.transactions", setting.bootstrap, setting.name, setting.topic]
    command += [setting.services.topic, str(count), str(pause_s)]
    return subprocess.Popen(command, env={**os.environ, "SLUICE_CRASH_AT": crash_at}, stdout=subprocess.PIPE)


def said(process: subprocess.Popen[bytes]) -> str:
    """The next line the child prints."""
    assert process.stdout is not None
    return process.stdout.readline().decode().rstrip()


@pytest.mark.parametrize("point", ["source.produced:3", "offsets.written:3"])
def test_killed_at_any_point_each_record_is_there_once(setting: Setting, point: str) -> None:
    with child(setting, 6, 0, point) as killed:
        assert killed.wait(WAIT_S) == -signal.SIGKILL
    done = threading.Event()
    count_up(setting.name, setting.topic, 6, done.set)
    setting.tasks.start(setting.name)
    assert done.wait(WAIT_S)
    setting.wait_for_markers()
    assert setting.read() == [str(i) for i in range(6)]
    assert setting.offset() == 5


def test_a_worker_that_was_frozen_writes_nothing_after_it_resumes(setting: Setting) -> None:
    with child(setting, 1000, 0.7) as frozen:  # seldom enough for a reader to see an end of its topics
        try:
            eventually(lambda: (setting.offset() or 0) >= 1, "some transactions")
            frozen.send_signal(signal.SIGSTOP)
            done = threading.Event()
            reached = (setting.offset() or 0) + 5
            count_up(setting.name, setting.topic, reached, done.set)
            setting.tasks.start(setting.name, run=2)
            assert done.wait(WAIT_S)
            frozen.send_signal(signal.SIGCONT)
            assert "There is a newer producer" in said(frozen)
        finally:
            frozen.kill()
    setting.wait_for_markers()
    assert setting.read() == [str(i) for i in range(reached)]
