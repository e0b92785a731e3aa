"""The diagnosis of a worker of Apache Kafka Connect, whose REST API shows configurations with their secrets."""

from __future__ import annotations

from typing import Any, cast

import pytest

from connect.errors import NotFoundError, UnreachableError
from rest.client import ConnectClient
from sluice.online.diagnosis import read_diagnosis


class _ApacheWorker:
    """Has failed connectors whose traces contain values of their configurations."""

    def __init__(self, *configs: dict[str, str]) -> None:
        self._configs = {f"c{number}": config for number, config in enumerate(configs)}

    is_down = False
    """Whether it answers no longer, from the second request on."""

    def diagnosis(self, name: str | None) -> Any:
        raise NotFoundError("HTTP 404 Not Found")

    def connectors_expanded(self, *_: str) -> dict[str, Any]:
        return {
            name: {
                "info": {"name": name, "type": "source", "config": config},
                "status": {
                    "name": name,
                    "type": "source",
                    "connector": {"state": "FAILED", "worker_id": "w:8083", "trace": f"Error: {' '.join(config.values())}"},
                    "tasks": [],
                },
            }
            for name, config in self._configs.items()
        }

    def plugin_config(self, plugin: str) -> list[dict[str, str]]:
        if self.is_down:
            raise UnreachableError("nobody answers")
        if plugin not in ("Source", "Sign"):
            raise NotFoundError(f"no plugin {plugin}")
        return [{"name": "code", "type": "PASSWORD"}, {"name": "topic", "type": "STRING"}]

    def plugins(self) -> list[dict[str, str]]:
        return [{"class": "Source"}]


def test_secrets_of_connectors_transformations_and_unknown_classes_are_hidden() -> None:
    worker = _ApacheWorker(
        {"connector.class": "Source", "code": "own-secret", "topic": "orders"},
        {"connector.class": "Source", "transforms": "s", "transforms.s.type": "Sign", "transforms.s.code": "nested-secret"},
        {"connector.class": "Gone", "x": "unknown-secret", "y": "404"},
    )
    found = str(read_diagnosis(cast(ConnectClient, worker)).as_json())
    assert "orders" in found
    assert "404" in found  # few secrets are short numbers, and many texts contain one
    for secret in ("own-secret", "nested-secret", "unknown-secret"):
        assert secret not in found


def test_worker_that_ends_meanwhile_is_not_asked_for_each_connector() -> None:
    worker = _ApacheWorker({"connector.class": "Source"}, {"connector.class": "Gone"})
    worker.is_down = True
    with pytest.raises(UnreachableError, match="nobody answers"):
        read_diagnosis(cast(ConnectClient, worker))
