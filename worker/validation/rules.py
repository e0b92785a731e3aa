"""Rules for connector keys that no other table needs, in Kafka's words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from connect.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ConnectorName:
    """Not empty, no control characters. Null is left to the rule that the name is required."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        if value == "":
            raise ConfigError.invalid(name, value, "String may not be empty")
        illegal = [str(ord(c)) for c in value if ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F]
        if illegal:
            listed = ", ".join(illegal)
            reason = f"String may not contain control sequences but had the following ASCII chars: {listed}"
            raise ConfigError.invalid(name, value, reason)

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


@dataclass(frozen=True, slots=True)
class UniqueAliases:
    """A list that names nothing twice."""

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and len(set(value)) < len(value):
            raise ConfigError.invalid(name, f"[{', '.join(value)}]", "Duplicate alias provided.")

    def __str__(self) -> str:
        return "unique transformation aliases"


@dataclass(frozen=True, slots=True)
class ListOfDistinct:
    """A list without empty or repeated entries; the list itself may be empty."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigError(f"Configuration '{name}' values must not be null.", key=name)
        if len(set(value)) < len(value):
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.", key=name)
        if "" in value:
            raise ConfigError(f"Configuration '{name}' values must not be empty.", key=name)

    def __str__(self) -> str:
        return "[]"


@dataclass(frozen=True, slots=True)
class JavaRegex:
    """A regular expression."""

    def __call__(self, name: str, value: Any) -> None:
        try:
            re.compile(value or "")
        except re.error as e:
            reason = f"Unclosed group near index {len(value)}\n{value}" if "unterminated subpattern" in e.msg else str(e)
            raise ConfigError.invalid(name, value, f"Invalid regex: {reason}") from e

    def __str__(self) -> str:
        return "valid regex"
