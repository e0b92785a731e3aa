"""The OpenAPI document tells the truth: schemathesis makes requests of it, and a real worker answers them as it says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import booleans
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from rest import errors
from rest.app import build_api
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.rest.workers import Running, Workers
from tests.support.waiting import WAIT_S
from worker.herder import Herder

SOURCE = {"connector.class": "FileStreamSource", "file": "/nowhere", "topic": "t"}

# A valid body need not be a connector that can run, and a body that makes no sense is 500 in Apache's worker: whether a request
# is taken is what the recordings pin. Here every answer has to be one that the document names.
CHECKS: list[CheckFunction] = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]


class _Uncaught:
    """Takes the place of the log that tells of errors which nobody foresaw."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def exception(self, message: str, *, exc_info: BaseException) -> None:
        self.errors.append(exc_info)


@pytest.fixture(scope="module")
def _levels() -> Iterator[None]:
    """Levels are the process's: what the requests set is taken back, of loggers too that come with the workers."""
    before = {logger: logger.level for logger in _loggers()}
    yield
    for logger in _loggers():
        logger.setLevel(before.get(logger, logging.NOTSET))


def _loggers() -> list[logging.Logger]:
    known = list(logging.root.manager.loggerDict.values())  # at once: other threads may ask for new ones
    return [logging.root, *(one for one in known if isinstance(one, logging.Logger))]


@pytest.fixture(scope="module")
def _workers(_broker: EmbeddedBroker, _levels: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    found = Workers(_broker.bootstrap, lambda: tmp_path_factory.mktemp("worker"))
    yield found
    found.close()


@pytest.fixture(params=["standalone", pytest.param("distributed", marks=pytest.mark.long)])
def worker(request: pytest.FixtureRequest, _workers: Workers) -> Running:
    return _workers.get(request.param, {})


def _operations() -> list[Any]:
    # Of the document without a worker: parameters of a test are made before there is one.
    found = schemathesis.openapi.from_dict(build_api(cast(Herder, None)).openapi()).get_all_operations()
    return [operation.ok() for operation in cast(Any, found)]


def _cases() -> list[Any]:
    # Without a body there is nothing that could be wrong: every text is a name.
    return [
        pytest.param(operation, mode, id=f"{operation.label}-{mode.value}")
        for operation in _operations()
        for mode in GenerationMode
        if mode is GenerationMode.POSITIVE or len(operation.body) > 0
    ]


@pytest.mark.parametrize(("operation", "mode"), _cases())
def test_every_response_is_documented_in_openapi(
    operation: Any, mode: GenerationMode, worker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.herder.put_connector("a", SOURCE, replace=True)
    uncaught = _Uncaught()
    monkeypatch.setattr(errors, "log", uncaught)

    # No shrinking: a request is short as it is, and each costs time.
    @settings(
        max_examples=8,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), of_a_connector=booleans())
    def ask(case: Any, of_a_connector: bool) -> None:
        if of_a_connector and "connector" in case.path_parameters:
            case.path_parameters["connector"] = "a"  # of the names that are made up no connector exists
        uncaught.errors.clear()
        answer = case.call(base_url=worker.server.url, timeout=WAIT_S)
        assert uncaught.errors == []
        if answer.status_code == 400 and not answer.content and answer.request.method not in ("GET", "POST", "HEAD"):
            return  # an ambiguous path: the document says in words that there is no body then, for it has no way to list that
        case.validate_response(answer, checks=CHECKS)

    ask()
