"""Replays recorded REST exchanges against a worker and says where the answer differs."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.support.waiting import WAIT_S, eventually

RECORDINGS = Path(__file__).parent / "recordings"
NOT_HERE = frozenset(f"org.apache.kafka.connect.mirror.Mirror{name}Connector" for name in ("Checkpoint", "Heartbeat", "Source"))
"""MirrorMaker's connectors, which copy between clusters: the only plugins of Apache's distribution that have no namesake."""


def load_recordings(mode: str) -> list[dict[str, Any]]:
    """All recordings of ``standalone`` or ``distributed`` workers, with their definitions put back."""
    definitions = _lines("definitions")
    recordings = [*_lines("both"), *_lines(mode)]
    for recording in recordings:
        if isinstance(recording["body"], dict):
            for config in recording["body"].get("configs", ()):
                if config["definition"] is not None:
                    config["definition"] = definitions[config["definition"]]
    return recordings


def _lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (RECORDINGS / f"{name}.jsonl").read_text().splitlines()]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any
    """Parsed JSON; ``{"_text": ...}`` for other text; None when empty."""


@dataclass(frozen=True, slots=True)
class Target:
    """A worker under test: where it answers, and how to put records into a topic."""

    host: str
    port: int
    produce: Callable[[str, list[str]], None]

    def send(self, request: Mapping[str, Any]) -> Answer:
        """One request on a connection of its own, with exactly the headers given."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=WAIT_S)
        path = quote(request["path"], safe="/%$")
        if request.get("query"):
            path += "?" + urlencode([tuple(pair) for pair in request["query"]])
        payload = request.get("raw")
        headers = dict(request.get("headers") or {})
        if payload is None and request.get("body") is not None:
            payload = json.dumps(request["body"])
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(request["method"], path, None if payload is None else payload.encode(), headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, _parsed(text))

    def wait_until_healthy(self) -> None:
        eventually(lambda: self.send({"method": "GET", "path": "/health"}).status == 200, "a healthy worker")

    def delete_connectors(self) -> None:
        """Returns when none is left, so that the next recording finds a worker without."""
        for name in self.send({"method": "GET", "path": "/connectors"}).body:
            eventually(partial(self._delete, name), f"no {name}")

    def _delete(self, name: str) -> bool:
        return self.send({"method": "DELETE", "path": f"/connectors/{name}"}).status in (204, 404)


def _parsed(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return {"_text": text}


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """The value with its placeholders replaced, in keys too."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{{" + name + "}}", text)
        return value
    if isinstance(value, list):
        return [filled(member, names) for member in value]
    if isinstance(value, dict):
        return {filled(key, names): filled(member, names) for key, member in value.items()}
    return value


def _has_offsets(target: Target, path: str) -> bool:
    return bool(target.send({"method": "GET", "path": path}).body.get("offsets"))


def _has_topics(target: Target, path: str, connector: str) -> bool:
    return bool(target.send({"method": "GET", "path": path}).body[connector]["topics"])


def _is_unknown(target: Target, path: str) -> bool:
    return target.send({"method": "GET", "path": path}).status == 404


def run_setup(target: Target, steps: list[dict[str, Any]]) -> None:
    """Does the steps before a recorded request. Fails when one can't be done."""
    for step in steps:
        match step["do"]:
            case "http":
                answer = target.send(step)
                assert answer.status in step["expect"], f"setup {step['method']} {step['path']}: {answer}"
            case "wait":
                eventually(partial(_is_in_state, target, step), f"state {step}")
            case "wait_offsets":
                path = f"/connectors/{step['connector']}/offsets"
                eventually(partial(_has_offsets, target, path), path)
            case "wait_topics":  # tasks tell of topics before their offsets, but that is written behind
                path = f"/connectors/{step['connector']}/topics"
                eventually(partial(_has_topics, target, path, step["connector"]), path)
            case "wait_status_gone":
                path = f"/connectors/{step['connector']}/status"
                eventually(partial(_is_unknown, target, path), path)
            case "file":
                Path(step["path"]).write_text(step["text"])
            case "pause":
                pass  # what was true some seconds later has to be true at once
            case "produce":
                target.produce(step["topic"], step["values"])
            case other:
                raise AssertionError(f"unknown setup step {other}")


def _is_in_state(target: Target, step: Mapping[str, Any]) -> bool:
    answer = target.send({"method": "GET", "path": f"/connectors/{step['connector']}/status"})
    if answer.status != 200:
        return False
    tasks = [task["state"] for task in answer.body["tasks"]]
    return (
        answer.body["connector"]["state"] == step["state"]
        and len(tasks) == step["tasks"]
        and all(state == step["task_state"] for state in tasks)
    )


def differences(recording: Mapping[str, Any], answer: Answer) -> list[str]:
    """Where an answer differs from the recorded one; empty when it is right."""
    found = []
    if answer.status != recording["status"]:
        found.append(f"status: expected {recording['status']}, got {answer.status}")
    for name in {"content-type", *recording["headers"]}:
        expected, actual = recording["headers"].get(name), answer.headers.get(name)
        if expected != actual:
            found.append(f"header {name}: expected {expected}, got {actual}")
    rules = _Rules(
        [_pattern(path) for path in recording.get("volatile", ())],
        frozenset(recording.get("unordered", ())),
        recording.get("compare") == "contains",
    )
    expected_body, actual_body = recording["body"], answer.body
    if _is_validation(expected_body) and _is_validation(actual_body):
        _level_plugins(expected_body, actual_body)
    if recording["request"]["path"].rstrip("/") == "/connector-plugins":
        expected_body, actual_body = _plugins(expected_body, expected_body), _plugins(actual_body, expected_body)
    found.extend(_compare(expected_body, actual_body, "$", rules))
    return found


@dataclass(frozen=True, slots=True)
class _Rules:
    free: list[re.Pattern[str]]
    unordered: frozenset[str]
    more_is_fine: bool


def _pattern(path: str) -> re.Pattern[str]:
    path = re.sub(r"\[\?name=[^\]]*\]", "[*]", path)
    regex = re.escape(path).replace(r"\[\*\]", r"\[\d+\]").replace(r"\.\.", r".*\.")
    return re.compile(regex)


def _compare(expected: Any, actual: Any, path: str, rules: _Rules) -> Iterator[str]:
    if any(pattern.fullmatch(path) for pattern in rules.free):
        if type(expected) is not type(actual):
            yield f"{path}: expected some {type(expected).__name__}, got {actual!r}"
    elif isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected.keys() - actual.keys():
            yield f"{path}.{key}: missing"
        for key in () if rules.more_is_fine else actual.keys() - expected.keys():
            yield f"{path}.{key}: not expected, is {actual[key]!r}"
        for key in expected.keys() & actual.keys():
            yield from _compare(expected[key], actual[key], f"{path}.{key}", rules)
    elif isinstance(expected, list) and isinstance(actual, list):
        if path in rules.unordered:
            expected, actual = sorted(expected, key=json.dumps), sorted(actual, key=json.dumps)
        if len(expected) != len(actual):
            yield f"{path}: expected {len(expected)} members, got {len(actual)}: {actual!r}"
        for i, (one, other) in enumerate(zip(expected, actual, strict=False)):
            yield from _compare(one, other, f"{path}[{i}]", rules)
    elif expected != actual:
        yield f"{path}: expected {expected!r}, got {actual!r}"


def _is_validation(body: Any) -> bool:
    return isinstance(body, dict) and "configs" in body


def _level_plugins(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    """Takes out what depends on the plugins a worker happens to have.

    Versions of plugins are compared as there or not; more classes may be suggested than were recorded.
    """
    for one, other in zip(expected["configs"], actual["configs"], strict=False):
        name = one["value"]["name"]
        if name != other["value"]["name"]:
            continue
        if name.endswith("plugin.version"):
            for body in (one, other):
                body["definition"]["default_value"] = body["definition"]["default_value"] is not None
                body["value"]["value"] = body["value"]["value"] is not None
                body["value"]["recommended_values"] = len(body["value"]["recommended_values"])
        elif name.endswith((".converter", ".type")):
            recorded = set(one["value"]["recommended_values"])
            found = other["value"]
            found["recommended_values"] = [v for v in found["recommended_values"] if v in recorded]


def _plugins(listed: Any, recorded: Any) -> Any:
    """Of a list of plugins those that were recorded and can be here: a worker may have more."""
    if not isinstance(listed, list) or not isinstance(recorded, list):
        return listed
    names = {(entry["type"], entry["class"]) for entry in recorded if entry["class"] not in NOT_HERE}
    return [entry for entry in listed if (entry["type"], entry["class"]) in names]
