"""Keys and validators that several transformations share."""

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


def define_replace_null(table: ConfigDef) -> ConfigDef:
    """Defines the key that replaces null fields by their defaults."""
    return table.define(
        REPLACE_NULL,
        ConfigType.BOOLEAN,
        True,
        importance=Importance.MEDIUM,
        doc="Whether to replace fields that have a default value and that are null to the default value. "
        "When set to true, the default value is used, otherwise null is used.",
    )


def require_non_null(values: Mapping[str, Any], *names: str) -> None:
    """Raises ConfigError for a key that is null, which only JSON can express. Apache fails too, by accident."""
    for name in names:
        if values[name] is None:
            raise ConfigError.invalid(name, None, "entry must be non null")


def read_replace_null(values: Mapping[str, Any]) -> bool:
    """Whether null fields are replaced by their defaults. Raises ConfigError if the key is null."""
    require_non_null(values, REPLACE_NULL)
    return values[REPLACE_NULL] is True


def java_list_text(values: list[str]) -> str:
    """Formats a list as Java prints it."""
    return f"[{', '.join(values)}]"


def split_at_colons(text: str) -> list[str]:
    """Splits ``old:new`` or ``field:type`` as Java's ``String.split`` does: empty parts at the end are dropped."""
    parts = text.split(":")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


@dataclass(frozen=True, slots=True)
class NonEmptyList:
    """Validates a list with at least one entry."""

    def __call__(self, name: str, value: Any) -> None:
        if not value:
            raise ConfigError.invalid(name, None if value is None else "[]", "Empty list")

    def __str__(self) -> str:
        return "non-empty list"


@dataclass(frozen=True, slots=True)
class JavaRegex:
    """Validates a Java regular expression."""

    non_empty: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if self.non_empty and value == "":
            raise ConfigError.invalid(name, value, "String must be non-empty")
        compile_regex(name, value)

    def __str__(self) -> str:
        return "valid regex"


def compile_regex(name: str, value: str | None) -> re.Pattern[str]:
    """Compiles the regular expression of a key. Raises ConfigError."""
    if value is None:
        # Java's message, which Apache reports besides the error for the missing key.
        raise ConfigError.invalid(name, None, 'Invalid regex: Cannot invoke "String.isEmpty()" because "this.pattern" is null')
    try:
        return compile_java_regex(value)
    except RegexError as e:
        raise ConfigError.invalid(name, value, f"Invalid regex: {e}") from e
