"""Cases of transforms.jsonl: one transformation, predicate or chain on one record."""

from __future__ import annotations

from typing import Any

from connect.errors import ConnectError
from connect.plugins import Plugins
from connect.record import ConnectRecord
from connect.record_format import record_from_json, record_to_json
from connect.transforms.chain import apply_steps, build_steps, close_steps
from tests.conformance.compare import comparable, comparable_data, expected_error, raised_error

PLUGINS = Plugins.discover()


def matches(case: dict[str, Any]) -> bool:
    return "stage" in case and "class" in case and "kind" in case


def run(case: dict[str, Any]) -> tuple[Any, Any]:
    expected = case["expected"]
    stage = "configure"
    try:
        given = record_from_json(case["input"])
        before = _comparable_record(record_to_json(given))
        apply = _applier(case)
        stage = "apply"
        actual = apply(given)
        # A record that failed later is seen again: nothing may have changed it.
        assert _comparable_record(record_to_json(given)) == before, "the input record was changed"
    except ConnectError as e:
        shown = raised_error(e, expected)
        return {"stage": case["stage"], **expected_error(expected)}, {"stage": stage, **shown}
    if isinstance(actual, ConnectRecord):
        actual = _comparable_record(record_to_json(actual))
    if isinstance(expected, dict):
        expected = expected if "error" in expected else _comparable_record(expected)
    return expected, actual


def _applier(case: dict[str, Any]) -> Any:
    if case["class"] == "chain":
        steps = build_steps(case["config"], PLUGINS)

        def apply_chain(record: ConnectRecord) -> Any:
            try:
                return apply_steps(steps, record)
            finally:
                close_steps(steps)

        return apply_chain
    if ".predicates." in case["class"]:
        predicate = PLUGINS.new_predicate(case["class"])
        predicate.configure(case["config"])
        return predicate.test
    transformation = PLUGINS.new_transformation(case["class"])
    transformation.configure(case["config"])

    def apply_twice(record: ConnectRecord) -> Any:
        # A batch of two is answered by the cached plan: both must agree with the single record.
        result = transformation.apply(record)
        shown = [None if r is None else record_to_json(r) for r in (result, *transformation.apply_batch([record, record]))]
        assert shown[0] == shown[1] == shown[2], f"single {shown[0]!r}, batch {shown[1:]!r}"
        return result

    return apply_twice


def _comparable_record(node: dict[str, Any]) -> dict[str, Any]:
    data = ("key", "value", "headers", "sourcePartition", "sourceOffset")
    shown = {key: value for key, value in node.items() if key not in data}
    shown["key"] = _data(node["key"])
    shown["value"] = _data(node["value"])
    shown["headers"] = [{"key": h["key"], **_data(h)} for h in node["headers"]]
    for member in ("sourcePartition", "sourceOffset"):
        if member in node:
            shown[member] = comparable(node[member])
    return shown


def _data(node: Any) -> dict[str, Any]:
    data = comparable_data(node)
    return {"schema": _rounded_defaults(data["schema"]), "payload": data["payload"]}


def _rounded_defaults(schema: Any) -> Any:
    """A schema whose float32 defaults are the floats their text stands for, as payloads are compared."""
    if isinstance(schema, list):
        return [_rounded_defaults(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    members = {key: _rounded_defaults(member) for key, member in schema.items()}
    if members.get("default") is not None and "type" in members:
        members["default"] = comparable_data({"schema": schema, "payload": schema["default"]})["payload"]
    return members
