"""A worker follows the rebalances of its group: what it starts and stops, and when it joins again."""

from __future__ import annotations

import logging

import pytest

from tests.unit.worker.distributed.fakes import T0, T1, FakeStore, FakeWorker, configured
from worker.group.events import Revoked
from worker.group.protocol import CONFIG_MISMATCH
from worker.storage.record_codec import ConnectorRecord


def running(**props: str) -> FakeWorker:
    """A worker that runs connector a with two tasks."""
    worker = FakeWorker(**props)
    worker.store.configure(*configured())
    worker.assign("a", [T0, T1])
    assert worker.run() == ["start a STARTED", "start a-0 1", "start a-1 1"]
    assert worker.group.is_ready
    worker.group_calls()
    return worker


# --- promise 4: a worker outside its group runs nothing


def test_removed_member_stops_everything_and_does_not_join_before_it_has_stopped() -> None:
    worker = running()
    worker.executor.hold_stops = True
    worker.rebalances.on_group_event(Revoked(lost=True, reason="its session expired"))
    assert worker.run() == ["stop a-0 a-1", "stop a"]
    assert not worker.group.current.is_leader
    assert worker.group.is_rebalancing
    assert not worker.reconciler.owns_task(T0)
    worker.rebalances.join_if_due()
    assert worker.group_calls() == []
    worker.finish_stops()
    worker.rebalances.join_if_due()
    assert worker.group_calls() == ["work_stopped", "poll"]


def test_removed_member_restarts_nothing_before_the_next_assignment() -> None:
    worker = running()
    worker.rebalances.on_group_event(Revoked(lost=True, reason="its session expired"))
    worker.run()
    worker.reconciler.reconcile()
    assert worker.run() == []
    worker.assign()
    assert worker.run() == ["start a STARTED", "start a-0 1", "start a-1 1"]


def test_eager_revocation_stops_everything_and_gives_up_the_assignment() -> None:
    worker = running()
    worker.rebalances.on_group_event(Revoked(lost=False, reason="the group rebalances"))
    assert worker.run() == ["stop a-0 a-1", "stop a"]
    assert worker.reconciler.held is None
    assert worker.group_calls() == ["work_stopped"]


def test_revoked_task_stops_and_the_worker_joins_again_to_report_it() -> None:
    worker = running()
    worker.assign(revoked_tasks=(T1,))
    assert worker.run() == ["stop a-1"]
    assert worker.group_calls() == ["rejoin: the revoked connectors and tasks have stopped"]


# --- the config topic


def test_assignment_waits_until_the_config_topic_is_read_up_to_it() -> None:
    worker, leaders_topic = FakeWorker(), FakeStore()
    leaders_topic.configure(*configured())
    worker.store.unread = configured()
    worker.store.is_reachable = False
    worker.assign("a", [T0], config_offset=leaders_topic.state.offset)
    assert worker.run() == []
    assert worker.config.is_behind
    worker.rebalances.catch_up()
    assert worker.run() == []
    worker.store.is_reachable = True
    worker.rebalances.catch_up()
    assert worker.run() == ["start a STARTED", "start a-0 1"]
    assert not worker.config.is_behind


def test_rebalance_that_ignored_a_newer_configuration_is_repeated() -> None:
    worker = running()
    old_offset = worker.config.state.offset
    worker.store.configure(ConnectorRecord("b", {"name": "b"}))
    worker.config.apply_snapshot()
    worker.group.rejoin("connector b is new")
    worker.group_calls()
    worker.assign(config_offset=old_offset)
    worker.run()
    assert worker.group_calls() == ["rejoin: the configuration changed during the rebalance"]


def test_tasks_changed_during_the_rebalance_wait_for_the_next_one() -> None:
    worker = running()
    old_offset = worker.config.state.offset
    worker.store.configure(*configured(number=2)[1:])
    worker.assign(config_offset=old_offset)
    # Another worker may still run the old tasks until it has seen the new ones.
    assert worker.run() == ["stop a-0 a-1"]
    worker.assign()
    assert worker.run() == ["start a-0 2", "start a-1 2"]


def test_worker_leaves_the_group_of_a_leader_with_another_config_topic(caplog: pytest.LogCaptureFixture) -> None:
    worker = running(worker_unsync_backoff_ms="3600000")
    worker.assign(config_offset=worker.store.state.offset + 10)
    assert worker.run() == ["stop a-0 a-1", "stop a"]
    assert "reads another config topic" in caplog.text
    worker.rebalances.join_if_due()
    worker.rebalances.join_if_due()
    assert [call for call in worker.group_calls() if not call.startswith("rejoin")] == ["leave"]


def test_mismatch_is_retried_with_backoff_and_logged_when_it_persists(caplog: pytest.LogCaptureFixture) -> None:
    worker = running()
    with caplog.at_level(logging.ERROR):
        for attempt, delay_s in enumerate((0.25, 0.5, 1.0)):
            assert ("repeatedly disagree" in caplog.text) is False, attempt
            worker.assign(error=CONFIG_MISMATCH)
            assert worker.run(delay_s * 0.9) == []
            assert worker.group_calls() == []
            worker.run(delay_s * 0.2)
            assert worker.group_calls() == ["rejoin: the leader had not read the config topic to its end"]
    assert "repeatedly disagree" in caplog.text


# --- leading


def test_leader_takes_over_after_the_rebalance_and_resigns_when_another_leads() -> None:
    worker = running()
    worker.leads.clear()
    worker.assign(leader="me")
    worker.run()
    assert worker.group.current.is_leader
    worker.assign(leader="other")
    worker.run()
    assert worker.leads == ["take over", "resign"]


def test_scheduled_rebalance_is_requested_when_it_is_due() -> None:
    worker = running()
    worker.assign(delay_ms=5000)
    worker.run(4)
    assert worker.group_calls() == []
    worker.run(2)
    assert worker.group_calls() == ["rejoin: the scheduled rebalance is due"]


# --- what the diagnosis counts


def test_rebalances_that_a_new_configuration_causes_are_no_sign_of_trouble() -> None:
    worker = running()
    for number in range(2, 5):
        worker.store.configure(*configured(number=number))
        worker.assign()
        worker.run()
    assert list(worker.group.rebalance_times_ms) == []
    for _ in range(2):
        worker.assign()
        worker.run()
    assert len(worker.group.rebalance_times_ms) == 2
