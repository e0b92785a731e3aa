"""Addresses of standalone Spark masters."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connectors.spark.masters import parse_masters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spark://h:17077", [("h", 17077)]),
        ("spark://h", [("h", 7077)]),
        ("spark://a:1,b:2", [("a", 1), ("b", 2)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("yarn", []),
        ("local", []),
        ("local[2]", []),
        ("local[*,4]", []),
        ("k8s://https://h:6443", []),
    ],
)
def test_masters_are_parsed(text: str, expected: list[tuple[str, int]]) -> None:
    assert parse_masters("spark.master", text) == expected


@pytest.mark.parametrize("text", ["spark://", "spark://h:x", "spark://:7077", "spark://a:1,"])
def test_incomplete_addresses_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"spark\.master: expected spark://host:port"):
        parse_masters("spark.master", text)
