"""Converts what crosses between the control process and an executor to plain data and back.

The way back checks every type, because a process that runs plugins is not trusted. Raises DataError for anything unexpected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from connect.errors import DataError
from worker.executor import ConnectorFacts, ConnectorSpec, TaskSpec
from worker.model import ErrorCounts, OffsetEntry, Stall, TaskActivity, TaskId, TaskProgress
from worker.storage.offset_store import OffsetPair, OffsetRecord

Plain = dict[str, Any]


def connector_to_plain(spec: ConnectorSpec) -> Plain:
    # Most values are not references: they are sent once.
    values = {key: value for key, value in spec.config.items() if spec.given.get(key) != value}
    missing = [key for key in spec.given if key not in spec.config]
    return {"name": spec.name, "given": dict(spec.given), "values": values, "missing": missing}


def connector_of_plain(plain: Any) -> ConnectorSpec:
    given = _texts(plain["given"])
    missing = set(_list(plain["missing"]))
    config = {key: value for key, value in given.items() if key not in missing} | _texts(plain["values"])
    return ConnectorSpec(text(plain["name"]), given, config)


def task_to_plain(spec: TaskSpec) -> Plain:
    return {
        "id": id_to_plain(spec.id),
        "connector": connector_to_plain(spec.connector),
        "config": dict(spec.config),
        "paused": spec.paused,
        "transactional_id": spec.transactional_id,
    }


def task_of_plain(plain: Any) -> TaskSpec:
    transactional_id = plain["transactional_id"]
    return TaskSpec(
        id_of_plain(plain["id"]),
        connector_of_plain(plain["connector"]),
        _texts(plain["config"]),
        plain["paused"] is True,
        None if transactional_id is None else text(transactional_id),
    )


def id_to_plain(task: TaskId) -> list[Any]:
    return [task.connector, task.task]


def id_of_plain(plain: Any) -> TaskId:
    match plain:
        case [str(connector), int(number)]:
            return TaskId(connector, number)
        case _:
            raise DataError("not a task")


def facts_to_plain(facts: ConnectorFacts) -> Plain:
    return asdict(facts)


def facts_of_plain(plain: Any) -> ConnectorFacts:
    version = plain.get("version")
    return ConnectorFacts(text(plain.get("class_name")), text(plain.get("type")), None if version is None else text(version))


def offsets_to_plain(offsets: Sequence[OffsetPair]) -> list[list[Plain | None]]:
    return [[None if one is None else dict(one) for one in pair] for pair in offsets]


def offsets_of_plain(plain: Any) -> list[OffsetPair]:
    pairs: list[OffsetPair] = []
    for pair in _list(plain):
        match pair:
            case [dict() | None as partition, dict() | None as offset]:
                pairs.append((partition, offset))
            case _:
                raise DataError("not an offset")
    return pairs


def entries_to_plain(entries: Sequence[OffsetEntry]) -> list[list[Plain | None]]:
    return offsets_to_plain([(entry.partition, entry.offset) for entry in entries])


def entries_of_plain(plain: Any) -> list[OffsetEntry]:
    return [OffsetEntry(partition, offset) for partition, offset in offsets_of_plain(plain)]


def records_to_plain(records: Sequence[OffsetRecord]) -> list[list[Any]]:
    return [list(record) for record in records]


def records_of_plain(plain: Any) -> list[OffsetRecord]:
    records = []
    for one in _list(plain):
        match one:
            case [str(topic), int(partition), bytes(key), bytes() | None as value]:
                records.append(OffsetRecord(topic, partition, key, value))
            case _:
                raise DataError("not a record of an offset")
    return records


def progress_to_plain(progress: TaskProgress | None) -> Plain | None:
    return None if progress is None else asdict(progress)


def progress_of_plain(plain: Any) -> TaskProgress | None:
    if plain is None:
        return None
    match plain:
        case {"records": int(records), "bytes": int(size), "lag": dict() | None as lag, "details": dict(details)}:
            activity, stall = _activity(plain.get("activity")), stall_of_plain(plain.get("stalled"))
            return TaskProgress(records, size, lag, details, _counts(plain.get("errors")), activity, stall)
        case _:
            raise DataError("not the progress of a task")


def progresses_to_plain(progress: Mapping[TaskId, TaskProgress]) -> list[list[Any]]:
    return [[id_to_plain(task), progress_to_plain(one)] for task, one in progress.items()]


def progresses_of_plain(plain: Any) -> dict[TaskId, TaskProgress]:
    found = {}
    for pair in _list(plain):
        match pair:
            case [list() as task, dict() as progress] if (one := progress_of_plain(progress)) is not None:
                found[id_of_plain(task)] = one
            case _:
                raise DataError("not the progress of tasks")
    return found


def _counts(plain: Any) -> ErrorCounts:
    counts = ErrorCounts()
    for one in fields(ErrorCounts):
        value = _mapping(plain).get(one.name)
        if isinstance(value, int):
            setattr(counts, one.name, value)
    return counts


def _activity(plain: Any) -> TaskActivity | None:
    if plain is None:
        return None
    names = [one.name for one in fields(TaskActivity)]
    match plain:
        case {"phase": str(), "since_ms": int(), "at_ms": int(), "polls_return": bool(), "is_paused_by_sink": bool()}:
            members = {name: plain.get(name) for name in names}
        case _:
            raise DataError("not the activity of a task")
    times = (value for name, value in members.items() if name.endswith("_ms"))
    if not all(isinstance(value, int | None) for value in times) or not isinstance(members["retry_error"], str | None):
        raise DataError("not the activity of a task")
    return TaskActivity(**members)


def stall_to_plain(stall: Stall | None) -> Plain | None:
    return None if stall is None else asdict(stall)


def stall_of_plain(plain: Any) -> Stall | None:
    match plain:
        case None:
            return None
        case {"kind": str(kind), "phase": str(phase), "since_ms": int(since_ms), "message": str(message)}:
            return Stall(kind, phase, since_ms, message)
        case _:
            raise DataError("not a stall")


def task_configs_of_plain(plain: Any) -> list[dict[str, str]]:
    return [_texts(config) for config in _list(plain)]


def json_objects(plain: Any) -> list[dict[str, Any]]:
    """A list of JSON objects, as the answers of REST about plugins are."""
    return [_mapping(one) for one in _list(plain)]


def text(plain: Any) -> str:
    if not isinstance(plain, str):
        raise DataError(f"expected text, not {type(plain).__name__}")
    return plain


def texts(plain: Any) -> list[str]:
    return [text(one) for one in _list(plain)]


def _texts(plain: Any) -> dict[str, str]:
    return {text(key): text(value) for key, value in _mapping(plain).items()}


def _mapping(plain: Any) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise DataError(f"expected a mapping, not {type(plain).__name__}")
    return plain


def _list(plain: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise DataError(f"expected a list, not {type(plain).__name__}")
    return plain


def optional_text(plain: Mapping[str, Any], name: str) -> str | None:
    value = plain.get(name)
    return None if value is None else text(value)
