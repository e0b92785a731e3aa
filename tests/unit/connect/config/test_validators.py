"""The validators against what Kafka 4.3's own say of the same values."""

from __future__ import annotations

from typing import Any

import pytest

from connect.config.validators import (
    AllOf,
    AtMost,
    Described,
    DistinctList,
    NonEmpty,
    NonEmptyWithoutControlCharacters,
    NonNull,
    OneOf,
    Range,
    between,
    one_of,
)
from connect.errors import ConfigError

_DUPLICATED = "Configuration 'k' values must not be duplicated."
_EMPTY = "Configuration 'k' values must not be empty."
_NULL = "Configuration 'k' values must not be null."


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        (between(0, 10), 11, "Invalid value 11 for configuration k: Value must be no more than 10"),
        (between(0.0, 1.0), -1.0, "Invalid value -1.0 for configuration k: Value must be at least 0.0"),
        (between(0.0, 1.0), 1e16, "Invalid value 1.0E16 for configuration k: Value must be no more than 1.0"),
        (one_of("a", None), "x", "Invalid value x for configuration k: String must be one of: a, null"),
        (one_of("a", "b"), None, "Invalid value null for configuration k: String must be one of: a, b"),
        (
            one_of("Poll", "interval", "connector", ignore_case=True), None,
            "Invalid value null for configuration k: String must be one of (case insensitive): INTERVAL, POLL, CONNECTOR",
        ),
        (NonNull(), None, "Invalid value null for configuration k: entry must be non null"),
        (NonEmpty(), "", "Invalid value  for configuration k: String must be non-empty"),
        (NonEmptyWithoutControlCharacters(), "", "Invalid value  for configuration k: String may not be empty"),
        (
            NonEmptyWithoutControlCharacters(), "a\x01\x7fb\x85",
            "Invalid value a\x01\x7fb\x85 for configuration k: String may not contain control sequences but had the following "
            "ASCII chars: 1, 127, 133",
        ),
        (AtMost(2), ["a", "b", "c"], "Invalid value [a, b, c] for configuration k: exceeds maximum list size of [2]."),
        (DistinctList(), None, _NULL),
        (DistinctList(), ["a", "a", ""], _DUPLICATED),
        (DistinctList(), ["a", ""], _EMPTY),
        (DistinctList(), [], "Configuration 'k' must not be empty. Valid values include: any non-empty value"),
        (DistinctList(("a", "b")), ["a", "c"], "Invalid value c for configuration k: String must be one of: a, b"),
        (DistinctList(("a", "b")), ["a", ""], _EMPTY),
        (DistinctList(("a", "b")), [], "Configuration 'k' must not be empty. Valid values include: [a, b]"),
        (AllOf([NonEmpty(), one_of("a")]), "", "Invalid value  for configuration k: String must be non-empty"),
    ],
)  # fmt: skip
def test_invalid_values_are_rejected_with_kafkas_messages(rule: Any, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rule("k", value)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (between(0, 10), 10),
        (Range(1, nullable=True), None),
        (one_of("a", None), None),
        (one_of("Poll", ignore_case=True), "pOLL"),
        (NonEmpty(), None),
        (NonEmpty(), " "),
        (NonEmptyWithoutControlCharacters(), None),
        (AtMost(2), []),
        (AtMost(2), None),
        (DistinctList(may_be_empty=True), []),
        (DistinctList(may_be_null=True), None),
        (DistinctList(("a", "b")), ["b"]),
    ],
)
def test_valid_values_pass(rule: Any, value: Any) -> None:
    rule("k", value)


def test_validators_describe_themselves_like_kafkas() -> None:
    def check(name: str, value: Any) -> None:
        raise ConfigError(f"{name} is {value}")

    rules = (
        between(0.0, 1.0), OneOf(("Poll", "interval", "connector"), ignore_case=True), NonNull(), AtMost(2),
        DistinctList(("a", "b")),
        NonEmptyWithoutControlCharacters(), AllOf([NonEmpty(), one_of("a"), Range(1)]), Described(check, "as it likes"),
    )  # fmt: skip
    assert [str(rule) for rule in rules] == [
        "[0.0,...,1.0]",
        "(case insensitive) [INTERVAL, POLL, CONNECTOR]",
        "non-null string",
        "List containing maximum of 2 elements",
        "[a, b]",
        "non-empty string without ISO control characters",
        "non-empty string, [a], [1,...]",
        "as it likes",
    ]
    with pytest.raises(ConfigError, match="k is 5"):
        Described(check, "as it likes")("k", 5)
