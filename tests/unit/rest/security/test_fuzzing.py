"""Random requests of the OpenAPI document against a server with authentication: every answer is documented, nothing is done for a
caller without a role, and no secret is shown."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import sampled_from
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from rest.app import build_api
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.security.conftest import Caller
from worker.model import TargetState

CHECKS: list[CheckFunction] = [content_type_conformance, response_schema_conformance, status_code_conformance]
SECRET = "pl4nted-in-the-config"


def _operations() -> list[Any]:
    found = schemathesis.openapi.from_dict(build_api(FakeHerder()).openapi()).get_all_operations()
    return [operation.ok() for operation in cast(Any, found)]


@pytest.mark.parametrize("operation", [pytest.param(one, id=one.label) for one in _operations()])
def test_random_requests_of_every_caller(operation: Any, secured: Caller, fake: FakeHerder) -> None:
    @settings(
        max_examples=8, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        case=operation.as_strategy(),
        caller=sampled_from(["", "wrong", "nobody", "viewer", "shop-viewer", "operator", "root"]),
        connector=sampled_from(["", "shop-1", "billing"]),
    )
    def ask(case: Any, caller: str, connector: str) -> None:
        for name in ("shop-1", "billing"):
            fake.configs[name] = {"name": name, "connector.class": "x", "db.password": SECRET}
            fake.targets[name] = TargetState.STARTED
        if connector and "connector" in case.path_parameters:
            case.path_parameters["connector"] = connector
        before = json.dumps([fake.configs, [str(one) for one in fake.restarted], [str(one) for one in fake.altered]])
        headers = {"Authorization": f"Bearer {caller}"} if caller else {}
        answer = case.call(base_url=f"http://127.0.0.1:{secured.port}", headers=headers, timeout=WAIT_S)
        after = json.dumps([fake.configs, [str(one) for one in fake.restarted], [str(one) for one in fake.altered]])
        if caller != "root":
            assert SECRET not in answer.text
        if caller in ("", "wrong", "nobody", "viewer", "shop-viewer"):
            assert after == before
            if case.path == "/connectors" and caller in ("", "wrong"):
                assert answer.status_code == 401
        if answer.status_code == 400 and not answer.content:
            return  # an ambiguous path, answered before any of this
        case.validate_response(answer, checks=CHECKS)

    ask()
