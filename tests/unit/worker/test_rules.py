"""The worker's pure parts: positions, pending offsets, topic rules, restarts, secrets, traces, configuration."""

from __future__ import annotations

import re

import pytest

from connect import ConfigError, DataError, RetriableError, SourceRecord, TopicPartition
from worker.config.secrets import SecretMask, is_secret_name
from worker.config.worker_config import WorkerConfig, split_listener
from worker.errors.stages import Stage, StageError, TaskPutError, ToleranceExceededError
from worker.errors.trace import trace_of
from worker.executors.task_factory import subscription_of
from worker.kafka.topic_creation import topic_creation_rules
from worker.model import ConnectorStatus, State, Status
from worker.operations.restart_plan import planned_restart, to_restart
from worker.sink.positions import SinkPositions
from worker.source.pending_offsets import PendingOffsets

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition: dict[str, object] | None, offset: dict[str, object] | None) -> SourceRecord:
    return SourceRecord(partition, offset, "t")


def test_the_latest_offset_of_each_partition_is_pending() -> None:
    pending, shared = PendingOffsets(), {"f": "a"}
    pending.track([record(shared, {"o": 1}), record({"f": "b"}, {"o": 5}), record(shared, {"o": 2})])
    assert sorted(pending.take(), key=str) == [({"f": "a"}, {"o": 2}), ({"f": "b"}, {"o": 5})]
    assert not pending


def test_equal_partitions_of_several_objects_are_one() -> None:
    pending, first = PendingOffsets(), {"f": "a"}
    pending.track([record(first, {"o": 1}), record({"f": "a"}, {"o": 2}), record(first, {"o": 3})])
    assert pending.take() == [({"f": "a"}, {"o": 3})]
    pending.track([record(first, {"o": 4}), record({"f": "a"}, {"o": 5})])
    assert pending.take() == [({"f": "a"}, {"o": 5})]


def test_records_without_partition_and_offset_leave_nothing_pending() -> None:
    pending = PendingOffsets()
    pending.track([record(None, None)])
    assert not pending


def test_what_could_not_be_stored_does_not_replace_what_came_since() -> None:
    pending = PendingOffsets()
    pending.track([record({"f": "a"}, {"o": 1}), record({"f": "b"}, {"o": 1})])
    taken = pending.take()
    pending.track([record({"f": "a"}, {"o": 2})])
    pending.give_back(taken)
    assert sorted(pending.take(), key=str) == [({"f": "a"}, {"o": 2}), ({"f": "b"}, {"o": 1})]


def test_only_changed_offsets_within_what_was_put_are_committed() -> None:
    positions = SinkPositions()
    positions.add([P0, P1], {P0: 10})
    assert positions.to_pre_commit([P0, P1]) == {P0: 10}
    positions.delivered({P0: 20, P1: 5})
    asked = positions.to_pre_commit([P0, P1])
    assert asked == {P0: 20, P1: 5}
    answered = {P0: 15, P1: 6, TopicPartition("other", 0): 1}
    assert positions.to_commit(answered, asked, "c-0") == {P0: 15}
    positions.committed({P0: 15})
    assert positions.to_commit({P0: 15}, asked, "c-0") == {}


def test_the_first_change_brings_partitions_along_that_nothing_has_come_from() -> None:
    positions = SinkPositions()
    positions.add([P0, P1], {}, {P0: 7, P1: 3})
    asked = positions.to_pre_commit([P0, P1])
    assert asked == {P0: 7, P1: 3}
    assert positions.to_commit(asked, asked, "c-0") == {}, "nothing has changed"
    assert positions.restarts() == asked
    positions.delivered({P0: 8})
    asked = positions.to_pre_commit([P0, P1])
    offsets = positions.to_commit(asked, asked, "c-0")
    assert offsets == {P0: 8, P1: 3}
    positions.committed(offsets)
    assert positions.to_commit(asked, asked, "c-0") == {}


def test_a_failure_goes_back_to_the_commit_or_to_where_reading_began() -> None:
    positions = SinkPositions()
    positions.add([P0, P1], {P0: 10})
    positions.began(P0, 10)
    positions.began(P1, 3)
    positions.delivered({P0: 30, P1: 30})
    assert positions.restarts() == {P0: 10, P1: 3}
    positions.committed({P1: 30})
    positions.rewound(P0, 7)
    assert positions.restarts() == {P0: 7, P1: 30}
    assert positions.to_pre_commit([P0]) == {P0: 7}


def test_a_commit_of_what_a_task_rewound_to_repairs_the_group() -> None:
    positions = SinkPositions()
    positions.add([P0], {P0: 10})
    positions.rewound(P0, 4)  # promise 6: the table is behind the group
    assert positions.to_commit({P0: 4}, positions.to_pre_commit([P0]), "c-0") == {P0: 4}


def test_no_topic_creation_keys_leave_topics_to_the_broker() -> None:
    assert topic_creation_rules({"topic": "x"}) is None


def test_the_first_group_that_matches_counts_and_inherits_from_default() -> None:
    rules = topic_creation_rules(
        {
            "topic.creation.groups": "big, logs",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "3",
            "topic.creation.default.retention.ms": "5",
            "topic.creation.big.include": "orders.*, .*big",
            "topic.creation.big.exclude": "orders_small",
            "topic.creation.big.partitions": "12",
            "topic.creation.logs.include": ".*",
            "topic.creation.logs.replication.factor": "-1",
            "topic.creation.logs.cleanup.policy": "compact",
        }
    )
    assert rules is not None
    big, small = rules.spec_for("orders_2"), rules.spec_for("orders_small")
    assert (big.partitions, big.replication_factor, big.configs) == (12, 3, {})
    assert (small.partitions, small.replication_factor, small.configs) == (1, -1, {"cleanup.policy": "compact"})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"topic.creation.default.partitions": "1"},
            'Missing required configuration "topic.creation.default.replication.factor"',
        ),
        (
            {"topic.creation.default.partitions": "0", "topic.creation.default.replication.factor": "1"},
            "Number of partitions must be positive, or -1",
        ),
    ],
)
def test_incomplete_or_wrong_topic_rules(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        topic_creation_rules(config)


def status(connector: State, *tasks: State) -> ConnectorStatus:
    return ConnectorStatus("c", Status(connector, "w"), [(i, Status(state, "w")) for i, state in enumerate(tasks)], "source")


def test_restart_plans() -> None:
    mixed = status(State.RUNNING, State.FAILED, State.RUNNING)
    assert to_restart(mixed, include_tasks=True, only_failed=True) == (False, [0])
    assert to_restart(mixed, include_tasks=True, only_failed=False) == (True, [0, 1])
    assert to_restart(mixed, include_tasks=False, only_failed=True) == (False, [])
    shown = planned_restart(mixed, False, [0])
    assert [one.state for _, one in shown.tasks] == [State.RESTARTING, State.RUNNING]
    assert shown.connector.state is State.RUNNING


@pytest.mark.parametrize("key", ["db.password", "sasl.jaas.config", "aws.secret.access.key", "api.key", "auth.token"])
def test_names_of_secrets(key: str) -> None:
    assert is_secret_name(key)


@pytest.mark.parametrize("key", ["key.converter", "topic", "tokens.max.bytes.kept", "key.columns"])
def test_names_that_are_no_secrets(key: str) -> None:
    assert not is_secret_name(key)


def test_secrets_are_hidden_wherever_they_stand() -> None:
    mask = SecretMask()
    mask.add(
        {
            "db.password": "p$w.+d",
            "topic": "orders",
            "odd": "sesame!",
            "sasl.jaas.config": 'X.LoginModule required password="in ner";',
        }
    )
    mask.add({"odd": "sesame!"}, {"odd"})
    shown = mask.mask("dsn p$w.+d, orders, sesame!, in ner, https://joe:other@host/x?password=third&a=1, db.password: 'four th'")
    for secret in ("p$w.+d", "sesame!", "in ner", "other", "third", "four th"):
        assert secret not in shown
    assert "orders" in shown
    assert "@host/x" in shown


@pytest.mark.parametrize(
    "line",
    [
        'PlainLoginModule required username="worker" password="s3cret";',
        "PlainLoginModule required username='worker' user_admin='s3cret';",
        "ScramLoginModule required username=worker password=s3cret;",
        'OAuthBearerLoginModule required clientId="worker" clientSecret="s3cret" scope="worker";',
        'PlainLoginModule required username="worker" password="s3\\cret";',
    ],
)
def test_of_a_login_the_password_is_secret_and_the_name_is_not(line: str) -> None:
    mask = SecretMask()
    mask.add({"sasl.jaas.config": line})
    assert mask.mask("worker: s3cret") == "worker: [hidden]"
    assert mask.mask(f"the whole, {line}") == "the whole, [hidden]"


def test_a_short_secret_is_hidden_where_it_stands_alone() -> None:
    mask = SecretMask()
    mask.add({"password": "ab"})
    assert mask.mask("ab abc cab (ab)") == "[hidden] abc cab ([hidden])"


def test_a_trace_begins_with_apaches_class_and_the_cause() -> None:
    mask = SecretMask()
    assert trace_of(RetriableError("later"), mask).startswith("org.apache.kafka.connect.errors.RetriableException: later\n")
    assert trace_of(ConfigError("wrong"), mask).startswith("org.apache.kafka.common.config.ConfigException: wrong\n")
    assert trace_of(ZeroDivisionError("by zero"), mask).splitlines()[0] == (
        "org.apache.kafka.connect.errors.ConnectException: ZeroDivisionError: by zero"
    )
    staged = StageError(Stage.VALUE_CONVERTER, object(), "topic t", DataError("no such field"))
    assert trace_of(staged, mask).splitlines()[0] == (
        "org.apache.kafka.connect.errors.DataException: no such field (in value converter object, topic t)"
    )


def test_a_trace_can_be_written_whatever_bytes_a_name_has() -> None:
    trace = trace_of(OSError("no file a\udcff"), SecretMask())
    assert trace.splitlines()[0] == "org.apache.kafka.connect.errors.ConnectException: OSError: no file a\\udcff"
    assert trace.encode()


def test_a_trace_of_a_failed_record_begins_with_apaches_words_and_goes_on_with_what_happened() -> None:
    failure = StageError(Stage.VALUE_CONVERTER, object(), "topic t", DataError("no such field"))
    assert trace_of(ToleranceExceededError(failure), SecretMask()).splitlines()[:2] == [
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler: no such field "
        "(in value converter object, topic t)",
        "Caused by: org.apache.kafka.connect.errors.DataException: no such field (in value converter object, topic t)",
    ]
    assert trace_of(TaskPutError(object(), "2 records", ValueError("full")), SecretMask()).splitlines()[:2] == [
        "org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable exception. "
        "ValueError: full (in task put object, 2 records)",
        "Caused by: org.apache.kafka.connect.errors.ConnectException: ValueError: full",
    ]


WORKER = {"key.converter": "String", "value.converter": "String", "offset.storage.file.filename": "/nowhere/offsets"}


def test_worker_defaults_are_apaches() -> None:
    config = WorkerConfig.standalone(WORKER)
    assert config.bootstrap_servers == ("localhost:9092",)
    assert config.offset_flush_interval_ms == 60000
    assert config.offset_flush_timeout_ms == 5000
    assert config.task_shutdown_graceful_timeout_ms == 5000
    assert config.listeners == ("http://:8083",)
    assert config.admin_listeners is None
    assert config.topic_creation_enable


@pytest.mark.parametrize("key", ["key.converter", "value.converter", "offset.storage.file.filename"])
def test_required_worker_keys(key: str) -> None:
    with pytest.raises(ConfigError, match=f'Missing required configuration "{key}"'):
        WorkerConfig.standalone({name: value for name, value in WORKER.items() if name != key})


def test_worker_id_is_the_advertised_address() -> None:
    assert WorkerConfig.standalone({**WORKER, "listeners": "http://myhost:1234"}).worker_id == "myhost:1234"
    advertised = {"listeners": "http://0.0.0.0:1", "rest.advertised.host.name": "out", "rest.advertised.port": "2"}
    assert WorkerConfig.standalone({**WORKER, **advertised}).worker_id == "out:2"


def test_listeners() -> None:
    assert split_listener("http://:8083") == ("http", "", 8083)
    assert split_listener("HTTPS://[::1]:1") == ("https", "::1", 1)
    for wrong in ("localhost:8083", "http://host", "ftp://host:1", "http://host:port"):
        with pytest.raises(ConfigError, match="listeners"):
            split_listener(wrong)


def test_subscriptions() -> None:
    assert subscription_of({"topics": "a, b"}, 1).topics == {"a", "b"}
    pattern = subscription_of({"topics.regex": "a|b.*"}, 1).pattern
    assert pattern is not None
    assert pattern.fullmatch("bcd")
    for config in ({}, {"topics": "a", "topics.regex": "b"}, {"topics.regex": "("}):
        with pytest.raises(ConfigError):
            subscription_of(config, 1)
