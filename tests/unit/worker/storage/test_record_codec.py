"""The codec of config and status topics: every recorded record is read and written again, byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.storage import recorded
from worker.model import Stall, State, Status, TargetState, TaskId
from worker.storage import record_codec
from worker.storage.record_codec import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    DocumentKind,
    DocumentRecord,
    KeyValue,
    LoggerRecord,
    RestartRequest,
    SessionKey,
    StatusRecord,
    StatusTopicRecord,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    TopicStatusRecord,
    Unreadable,
    decode_config,
    decode_status,
)


def encoded(record: ConfigRecord) -> KeyValue:
    match record:
        case ConnectorRecord(name, config):
            if config is None:
                return record_codec.connector_tombstone(name)
            return record_codec.connector_record(name, config)
        case TargetStateRecord(name, state):
            if state is None:
                return record_codec.target_state_tombstone(name)
            return record_codec.target_state_record(name, state)
        case TaskRecord(task, properties):
            return record_codec.task_record(task, properties)
        case CommitRecord(name, tasks):
            return record_codec.commit_record(name, tasks)
        case TaskCountRecord(name, count):
            return record_codec.task_count_record(name, count)
        case SessionKey():
            return record_codec.session_key_record(record)
        case RestartRequest():
            return record_codec.restart_record(record)
        case LoggerRecord():
            return record_codec.logger_record(record)
        case Unreadable(reason):
            raise AssertionError(reason)


def encoded_status(record: StatusTopicRecord) -> KeyValue:
    match record:
        case StatusRecord(id, status):
            return record_codec.status_tombstone(id) if status is None else record_codec.status_record(id, status)
        case TopicStatusRecord(topic, connector, topic_status):
            if topic_status is None:
                return record_codec.topic_status_tombstone(connector, topic)
            return record_codec.topic_status_record(topic_status)
        case DocumentRecord(kind, name, document):
            return record_codec.document_record(kind, name, document)
        case Unreadable(reason):
            raise AssertionError(reason)


def test_every_recorded_config_record_survives_a_round_trip_byte_for_byte() -> None:
    kinds = set()
    for record in recorded.records("configs"):
        decoded = decode_config(record.key, record.value)
        kinds.add(type(decoded))
        assert encoded(decoded) == (record.key, record.value)
    assert kinds == set(ConfigRecord.__args__) - {Unreadable}


def test_every_recorded_status_record_survives_a_round_trip_byte_for_byte() -> None:
    kinds = set()
    for record in recorded.records("status"):
        decoded = decode_status(record.key, record.value)
        kinds.add(type(decoded))
        assert encoded_status(decoded) == (record.key, record.value)
    assert kinds == {StatusRecord, TopicStatusRecord}


def test_names_may_have_dashes_spaces_colons_and_non_ascii_letters() -> None:
    name = "task-1-sp ace é:connector-x"
    assert decode_config(*record_codec.task_record(TaskId(name, 12), {"a": None})) == TaskRecord(TaskId(name, 12), {"a": None})
    assert decode_config(*record_codec.connector_record(name, {"k": "ü"})) == ConnectorRecord(name, {"k": "ü"})
    status = Status(State.FAILED, "h:1", "a\n\tb", 7, None)
    assert decode_status(*record_codec.status_record(TaskId(name, 3), status)) == StatusRecord(TaskId(name, 3), status)
    assert decode_status(*record_codec.status_record(name, status)) == StatusRecord(name, status)
    topic = record_codec.TopicStatus("orders", name, 2, 5)
    assert decode_status(*record_codec.topic_status_record(topic)) == TopicStatusRecord("orders", name, topic)


def test_old_workers_see_a_stopped_connector_as_paused() -> None:
    record = record_codec.target_state_record("c", TargetState.STOPPED)
    assert json.loads(record.value or b"") == {"state": "PAUSED", "state.v2": "STOPPED"}


def test_a_target_state_of_an_old_worker_can_be_read() -> None:
    assert decode_config(b"target-state-c", b'{"state":"PAUSED"}') == TargetStateRecord("c", TargetState.PAUSED)


def test_restart_request_members_that_are_not_booleans_are_false() -> None:
    assert decode_config(b"restart-connector-c", b'{"include-tasks":"true"}') == RestartRequest("c", False, False)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"{}", "no text"),
        (b"\xff\xfe", b"{}", "no text"),
        (b"something", b"{}", "no known kind"),
        (b"connector-c", b"{", "not JSON"),
        (b"connector-c", b"[]", "not a JSON object"),
        (b"connector-c", b"{}", "'properties'"),
        (b"connector-c", b'{"properties":{"password":17}}', "'password'"),
        (b"target-state-c", b'{"state":"RUNNING"}', "RUNNING"),
        (b"target-state-c", b'{"state.v2":["PAUSED"]}', "PAUSED"),
        (b"task-c", b'{"properties":{}}', "number of a task"),
        (b"task-c-x", b'{"properties":{}}', "number of a task"),
        (b"task-c-0", None, "no value"),
        (b"commit-c", b'{"tasks":true}', "'tasks'"),
        (b"commit-c", b'{"tasks":-1}', "'tasks'"),
        (b"commit-c", None, "no value"),
        (b"session-key", b'{"key":"?","algorithm":"HmacSHA256","creation-timestamp":1}', "base64"),
        (b"session-key", b'{"key":"\\u0080","algorithm":"HmacSHA256","creation-timestamp":1}', "base64"),
        (b"logger-cluster-x", b'{"level":null}', "'level'"),
    ],
)
def test_invalid_config_records_have_a_reason(key: bytes | None, value: bytes | None, reason: str) -> None:
    found = decode_config(key, value)
    assert isinstance(found, Unreadable)
    assert reason in found.reason
    assert "17" not in found.reason  # values may be secrets


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"status-connector-", b"{}", "no connector"),
        (b"status-connector-c", b'{"state":"HAPPY","worker_id":"w","generation":1}', "HAPPY"),
        (b"status-connector-c", b'{"state":"RUNNING","worker_id":"w","generation":"1"}', "'generation'"),
        (b"status-task-c", b"{}", "no task"),
        (b"status-topic-t", b"{}", "a topic and a connector"),
        (b"status-topic-t:connector-c", b'{"topic":1}', "'topic'"),
        (b"connector-c", b"{}", "no known kind"),
    ],
)
def test_invalid_status_records_have_a_reason(key: bytes, value: bytes, reason: str) -> None:
    found = decode_status(key, value)
    assert isinstance(found, Unreadable)
    assert reason in found.reason


def test_a_status_of_an_old_worker_without_a_version_can_be_read() -> None:
    value = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":2}'
    assert decode_status(b"status-connector-c", value) == StatusRecord("c", Status(State.RUNNING, "w:1", None, 2, None))


def test_a_session_key_is_not_shown() -> None:
    assert "secret" not in repr(SessionKey(b"secret", "HmacSHA256", 1))


@given(st.one_of(st.none(), st.binary(max_size=30)), st.one_of(st.none(), st.binary(max_size=60)))
def test_the_codec_never_raises_for_any_record(tail: bytes | None, value: bytes | None) -> None:
    for prefix in (b"", b"connector-", b"task-", b"commit-", b"target-state-", b"session-key", b"status-task-", b"status-topic-"):
        key = None if tail is None else prefix + tail
        assert decode_config(key, value) is not None
        assert decode_status(key, value) is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["state", "properties", "tasks", "key"]), inner),
    max_leaves=8,
)


@given(
    st.sampled_from(
        ["connector-c", "task-c-0", "commit-c", "target-state-c", "session-key", "tasks-fencing-c", "logger-cluster-x"]
    ),
    st.dictionaries(st.sampled_from(["state", "state.v2", "properties", "tasks", "task-count", "key", "level"]), json_values),
)
def test_the_codec_never_raises_for_any_json(key: str, members: dict[str, object]) -> None:
    value = json.dumps(members).encode()
    assert decode_config(key.encode(), value) is not None
    assert decode_status(b"status-" + key.encode(), value) is not None


def test_status_of_an_instance_that_has_stalled_is_read_back_and_others_stay_as_apache_writes_them() -> None:
    status = Status(State.RUNNING, "w:1", generation=3, version="1")
    stalled = replace(status, stalled=Stall("call", "putting", 5, "put() has not returned"))
    task = TaskId("c", 0)
    for one in (status, stalled):
        record = record_codec.status_record(task, one)
        assert decode_status(record.key, record.value) == StatusRecord(task, one)
    assert b"stalled" not in (record_codec.status_record(task, status).value or b"")


def test_documents_survive_a_round_trip_and_can_be_deleted() -> None:
    for kind, prefix in ((DocumentKind.VERIFICATION, "verification-"), (DocumentKind.ENDED_SESSION, "ended-session-")):
        for document in ({"equal": True, "rows": 1}, None):
            key, value = record_codec.document_record(kind, "a-b", document)
            assert key.decode() == f"{prefix}a-b"
            assert decode_status(key, value) == DocumentRecord(kind, "a-b", document)
        assert isinstance(decode_status(prefix.encode(), b"{}"), Unreadable)
