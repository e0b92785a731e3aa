"""A configuration key, and its result of validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from connect.config.types import ConfigType


class Importance(Enum):
    """How much a key matters to its user."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """The width of the form field."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()
"""The default of a required key."""

Validator = Callable[[str, Any], None]
"""Checks a key's parsed value; raises ConfigError (see ``ConfigError.invalid``). Its ``str()`` describes the rule."""


class Recommender:
    """Suggests values for a key, and decides whether to show the key, depending on other values.

    Both methods are called in every validation with the values parsed so far; invalid values are None. A ConfigError that they
    raise becomes an error of the key.
    """

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        """Returns the suggested values."""
        return []

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Returns whether to show the key."""
        return True


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The definition of one key."""

    name: str
    type: ConfigType
    default: Any = NO_DEFAULT
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    doc: str = ""
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    """Keys whose suggestions or visibility depend on this one."""
    recommender: Recommender | None = None
    internal: bool = False
    """Not meant for users: omitted from the docs."""
    aliases: tuple[str, ...] = ()
    """Deprecated names of the key, still read with a note to the user."""

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT


@dataclass(slots=True)
class ConfigValue:
    """The validation result of one key: parsed value, suggestions, errors."""

    name: str
    value: Any = None
    recommended_values: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True
