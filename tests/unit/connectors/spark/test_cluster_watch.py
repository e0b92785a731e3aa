"""What happens to jobs that wait for executors of a cluster."""

from __future__ import annotations

import socket
from contextlib import closing
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from connect.errors import ConnectError, RetriableError
from connectors.spark.errors import explain
from connectors.spark.session.cluster_watch import ClusterJudge, MasterLink, Situation, Verdict
from rest.polling import wait_until
from tests.support.waiting import WAIT_S

MASTER = "spark://lake:7077"


@pytest.fixture
def judge() -> ClusterJudge:
    return ClusterJudge(MASTER, 60.0, "2g")


def test_jobs_without_executors_are_cancelled_after_the_timeout_with_the_remedy(judge: ClusterJudge) -> None:
    waiting = Situation(jobs=(3, 4))
    assert judge.judge(waiting, 0.0) == Verdict()
    assert judge.judge(waiting, 59.0) == Verdict()
    verdict = judge.judge(waiting, 60.0)
    assert verdict.cancel == (3, 4)
    assert f"{MASTER} has given it no executor for 60 s (spark.executors.timeout.ms): start workers" in verdict.reason
    assert "2g of free memory" in verdict.reason
    assert judge.judge(Situation(jobs=(5,)), 61.0) == Verdict(), "the next attempt waits as long"


@pytest.mark.parametrize("between", [Situation(jobs=(3,), executors=1), Situation()])
def test_time_counts_only_while_jobs_wait_without_executors(judge: ClusterJudge, between: Situation) -> None:
    judge.judge(Situation(jobs=(3,)), 0.0)
    assert judge.judge(between, 59.0) == Verdict()
    assert judge.judge(Situation(jobs=(3,)), 60.0) == Verdict()


def test_master_that_is_down_is_named(judge: ClusterJudge) -> None:
    down = Situation(jobs=(3,), master_answers=False, master_was_lost=True)
    judge.judge(down, 0.0)
    assert not judge.judge(down, 30.0).end, "a new JVM could not reach the master either"
    assert f"no Spark master answers at {MASTER}" in judge.judge(down, 60.0).reason


def test_application_that_a_restarted_master_does_not_know_is_ended(judge: ClusterJudge) -> None:
    back = Situation(jobs=(3,), master_was_lost=True)
    assert judge.judge(back, 0.0) == Verdict()
    assert judge.judge(back, 10.0) == Verdict(), "a master that has its state needs some seconds"
    verdict = judge.judge(back, 15.0)
    assert verdict.end
    assert verdict.reason == f"{MASTER} was restarted and does not know the application any more"


def test_restarted_master_is_noticed_although_jobs_are_cancelled_sooner() -> None:
    judge = ClusterJudge(MASTER, 2.0, "1g")
    back, between = Situation(jobs=(3,), master_was_lost=True), Situation(master_was_lost=True)
    verdicts = [judge.judge(between if second % 5 == 4 else back, float(second)) for second in range(16)]
    assert any(verdict.cancel for verdict in verdicts)
    assert verdicts[-1].end


def test_application_whose_executors_outlived_the_master_continues(judge: ClusterJudge) -> None:
    for second in range(100):
        assert judge.judge(Situation(jobs=(3,), executors=2, master_was_lost=True), float(second)) == Verdict()


def test_ended_application_ends_the_jvm_after_its_calls_have_returned(judge: ClusterJudge) -> None:
    assert not judge.judge(Situation(has_ended=True), 0.0).end
    assert judge.judge(Situation(has_ended=True), 1.0).end


def test_lost_master_is_noticed_even_if_it_is_back_at_once() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = server.getsockname()
        link = MasterLink([address])
        assert link.answers()
        accepted, _ = server.accept()
        assert link.answers()
        assert not link.was_lost
        accepted.close()
        assert wait_until(lambda: link.answers() and link.was_lost, WAIT_S)
    link.close()


def test_master_that_ended_does_not_answer() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        link = MasterLink([server.getsockname()])
        assert link.answers()
        server.accept()[0].close()
    assert wait_until(lambda: not link.answers(), WAIT_S)
    assert link.was_lost
    link.close()


def test_clusters_without_a_standalone_master_have_no_link() -> None:
    link = MasterLink([])
    assert link.answers()
    assert not link.was_lost


def test_cancelled_job_is_retried_and_an_ended_application_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests before this one may have a local Spark, which no cluster can have ended.
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(master=MASTER))
    cancelled = explain(Exception("[SPARK_JOB_CANCELLED] Job 3 cancelled because of this"), "table t")
    assert isinstance(cancelled, RetriableError)
    assert cancelled.message == "table t: [SPARK_JOB_CANCELLED] Job 3 cancelled because of this"
    ended = explain(Exception("Job 3 cancelled because SparkContext was shut down"), "table t")
    assert type(ended) is ConnectError
    assert "the cluster has ended the worker's application" in ended.message
