"""Counts of starts and restarts, from the reports of executors."""

from __future__ import annotations

from tests.unit.worker.executors.conftest import RecordingListener
from worker.model import Stall, State, TaskId
from worker.observability.worker_metrics.start_counts import StartCounts, Startups

T = TaskId("c", 0)


def report(counts: StartCounts, start_id: int, *states: State) -> None:
    for state in states:
        counts.on_task_state(start_id, T, state, None, None)


def test_start_succeeds_or_fails_once() -> None:
    listener = RecordingListener()
    counts = StartCounts(listener)
    report(counts, 1, State.PAUSED, State.RUNNING, State.PAUSED, State.RUNNING, State.FAILED)
    report(counts, 2, State.FAILED)
    counts.on_connector_state(3, "c", State.RUNNING, None, None)
    figures = counts.figures({"c", T})
    assert (figures.connectors, figures.tasks) == (Startups(1, 0), Startups(1, 1))
    assert figures.restarts == {"c": 0, T: 1}
    assert listener.reported(2, "c-0") == ["FAILED"]


def test_crash_of_the_process_counts_as_a_restart() -> None:
    counts = StartCounts(RecordingListener())
    report(counts, 1, State.RUNNING, State.RESTARTING, State.RUNNING)
    assert counts.figures({T}).restarts == {T: 1}
    assert counts.figures({T}).tasks == Startups(2, 0)


def test_late_report_of_an_earlier_start_does_not_count() -> None:
    counts = StartCounts(RecordingListener())
    report(counts, 2, State.RUNNING)
    report(counts, 1, State.FAILED)
    assert counts.figures({T}).tasks == Startups(1, 0)
    assert counts.figures({T}).restarts == {T: 0}


def test_instances_that_are_elsewhere_are_forgotten() -> None:
    counts = StartCounts(RecordingListener())
    report(counts, 1, State.RUNNING)
    report(counts, 2, State.RUNNING)
    assert counts.figures(set()).restarts == {}
    assert counts.figures({T}).restarts == {}


def test_stall_of_a_restart_that_hangs_is_known_before_its_first_state() -> None:
    counts = StartCounts(RecordingListener())
    report(counts, 1, State.RUNNING)
    counts.on_stall(2, T, Stall("call", "preparing", 1, "it has not returned"))
    assert counts.figures({T}).stalls == {T: "call"}
    report(counts, 1, State.UNASSIGNED)
    assert counts.figures({T}).stalls == {T: "call"}
    report(counts, 2, State.RUNNING)
    assert (counts.figures({T}).stalls, counts.figures({T}).restarts) == ({}, {T: 1})
    assert counts.figures({T}).tasks == Startups(2, 0)


def test_stalls_are_known_until_the_task_moves_or_starts_again() -> None:
    counts = StartCounts(RecordingListener())
    stall = Stall("call", "polling", 1, "poll() has not returned")
    counts.on_stall(3, "c", stall)
    report(counts, 1, State.RUNNING)
    counts.on_stall(1, T, stall)
    assert counts.figures({"c", T}).stalls == {"c": "call", T: "call"}
    counts.on_stall(3, "c", None)
    report(counts, 2, State.RUNNING)
    counts.on_stall(1, T, stall)  # of the earlier start
    assert counts.figures({"c", T}).stalls == {}
    assert counts.figures({"c", T}).restarts == {"c": 0, T: 1}
