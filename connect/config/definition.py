"""ConfigDef: one table a component, from which everything about its keys follows.

Parsing, validation, the REST answer, lint findings, the docs page: all read this table. The types, messages and rules are
those of Kafka's ``org.apache.kafka.common.config.ConfigDef``, which clients can see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from connect.config.parsing import Password, parse_value, to_text
from connect.config.types import ConfigType
from connect.errors import ConfigError


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
    """Suggests values for a key, and says whether the key is shown, from the other values."""

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
    recommender: Recommender | None = None
    internal: bool = False
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


class ConfigDef:
    """The keys of a component, in order of definition."""

    def __init__(self, keys: Iterable[ConfigKey] = ()) -> None:
        self.keys: dict[str, ConfigKey] = {}
        self.groups: list[str] = []
        for key in keys:
            self.add(key)

    def add(self, key: ConfigKey) -> ConfigDef:
        """Adds a key; its default is parsed and checked as a given value would be. Returns self."""
        if key.name in self.keys:
            raise ConfigError(f"Configuration {key.name} is defined twice.", key=key.name)
        if key.group is not None and key.group not in self.groups:
            self.groups.append(key.group)
        if key.default is not NO_DEFAULT:
            default = parse_value(key.name, key.default, key.type)
            if key.validator is not None:
                key.validator(key.name, default)
            key = replace(key, default=default)
        if not key.display_name:
            key = replace(key, display_name=key.name)
        self.keys[key.name] = key
        return self

    def define(
        self,
        name: str,
        type: ConfigType,
        default: Any = NO_DEFAULT,
        *,
        validator: Validator | None = None,
        importance: Importance = Importance.MEDIUM,
        doc: str = "",
        group: str | None = None,
        order: int = -1,
        width: Width = Width.NONE,
        display_name: str = "",
        dependents: Sequence[str] = (),
        recommender: Recommender | None = None,
        internal: bool = False,
        aliases: Sequence[str] = (),
    ) -> ConfigDef:
        """Adds a key from its parts; returns self for chaining."""
        return self.add(
            ConfigKey(
                name, type, default, validator, importance, doc, group, order, width, display_name, tuple(dependents),
                recommender, internal, tuple(aliases),
            )
        )  # fmt: skip

    def parse(self, props: Mapping[str, Any]) -> dict[str, Any]:
        """Typed values of every key. Raises ConfigError for the first that is missing or wrong; unknown keys are left out."""
        return {name: self._parse(key, props) for name, key in self.keys.items()}

    def _parse(self, key: ConfigKey, props: Mapping[str, Any]) -> Any:
        given, raw = _lookup(key, props)
        if given:
            value = parse_value(key.name, raw, key.type)
        elif key.default is NO_DEFAULT:
            raise ConfigError(f'Missing required configuration "{key.name}" which has no default value.', key=key.name)
        else:
            value = key.default
        if key.validator is not None:
            key.validator(key.name, value)
        return value

    def validate(self, props: Mapping[str, Any]) -> list[ConfigValue]:
        """One ConfigValue a key, with all errors; never raises for a bad value.

        As in Kafka a key is missing only when it is not given at all, and keys of other keys' ``dependents`` that are not
        defined are reported on the key of that name.
        """
        values = {name: ConfigValue(name) for name in self.keys}
        parsed: dict[str, Any] = {}
        for name, key in self.keys.items():
            given, raw = _lookup(key, props)
            entry = values[name]
            try:
                if given:
                    entry.value = parse_value(name, raw, key.type)
                elif key.default is NO_DEFAULT:
                    entry.errors.append(f'Missing required configuration "{name}" which has no default value.')
                else:
                    entry.value = key.default
            except ConfigError as e:
                entry.errors.append(e.message)
            # The rule is asked although there is no value, as in Kafka: tasks.max=abc has two errors
            # (recording validate-source-bad-numbers).
            if key.validator is not None:
                try:
                    key.validator(name, entry.value)
                except ConfigError as e:
                    entry.errors.append(e.message)
            parsed[name] = entry.value
        for name, key in self.keys.items():
            if key.recommender is not None:
                entry = values[name]
                try:
                    entry.recommended_values = key.recommender.valid_values(name, parsed)
                    entry.visible = key.recommender.visible(name, parsed)
                except ConfigError as e:
                    entry.errors.append(e.message)
        for name in self._undefined_dependents():
            error = f"{name} is referred in the dependents, but not defined."
            values[name] = ConfigValue(name, errors=[error], visible=False)
        return list(values.values())

    def _undefined_dependents(self) -> list[str]:
        named = (dependent for key in self.keys.values() for dependent in key.dependents)
        return [name for name in dict.fromkeys(named) if name not in self.keys]

    def default_text(self, name: str) -> str | None:
        """The default as text, as REST shows it; None when there is none."""
        key = self.keys[name]
        return None if key.default is NO_DEFAULT else to_text(key.default, key.type)


def _lookup(key: ConfigKey, props: Mapping[str, Any]) -> tuple[bool, Any]:
    for name in (key.name, *key.aliases):
        if name in props:
            return True, props[name]
    return False, None


__all__ = [
    "NO_DEFAULT",
    "ConfigDef",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Password",
    "Recommender",
    "Validator",
    "Width",
]
