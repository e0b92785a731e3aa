"""Signals in Debezium's format: ID, type, and data, which is JSON."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from connect.errors import DataError
from connectors.cdc.incremental.requests import SnapshotRequest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal. ``data`` is JSON, None or empty for none."""

    id: str
    type: str
    data: str | None


def parse_json_signal(text: str | bytes, default_id: str | None = None) -> Signal | None:
    """Parses a signal that is one JSON object; logs what is wrong and returns None if it is none.

    A signal without an ID gets ``default_id``; without that, it cannot be read.
    """
    try:
        value = json.loads(text)
        data = value.get("data")
        id_ = value["id"] if default_id is None else value.get("id") or default_id
        signal = Signal(str(id_), str(value["type"]), data if data is None or isinstance(data, str) else json.dumps(data))
    except (ValueError, KeyError, AttributeError) as e:
        log.warning("skipping a signal that cannot be read: %r", e)
        return None
    return signal


class SnapshotControl(Protocol):
    """What signals control. Must not use the network: a signal may come from within the stream."""

    def execute(self, request: SnapshotRequest) -> None: ...

    def stop(self, signal_id: str, collections: tuple[str, ...]) -> None:
        """Stops snapshots of the tables that match, of all without ``collections``."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class SourceSignal(Protocol):
    """A type of signal that only some sources have."""

    @property
    def type(self) -> str: ...

    def check(self, data: Mapping[str, Any]) -> None:
        """Raises DataError for data that cannot be read. Safe from any thread."""

    def handle(self, signal_id: str, data: Mapping[str, Any]) -> None:
        """Takes note of the signal. Must not use the network. Raises DataError."""


_TYPES = ("execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "log")
_IGNORED = ("snapshot-window-open", "snapshot-window-close", "schema-changes")
"""The connector's own watermarks; and a signal for connectors with a schema history."""


def find_problem(signal: Signal, own: SourceSignal | None = None) -> str | None:
    """What is wrong with a signal; None if it can be handled. ``own`` is a type of signal that the source has besides."""
    try:
        data = _parse_data(signal)
        match signal.type:
            case "execute-snapshot":
                _snapshot_request(signal, data)
            case "stop-snapshot":
                _is_blocking(data)
                _collections(data, required=False)
            case "log":
                _text(data, "message")
            case "pause-snapshot" | "resume-snapshot":
                pass
            case _ if own is not None and signal.type == own.type:
                own.check(data)
            case _:
                expected = ", ".join(_TYPES if own is None else (*_TYPES, own.type))
                return f"unknown signal type {signal.type}; expected {expected}"
    except DataError as e:
        return f"signal of type {signal.type}: {e.message}"
    return None


def handle_signal(signal: Signal, control: SnapshotControl, own: SourceSignal | None = None) -> None:
    """Does what a signal asks for. A signal that cannot be read is logged, as in Debezium."""
    try:
        data = _parse_data(signal)
        match signal.type:
            case "execute-snapshot":
                request = _snapshot_request(signal, data)
                kind = "blocking" if request.is_blocking else "incremental"
                log.info("signal %s: %s snapshot of %s", signal.id, kind, ", ".join(request.collections))
                control.execute(request)
            case "stop-snapshot":
                if not _is_blocking(data):
                    control.stop(signal.id, _collections(data, required=False))
            case "pause-snapshot":
                control.pause()
            case "resume-snapshot":
                control.resume()
            case "log":
                log.info("signal %s: %s", signal.id, _text(data, "message"))
            case _ if own is not None and signal.type == own.type:
                own.handle(signal.id, data)
            case _ if signal.type not in _IGNORED:
                log.warning("signal %s has the unknown type %s; it is ignored", signal.id, signal.type)
    except DataError as e:
        log.warning("signal %s of type %s is ignored: %s", signal.id, signal.type, e.message)


def _parse_data(signal: Signal) -> Mapping[str, Any]:
    if not signal.data or signal.type in _IGNORED:
        return {}
    try:
        data = json.loads(signal.data)
    except ValueError as e:
        raise DataError(f"its data is not JSON: {e}") from e
    if not isinstance(data, dict):
        raise DataError("its data is not a JSON object")
    return data


def _snapshot_request(signal: Signal, data: Mapping[str, Any]) -> SnapshotRequest:
    listed = data.get("additional-conditions") or []
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise DataError("additional-conditions must be a list of objects")
    conditions = tuple((_pattern(_text(entry, "data-collection")), _text(entry, "filter")) for entry in listed)
    surrogate_key = data.get("surrogate-key") or ""
    if not isinstance(surrogate_key, str):
        raise DataError("surrogate-key must be a text")
    return SnapshotRequest(signal.id, _collections(data, required=True), conditions, surrogate_key.strip(), _is_blocking(data))


def _is_blocking(data: Mapping[str, Any]) -> bool:
    type_ = str(data.get("type") or "incremental").lower()
    if type_ not in ("incremental", "blocking"):
        raise DataError(f"type must be incremental or blocking, not {type_}")
    return type_ == "blocking"


def _collections(data: Mapping[str, Any], *, required: bool) -> tuple[str, ...]:
    listed = data.get("data-collections") or []
    if not isinstance(listed, list) or not all(isinstance(entry, str) for entry in listed):
        raise DataError("data-collections must be a list of regular expressions for schema.table")
    if required and not listed:
        raise DataError("data-collections is missing or empty")
    return tuple(_pattern(entry.strip()) for entry in listed)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as e:
        raise DataError(f"{text} is not a regular expression: {e}") from e
    return text


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not value:
        raise DataError(f"{name} is missing")
    return value
