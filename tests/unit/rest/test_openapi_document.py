"""The OpenAPI document as a whole; tests/integration/rest/test_openapi.py holds it against a worker."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rest.app import build_api
from rest.openapi import OPERATIONS, SCHEMAS, operations
from tests.unit.rest.fake_herder import FakeHerder


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return build_api(FakeHerder()).openapi()


def test_responses_of_every_operation_are_described(document: dict[str, Any]) -> None:
    there = {(method, path) for method, path, _ in operations(document)}
    assert there == set(OPERATIONS), "rest/openapi.py has to tell what a route answers"
    for method, path, operation in operations(document):
        for status, answer in operation["responses"].items():
            assert answer["description"], f"{method} {path} {status}"
            assert "content" in answer or status in ("202", "204", "406", "415"), f"{method} {path} {status}"


def test_references_resolve_and_every_schema_is_used(document: dict[str, Any]) -> None:
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert named == set(SCHEMAS) == set(document["components"]["schemas"])


def test_request_bodies_are_described(document: dict[str, Any]) -> None:
    with_body = {(method, path) for method, path, operation in operations(document) if "requestBody" in operation}
    assert {
        ("post", "/connectors"),
        ("put", "/connectors/{connector}/config"),
        ("patch", "/connectors/{connector}/config"),
        ("put", "/connector-plugins/{plugin}/config/validate"),
        ("put", "/admin/loggers/{logger}"),
    } <= with_body
    for method, path, operation in operations(document):
        assert ("413" in operation["responses"]) is ((method, path) in with_body)
