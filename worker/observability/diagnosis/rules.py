"""The rules of the diagnosis. Each is a pure function of a snapshot that yields problems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

from connect.config.finding import Finding, Severity
from worker.observability.diagnosis.error_causes import find_cause, reason_of
from worker.observability.diagnosis.problem import Problem, sort_problems
from worker.observability.diagnosis.snapshot import ClusterSnapshot, ConnectorSnapshot, InstanceFacts
from worker.observability.stalls import instant

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
_UNASSIGNED_MS = 60_000
_REBALANCES, _REBALANCES_MS = 5, 600_000
_RESTARTS = 3
_RECENT_ERROR_MS = 3_600_000
_TABLE_COMMIT_MS = 300_000
_WAL_BYTES = 1_000_000_000
_WAITING_PHASES = {
    "reconnecting": "the source has lost its connection to the database and tries again",
    "waiting for slot": "the replication slot is in use, and the source waits until it is free",
}
_FIXES = {
    "executor": "task.isolation=dedicated keeps a connector that blocks its process away from the others.",
    "offsets": "After a crash, records since then are read again. See the log, and what the sink or broker waits for.",
    "pending": "See the log, and check the database, the store, or the catalog that the connector waits for.",
    "lag": "Check that the consumer may read the topics, and why the sink has paused.",
}
_CALL_FIX = "Check the system that the connector talks to; a restart interrupts the call or abandons the task."

Rule = Callable[[ClusterSnapshot, ConnectorSnapshot], Iterator[Problem]]


def diagnose(cluster: ClusterSnapshot) -> list[Problem]:
    """Returns what is wrong in a cluster: errors first, then warnings and notes."""
    problems = list(_worker(cluster)) if cluster.only_worker is None else []
    for connector in cluster.connectors:
        for rule in _RULES if cluster.only_worker is None else _LOCAL_RULES:
            problems += rule(cluster, connector)
    if cluster.only_worker is None:
        problems += _shared(cluster)
    return sort_problems(problems)


def _problem(
    connector: ConnectorSnapshot | None,
    code: str,
    severity: Severity,
    message: str,
    cause: str | None = None,
    fix: str | None = None,
    command: str | None = None,
    *,
    task: int | None = None,
    key: str | None = None,
    since_ms: int | None = None,
) -> Problem:
    name = None if connector is None else connector.name
    shown = None if command is None else command.replace("{name}", name or "")
    return Problem(Finding(code, severity, message, key, fix), name, task, cause, shown, since_ms)


# --- the worker


def _worker(cluster: ClusterSnapshot) -> Iterator[Problem]:
    if cluster.health not in (None, "healthy"):
        severity = _WARNING if cluster.health == "starting" else _ERROR
        yield _problem(
            None, f"worker-{cluster.health}", severity, f"the worker is {cluster.health}: {cluster.health_message}",
            "it waits for Kafka, for its internal topics, or for a rebalance", "See the worker's log.",
        )  # fmt: skip
    kafka = cluster.kafka
    if kafka is not None and kafka.error is not None:
        yield _problem(
            None, "broker-unreachable", _ERROR, f"the worker cannot ask Kafka: {kafka.error}",
            "brokers are down, or bootstrap.servers, security.protocol, or credentials are wrong",
            "Check bootstrap.servers of the worker, and that the brokers run.", "sluice doctor", key="bootstrap.servers",
        )  # fmt: skip
    recent = [at for at in cluster.rebalance_times_ms if cluster.at_ms - at <= _REBALANCES_MS]
    if len(recent) >= _REBALANCES:
        yield _problem(
            None, "rebalance-loop", _WARNING,
            f"the worker group has rebalanced {len(recent)} times in 10 minutes without a new configuration",
            "workers leave and join: they crash, or freeze longer than session.timeout.ms",
            "Look for workers that restart, and for long pauses in their logs; raise session.timeout.ms on busy machines.",
            since_ms=min(recent),
        )  # fmt: skip


# --- connectors and tasks


def _instances(connector: ConnectorSnapshot) -> list[InstanceFacts]:
    return [*([] if connector.instance is None else [connector.instance]), *connector.tasks]


def _failed(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    for one in _instances(connector):
        if one.state != "FAILED":
            continue
        trace = one.trace or ""
        what = "the connector" if one.task is None else f"task {one.task}"
        found = find_cause(trace)
        make = partial(_problem, connector, task=one.task, since_ms=one.since_ms)
        if found is None:
            message = f"{what} has FAILED: {reason_of(trace) or 'no trace'}"
            yield make("failed", _ERROR, message, None, "See the whole trace.", "sluice describe {name}")
            continue
        cause, groups = found
        message = f"{what} has FAILED: {cause.message.format(name=connector.name, **groups)}: {reason_of(trace)}"
        yield make(cause.code, _ERROR, message, cause.cause, cause.fix, cause.command, key=cause.key)


def _restarting(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    for one in _instances(connector):
        what = "the connector" if one.task is None else f"task {one.task}"
        if one.restarts >= _RESTARTS:
            after = "" if one.next_restart_ms is None else f"; next at {instant(one.next_restart_ms)}"
            yield _problem(
                connector, "restart-loop", _WARNING, f"{what} was restarted {one.restarts} times and keeps failing{after}",
                "the cause of the failure is still there", "Remove the cause; errors.restart.max.attempts limits restarts.",
                "sluice describe {name}", task=one.task, key="errors.restart.max.attempts",
            )  # fmt: skip
        if one.state == "RESTARTING" and _lasts(one, cluster, _UNASSIGNED_MS):
            yield _problem(
                connector, "restarting-long", _WARNING, f"{what} has been RESTARTING for more than a minute",
                "it does not stop, or its process does not start", "See the worker's log.", task=one.task, since_ms=one.since_ms,
            )  # fmt: skip


def _unassigned(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    found = [one for one in _instances(connector) if one.state == "UNASSIGNED" and one.stalled is None]
    found = [one for one in found if one.since_ms is None or _lasts(one, cluster, _UNASSIGNED_MS)]
    if not found:
        return
    what = ", ".join("the connector" if one.task is None else f"task {one.task}" for one in found)
    since = [one.since_ms for one in found if one.since_ms is not None]
    lasting = " for more than a minute" if since else ""
    yield _problem(
        connector, "unassigned", _WARNING, f"{what} of {connector.name} is UNASSIGNED{lasting}",
        "its worker left: another one takes over after scheduled.rebalance.max.delay.ms, if there is one",
        "Check that enough workers run; ask again after scheduled.rebalance.max.delay.ms.", "sluice get",
        since_ms=min(since) if since else None,
    )  # fmt: skip


def _lasts(one: InstanceFacts, cluster: ClusterSnapshot, limit_ms: int) -> bool:
    return one.since_ms is not None and cluster.at_ms - one.since_ms > limit_ms


def _stalled(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    for one in _instances(connector):
        stall = one.stalled
        if stall is None or cluster.only_worker not in (None, one.worker_id):
            continue
        what = "the connector" if one.task is None else f"task {one.task}"
        message = f"{what} is {one.state} and does not move: {stall.message}"
        found = find_cause(stall.message)
        cause, fix = (found[0].cause, found[0].fix) if found is not None else (None, _FIXES.get(stall.kind, _CALL_FIX))
        yield _problem(
            connector, f"stalled-{stall.kind}", _ERROR, message, cause or _stall_cause(stall.kind, stall.phase), fix,
            "sluice restart {name}" if one.task is None else f"sluice restart {{name}} --task {one.task}",
            task=one.task, since_ms=stall.since_ms,
        )  # fmt: skip


def _stall_cause(kind: str, phase: str) -> str:
    if kind == "call" and phase in ("sending", "flushing", "committing"):
        return "Kafka does not acknowledge: brokers are down, or too few replicas are in sync"
    if kind == "call":
        return "the system that the connector talks to does not answer, and the call has no timeout"
    if kind == "pending":
        return "the system that the connector writes to or reads from does not answer, or offsets are not stored"
    if kind == "lag":
        return "the consumer cannot fetch the records"
    return "see the message"


def _silent_source(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    """RUNNING by Connect's state, and waiting for its database."""
    for task in connector.tasks:
        details = {} if task.progress is None else task.progress.details
        if task.state == "RUNNING" and (text := _WAITING_PHASES.get(str(details.get("phase")))) is not None:
            yield _problem(
                connector, "source-waits", _ERROR, f"task {task.task} is RUNNING, but {text}",
                "the database is down or restarts, or another connection uses the slot",
                "Check the database; the worker's log has its last error.", task=task.task,
            )  # fmt: skip
        problems = details.get("problems")
        for one in problems if isinstance(problems, list) else ():
            if isinstance(one, dict) and "code" in one and "message" in one:
                code = str(one["code"]).replace("_", "-")
                yield _problem(
                    connector, code, _WARNING, f"task {task.task}: {one['message']}", "found by the source in its database", None,
                    "sluice describe {name}", task=task.task,
                )  # fmt: skip


def _slot(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    for task in connector.tasks:
        slot = None if task.progress is None else task.progress.details.get("slot")
        if not isinstance(slot, dict):
            continue
        if slot.get("wal_status") in ("unreserved", "lost"):
            lost = slot["wal_status"] == "lost"
            yield _problem(
                connector, "slot-invalid" if lost else "slot-at-risk", _ERROR if lost else _WARNING,
                f"the replication slot of task {task.task} "
                + ("has lost WAL that it needs" if lost else "may lose WAL that it needs at the server's next checkpoint"),
                "the slot is further behind than max_slot_wal_keep_size",
                "Raise max_slot_wal_keep_size, and let the connector catch up.", task=task.task, key="slot.name",
            )  # fmt: skip
        retained = slot.get("retained_bytes")
        if isinstance(retained, int) and retained > _WAL_BYTES:
            yield _problem(
                connector, "wal-retained", _WARNING,
                f"the replication slot of task {task.task} retains {retained / 1e9:.1f} GB of WAL on the database's disk",
                "the connector is paused or behind, a long transaction is open, or only tables change that are not captured",
                "Resume it, end long transactions, or set heartbeat.interval.ms.", task=task.task, key="heartbeat.interval.ms",
            )  # fmt: skip


def _table_commits(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    """Lake tables whose commits do not end: put() goes on meanwhile."""
    interval_ms = max(_TABLE_COMMIT_MS, 2 * _number(connector.text("commit.interval.ms")))
    for task in connector.tasks:
        tables = None if task.progress is None else task.progress.details.get("tables")
        for name, table in tables.items() if isinstance(tables, dict) else ():
            match table:
                case {"pending": int(pending), "last_commit_ms": int(last_ms)} if (
                    pending and cluster.at_ms - last_ms > interval_ms
                ):
                    yield _problem(
                        connector, "table-commit-late", _ERROR,
                        f"task {task.task} has {pending} records for table {name}, last committed at {instant(last_ms)}",
                        "a commit does not end: the store, the catalog, or Spark does not answer, or another writer conflicts",
                        "See the worker's log, and check the store and the catalog.",
                        f"sluice restart {{name}} --task {task.task}", task=task.task, key="commit.interval.ms", since_ms=last_ms,
                    )  # fmt: skip


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _errant_records(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    for task in connector.tasks:
        errors = None if task.progress is None else task.progress.errors
        if errors is None:
            continue
        if errors.dead_letter_failures:
            yield _problem(
                connector, "dlq-unwritable", _ERROR,
                f"task {task.task} could not write {errors.dead_letter_failures} failed records to the dead letter queue",
                "the topic does not exist, or the producer may not write to it",
                "Create the topic, or check errors.deadletterqueue.topic.replication.factor.", task=task.task,
                key="errors.deadletterqueue.topic.name", since_ms=errors.last_error_ms,
            )  # fmt: skip
        elif errors.skipped and errors.last_error_ms and cluster.at_ms - errors.last_error_ms <= _RECENT_ERROR_MS:
            where = f", {errors.dead_letters} of them to the dead letter queue" if errors.dead_letters else ""
            yield _problem(
                connector, "records-skipped", _WARNING, f"task {task.task} has skipped {errors.skipped} records{where}",
                "records cannot be converted, transformed, or written, and errors.tolerance=all skips them",
                "Look at the records; errors.log.enable=true logs each error.", "sluice describe {name}", task=task.task,
                key="errors.tolerance", since_ms=errors.last_error_ms,
            )  # fmt: skip


def _target_state(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    state = connector.state
    if state in ("PAUSED", "STOPPED"):
        assert connector.instance is not None
        yield _problem(
            connector, state.lower(), _NOTE, f"the connector is {state}", "somebody asked for it",
            "Resume it if it was forgotten; meanwhile records and WAL pile up.", "sluice resume {name}",
            since_ms=connector.instance.since_ms,
        )  # fmt: skip
    elif state == "RUNNING" and not connector.tasks:
        yield _problem(
            connector, "no-tasks", _WARNING, "the connector is RUNNING and has no tasks",
            "it found nothing to do (no table matches), it is still starting, or its task configs could not be stored",
            "Check what selects its tables or topics, and the worker's log.", "sluice describe {name}",
        )  # fmt: skip
    elif state is None:
        yield _problem(
            connector, "no-status", _WARNING, "the connector has no status", "no worker runs it yet, or its status was lost",
            "Wait for the rebalance, or restart it.", "sluice restart {name}",
        )  # fmt: skip


def _plugin(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    name = connector.text("connector.class")
    if not name or cluster.plugins is None or ":" in name or connector.state not in ("UNASSIGNED", None):
        return
    simple = name.rpartition(".")[2]
    if not {name, simple, simple.removesuffix("Connector")} & cluster.plugins:
        yield _problem(
            connector, "plugin-missing", _ERROR, f"this worker has no connector class {name}",
            "the plugin is not installed here, or its name is misspelled", "Install it on every worker, or correct the name.",
            "sluice plugins", key="connector.class",
        )  # fmt: skip


def _topics(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    """What Kafka says about the topics of a sink."""
    kafka = cluster.kafka
    if kafka is None or kafka.error is not None or connector.type != "sink" or connector.reads_other_cluster:
        return
    matching = connector.topics_in(kafka.topics)
    topics = matching or []
    missing = [topic for topic in topics if topic not in kafka.topics]
    for topic in missing:
        yield _problem(
            connector, "topic-missing", _WARNING, f"topic {topic} of the sink does not exist",
            "its name is misspelled, or its producer has not written yet", "Correct topics, or create the topic.",
            f"sluice topic create {topic}", key="topics",
        )  # fmt: skip
    found = [topic for topic in topics if topic in kafka.topics]
    if matching == [] and connector.text("topics.regex"):
        yield _problem(
            connector, "topic-missing", _WARNING, f"no topic matches topics.regex={connector.text('topics.regex')}",
            "the expression must match whole names", "Correct topics.regex.", "sluice topic ls", key="topics.regex",
        )  # fmt: skip
    partitions = sum(kafka.topics[topic].partitions for topic in found)
    running = [task for task in connector.tasks if task.state == "RUNNING"]
    if found and not missing and len(connector.tasks) > partitions:
        yield _problem(
            connector, "more-tasks-than-partitions", _WARNING,
            f"{len(connector.tasks)} tasks share {partitions} partitions: {len(connector.tasks) - partitions} have nothing to do",
            "a partition is read by one task", f"Set tasks.max={partitions}, or add partitions.", "sluice describe {name}",
            key="tasks.max",
        )  # fmt: skip
    counts = [kafka.topics[topic].records for topic in found]
    if running and found and all(count == 0 for count in counts):
        empty = ", ".join(found[:3])
        yield _problem(
            connector, "topics-empty", _NOTE, f"the sink has nothing to read: empty topics {empty}",
            "nothing was written, retention has deleted it, or the name is that of another topic", "Check topics.",
            f"sluice topic describe {found[0]}", key="topics",
        )  # fmt: skip
    queue = connector.text("errors.deadletterqueue.topic.name")
    letters = kafka.topics[queue].records if queue in kafka.topics else None
    if letters:
        yield _problem(
            connector, "dead-letters", _WARNING, f"the dead letter queue {queue} holds about {letters} records",
            "records failed and were written to the queue", "Look at them, correct the cause, and replay them.",
            f"sluice dlq group {connector.name}", key="errors.deadletterqueue.topic.name",
        )  # fmt: skip
    if members := kafka.foreign_members.get(connector.name):
        yield _problem(
            connector, "group-shared", _ERROR,
            f"other consumers are members of its consumer group and take partitions: {', '.join(members[:3])}",
            "another program or Connect cluster uses the same group ID", "Give each its own group (consumer.override.group.id).",
            f"sluice group describe connect-{connector.name}", key="consumer.override.group.id",
        )  # fmt: skip


def _config(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    """Settings that harm a connector that runs."""
    queue = connector.text("errors.deadletterqueue.topic.name")
    if queue and queue in connector.names("topics"):
        yield _problem(
            connector, "reads-own-dlq", _ERROR, f"the sink reads its own dead letter queue {queue}",
            "each failed record fails again, without end", "Remove it from topics.", "sluice describe {name}", key="topics",
        )  # fmt: skip
    is_running = any(task.state == "RUNNING" for task in connector.tasks)
    if not cluster.is_sluice and connector.type == "sink" and connector.has_offsets is False and is_running:
        yield _problem(
            connector, "no-offsets", _NOTE, "the sink has committed no offsets yet",
            "it is new, its topics are empty or misspelled, or it does not get through its first batch", "Check topics.",
            "sluice describe {name}", key="topics",
        )  # fmt: skip


def _shared(cluster: ClusterSnapshot) -> Iterator[Problem]:
    """What two connectors must not share."""
    slots: dict[tuple[str, ...], list[ConnectorSnapshot]] = defaultdict(list)
    groups: dict[str, list[ConnectorSnapshot]] = defaultdict(list)
    for one in cluster.connectors:
        if one.type == "source" and one.text("slot.name") and one.text("database.hostname"):
            slots[one.text("database.hostname"), one.text("database.port") or "5432", one.text("slot.name")].append(one)
        if one.type == "sink" and (group := one.text("consumer.override.group.id")):
            groups[group].append(one)
    for key, owners in slots.items():
        for one in owners if len(owners) > 1 else ():
            others = ", ".join(other.name for other in owners if other is not one)
            yield _problem(
                one, "slot-shared", _ERROR, f"replication slot {key[-1]} is used by {others} too",
                "a slot serves one connection", "Set another slot.name for each.", "sluice describe {name}", key="slot.name",
            )  # fmt: skip
    for group, owners in groups.items():
        for one in owners if len(owners) > 1 else ():
            others = ", ".join(other.name for other in owners if other is not one)
            yield _problem(
                one, "group-shared", _ERROR, f"consumer group {group} is used by {others} too: each gets a part of the records",
                "consumer.override.group.id is the same", "Set another group for each.", "sluice describe {name}",
                key="consumer.override.group.id",
            )  # fmt: skip


def _verification(cluster: ClusterSnapshot, connector: ConnectorSnapshot) -> Iterator[Problem]:
    found = connector.verification
    if found.error is not None:
        place = f", on worker {found.worker_id}," if found.worker_id else ""
        due = "" if found.next_ms is None else f"; the next run is due at {instant(found.next_ms)}"
        yield _problem(
            connector, "verification-failed", _WARNING, f"the last scheduled verification{place} failed: {found.error}", None,
            f"Remove the cause{due}. The command shows whether it works now.",
            "sluice verify {name}", key="verify.interval.ms", since_ms=found.failing_since_ms,
        )  # fmt: skip
    if found.differences:
        absent = f": the target has no table {', '.join(found.missing_tables)}" if found.missing_tables else ""
        cause = "the table was dropped or renamed" if found.missing_tables else "another writer has changed the tables"
        yield _problem(
            connector, "tables-differ", _WARNING,
            f"{found.differences} rows differed from the database in the last verification{absent}",
            f"{cause}, or records were skipped", "The command lists the rows; --repair mends them.",
            "sluice verify {name}", since_ms=found.stored_ms,
        )  # fmt: skip


_LOCAL_RULES: tuple[Rule, ...] = (_stalled, _silent_source, _slot, _table_commits, _errant_records)
"""Rules over figures that only the worker of a task has."""
_RULES: tuple[Rule, ...] = (
    _failed,
    _restarting,
    _unassigned,
    _target_state,
    _plugin,
    _topics,
    _config,
    _verification,
    *_LOCAL_RULES,
)
