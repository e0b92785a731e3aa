"""Responses: JSON in Apache's member order, and Apache's error body.

Responses are serialized from plain dicts with orjson, without response models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson
from starlette.responses import Response

from worker.model import ConnectorInfo, ConnectorStatus, OffsetEntry, Status, TaskInfo, TaskProgress

JSON_TYPE = "application/json"


def json_response(content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns a JSON response. Keys that are not strings, as in a source partition, become strings."""
    return Response(json_bytes(content), status_code, headers, media_type=JSON_TYPE)


def json_bytes(content: Any) -> bytes:
    """Returns the JSON of a response, or of a part of one. Integers have any size, as those in a source's offsets may."""
    try:
        return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # orjson has integers of 64 bits
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def empty_response(status_code: int) -> Response:
    """Returns a response without body and Content-Type, as for 202 and 204."""
    return Response(status_code=status_code)


def error_response(status_code: int, message: str, *, typed: bool = True) -> Response:
    """Returns Apache's error response. ``typed=False`` omits the Content-Type.

    Errors that Apache raises before it selects a method (404 for a path, 405, 406, 415) have a JSON body without a
    Content-Type (recordings unknown-path, config-post, root-get-accept-text, create-content-type-text).
    """
    body = orjson.dumps({"error_code": status_code, "message": message})
    return Response(body, status_code, media_type=JSON_TYPE if typed else None)


HTTP_REASONS = {
    404: "HTTP 404 Not Found",
    405: "HTTP 405 Method Not Allowed",
    406: "HTTP 406 Not Acceptable",
    415: "HTTP 415 Unsupported Media Type",
}
"""JAX-RS's error messages."""


def http_error_response(status_code: int, *, typed: bool = False) -> Response:
    """Returns an HTTP protocol error with JAX-RS's message."""
    return error_response(status_code, HTTP_REASONS.get(status_code, f"HTTP {status_code}"), typed=typed)


def connector_info_json(info: ConnectorInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "config": dict(info.config),
        "tasks": [{"connector": task.connector, "task": task.task} for task in info.tasks],
        "type": info.type,
    }


def status_json(status: Status) -> dict[str, Any]:
    """State and worker, then version, trace, restarts, and stall if present."""
    members: dict[str, Any] = {"state": status.state.value, "worker_id": status.worker_id}
    if status.version is not None:
        members["version"] = status.version
    if status.trace:
        members["trace"] = status.trace
    if status.restarts is not None:
        members["restarts"] = {"count": status.restarts.count, "next_ms": status.restarts.next_ms}
    if status.stalled is not None:
        members["stalled"] = asdict(status.stalled)
    return members


def connector_status_json(status: ConnectorStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "connector": status_json(status.connector),
        "tasks": [{"id": number, **status_json(task)} for number, task in status.tasks],
        "type": status.type,
    }


def task_info_json(info: TaskInfo) -> dict[str, Any]:
    return {"id": {"connector": info.id.connector, "task": info.id.task}, "config": dict(info.config)}


def offsets_json(offsets: Sequence[OffsetEntry]) -> dict[str, Any]:
    return {
        "offsets": [
            {"partition": dict(entry.partition or {}), "offset": None if entry.offset is None else dict(entry.offset)}
            for entry in offsets
        ]
    }


def progress_json(task: int, progress: TaskProgress) -> dict[str, Any]:
    return {
        "id": task,
        "records": progress.records,
        "bytes": progress.bytes,
        "lag": None if progress.lag is None else dict(progress.lag),
        "details": dict(progress.details),
        "errors": asdict(progress.errors),
        "activity": None if progress.activity is None else asdict(progress.activity),
        "stalled": None if progress.stalled is None else asdict(progress.stalled),
    }
