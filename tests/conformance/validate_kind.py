"""Cases of validate.jsonl: one REST response about plugins or a connector's configuration.

Each request goes to the REST app of a standalone worker configured like the recorded one: JsonConverter for keys and values, the
override policy ``All``, and no plugin path. No broker is needed. Parts that depend on the installed plugins are compared partly:

- suggested classes (``recommended_values``) and plugin lists: only entries that both workers have, in order. This ignores our own
  plugins, and Apache's test tools and MirrorMaker;
- the message for an unknown connector: only up to the list of available connectors.

Everything else must be equal, including documentation and order of keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast
from urllib.parse import quote

from starlette.testclient import TestClient

from connect.plugins import Plugins
from rest.app import build_api
from worker.config.worker_config import WorkerConfig
from worker.herder import Herder
from worker.validation import DiscoveredPluginIndex, list_plugins, plugin_config, validate

JSON = "org.apache.kafka.connect.json.JsonConverter"
_AVAILABLE = "available connectors are: "


def matches(case: dict[str, Any]) -> bool:
    return case.get("op") in ("validate", "config", "list") and "plugin" in case


def run(case: dict[str, Any]) -> tuple[Any, Any]:
    plugin = quote(case["plugin"] or "", safe="")
    client = _client()
    match case["op"]:
        case "validate":
            answer = client.put(f"/connector-plugins/{plugin}/config/validate", json=case["config"])
        case "config":
            answer = client.get(f"/connector-plugins/{plugin}/config")
        case _:
            answer = client.get(f"/connector-plugins?{case.get('query') or ''}")
    expected, actual = case["expected"]["body"], answer.json()
    if case["op"] == "list":
        expected, actual = _reduce_lists_to_shared(expected, actual)
    elif isinstance(expected, dict) and "configs" in expected:
        _reduce_response_to_shared(expected, actual)
    elif isinstance(expected, dict) and isinstance(actual, dict):
        for body in (expected, actual):
            body["message"] = _without_available_connectors(body.get("message", ""))
    return {"status": case["expected"]["status"], "body": expected}, {"status": answer.status_code, "body": actual}


class _Worker:
    """The part of a herder that these requests need."""

    def __init__(self) -> None:
        props = {"key.converter": JSON, "value.converter": JSON, "offset.storage.file.filename": "offsets"}
        self._config = WorkerConfig.standalone(props)
        self._plugin_index = DiscoveredPluginIndex(Plugins.discover())

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return list_plugins(self._plugin_index, connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        return plugin_config(plugin, self._plugin_index, version)

    def validate(self, plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        return validate(config, self._config, self._plugin_index)


@lru_cache(maxsize=1)
def _client() -> TestClient:
    return TestClient(build_api(cast(Herder, _Worker())), raise_server_exceptions=False)


def _reduce_lists_to_shared(expected: list[dict[str, str]], actual: list[dict[str, str]]) -> tuple[Any, Any]:
    both = {(e["type"], e["class"]) for e in expected} & {(e["type"], e["class"]) for e in actual}

    def shared(entries: list[dict[str, str]]) -> list[Any]:
        return [(e["type"], e["class"], e.get("version")) for e in entries if (e["type"], e["class"]) in both]

    return shared(expected), shared(actual)


def _reduce_response_to_shared(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    for one, other in zip(expected["configs"], actual.get("configs", ()), strict=False):
        values = (one["value"], other["value"])
        if None in values or values[0]["name"] != values[1]["name"]:
            continue
        for value in values:
            value["errors"] = [_without_available_connectors(error) for error in value["errors"]]
        if values[0]["name"].endswith((".converter", ".type")):
            both = set(values[0]["recommended_values"]) & set(values[1]["recommended_values"])
            assert both or not values[0]["recommended_values"], f"nothing suggested for {values[0]['name']}"
            for value in values:
                value["recommended_values"] = [name for name in value["recommended_values"] if name in both]


def _without_available_connectors(message: str) -> str:
    """Cuts the list of available connectors off a message."""
    head, found, _ = message.partition(_AVAILABLE)
    return head + found
