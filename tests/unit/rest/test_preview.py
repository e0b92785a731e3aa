"""The body of ``POST /sluice/preview``."""

from __future__ import annotations

from typing import Any

import pytest

from rest.client import ConnectClient
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import PreviewRequest


def post(client: ConnectClient, body: Any) -> tuple[int, Any]:
    return client.send("POST", "/sluice/preview", body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"config": {}}, PreviewRequest()),
        ({"config": {}, "records": [{"id": 1.5}, None]}, PreviewRequest([{"id": 1.5}, None])),
        ({"config": {}, "records": None, "sample": {"topic": "t"}}, PreviewRequest(None, "t")),
        ({"config": {}, "sample": {"limit": 50}}, PreviewRequest(None, None, 50)),
    ],
)
def test_body_is_read(client: ConnectClient, herder: FakeHerder, body: Any, expected: PreviewRequest) -> None:
    assert post(client, body)[0] == 200
    assert herder.previewed == [({}, expected)]


def test_numbers_of_the_configuration_become_texts_as_written(client: ConnectClient, herder: FakeHerder) -> None:
    post(client, {"config": {"tasks.max": 1, "on": True, "none": None}, "records": []})
    assert herder.previewed[0][0] == {"tasks.max": "1", "on": "true", "none": None}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ([], 500, "The body is not an object"),
        ({"records": []}, 500, '"config" is null or missing'),
        ({"config": {}, "record": 1}, 400, 'Unknown member "record"'),
        ({"config": {}, "records": {}}, 400, '"records" is not an array'),
        ({"config": {}, "records": [1] * 51}, 400, "expected at most 50"),
        ({"config": {}, "sample": {"limit": 0}}, 400, '"limit" of "sample" is 0; expected a number from 1 to 50'),
        ({"config": {}, "sample": {"limit": True}}, 400, "expected a number"),
        ({"config": {}, "sample": {"topic": ""}}, 400, "is not the name of a topic"),
        ({"config": {}, "sample": {"from": "end"}}, 400, '"sample" is not an object of topic and limit'),
    ],
)
def test_invalid_bodies_are_refused_with_the_reason(
    client: ConnectClient, herder: FakeHerder, body: Any, status: int, message: str
) -> None:
    found, answer = post(client, body)
    assert found == status
    assert message in answer["message"]
    assert herder.previewed == []
