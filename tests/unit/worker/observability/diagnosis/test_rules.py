"""The rules of the diagnosis over facts that the test gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from worker.model import ErrorCounts, Stall, TaskProgress
from worker.observability.diagnosis.problem import Problem
from worker.observability.diagnosis.rules import diagnose
from worker.observability.diagnosis.snapshot import (
    ClusterSnapshot,
    ConnectorSnapshot,
    InstanceFacts,
    KafkaFacts,
    TopicFacts,
    VerificationFacts,
)

_NOW = 1_800_000_000_000


def task(number: int | None = 0, state: str = "RUNNING", **more: Any) -> InstanceFacts:
    return InstanceFacts(number, state, "w:8083", **more)


def connector(
    *tasks: InstanceFacts,
    name: str = "c",
    type: str = "sink",
    state: str = "RUNNING",
    config: Mapping[str, str] | None = None,
    **more: Any,
) -> ConnectorSnapshot:
    return ConnectorSnapshot(name, type, config or {}, task(None, state, **more), tasks or (task(),))


def find(*connectors: ConnectorSnapshot, **facts: Any) -> list[Problem]:
    return diagnose(ClusterSnapshot(connectors, _NOW, **facts))


def codes(problems: Sequence[Problem]) -> list[tuple[str, str]]:
    return [(one.name, one.finding.code) for one in problems]


def test_cluster_without_trouble_has_no_problems() -> None:
    kafka = KafkaFacts({"t": TopicFacts(3, 100)})
    assert find(connector(config={"topics": "t"}), health="healthy", kafka=kafka) == []


def test_failed_task_has_cause_fix_and_command() -> None:
    trace = (
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n"
        'Caused by: org.apache.kafka.connect.errors.DataException: JsonConverter with schemas.enable requires "schema" and '
        '"payload" fields and may not contain additional fields.\n\tat org...'
    )
    (problem,) = find(connector(task(1, "FAILED", trace=trace, since_ms=5)))
    assert (problem.name, problem.finding.code, problem.finding.path, problem.since_ms) == (
        "c/1", "schemas-enable", "value.converter.schemas.enable", 5,
    )  # fmt: skip
    assert "task 1 has FAILED" in problem.finding.message
    assert "JsonConverter with schemas.enable requires" in problem.finding.message
    assert problem.command == "sluice describe c"


@pytest.mark.parametrize(
    ("code", "trace"),
    [
        ("plugin-missing", "ConnectException: Failed to find any class that implements Connector and which name matches X"),
        ("not-registry-format", "SerializationException: Unknown magic byte!"),
        ("wrong-converter", "DataException: Converting byte[] to Kafka Connect data failed due to serialization error: "),
        ("registry-unreachable", "The schema registry at http://r:1 does not answer (request: look up schema 1): refused"),
        ("record-too-large", "org.apache.kafka.common.errors.RecordTooLargeException: The message is 2000000 bytes"),
        ("topic-missing", "UnknownTopicOrPartitionException: This server does not host this topic-partition."),
        ("kafka-unauthorized", "TopicAuthorizationException: Not authorized to access topics: [orders]"),
        ("kafka-authentication", "SaslAuthenticationException: Authentication failed: Invalid username or password"),
        ("kafka-authentication", "writing: the broker at b:9092 rejects authentication: no"),
        ("tls-failed", "SslAuthenticationException: SSL handshake failed"),
        ("broker-unreachable", "x: no Kafka broker answers at b:9092 (_TRANSPORT). Check bootstrap.servers"),
        ("offset-out-of-range", "OffsetOutOfRangeException: Fetch position out of range"),
        ("slot-active", 'psycopg.errors.ObjectInUse: replication slot "s" is active for PID 12'),
        ("slot-missing", 'ERROR: replication slot "s" does not exist'),
        ("slot-invalid", 'ERROR: can no longer get changes from replication slot "s"'),
        ("slots-exhausted", "all replication slots are in use, so s cannot be created"),
        ("publication-missing", 'ERROR: publication "p" does not exist'),
        ("wal-level", "PostgreSQL at h:5432 has wal_level=replica; change data capture needs wal_level=logical"),
        ("replica-identity", "ALTER TABLE t REPLICA IDENTITY FULL makes the server send it"),
        ("database-authentication", 'FATAL: password authentication failed for user "u"'),
        ("permission-denied", "ERROR: permission denied for table orders"),
        ("table-missing", 'ERROR: relation "orders" does not exist'),
        ("disk-full", "OSError: [Errno 28] No space left on device"),
        ("host-unreachable", "connection to server at 10.0.0.1 failed: Connection refused"),
        ("executor-crashed", "The process of connector c exited with code 3: code of a connector ended the process"),
        ("out-of-memory", "used 900 MiB of memory, and task.memory.limit.mb is 512: it was killed"),
        ("failed", "ValueError: something else"),
    ],
)  # fmt: skip
def test_failures_are_classified(code: str, trace: str) -> None:
    assert codes(find(connector(task(0, "FAILED", trace=trace)))) == [("c/0", code)]


def test_stall_names_phase_and_command() -> None:
    stall = Stall("call", "putting", _NOW - 60_000, "put() has not returned")
    (problem,) = find(connector(task(2, stalled=stall)))
    assert problem.finding.code == "stalled-call"
    assert problem.finding.message == "task 2 is RUNNING and does not move: put() has not returned"
    assert (problem.command, problem.since_ms) == ("sluice restart c --task 2", _NOW - 60_000)
    retries = Stall("retries", "idle", 1, "put() keeps failing and is repeated: connection refused")
    (problem,) = find(connector(task(0, stalled=retries)))
    assert problem.cause is not None
    assert "firewall" in problem.cause


def test_unassigned_counts_after_a_minute_or_if_nobody_knows_since_when() -> None:
    assert find(connector(task(0, "UNASSIGNED", since_ms=_NOW - 1000))) == []
    assert codes(find(connector(task(0, "UNASSIGNED", since_ms=_NOW - 61_000)))) == [("c", "unassigned")]
    assert codes(find(connector(task(0, "UNASSIGNED")))) == [("c", "unassigned")]


def test_paused_connector_is_a_note_and_one_without_tasks_a_warning() -> None:
    (paused,) = find(connector(state="PAUSED", since_ms=7))
    assert (paused.finding.code, paused.is_problem, paused.since_ms) == ("paused", False, 7)
    running = ConnectorSnapshot("c", "source", {}, task(None), ())
    assert codes(find(running)) == [("c", "no-tasks")]
    assert codes(find(ConnectorSnapshot("c", "source", {}, None, ()))) == [("c", "no-status")]


def test_topics_of_sinks_are_compared_with_kafka() -> None:
    kafka = KafkaFacts({"t": TopicFacts(1, 0), "dlq": TopicFacts(1, 4)}, {"c": ["other-app"]})
    config = {"topics": "t", "errors.deadletterqueue.topic.name": "dlq"}
    found = find(connector(task(0), task(1), config=config), kafka=kafka)
    assert codes(found) == [
        ("c", "group-shared"), ("c", "dead-letters"), ("c", "more-tasks-than-partitions"), ("c", "topics-empty"),
    ]  # fmt: skip
    assert codes(find(connector(config={"topics": "t, x"}), kafka=KafkaFacts({"t": TopicFacts(1, 5)}))) == [
        ("c", "topic-missing")
    ]
    assert codes(find(connector(config={"topics.regex": "orders-.*"}), kafka=KafkaFacts({}))) == [("c", "topic-missing")]
    # A regular expression of Java, which Python's re rejects or reads otherwise.
    java = {"topics.regex": r"\Qorders.\E\p{Lower}++"}
    assert find(connector(config=java), kafka=KafkaFacts({"orders.a": TopicFacts(1, 5)})) == []
    assert codes(find(connector(config=java), kafka=KafkaFacts({"orders-a": TopicFacts(1, 5)}))) == [("c", "topic-missing")]
    assert find(connector(config={"topics.regex": "orders-("}), kafka=KafkaFacts({})) == []
    elsewhere = {"topics": "x", "consumer.override.bootstrap.servers": "other:9092"}
    assert find(connector(config=elsewhere), kafka=KafkaFacts({})) == []


def test_worker_without_broker_and_rebalance_loops_are_reported() -> None:
    found = find(
        connector(), health="unhealthy", health_message="stuck", kafka=KafkaFacts(error="no broker"),
        rebalance_times_ms=[_NOW - 1000 * number for number in range(6)],
    )  # fmt: skip
    assert codes(found) == [("worker", "broker-unreachable"), ("worker", "worker-unhealthy"), ("worker", "rebalance-loop")]


def test_live_figures_of_sources_and_errors_count() -> None:
    slot = {"wal_status": "lost", "retained_bytes": 5_000_000_000}
    details = {"phase": "reconnecting", "slot": slot, "problems": [{"code": "table_dropped", "message": "table t was dropped"}]}
    errors = ErrorCounts(skipped=3, dead_letters=2, last_error_ms=_NOW)
    progress = TaskProgress(details=details, errors=errors)
    assert codes(find(connector(task(0, progress=progress), type="source"))) == [
        ("c/0", "slot-invalid"), ("c/0", "source-waits"), ("c/0", "records-skipped"), ("c/0", "table-dropped"),
        ("c/0", "wal-retained"),
    ]  # fmt: skip
    old = TaskProgress(errors=ErrorCounts(skipped=3, last_error_ms=1))
    assert find(connector(task(0, progress=old))) == []


def test_table_that_is_not_committed_is_found_while_put_goes_on() -> None:
    tables = {"orders": {"pending": 3, "last_commit_ms": _NOW - 400_000}, "quiet": {"pending": 0, "last_commit_ms": 1}}
    waits = task(0, progress=TaskProgress(details={"tables": tables}))
    (problem,) = find(connector(waits))
    assert (problem.finding.code, problem.since_ms) == ("table-commit-late", _NOW - 400_000)
    assert "3 records for table orders" in problem.finding.message
    assert find(connector(waits, config={"commit.interval.ms": "300000"})) == []


def test_two_connectors_that_share_a_slot_or_group_are_both_named() -> None:
    slot = {"slot.name": "s", "database.hostname": "h"}
    sources = [connector(name=name, type="source", config=slot) for name in "ab"]
    assert codes(find(*sources)) == [("a", "slot-shared"), ("b", "slot-shared")]
    sinks = [connector(name=name, config={"consumer.override.group.id": "g"}) for name in "ab"]
    assert codes(find(*sinks)) == [("a", "group-shared"), ("b", "group-shared")]
    dlq = {"topics": "t,dlq", "errors.deadletterqueue.topic.name": "dlq"}
    assert codes(find(connector(config=dlq))) == [("c", "reads-own-dlq")]


def test_missing_plugin_is_found_only_for_what_does_not_run() -> None:
    config = {"connector.class": "com.example.Missing"}
    plugins = frozenset({"FileStreamSource"})
    assert ("c", "plugin-missing") in codes(
        find(connector(task(0, "UNASSIGNED"), state="UNASSIGNED", config=config), plugins=plugins)
    )
    assert find(connector(config=config), plugins=plugins) == []


def test_restart_loops_are_reported_with_the_next_restart() -> None:
    (problem,) = find(connector(task(0, restarts=4, next_restart_ms=_NOW)))
    assert problem.finding.message.endswith("restarted 4 times and keeps failing; next at 2027-01-15T08:00:00Z")


def test_scope_of_a_worker_has_only_live_figures_of_its_tasks() -> None:
    stall = Stall("call", "putting", 1, "put() has not returned")
    other = InstanceFacts(1, "RUNNING", "other:1", stalled=stall)
    found = find(connector(task(0, stalled=stall), other, task(2, "FAILED")), only_worker="w:8083")
    assert codes(found) == [("c/0", "stalled-call")]


def test_problems_survive_json() -> None:
    (problem,) = find(connector(task(0, "FAILED", trace="boom")))
    assert Problem.of_json(problem.as_json()) == problem
    assert problem.masked(lambda text: text.replace("boom", "****")).finding.message == "task 0 has FAILED: ****"


def test_last_verification_is_reported_if_rows_differed_or_it_failed() -> None:
    facts = VerificationFacts(3, ("items",), 5, "the database does not answer", 7, "a:8083", 60_000)
    differ, failed = sorted(find(replace(connector(), verification=facts)), key=lambda one: one.finding.code)
    assert (differ.finding.code, differ.since_ms, differ.command) == ("tables-differ", 5, "sluice verify c")
    assert (failed.finding.code, failed.since_ms) == ("verification-failed", 7)
    assert "3 rows differed" in differ.finding.message
    assert "the target has no table items" in differ.finding.message
    assert differ.cause == "the table was dropped or renamed, or records were skipped"
    assert "on worker a:8083, failed: the database does not answer" in failed.finding.message
    assert "the next run is due at 1970-01-01T00:01:00Z" in str(failed.finding.suggestion)
    assert find(replace(connector(), verification=VerificationFacts(0, (), 5))) == []
    (differ,) = find(replace(connector(), verification=VerificationFacts(3, (), 5)))
    assert differ.cause == "another writer has changed the tables, or records were skipped"
