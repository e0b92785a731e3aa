"""One key of a table, and what validation says of it."""

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
    """How wide a form field is shown."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()
"""The default of a key that must be given."""

Validator = Callable[[str, Any], None]
"""Takes key and parsed value; raises ConfigError (see ``ConfigError.invalid``). ``str()`` of it tells the rule."""


class Recommender:
    """Suggests values for a key, and says whether the key is shown, from the other values.

    Both are called at every validation, with the values parsed so far: those that are wrong are None. A ConfigError that they
    raise becomes an error of the key.
    """

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return []

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key of the table."""

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
    """Not meant for users: left out of docs."""
    aliases: tuple[str, ...] = ()
    """Older names of the key that are still read, with a note to the user."""

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT


@dataclass(slots=True)
class ConfigValue:
    """What validation found about one key: parsed value, suggestions, errors."""

    name: str
    value: Any = None
    recommended_values: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True
