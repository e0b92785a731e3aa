"""``/openapi.json``: what FastAPI knows of the routes, and what each of them answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from rest.responses import JSON_TYPE
from rest.schemas import CONFIG, SCHEMAS, STRING, Schema, array_of, map_of, nullable, ref

_METHODS = ("get", "post", "put", "patch", "delete")

_TEXTS = {
    200: "Done",
    201: "Created",
    202: "Accepted; the states follow",
    204: "Done",
    400: "The request cannot be meant so; or the path is ambiguous, which is told in HTML to GET, HEAD and POST, and to others "
    "without a body",
    403: "Switched off",
    404: "There is no such thing",
    405: "The path does not have this method",
    406: "Accept lets no JSON through",
    408: "The rest of the request did not come",
    409: "The name is taken, the call does not fit the state, or the workers of the cluster are just sharing out their work",
    413: "The body is longer than rest.max.request.size.bytes",
    415: "The body's Content-Type is not application/json",
    500: "The body is not the JSON that is expected, the call took too long, or something failed",
    503: "The worker is starting, or has too many connections",
}
_UNTYPED = (405, 406, 415)
"""Errors whose JSON body may come without a Content-Type, as in Apache's worker."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What an operation answers when it went well, an empty body as None; and the errors that not every operation has."""

    good: Mapping[int, Schema | None]
    errors: tuple[int, ...] = ()


_INFO, _STATUS = ref("ConnectorInfo"), ref("ConnectorStatus")
_CONNECTOR = "/connectors/{connector}"
_SLUICE = "/sluice/connectors/{connector}"

OPERATIONS: dict[tuple[str, str], Answers] = {
    ("get", "/"): Answers({200: ref("ServerInfo")}),
    ("get", "/health"): Answers({200: ref("Health")}),
    ("get", "/connectors"): Answers({200: {"anyOf": [array_of(STRING), map_of(ref("ExpandedConnector"))]}}),
    ("post", "/connectors"): Answers({201: _INFO}, (400,)),
    ("get", _CONNECTOR): Answers({200: _INFO}, (404,)),
    ("delete", _CONNECTOR): Answers({204: None}, (404,)),
    ("get", f"{_CONNECTOR}/config"): Answers({200: CONFIG}, (404,)),
    ("put", f"{_CONNECTOR}/config"): Answers({200: _INFO, 201: _INFO}, (400,)),
    ("patch", f"{_CONNECTOR}/config"): Answers({200: _INFO}, (400, 404)),
    ("get", f"{_CONNECTOR}/status"): Answers({200: _STATUS}, (404,)),
    ("put", f"{_CONNECTOR}/pause"): Answers({202: None}, (404,)),
    ("put", f"{_CONNECTOR}/resume"): Answers({202: None}, (404,)),
    ("put", f"{_CONNECTOR}/stop"): Answers({204: None}, (404,)),
    ("post", f"{_CONNECTOR}/restart"): Answers({202: _STATUS, 204: None}, (404,)),
    ("get", f"{_CONNECTOR}/offsets"): Answers({200: ref("Offsets")}, (404,)),
    ("patch", f"{_CONNECTOR}/offsets"): Answers({200: ref("Message")}, (400, 404)),
    ("delete", f"{_CONNECTOR}/offsets"): Answers({200: ref("Message")}, (400, 404)),
    ("get", f"{_CONNECTOR}/topics"): Answers({200: ref("ConnectorTopics")}, (403,)),
    ("put", f"{_CONNECTOR}/topics/reset"): Answers({202: None}, (403,)),
    ("get", f"{_CONNECTOR}/tasks"): Answers({200: array_of(ref("TaskInfo"))}, (404,)),
    ("get", f"{_CONNECTOR}/tasks/{{task}}/status"): Answers({200: ref("TaskState")}, (404,)),
    ("post", f"{_CONNECTOR}/tasks/{{task}}/restart"): Answers({204: None}, (404,)),
    ("get", "/connector-plugins"): Answers({200: array_of(ref("Plugin"))}),
    ("get", "/connector-plugins/{plugin}/config"): Answers({200: array_of(ref("ConfigKey"))}, (400, 404)),
    ("put", "/connector-plugins/{plugin}/config/validate"): Answers({200: ref("Validation")}, (400,)),
    ("get", "/admin/loggers"): Answers({200: map_of(ref("LoggerLevel"))}),
    ("get", "/admin/loggers/{logger}"): Answers({200: ref("LoggerLevel")}, (404,)),
    ("put", "/admin/loggers/{logger}"): Answers({200: array_of(STRING), 204: None}, (400, 404)),
    ("get", f"{_SLUICE}/progress"): Answers(
        {200: {"type": "object", "properties": {"name": STRING, "tasks": array_of(ref("TaskProgress"))}}}, (404,)
    ),
    ("get", f"{_SLUICE}/history"): Answers({200: array_of(ref("ConfigVersion"))}, (404,)),
    ("get", f"{_SLUICE}/history/{{version}}"): Answers({200: nullable(CONFIG)}, (404,)),
    ("post", f"{_SLUICE}/rollback"): Answers({200: _INFO, 201: _INFO}, (400, 404)),
    ("get", "/sluice/connectors-dir"): Answers({200: array_of(ref("ConnectorFile"))}),
}
"""Every operation of the document. A test fails when one is missing."""

_LEVEL_BODY = {
    "type": "object",
    "required": ["level"],
    "properties": {"level": {"type": "string", "description": "OFF, FATAL, ERROR, WARN, INFO, DEBUG, TRACE or ALL, in any case"}},
}
_BODIES: dict[tuple[str, str], Schema] = {("put", "/admin/loggers/{logger}"): _LEVEL_BODY}


class ConnectApi(FastAPI):
    """FastAPI with Apache's answers in its document, in place of FastAPI's own for what does not fit the parameters."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            self.openapi_schema = completed(super().openapi())
        return self.openapi_schema


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the answers of every operation that the table knows."""
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
    """Method, path and description of every operation."""
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield method, path, methods[method]


def _responses(path: str, answers: Answers, has_body: bool) -> dict[str, Any]:
    found = {status: _good(status, schema) for status, schema in answers.good.items()}
    errors = {*answers.errors, 406, 415, 500, 503, *((400,) if "{" in path else ()), *((408, 409, 413) if has_body else (409,))}
    for status in errors:
        found[status] = _error(status)
    if path == "/health":
        # Told in the same form when the worker is not well.
        for status in (500, 503):
            found[status]["content"] = {JSON_TYPE: {"schema": {"anyOf": [ref("Health"), ref("Error")]}}}
    return {str(status): found[status] for status in sorted(found)}


def _good(status: int, schema: Schema | None) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _TEXTS[status]}
    if schema is not None:
        response["content"] = {JSON_TYPE: {"schema": schema}}
    if status == 201:
        response["headers"] = {"Location": {"description": "Where the connector is", "schema": STRING}}
    return response


def _error(status: int) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _TEXTS[status]}
    if status not in _UNTYPED:
        response["content"] = {JSON_TYPE: {"schema": ref("Error")}}
    if status == 400:
        response["content"]["text/html"] = {"schema": STRING}
    return response
