"""The check of exactly-once for sources, with Apache's words."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect import ConfigDef, SourceConnector
from connect.config.definition import ConfigValue
from connect.connector import ExactlyOnceSupport
from connect.source import SourceTask
from worker.validation.cluster_checks import BOUNDARY, SUPPORT, exactly_once_check


class Source(SourceConnector):
    """Answers as it is told to; an exception is raised."""

    def __init__(self, support: ExactlyOnceSupport | Exception | None = None, boundaries: bool | Exception = False) -> None:
        self._support = support
        self._boundaries = boundaries

    def start(self, config: Mapping[str, str]) -> None: ...

    def task_class(self) -> type[SourceTask]:
        return SourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []

    def stop(self) -> None: ...

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        if isinstance(self._support, Exception):
            raise self._support
        return self._support

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        if isinstance(self._boundaries, Exception):
            raise self._boundaries
        return self._boundaries


def errors(source: Source, support: str = "requested", boundary: str = "poll", *, enabled: bool = True) -> list[str]:
    values = {SUPPORT: ConfigValue(SUPPORT, support), BOUNDARY: ConfigValue(BOUNDARY, boundary)}
    exactly_once_check(enabled=enabled)(source, {}, values)
    return [*values[SUPPORT].errors, *values[BOUNDARY].errors]


def test_what_is_only_requested_is_not_asked_about() -> None:
    assert errors(Source(ValueError("not to be asked"), ValueError("nor this")), enabled=False) == []


def test_a_source_that_can_passes() -> None:
    assert errors(Source(ExactlyOnceSupport.SUPPORTED, True), "REQUIRED", "Connector") == []


def test_a_worker_without_it_is_told_of_besides_what_the_source_lacks() -> None:
    assert errors(Source(ExactlyOnceSupport.UNSUPPORTED), "required", enabled=False) == [
        "This worker does not have exactly-once source support enabled.",
        "The connector does not support exactly-once semantics with the provided configuration.",
    ]


@pytest.mark.parametrize(
    ("source", "support", "boundary", "begins"),
    [
        (Source(None), "required", "poll", "The connector does not implement the API required for preflight validation of"),
        (Source(), "requested", "connector", "The connector does not support connector-defined transaction boundaries with"),
        (Source(ValueError("no file")), "required", "poll", "An unexpected error occurred during validation: no file"),
        (Source(ValueError()), "required", "poll", "An unexpected error occurred during validation; please see the worker logs"),
        (Source(None, KeyError("x")), "requested", "connector", "An unexpected error occurred during validation: 'x'"),
    ],
)
def test_a_source_that_cannot_or_does_not_say(source: Source, support: str, boundary: str, begins: str) -> None:
    (error,) = errors(source, support, boundary)
    assert error.startswith(begins)


def test_a_value_that_is_wrong_already_is_left_at_that() -> None:
    values = {SUPPORT: ConfigValue(SUPPORT, "required", errors=["wrong"]), BOUNDARY: ConfigValue(BOUNDARY, "poll")}
    exactly_once_check(enabled=True)(Source(), {}, values)
    assert values[SUPPORT].errors == ["wrong"]
