from __future__ import annotations

import pytest

from connect.errors import ConfigError
from worker.validation import Plugin, PluginType
from worker.validation.plugin_versions import MavenVersion, Requirement, version_error


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [
        (None, True), ("latest", True), ("1.2.0", True), ("1.2", True), ("1.1", False), ("[1.2.0]", True), ("[1.0,2.0)", True),
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


@pytest.mark.parametrize(
    "ordered",
    [
        "1.0-alpha 1.0-a1 1.0-beta-2 1.0-m3 1.0-cr1 1.0-rc2 1.0-SNAPSHOT 1.0 1.0-sp 1.0-x 1.0-1 1.0.1",
        "4.3-rc1 4.3 4.3.1-snapshot 4.3.1 4.3.1-1 4.3.1.1 4.3.10 4.10",
        "2 2.x 2-y 99999999999999999999",
    ],
)
def test_versions_are_ordered_as_by_maven(ordered: str) -> None:
    backwards = ordered.split()[::-1]
    assert sorted(backwards, key=MavenVersion) == ordered.split()


def test_versions_that_say_the_same_are_equal() -> None:
    for one, other in [("1", "1.0.0"), ("1-ga", "1.FINAL"), ("1.0-CR2", "1-rc2"), ("1a1", "1-alpha-1"), ("", "0"), ("01", "1")]:
        assert MavenVersion(one) == MavenVersion(other)
        assert hash(MavenVersion(one)) == hash(MavenVersion(other))


def test_a_plugin_without_a_version_meets_only_what_asks_for_nothing() -> None:
    plugin = Plugin("p", frozenset({PluginType.SOURCE}), None, lambda: object)
    assert version_error(plugin, "latest") is None
    assert version_error(plugin, "1.0") == ("Plugin p not found that matches the version range [1.0,1.0], available versions: []")
