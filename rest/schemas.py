"""JSON Schemas of response bodies, for ``components`` in ``/openapi.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
_STATE_MORE = {
    "version": STRING,
    "trace": STRING,
    "restarts": _object({"count": INTEGER, "next_ms": nullable(INTEGER)}),
}
_CONNECTOR_TYPE = one_of("source", "sink", "unknown")
_KEY_TYPE = one_of("STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD", "BOOLEAN")

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
    "Error": _object({"error_code": INTEGER, "message": nullable(STRING)}),
    "ExpandedConnector": _object({}, {"status": ref("ConnectorStatus"), "info": ref("ConnectorInfo")}),
    "Health": _object({"status": one_of("healthy", "starting", "unhealthy"), "message": STRING}),
    "LoggerLevel": _object({"level": STRING, "last_modified": nullable(INTEGER)}),
    "Message": _object({"message": STRING}),
    "Offsets": _object(
        {"offsets": array_of(_object({"partition": nullable(OPEN_OBJECT), "offset": nullable(OPEN_OBJECT)}))},
    ),
    "Plugin": _object({"class": STRING, "type": STRING}, {"version": STRING}),
    "ServerInfo": _object({"version": STRING, "commit": STRING, "kafka_cluster_id": nullable(STRING)}),
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
