from __future__ import annotations

import pytest

from worker.validation.java import describe_map, hash_order, string_hash
from worker.validation.versions import version_fits


def test_string_hash_is_javas() -> None:
    assert string_hash("abc") == 96354
    assert string_hash("é😀") == ((31 * 0xE9 + 0xD83D) * 31 + 0xDE00) & 0xFFFFFFFF


def test_keys_come_in_the_order_of_a_hash_map() -> None:
    json_converter = ["converter.type", "schemas.enable", "schemas.cache.size", "schema.content", "decimal.format",
                      "replace.null.with.default"]  # fmt: skip
    # As in recording validate-converter-config-ok.
    assert hash_order(json_converter) == [
        "decimal.format", "converter.type", "schemas.cache.size", "replace.null.with.default", "schemas.enable", "schema.content",
    ]  # fmt: skip


def test_a_map_is_printed_as_java_prints_it() -> None:
    config = {"name": "c1", "topic": "t", "file": "/data/in.txt", "tasks.max": "1"}
    assert describe_map(config) == "{name=c1, topic=t, file=/data/in.txt, tasks.max=1}"
    assert describe_map({"a": None}) == "{a=null}"
    assert describe_map({}) == "{}"


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [
        (None, True), ("latest", True), ("1.2.0", True), ("1.2", False), ("[1.2.0]", True), ("[1.0,2.0)", True),
        ("[1.2.0,)", True), ("(1.2.0,)", False), ("(,1.2.0)", False), ("(,1.10.0]", True), ("[2,3]", False),
    ],
)  # fmt: skip
def test_version_requirements(requirement: str | None, fits: bool) -> None:
    assert version_fits(requirement, "1.2.0") is fits
    assert version_fits("1.0", None) is False
