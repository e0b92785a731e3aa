from __future__ import annotations

import pytest

from connect.errors import ConfigError
from worker.validation.versions import Requirement, version_error


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [
        (None, True), ("latest", True), ("1.2.0", True), ("1.2", False), ("[1.2.0]", True), ("[1.0,2.0)", True),
        ("[1.2.0,)", True), ("(1.2.0,)", False), ("(,1.2.0)", False), ("(,1.10.0]", True), ("[2,3]", False), ("", False),
        (",", True), ("1,2", True), ("[0,1],[1.1,1.3)", True), (" [1.2.0] ", True),
    ],
)  # fmt: skip
def test_version_requirements(requirement: str | None, fits: bool) -> None:
    assert Requirement.of(requirement).allows("1.2.0") is fits


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ("(", "Unbounded range: ("),
        ("a,,b", "Range defies version ordering: [a,,b]"),
        ("[2,1]", "Range defies version ordering: [2,1]"),
        ("[1,1)", "Range defies version ordering: [1,1)"),
        ("(1]", "Single version must be surrounded by []: (1]"),
        ("[1,3],[2,4]", "Ranges overlap: [1,3],[2,4]"),
        ("[1,2]x", "Only fully-qualified sets allowed in multiple set scenario: [1,2]x"),
    ],
)
def test_ranges_that_are_none(requirement: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Requirement.of(requirement)
    assert caught.value.message == message


def test_a_plugin_without_a_version_meets_only_what_asks_for_nothing() -> None:
    assert version_error("p", None, "latest") is None
    assert version_error("p", None, "1.0") == (
        "Plugin p not found that matches the version range [1.0,1.0], available versions: []"
    )
