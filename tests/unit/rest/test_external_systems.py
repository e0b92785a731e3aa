"""Connection tests and lists of tables over REST."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from rest.client import ConnectClient
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import SystemQuestion, TargetState

TEST, TABLES = "/sluice/connection-test", "/sluice/data-collections"


@pytest.mark.parametrize(
    ("path", "question"), [(TEST, SystemQuestion.CONNECTION_TEST), (TABLES, SystemQuestion.DATA_COLLECTIONS)]
)
def test_configuration_is_asked_about_with_numbers_as_texts(
    client: ConnectClient, herder: FakeHerder, path: str, question: SystemQuestion
) -> None:
    status, _ = client.send("POST", path, {"config": {"database.port": 5432, "unset": None}})
    assert status == 200
    assert herder.asked == [({"database.port": "5432", "unset": None}, question)]


def test_stored_configuration_of_a_connector_is_tested(client: ConnectClient, herder: FakeHerder) -> None:
    herder.configs["shop"] = {"connector.class": "x", "name": "shop"}
    herder.targets["shop"] = TargetState.STARTED
    assert client.send("POST", "/sluice/connectors/shop/connection-test", None)[0] == 200
    assert herder.asked == [({"connector.class": "x", "name": "shop"}, SystemQuestion.CONNECTION_TEST)]
    assert client.send("POST", "/sluice/connectors/absent/connection-test", None)[0] == 404


def test_capabilities_of_a_class_are_asked_for_by_its_name(client: ConnectClient, herder: FakeHerder) -> None:
    status, answer = client.send("GET", "/sluice/connector-plugins/a.b:C/external-system", None)
    assert (status, answer) == (200, {"connection_test": True, "collection_keys": []})
    assert herder.asked == [({"connector.class": "a.b:C"}, SystemQuestion.CAPABILITIES)]


@pytest.mark.parametrize("path", [TEST, TABLES, "/sluice/connectors/shop/connection-test"])
def test_call_is_cancelled_when_the_client_disconnects(client: ConnectClient, herder: FakeHerder, path: str) -> None:
    herder.configs["shop"] = {"connector.class": "Hangs", "name": "shop"}
    herder.targets["shop"] = TargetState.STARTED
    address = urlsplit(client.url)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=WAIT_S)
    body = json.dumps({"config": {"connector.class": "Hangs"}})
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    assert herder.hangs.wait(WAIT_S)
    assert not herder.cancelled.is_set()
    connection.close()
    assert herder.cancelled.wait(WAIT_S)


@pytest.mark.parametrize("path", [TEST, TABLES])
@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ([], 500, "The body is not an object"),
        ({}, 500, '"config" is null or missing'),
        ({"config": {}, "records": []}, 400, 'Unknown member "records"'),
        ({"config": {"connector.class": "Plain"}}, 400, "Plain has no connection test"),
    ],
)
def test_invalid_requests_are_refused_with_the_reason(
    client: ConnectClient, path: str, body: Any, status: int, message: str
) -> None:
    found, answer = client.send("POST", path, body)
    assert found == status
    assert message in answer["message"]
