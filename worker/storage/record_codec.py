"""Encodes and decodes records of the config and status topics, as Apache's ``KafkaConfigBackingStore`` and
``KafkaStatusBackingStore`` write them.

Keys are plain text; values are compact JSON with members in a fixed order, where absent members are null. Decoding never raises:
an invalid record becomes :class:`Unreadable`, with the reason for the log.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import orjson

from worker.model import Restarts, Stall, State, Status, TargetState, TaskId

Properties = Mapping[str, str | None]

TARGET_STATE = "target-state-"
CONNECTOR = "connector-"
TASK = "task-"
COMMIT = "commit-"
RESTART = "restart-connector-"
TASK_COUNT = "tasks-fencing-"
SESSION_KEY = "session-key"
LOGGER = "logger-cluster-"

STATUS_CONNECTOR = "status-connector-"
STATUS_TASK = "status-task-"
STATUS_TOPIC = "status-topic-"
TOPIC_SEPARATOR = ":connector-"


class KeyValue(NamedTuple):
    """A record to write. The value None is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that is skipped, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class ConnectorRecord:
    """``connector-<name>``: the config; None deletes the connector."""

    name: str
    properties: Properties | None


@dataclass(frozen=True, slots=True)
class TargetStateRecord:
    """``target-state-<name>``; None deletes it."""

    name: str
    state: TargetState | None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """``task-<name>-<n>``: valid once a commit follows."""

    task: TaskId
    properties: Properties


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """``commit-<name>``: the task records before it are complete; this is their number."""

    name: str
    tasks: int


@dataclass(frozen=True, slots=True)
class TaskCountRecord:
    """``tasks-fencing-<name>``: the number of tasks whose producers may have to be fenced before the next set starts."""

    name: str
    task_count: int


@dataclass(frozen=True, slots=True)
class SessionKey:
    """``session-key``: the key that signs internal requests between workers."""

    key: bytes = field(repr=False)  # promise 9
    algorithm: str
    creation_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """``restart-connector-<name>``."""

    name: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class LoggerRecord:
    """``logger-cluster-<namespace>``: a log level for all workers that are in the cluster now."""

    namespace: str
    level: str


ConfigRecord = (
    ConnectorRecord
    | TargetStateRecord
    | TaskRecord
    | CommitRecord
    | TaskCountRecord
    | SessionKey
    | RestartRequest
    | LoggerRecord
    | Unreadable
)


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """``status-connector-<name>`` or ``status-task-<name>-<n>``; None deletes it."""

    id: str | TaskId
    status: Status | None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic that a connector uses. ``discover_timestamp`` is in ms since 1970."""

    topic: str
    connector: str
    task: int
    discover_timestamp: int


@dataclass(frozen=True, slots=True)
class TopicStatusRecord:
    """``status-topic-<topic>:connector-<name>``; None deletes it."""

    topic: str
    connector: str
    status: TopicStatus | None


class DocumentKind(Enum):
    """A kind of JSON documents that only Sluice writes; the value is the prefix of the keys. Workers of Apache skip them with a
    warning."""

    VERIFICATION = "verification-"
    """By connector: the last result of ``sluice verify``."""
    ENDED_SESSION = "ended-session-"
    """By ID: a session of the web page that its user has ended."""


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """``<prefix of the kind><name>``; None deletes it."""

    kind: DocumentKind
    name: str
    document: Mapping[str, Any] | None


StatusTopicRecord = StatusRecord | TopicStatusRecord | DocumentRecord | Unreadable


# Writing


def connector_record(name: str, properties: Properties) -> KeyValue:
    return _record(CONNECTOR + name, {"properties": dict(properties)})


def connector_tombstone(name: str) -> KeyValue:
    return _record(CONNECTOR + name, None)


def target_state_record(name: str, state: TargetState) -> KeyValue:
    # Workers before Apache 3.5 do not know STOPPED: for them a stopped connector is paused.
    old = TargetState.PAUSED if state is TargetState.STOPPED else state
    return _record(TARGET_STATE + name, {"state": old.value, "state.v2": state.value})


def target_state_tombstone(name: str) -> KeyValue:
    return _record(TARGET_STATE + name, None)


def task_record(task: TaskId, properties: Properties) -> KeyValue:
    return _record(f"{TASK}{task.connector}-{task.task}", {"properties": dict(properties)})


def commit_record(name: str, tasks: int) -> KeyValue:
    return _record(COMMIT + name, {"tasks": tasks})


def task_count_record(name: str, task_count: int) -> KeyValue:
    return _record(TASK_COUNT + name, {"task-count": task_count})


def session_key_record(key: SessionKey) -> KeyValue:
    text = base64.b64encode(key.key).decode()
    return _record(
        SESSION_KEY, {"key": text, "algorithm": key.algorithm, "creation-timestamp": key.creation_timestamp_ms}
    )  # fmt: skip


def restart_record(request: RestartRequest) -> KeyValue:
    return _record(RESTART + request.name, {"include-tasks": request.include_tasks, "only-failed": request.only_failed})


def logger_record(level: LoggerRecord) -> KeyValue:
    return _record(LOGGER + level.namespace, {"level": level.level})


def status_key(id: str | TaskId) -> str:
    if isinstance(id, TaskId):
        return f"{STATUS_TASK}{id.connector}-{id.task}"
    return STATUS_CONNECTOR + id


def status_record(id: str | TaskId, status: Status) -> KeyValue:
    value: dict[str, Any] = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    # Not Apache's, and only present if the connector enables restarts or has stalled; Java's reader looks members up by name.
    if status.restarts is not None:
        value["restarts"] = {"count": status.restarts.count, "next_ms": status.restarts.next_ms}
    if status.stalled is not None:
        value["stalled"] = dataclasses.asdict(status.stalled)
    return _record(status_key(id), value)


def status_tombstone(id: str | TaskId) -> KeyValue:
    return _record(status_key(id), None)


def topic_status_record(status: TopicStatus) -> KeyValue:
    value = {
        "name": status.topic,
        "connector": status.connector,
        "task": status.task,
        "discoverTimestamp": status.discover_timestamp,
    }
    return _record(f"{STATUS_TOPIC}{status.topic}{TOPIC_SEPARATOR}{status.connector}", {"topic": value})


def document_record(kind: DocumentKind, name: str, document: Mapping[str, Any] | None) -> KeyValue:
    return _record(kind.value + name, document)


def topic_status_tombstone(connector: str, topic: str) -> KeyValue:
    return _record(f"{STATUS_TOPIC}{topic}{TOPIC_SEPARATOR}{connector}", None)


def _record(key: str, value: Mapping[str, Any] | None) -> KeyValue:
    return KeyValue(key.encode(), None if value is None else orjson.dumps(value))


# Reading


class _InvalidValue(Exception):
    """Why a value cannot be decoded; used inside this module."""


def decode_config(key: bytes | None, value: bytes | None) -> ConfigRecord:
    """Decodes a record of the config topic. Prefixes are tried in Apache's order."""
    name = _text(key)
    if name is None:
        return Unreadable("its key is no text")
    try:
        members = _object(value)
        if name.startswith(TARGET_STATE):
            return TargetStateRecord(name.removeprefix(TARGET_STATE), None if members is None else _target_state(members))
        if name.startswith(CONNECTOR):
            return ConnectorRecord(name.removeprefix(CONNECTOR), None if members is None else _properties(members))
        if name.startswith(TASK):
            task = _task_id(name.removeprefix(TASK))
            if task is None:
                return Unreadable("its key does not end in the number of a task")
            return TaskRecord(task, _properties(_required(members)))
        if name.startswith(COMMIT):
            return CommitRecord(name.removeprefix(COMMIT), _count(_required(members), "tasks"))
        if name.startswith(RESTART):
            members = _required(members)
            # Apache treats anything but a boolean as false.
            return RestartRequest(
                name.removeprefix(RESTART), members.get("include-tasks") is True, members.get("only-failed") is True
            )
        if name.startswith(TASK_COUNT):
            return TaskCountRecord(name.removeprefix(TASK_COUNT), _count(_required(members), "task-count"))
        if name == SESSION_KEY:
            return _session_key(_required(members))
        if name.startswith(LOGGER):
            return LoggerRecord(name.removeprefix(LOGGER), _string(_required(members), "level"))
    except _InvalidValue as e:
        return Unreadable(str(e))
    return Unreadable("its key is of no known kind")


def decode_status(key: bytes | None, value: bytes | None) -> StatusTopicRecord:
    """Decodes a record of the status topic."""
    name = _text(key)
    if name is None:
        return Unreadable("its key is no text")
    try:
        if name.startswith(STATUS_CONNECTOR):
            connector = name.removeprefix(STATUS_CONNECTOR)
            return StatusRecord(connector, _status(_object(value))) if connector else Unreadable("its key names no connector")
        if name.startswith(STATUS_TASK):
            task = _task_id(name.removeprefix(STATUS_TASK))
            return StatusRecord(task, _status(_object(value))) if task else Unreadable("its key names no task")
        if name.startswith(STATUS_TOPIC):
            # Topic names have no colon; connector names may have one.
            topic, separator, connector = name.removeprefix(STATUS_TOPIC).partition(TOPIC_SEPARATOR)
            if not (topic and separator and connector):
                return Unreadable("its key does not name a topic and a connector")
            return TopicStatusRecord(topic, connector, _topic_status(_object(value)))
        for kind in DocumentKind:
            if name.startswith(kind.value) and name != kind.value:
                return DocumentRecord(kind, name.removeprefix(kind.value), _object(value))
    except _InvalidValue as e:
        return Unreadable(str(e))
    return Unreadable("its key is of no known kind")


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None


def _task_id(text: str) -> TaskId | None:
    connector, dash, number = text.rpartition("-")
    if not (connector and dash and number.isascii() and number.isdigit()):
        return None
    return TaskId(connector, int(number))


def _object(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as e:
        raise _InvalidValue(f"its value is not JSON: {e}") from e
    if parsed is None or isinstance(parsed, dict):
        return parsed
    raise _InvalidValue("its value is not a JSON object")


def _required(members: dict[str, Any] | None) -> dict[str, Any]:
    if members is None:
        raise _InvalidValue("it has no value, which means nothing for this key")
    return members


def _properties(members: dict[str, Any]) -> Properties:
    properties = members.get("properties")
    if not isinstance(properties, dict):
        raise _InvalidValue("its member 'properties' is not an object")
    for key, value in properties.items():
        # Promise 9: the value may be a secret and is not shown.
        if value is not None and not isinstance(value, str):
            raise _InvalidValue(f"the value of '{key}' in its properties is neither text nor null")
    return properties


def _target_state(members: dict[str, Any]) -> TargetState:
    name = members.get("state.v2")
    if name is None:
        name = members.get("state")  # written by a worker before Apache 3.5
    try:
        return TargetState(name)
    except ValueError as e:
        raise _InvalidValue(f"its state {name!r} is none of STARTED, PAUSED, STOPPED") from e


def _count(members: dict[str, Any], member: str) -> int:
    value = members.get(member)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _InvalidValue(f"its member '{member}' is not a count")
    return value


def _integer(members: dict[str, Any], member: str) -> int:
    value = members.get(member)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _InvalidValue(f"its member '{member}' is not an integer")
    return value


def _string(members: dict[str, Any], member: str) -> str:
    value = members.get(member)
    if not isinstance(value, str):
        raise _InvalidValue(f"its member '{member}' is not text")
    return value


def _optional_string(members: dict[str, Any], member: str) -> str | None:
    return None if members.get(member) is None else _string(members, member)


def _session_key(members: dict[str, Any]) -> SessionKey:
    try:
        key = base64.b64decode(_string(members, "key"), validate=True)
    except ValueError as e:  # binascii.Error, and text that is not ASCII
        raise _InvalidValue("its member 'key' is not base64") from e
    return SessionKey(key, _string(members, "algorithm"), _integer(members, "creation-timestamp"))


def _status(members: dict[str, Any] | None) -> Status | None:
    if members is None:
        return None
    name = _string(members, "state")
    if name == "DESTROYED":
        return None  # all known workers write a tombstone instead; it means the same
    try:
        state = State(name)
    except ValueError as e:
        raise _InvalidValue(f"its state {name!r} is not known") from e
    return Status(
        state,
        _string(members, "worker_id"),
        _optional_string(members, "trace"),
        _integer(members, "generation"),
        _optional_string(members, "version"),
        _restarts(members.get("restarts")),
        _stall(members.get("stalled")),
    )


def _restarts(found: object) -> Restarts | None:
    match found:
        case {"count": int(count), "next_ms": int() | None as next_ms}:
            return Restarts(count, next_ms)
    return None


def _stall(found: object) -> Stall | None:
    match found:
        case {"kind": str(kind), "phase": str(phase), "since_ms": int(since_ms), "message": str(message)}:
            return Stall(kind, phase, since_ms, message)
    return None


def _topic_status(members: dict[str, Any] | None) -> TopicStatus | None:
    if members is None:
        return None
    topic = members.get("topic")
    if not isinstance(topic, dict):
        raise _InvalidValue("its member 'topic' is not an object")
    return TopicStatus(
        _string(topic, "name"), _string(topic, "connector"), _integer(topic, "task"), _integer(topic, "discoverTimestamp")
    )
