"""Keys and rules that several transformations have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.java.regex import RegexError, compile_java_regex

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


def require_given(values: Mapping[str, Any], *names: str) -> None:
    """Raises ConfigError for a setting of these that is null, as only JSON can say. The original fails too, by accident."""
    for name in names:
        if values[name] is None:
            raise ConfigError.invalid(name, None, "entry must be non null")


def replaces_nulls(values: Mapping[str, Any]) -> bool:
    """Whether a null field reads as its default. Raises ConfigError when the setting is null."""
    require_given(values, REPLACE_NULL)
    return values[REPLACE_NULL] is True


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
        # Java's words, as Apache's workers hand them on; that the key is missing, another error of it says.
        raise ConfigError.invalid(name, None, 'Invalid regex: Cannot invoke "String.isEmpty()" because "this.pattern" is null')
    try:
        return compile_java_regex(value)
    except RegexError as e:
        raise ConfigError.invalid(name, value, f"Invalid regex: {e}") from e
