"""``/openapi.json``: FastAPI's description of the routes, completed with their responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from rest.responses import JSON_TYPE

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
OPEN_OBJECT: Schema = {"type": "object", "additionalProperties": True}
CONFIG: Schema = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}


def nullable(schema: Schema) -> Schema:
    """Returns a schema that also accepts null."""
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def map_of(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def ref(name: str) -> Schema:
    """Returns a reference to a schema in :data:`SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def _object(members: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "required": list(members),
        "properties": {**members, **(optional or {})},
        "additionalProperties": False,
    }


_STATE = {"state": one_of("UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "RESTARTING", "STOPPED"), "worker_id": STRING}
_STALL = _object({"kind": STRING, "phase": STRING, "since_ms": INTEGER, "message": STRING})
_ACTIVITY = _object(
    {
        "phase": STRING,
        "since_ms": INTEGER,
        "at_ms": INTEGER,
        "last_record_ms": nullable(INTEGER),
        "last_commit_ms": nullable(INTEGER),
        "uncommitted_since_ms": nullable(INTEGER),
        "retrying_since_ms": nullable(INTEGER),
        "retry_error": nullable(STRING),
        "polls_return": BOOLEAN,
        "lag_grows_since_ms": nullable(INTEGER),
        "is_paused_by_sink": BOOLEAN,
        "pending_since_ms": nullable(INTEGER),
        "pending_work": nullable(STRING),
    }
)
_STATE_MORE = {
    "stalled": _STALL,
    "version": STRING,
    "trace": STRING,
    "restarts": _object({"count": INTEGER, "next_ms": nullable(INTEGER)}),
}
_CONNECTOR_TYPE = one_of("source", "sink", "unknown")
_KEY_TYPE = one_of("STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD", "BOOLEAN")
_PREVIEW_SIDE = _object({"type": STRING, "value": STRING})
_PREVIEW_FIELD = _object({"path": STRING, "type": STRING, "value": STRING})
_PREVIEW_ERROR = _object({"class": STRING, "message": STRING, "stage": STRING, "transform": nullable(STRING)})

_FINDING = _object(
    {
        "code": STRING,
        "severity": one_of("error", "warning", "note"),
        "message": STRING,
        "path": nullable(STRING),
        "suggestion": nullable(STRING),
        "file": nullable(STRING),
        "line": nullable(INTEGER),
    }
)
_COLLECTION_KEY = _object({"name": STRING, "form": one_of("name", "regex")})
SCHEMAS: dict[str, Schema] = {
    "ConfigKey": _object(
        {
            "name": STRING,
            "type": _KEY_TYPE,
            "required": BOOLEAN,
            "default_value": nullable(STRING),
            "importance": one_of("HIGH", "MEDIUM", "LOW"),
            "documentation": nullable(STRING),
            "group": nullable(STRING),
            "order_in_group": INTEGER,
            "width": one_of("NONE", "SHORT", "MEDIUM", "LONG"),
            "display_name": nullable(STRING),
            "dependents": array_of(STRING),
        }
    ),
    "ConfigValue": _object(
        {
            "name": STRING,
            "value": nullable(STRING),
            "recommended_values": array_of(nullable(STRING)),
            "errors": array_of(STRING),
            "visible": BOOLEAN,
        }
    ),
    "ConfigVersion": _object(
        {
            "version": INTEGER,
            "at": {"type": "string", "format": "date-time"},
            "origin": STRING,
            "deleted": BOOLEAN,
            "changes": map_of(array_of(STRING)),
        }
    ),
    "ConnectorFile": _object(
        {
            "file": STRING,
            "connector": nullable(STRING),
            "state": one_of("applied", "pending", "waiting", "invalid", "failed"),
            "error": nullable(STRING),
        }
    ),
    "ConnectorInfo": _object({"name": STRING, "config": CONFIG, "tasks": array_of(ref("TaskId")), "type": _CONNECTOR_TYPE}),
    "ConnectorStatus": _object(
        {"name": STRING, "connector": ref("State"), "tasks": array_of(ref("TaskState")), "type": _CONNECTOR_TYPE}
    ),
    "ConnectorTopics": map_of(_object({"topics": array_of(STRING)})),
    "DeadLetter": _object(
        {
            "partition": INTEGER,
            "offset": INTEGER,
            "timestamp_ms": nullable(INTEGER),
            "cause": STRING,
            "replayed": BOOLEAN,
            "context": map_of(nullable(STRING)),
            "key": nullable(OPEN_OBJECT),
            "value": nullable(OPEN_OBJECT),
            "headers": array_of(_object({"key": STRING, "value": nullable(OPEN_OBJECT)})),
        }
    ),
    "DeadLetterCause": _object(
        {
            "id": STRING,
            "count": INTEGER,
            "first_ms": nullable(INTEGER),
            "last_ms": nullable(INTEGER),
            "stage": nullable(STRING),
            "class": nullable(STRING),
            "transform": nullable(STRING),
            "exception_class": nullable(STRING),
            "field": nullable(STRING),
            "message": nullable(STRING),
            "hint": nullable(STRING),
            "example": OPEN_OBJECT,
        }
    ),
    "DeadLetterCauses": _object(
        {
            "connector": STRING,
            "topic": STRING,
            "letters": INTEGER,
            "complete": BOOLEAN,
            "causes": array_of(ref("DeadLetterCause")),
        }
    ),
    "DeadLetterCheck": _object(
        {
            "partition": INTEGER,
            "offset": INTEGER,
            "verdict": one_of("passes", "dropped", "unverified", "fails", "superseded"),
            "error": nullable(OPEN_OBJECT),
            "before": nullable(OPEN_OBJECT),
            "after": nullable(OPEN_OBJECT),
        }
    ),
    "DeadLetterReplay": _object(
        {
            "connector": STRING,
            "topic": STRING,
            "dry_run": BOOLEAN,
            "checked": INTEGER,
            "replayed": INTEGER,
            "verdicts": map_of(INTEGER),
            "complete": BOOLEAN,
            "next": map_of(INTEGER),
            "letters": array_of(ref("DeadLetterCheck")),
        }
    ),
    "DeadLetters": _object(
        {
            "connector": STRING,
            "topic": STRING,
            "records": INTEGER,
            "left": INTEGER,
            "newest_ms": nullable(INTEGER),
            "complete": BOOLEAN,
            "letters": array_of(ref("DeadLetter")),
        }
    ),
    "Error": _object({"error_code": INTEGER, "message": nullable(STRING)}),
    "ExternalSystem": _object({"connection_test": BOOLEAN, "collection_keys": array_of(_COLLECTION_KEY)}),
    "ExpandedConnector": _object({}, {"status": ref("ConnectorStatus"), "info": ref("ConnectorInfo")}),
    "ConnectionTest": _object(
        {
            "state": one_of("passed", "warning", "failed", "skipped"),
            "duration_ms": INTEGER,
            "steps": array_of(
                _object(
                    {
                        "name": STRING,
                        "state": one_of("passed", "warning", "failed", "skipped"),
                        "detail": STRING,
                        "findings": array_of(_FINDING),
                    }
                )
            ),
        }
    ),
    "DataCollections": _object(
        {
            "collections": array_of(
                _object(
                    {
                        "name": STRING,
                        "entry": STRING,
                        "kind": STRING,
                        "database": nullable(STRING),
                        "schema": nullable(STRING),
                        "rows": nullable(INTEGER),
                        "size_bytes": nullable(INTEGER),
                        "has_primary_key": nullable(BOOLEAN),
                        "details": map_of(STRING),
                        "findings": array_of(_FINDING),
                    }
                )
            ),
            "hidden": INTEGER,
            "is_truncated": BOOLEAN,
            "keys": array_of(_COLLECTION_KEY),
        }
    ),
    "Diagnosis": _object(
        {"worker_id": STRING, "at_ms": INTEGER, "problems": array_of(ref("Problem")), "unseen": array_of(STRING)},
        {"name": STRING},
    ),
    "Problem": _object(
        {
            "name": STRING,
            "connector": nullable(STRING),
            "task": nullable(INTEGER),
            "code": STRING,
            "severity": one_of("error", "warning", "note"),
            "message": STRING,
            "path": nullable(STRING),
            "suggestion": nullable(STRING),
            "cause": nullable(STRING),
            "command": nullable(STRING),
            "since_ms": nullable(INTEGER),
        }
    ),
    "Health": _object({"status": one_of("healthy", "starting", "unhealthy"), "message": STRING}),
    "LogLine": _object(
        {
            "seq": INTEGER,
            "at_ms": INTEGER,
            "level": STRING,
            "logger": STRING,
            "worker_id": STRING,
            "task": nullable(INTEGER),
            "message": STRING,
            "trace": nullable(STRING),
        }
    ),
    "LogLines": _object(
        {
            "worker_id": STRING,
            "lines": array_of(ref("LogLine")),
            "next": STRING,
            "has_gap": BOOLEAN,
            "unavailable": array_of(STRING),
        }
    ),
    "LoggerLevel": _object({"level": STRING, "last_modified": nullable(INTEGER)}),
    "Message": _object({"message": STRING}),
    "Offsets": _object(
        {"offsets": array_of(_object({"partition": nullable(OPEN_OBJECT), "offset": nullable(OPEN_OBJECT)}))},
    ),
    "Plugin": _object({"class": STRING, "type": STRING}, {"version": STRING}),
    "Preview": _object(
        {
            "source": _object({"kind": one_of("given", "topic", "connector"), "topic": nullable(STRING), "skipped": INTEGER}),
            "error": nullable(_PREVIEW_ERROR),
            "records": array_of(
                _object(
                    {
                        "input": nullable(OPEN_OBJECT),
                        "fields": array_of(_PREVIEW_FIELD),
                        "stages": array_of(
                            _object(
                                {
                                    "transform": STRING,
                                    "class": STRING,
                                    "predicate": nullable(STRING),
                                    "ran": BOOLEAN,
                                    "changes": array_of(
                                        _object(
                                            {"path": STRING, "before": nullable(_PREVIEW_SIDE), "after": nullable(_PREVIEW_SIDE)}
                                        )
                                    ),
                                }
                            )
                        ),
                        "result": nullable(array_of(_PREVIEW_FIELD)),
                        "dropped": BOOLEAN,
                        "error": nullable(_PREVIEW_ERROR),
                    }
                )
            ),
        }
    ),
    "ProgressTotals": _object(
        {"tasks": INTEGER, "records": INTEGER, "bytes": INTEGER, "lag": nullable(INTEGER), "errors": INTEGER}
    ),
    "Probe": _object({"status": STRING, "checks": map_of(_object({"ok": BOOLEAN, "message": STRING}))}),
    "ServerInfo": _object({"version": STRING, "commit": STRING, "kafka_cluster_id": nullable(STRING)}),
    "Session": _object(
        {
            "authentication": array_of(STRING),
            "subject": nullable(STRING),
            "groups": array_of(STRING),
            "roles": array_of(_object({"role": one_of("viewer", "operator", "admin"), "connectors": array_of(STRING)})),
            "login": nullable(STRING),
        }
    ),
    "State": _object(_STATE, _STATE_MORE),
    "TaskId": _object({"connector": STRING, "task": INTEGER}),
    "TaskInfo": _object({"id": ref("TaskId"), "config": CONFIG}),
    "TaskProgress": _object(
        {
            "id": INTEGER,
            "records": INTEGER,
            "bytes": INTEGER,
            "lag": nullable(map_of(INTEGER)),
            "details": OPEN_OBJECT,
            "errors": map_of(nullable(INTEGER)),
            "activity": nullable(_ACTIVITY),
            "stalled": nullable(_STALL),
        }
    ),
    "TaskState": _object({"id": INTEGER, **_STATE}, _STATE_MORE),
    "Validation": _object(
        {
            "name": STRING,
            "error_count": INTEGER,
            "groups": array_of(STRING),
            "configs": array_of(_object({"definition": nullable(ref("ConfigKey")), "value": nullable(ref("ConfigValue"))})),
        }
    ),
}


_METHODS = ("get", "post", "put", "patch", "delete")

_TEXTS = {
    200: "Done",
    201: "Created",
    202: "Accepted; states change later",
    204: "Done",
    400: "The request is invalid; or the path is ambiguous (explained in HTML for GET, HEAD and POST, without a body for others)",
    401: "The worker has authentication, and the request has no valid credentials",
    403: "Disabled, or the caller's roles do not allow it",
    404: "Not found",
    405: "The path does not support this method",
    406: "Accept excludes JSON",
    408: "The client stopped sending the request",
    409: "The name is taken, the state does not allow the request, or the cluster is rebalancing",
    413: "The body exceeds rest.max.request.size.bytes",
    415: "The Content-Type is not application/json",
    500: "The body is not the expected JSON, the request timed out, or an error occurred",
    503: "The worker is starting, or has too many connections",
}
_UNTYPED = (405, 406, 415)
"""Errors whose JSON body may come without a Content-Type, as in Apache's worker."""


@dataclass(frozen=True, slots=True)
class OperationResponses:
    """Success responses of an operation (None: empty body), and its errors beyond those of every operation."""

    good: Mapping[int, Schema | None]
    errors: tuple[int, ...] = ()
    media_type: str = JSON_TYPE
    """Of success responses."""


_INFO, _STATUS = ref("ConnectorInfo"), ref("ConnectorStatus")
_CONNECTOR = "/connectors/{connector}"
_SLUICE = "/sluice/connectors/{connector}"
_SESSION = "/sluice/auth/session"
_VERIFICATION: Schema = {
    "type": "object",
    "required": ["equal", "rows", "differences", "unsettled", "seconds"],
    "properties": {
        "equal": {"type": "boolean"},
        "rows": {"type": "integer"},
        "differences": {"type": "integer"},
        "unsettled": {"type": "integer"},
        "seconds": {"type": "number"},
    },
}
"""What ``sluice verify -o json`` prints, without values of rows."""

_NULLABLE_TIME: Schema = nullable({"type": "integer"})
_LAST_VERIFICATION: Schema = {
    "type": "object",
    "required": ["name", "schedule"],
    "properties": {
        **_VERIFICATION["properties"],
        "name": {"type": "string"},
        "stored_ms": {"type": "integer"},
        "schedule": nullable(
            {
                "type": "object",
                "required": ["interval_ms", "last_ms", "error", "next_ms"],
                "properties": {
                    "interval_ms": {"type": "integer"},
                    "last_ms": _NULLABLE_TIME,
                    "error": nullable({"type": "string"}),
                    "next_ms": _NULLABLE_TIME,
                },
            }
        ),
    },
}
"""The last result, if there is one, and the schedule."""

OPERATIONS: dict[tuple[str, str], OperationResponses] = {
    ("get", "/"): OperationResponses({200: ref("ServerInfo")}),
    ("get", "/health"): OperationResponses({200: ref("Health")}),
    ("get", "/health/live"): OperationResponses({200: ref("Probe")}),
    ("get", "/health/ready"): OperationResponses({200: ref("Probe")}),
    ("get", "/metrics"): OperationResponses({200: STRING}, media_type="text/plain"),
    ("get", "/connectors"): OperationResponses({200: {"anyOf": [array_of(STRING), map_of(ref("ExpandedConnector"))]}}),
    ("post", "/connectors"): OperationResponses({201: _INFO}, (400,)),
    ("get", _CONNECTOR): OperationResponses({200: _INFO}, (404,)),
    ("delete", _CONNECTOR): OperationResponses({204: None}, (404,)),
    ("get", f"{_CONNECTOR}/config"): OperationResponses({200: CONFIG}, (404,)),
    ("put", f"{_CONNECTOR}/config"): OperationResponses({200: _INFO, 201: _INFO}, (400,)),
    ("patch", f"{_CONNECTOR}/config"): OperationResponses({200: _INFO}, (400, 404)),
    ("get", f"{_CONNECTOR}/status"): OperationResponses({200: _STATUS}, (404,)),
    ("put", f"{_CONNECTOR}/pause"): OperationResponses({202: None}, (404,)),
    ("put", f"{_CONNECTOR}/resume"): OperationResponses({202: None}, (404,)),
    ("put", f"{_CONNECTOR}/stop"): OperationResponses({204: None}, (404,)),
    ("post", f"{_CONNECTOR}/restart"): OperationResponses({202: _STATUS, 204: None}, (404,)),
    ("get", f"{_CONNECTOR}/offsets"): OperationResponses({200: ref("Offsets")}, (404,)),
    ("patch", f"{_CONNECTOR}/offsets"): OperationResponses({200: ref("Message")}, (400, 404)),
    ("delete", f"{_CONNECTOR}/offsets"): OperationResponses({200: ref("Message")}, (400, 404)),
    ("get", f"{_CONNECTOR}/topics"): OperationResponses({200: ref("ConnectorTopics")}, (403,)),
    ("put", f"{_CONNECTOR}/topics/reset"): OperationResponses({202: None}, (403,)),
    ("get", f"{_CONNECTOR}/tasks"): OperationResponses({200: array_of(ref("TaskInfo"))}, (404,)),
    ("get", f"{_CONNECTOR}/tasks/{{task}}/status"): OperationResponses({200: ref("TaskState")}, (404,)),
    ("post", f"{_CONNECTOR}/tasks/{{task}}/restart"): OperationResponses({204: None}, (404,)),
    ("get", "/connector-plugins"): OperationResponses({200: array_of(ref("Plugin"))}),
    ("get", "/connector-plugins/{plugin}/config"): OperationResponses({200: array_of(ref("ConfigKey"))}, (400, 404)),
    ("put", "/connector-plugins/{plugin}/config/validate"): OperationResponses({200: ref("Validation")}, (400,)),
    ("get", "/admin/loggers"): OperationResponses({200: map_of(ref("LoggerLevel"))}),
    ("get", "/admin/loggers/{logger}"): OperationResponses({200: ref("LoggerLevel")}, (404,)),
    ("put", "/admin/loggers/{logger}"): OperationResponses({200: array_of(STRING), 204: None}, (400, 404)),
    ("get", f"{_SLUICE}/progress"): OperationResponses(
        {200: _object({"name": STRING, "tasks": array_of(ref("TaskProgress"))}, {"missing_workers": array_of(STRING)})}, (404,)
    ),
    ("get", "/sluice/progress"): OperationResponses(
        {200: _object({"connectors": map_of(ref("ProgressTotals"))}, {"missing_workers": array_of(STRING)})}, (400,)
    ),
    ("post", "/sluice/preview"): OperationResponses({200: ref("Preview")}, (400, 404)),
    ("post", "/sluice/connection-test"): OperationResponses({200: ref("ConnectionTest")}, (400, 404)),
    ("post", f"{_SLUICE}/connection-test"): OperationResponses({200: ref("ConnectionTest")}, (400, 404)),
    ("post", "/sluice/data-collections"): OperationResponses({200: ref("DataCollections")}, (400, 404)),
    ("get", "/sluice/connector-plugins/{plugin}/external-system"): OperationResponses({200: ref("ExternalSystem")}, (400, 404)),
    ("get", "/sluice/diagnosis"): OperationResponses({200: ref("Diagnosis")}),
    ("get", f"{_SLUICE}/diagnosis"): OperationResponses({200: ref("Diagnosis")}, (404,)),
    ("post", f"{_SLUICE}/signals"): OperationResponses(
        {202: {"type": "object", "properties": {"id": STRING, "tasks": array_of({"type": "integer"})}}}, (400, 404)
    ),
    ("get", f"{_SLUICE}/logs"): OperationResponses({200: ref("LogLines")}, (400, 404)),
    ("get", f"{_SLUICE}/dead-letters"): OperationResponses({200: ref("DeadLetters")}, (400, 404)),
    ("get", f"{_SLUICE}/dead-letters/causes"): OperationResponses({200: ref("DeadLetterCauses")}, (400, 404)),
    ("post", f"{_SLUICE}/dead-letters/replay"): OperationResponses({200: ref("DeadLetterReplay")}, (400, 404)),
    ("get", f"{_SLUICE}/verification"): OperationResponses({200: _LAST_VERIFICATION}, (404,)),
    ("post", f"{_SLUICE}/verification"): OperationResponses({201: _VERIFICATION}, (400, 404)),
    ("get", f"{_SLUICE}/history"): OperationResponses({200: array_of(ref("ConfigVersion"))}, (404,)),
    ("get", f"{_SLUICE}/history/{{version}}"): OperationResponses({200: nullable(CONFIG)}, (404,)),
    ("post", f"{_SLUICE}/rollback"): OperationResponses({200: _INFO, 201: _INFO}, (400, 404)),
    ("get", _SESSION): OperationResponses({200: ref("Session")}),
    ("post", _SESSION): OperationResponses({204: None}, (400, 403)),
    ("delete", _SESSION): OperationResponses({204: None}),
    ("get", "/sluice/connectors-dir"): OperationResponses({200: array_of(ref("ConnectorFile"))}),
}
"""Every operation of the document. A test fails if one is missing."""

_LEVEL_BODY = {
    "type": "object",
    "required": ["level"],
    "properties": {"level": {"type": "string", "description": "OFF, FATAL, ERROR, WARN, INFO, DEBUG, TRACE or ALL, in any case"}},
}
_SIGNAL_BODY = {
    "type": "object",
    "required": ["type"],
    "properties": {"id": STRING, "type": STRING, "data": {"type": "object", "description": "what the type needs"}},
}
_PREVIEW_BODY = {
    "type": "object",
    "required": ["config"],
    "additionalProperties": False,
    "properties": {
        "config": CONFIG,
        "records": {"type": ["array", "null"], "maxItems": 50, "description": "as docs/preview.md describes them"},
        "sample": {
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": {
                "topic": {"type": ["string", "null"], "minLength": 1},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50},
            },
        },
    },
}
_SYSTEM_BODY = {"type": "object", "required": ["config"], "additionalProperties": False, "properties": {"config": CONFIG}}
_REPLAY_BODY = {
    "type": "object",
    "properties": {
        "dry_run": {"type": "boolean", "description": "only check; the default"},
        "config": {**CONFIG, "description": "edits of the configuration, for a dry run; null removes a key"},
        "selection": {
            "type": "object",
            "properties": {"cause": STRING, "partition": INTEGER, "offsets": STRING, "with_replayed": BOOLEAN},
        },
        "limit": INTEGER,
        "to": {"type": "string", "description": "another topic than the original one"},
        "check": {"type": "boolean", "description": "leave those that would fail again; the default"},
        "include_superseded": BOOLEAN,
        "next": {**map_of(INTEGER), "description": "that of a response that was not complete"},
    },
}
_BODIES: dict[tuple[str, str], Schema] = {
    ("put", "/admin/loggers/{logger}"): _LEVEL_BODY,
    ("post", f"{_SLUICE}/signals"): _SIGNAL_BODY,
    ("post", "/sluice/preview"): _PREVIEW_BODY,
    ("post", "/sluice/connection-test"): _SYSTEM_BODY,
    ("post", "/sluice/data-collections"): _SYSTEM_BODY,
    ("post", f"{_SLUICE}/dead-letters/replay"): _REPLAY_BODY,
    ("post", f"{_SLUICE}/verification"): _VERIFICATION,
}


class ConnectApi(FastAPI):
    """FastAPI whose OpenAPI document describes Apache's responses instead of FastAPI's validation errors."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            self.openapi_schema = complete_document(super().openapi())
        return self.openapi_schema


def complete_document(document: dict[str, Any]) -> dict[str, Any]:
    """Adds the responses of every operation in the table to the document."""
    for method, path, operation in operations(document):
        body = _BODIES.get((method, path))
        if body is not None:
            operation["requestBody"] = {"required": True, "content": {JSON_TYPE: {"schema": body}}}
        answers = OPERATIONS.get((method, path))
        if answers is not None:
            operation["responses"] = _responses(path, answers, "requestBody" in operation)
    document["components"] = {"schemas": dict(SCHEMAS)}
    return document


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields method, path, and description of every operation."""
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield method, path, methods[method]


def _responses(path: str, responses: OperationResponses, has_body: bool) -> dict[str, Any]:
    found = {status: _good(status, schema, responses.media_type) for status, schema in responses.good.items()}
    always = (401, 403, 406, 415, 500, 503)
    errors = {*responses.errors, *always, *((400,) if "{" in path else ()), *((408, 409, 413) if has_body else (409,))}
    for status in errors:
        found[status] = _error(status)
    if path.startswith("/health"):
        # The same form if the worker is unhealthy.
        for status in (500, 503):
            same = ref("Health" if path == "/health" else "Probe")
            found[status]["content"] = {JSON_TYPE: {"schema": {"anyOf": [same, ref("Error")]}}}
    return {str(status): found[status] for status in sorted(found)}


def _good(status: int, schema: Schema | None, media_type: str) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _TEXTS[status]}
    if schema is not None:
        response["content"] = {media_type: {"schema": schema}}
    if status == 201:
        response["headers"] = {"Location": {"description": "URL of the connector", "schema": STRING}}
    return response


def _error(status: int) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _TEXTS[status]}
    if status not in _UNTYPED:
        response["content"] = {JSON_TYPE: {"schema": ref("Error")}}
    if status == 400:
        response["content"]["text/html"] = {"schema": STRING}
    return response
