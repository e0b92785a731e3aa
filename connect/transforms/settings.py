"""Keys and rules that several transformations have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.config.validators import DistinctList
from connect.errors import ConfigError
from connect.transforms.java_regex import RegexError, compile_java_regex

REPLACE_NULL = "replace.null.with.default"
FIELDS = "fields"
FIELD = "field"


def with_replace_null(table: ConfigDef) -> ConfigDef:
    """Adds the key that says whether a null field with a default reads as its default."""
    return table.define(
        REPLACE_NULL,
        ConfigType.BOOLEAN,
        True,
        importance=Importance.MEDIUM,
        doc="Whether to replace fields that have a default value and that are null to the default value. "
        "When set to true, the default value is used, otherwise null is used.",
    )


def parse_settings(table: ConfigDef, configs: Mapping[str, Any]) -> dict[str, Any]:
    """The typed settings. Where entries must be distinct, repeated ones are dropped here, as in the original: it refuses them
    only when it validates a connector's whole configuration (vectors DropHeaders-0015 and fuzz/chain-0350)."""
    given = dict(configs)
    for key in table.keys.values():
        if isinstance(key.validator, DistinctList) and key.name in given:
            values = parse_value(key.name, given[key.name], ConfigType.LIST)
            given[key.name] = None if values is None else list(dict.fromkeys(values))
    return table.parse(given)


def list_text(values: list[str]) -> str:
    """A list as Java prints it."""
    return f"[{', '.join(values)}]"


@dataclass(frozen=True, slots=True)
class NonEmptyList:
    """A list with at least one entry."""

    def __call__(self, name: str, value: Any) -> None:
        if not value:
            raise ConfigError.invalid(name, None if value is None else "[]", "Empty list")

    def __str__(self) -> str:
        return "non-empty list"


@dataclass(frozen=True, slots=True)
class JavaRegex:
    """A Java regular expression."""

    non_empty: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if self.non_empty and value == "":
            raise ConfigError.invalid(name, value, "String must be non-empty")
        compiled_regex(name, value)

    def __str__(self) -> str:
        return "valid regex"


def compiled_regex(name: str, value: str | None) -> re.Pattern[str]:
    """The pattern of a setting. Raises ConfigError."""
    if value is None:
        raise ConfigError.invalid(name, None, "Invalid regex: there is none")
    try:
        return compile_java_regex(value)
    except RegexError as e:
        raise ConfigError.invalid(name, value, f"Invalid regex: {e}") from e
