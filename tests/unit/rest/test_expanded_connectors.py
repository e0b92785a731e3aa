"""The list of connectors with their statuses and configurations: what is kept between requests, and what is not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import Request

from connect.config.parsing import HIDDEN
from connect.errors import NotFoundError
from rest import expanded_connectors
from rest.expanded_connectors import ExpandedConnectors
from rest.responses import connector_info_json, connector_status_json
from rest.security.access import SCOPE_KEY, Access, Grant
from rest.security.config_mask import ConfigMask
from rest.security.identity import ANONYMOUS, Role
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import ConnectorInfo, ConnectorStatus, Restarts, State, Status, TargetState

NAMES = ['a "quoted" \\ one', "a", "b/c", "größe", "shop-1"]


class Herder(FakeHerder):
    """Shows the statuses that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        for name in NAMES:
            self.add(name)
        self.changed: dict[str, ConnectorStatus] = {}

    def add(self, name: str) -> None:
        self.configs[name], self.targets[name] = {"name": name, "topic": "é", "gone": None}, TargetState.STARTED

    def connector_status(self, name: str) -> ConnectorStatus:
        return self.changed.get(name) or super().connector_status(name)


@pytest.fixture
def herder() -> Herder:
    return Herder()


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The connectors whose statuses were encoded."""
    found: list[str] = []

    def encode(status: ConnectorStatus) -> dict[str, Any]:
        found.append(status.name)
        return connector_status_json(status)

    monkeypatch.setattr(expanded_connectors, "connector_status_json", encode)
    return found


def request(*patterns: str, role: Role = Role.ADMIN) -> Request:
    """A request of a caller with the role for these connectors."""
    access = Access(ANONYMOUS, (Grant(role, patterns or ("*",)),))
    return Request({"type": "http", SCOPE_KEY: access})


@pytest.mark.parametrize(
    "kinds", [[], ["nonsense"], ["status"], ["info"], ["info", "status"], ["status", "x", "info"], ["status", "info", "status"]]
)
def test_body_is_that_of_the_single_resources(herder: Herder, kinds: list[str]) -> None:
    expanded = ExpandedConnectors(herder)
    for _ in range(2):
        shown = {
            name: {
                kind: connector_status_json(herder.connector_status(name))
                if kind == "status"
                else connector_info_json(herder.connector_info(name))
                for kind in dict.fromkeys(kinds)
                if kind in ("status", "info")
            }
            for name in herder.connectors()
        }
        # As text, so that the order counts too.
        assert json.dumps(json.loads(expanded.body(request(), kinds))) == json.dumps(shown)


def test_statuses_are_encoded_again_only_if_they_changed(herder: Herder, encoded: list[str]) -> None:
    expanded = ExpandedConnectors(herder)
    for kinds in (["status"], ["status"], ["info", "status"]):
        expanded.body(request(), kinds)
        assert sorted(encoded) == sorted(NAMES)
    before = herder.connector_status("a")
    failed = Status(State.FAILED, "w", "boom")
    for status in (
        replace(before, connector=failed),
        replace(before, tasks=[(0, failed)]),
        replace(before, tasks=[(0, replace(failed, restarts=Restarts(1, 5)))]),
        replace(before, tasks=[]),
        replace(before, type="sink"),
        replace(before, connector=replace(before.connector, worker_id="after:8083"), tasks=[(0, replace(failed, worker_id="b"))]),
    ):
        encoded.clear()
        herder.changed["a"] = status
        for kinds in (["status"], ["status", "info"]):
            shown = json.loads(expanded.body(request(), kinds))["a"]["status"]
            assert shown == json.loads(json.dumps(connector_status_json(status)))
        assert encoded == ["a"]


def test_callers_see_their_connectors_whatever_others_have_asked_for(herder: Herder, encoded: list[str]) -> None:
    expanded = ExpandedConnectors(herder)
    for kinds in (["status"], ["info", "status"]):
        for patterns, names in ((("shop-*",), ["shop-1"]), ((), sorted(NAMES)), (("shop-*", "a"), ["a", "shop-1"]), (("x",), [])):
            assert list(json.loads(expanded.body(request(*patterns), kinds))) == names
    assert sorted(encoded) == sorted(NAMES), "a caller who sees few does not make the others' be forgotten"


def test_deleted_connectors_are_forgotten(herder: Herder, encoded: list[str]) -> None:
    expanded = ExpandedConnectors(herder)
    expanded.body(request(), ["status"])
    for name in NAMES[1:]:
        del herder.configs[name]
    assert list(json.loads(expanded.body(request(), ["status"]))) == NAMES[:1]
    assert list(expanded._known_statuses) == NAMES[:1]


def test_configurations_are_encoded_again_only_if_they_changed(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []

    def encode(info: ConnectorInfo) -> dict[str, Any]:
        encoded.append(info.name)
        return connector_info_json(info)

    def shown() -> str:
        return json.dumps(json.loads(expanded.body(request(), ["info"]))["a"]["info"])

    monkeypatch.setattr(expanded_connectors, "connector_info_json", encode)
    expanded = ExpandedConnectors(herder)
    for kinds in (["info"], ["info"], ["info", "status"]):
        expanded.body(request(), kinds)
        assert sorted(encoded) == sorted(NAMES)
    config = herder.configs["a"]
    for changed in (config | {"topic": "t"}, config | {"new": "1"}, dict(reversed(config.items())), config):
        encoded.clear()
        herder.configs["a"] = changed
        assert [shown(), shown()] == [json.dumps(connector_info_json(herder.connector_info("a")))] * 2
        assert encoded == ["a"]
    encoded.clear()
    herder.targets["a"] = TargetState.STOPPED
    assert json.loads(shown())["tasks"] == []
    assert encoded == ["a"]
    for name in NAMES[1:]:
        del herder.configs[name]
    assert list(json.loads(expanded.body(request(), ["info"]))) == list(expanded._known_infos) == NAMES[:1]


def test_secrets_are_hidden_whatever_others_have_asked_for(herder: Herder) -> None:
    herder.configs["a"] = {"name": "a", "db.password": "swordfish"}
    app, expanded = FastAPI(), ExpandedConnectors(herder)
    app.state.mask = ConfigMask(herder)
    for role, kinds in [(Role.ADMIN, ["info"]), (Role.VIEWER, ["info"]), (Role.VIEWER, ["status", "info"])] * 2:
        asked = request(role=role)
        asked.scope["app"] = app
        config = json.loads(expanded.body(asked, kinds))["a"]["info"]["config"]
        assert config["db.password"] == ("swordfish" if role is Role.ADMIN else HIDDEN)


def test_connector_without_status_or_configuration_is_left_out(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise NotFoundError(name)

    expanded = ExpandedConnectors(herder)
    monkeypatch.setattr(
        herder, "connector_info", lambda name: missing(name) if name == "a" else FakeHerder.connector_info(herder, name)
    )
    monkeypatch.setattr(
        herder, "connector_status", lambda name: missing(name) if name == "b/c" else Herder.connector_status(herder, name)
    )
    for kinds, absent in ((["status"], {"b/c"}), (["info"], {"a"}), (["info", "status"], {"a", "b/c"}), (["x"], set())):
        assert set(NAMES) - set(json.loads(expanded.body(request(), kinds))) == absent
