"""Validation of request signatures between workers by the REST API."""

from __future__ import annotations

import pytest

from rest.forwarding.leader_client import ALGORITHM_HEADER, SIGNATURE_HEADER
from rest.rest_server import RestServer
from tests.integration.rest.replay import Target


@pytest.mark.parametrize(
    ("signature", "algorithm", "message"),
    [
        ("AAAA", "Nope", "Algorithm Nope not available"),
        ("", "", "Algorithm  not available"),
        ("%%%", "HmacSHA256", "Illegal base64 character 25"),
        ("A", "HmacSHA256", "X-Connect-Authorization is not base64"),
    ],
)
@pytest.mark.parametrize(("method", "call", "body"), [("PUT", "fence", None), ("POST", "tasks", [])])
def test_invalid_signature_headers_are_rejected(
    server: RestServer, method: str, call: str, body: object, signature: str, algorithm: str, message: str
) -> None:
    target = Target("127.0.0.1", server.ports[0], lambda topic, values: None)
    headers = {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: algorithm}
    answer = target.send({"method": method, "path": f"/connectors/c/{call}", "headers": headers, "body": body})
    assert answer.status == 400
    assert answer.body["message"].startswith(message)


@pytest.mark.parametrize(
    "body",
    [None, [], "text", 7, {}, {"worker": ["w"], "done": True}, {"worker": "w", "done": "true"}, {"worker": "w", "done": None}],
)
def test_malformed_turn_is_rejected_without_a_traceback(
    server: RestServer, body: object, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target("127.0.0.1", server.ports[0], lambda topic, values: None)
    answer = target.send({"method": "PUT", "path": "/sluice/connectors/c/reload-turn", "body": body})
    assert (answer.status, "The body of a turn is not" in answer.body["message"]) == (400, True)
    assert "Uncaught exception" not in caplog.text
