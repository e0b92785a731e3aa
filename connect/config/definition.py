"""ConfigDef: the definition of a component's keys.

It drives parsing, validation, REST responses, lint findings, and the reference page. Types, messages, and rules are those of
Kafka's ``org.apache.kafka.common.config.ConfigDef``, because clients see them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from connect.config.parsing import Password, parse_value, to_text
from connect.config.types import ConfigType
from connect.config.validators import DistinctList
from connect.errors import ConfigError
from connect.java.hash_order import hash_set_order


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

_IMPORTANCE_ORDER = (Importance.HIGH, Importance.MEDIUM, Importance.LOW)


class ConfigDef:
    """The keys of a component, in order of definition."""

    def __init__(self, keys: Iterable[ConfigKey] = (), *, removed: Mapping[str, str] = MappingProxyType({})) -> None:
        """``removed`` has keys of earlier releases, and for each a sentence that says what to do instead. A configuration that
        sets one is invalid."""
        self.keys: dict[str, ConfigKey] = {}
        self.groups: list[str] = []
        self.removed = removed
        for key in keys:
            self.add(key)

    def add(self, key: ConfigKey) -> ConfigDef:
        """Adds a key; its default is parsed and checked like a given value. Returns self."""
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
        """Defines a key; returns self for chaining."""
        return self.add(
            ConfigKey(
                name, type, default, validator, importance, doc, group, order, width, display_name, tuple(dependents),
                recommender, internal, tuple(aliases),
            )
        )  # fmt: skip

    def embed(self, prefix: str, group: str, first_order: int, inner: ConfigDef) -> ConfigDef:
        """Adds the keys of another ConfigDef below a prefix, sorted as Kafka sorts them, in groups named after ``group``.

        Their validators and recommenders see them without the prefix. Returns self.
        """
        for key in _embedded_keys(inner.keys.values(), prefix, group, first_order):
            self.add(key)
        return self

    def sorted_keys(self) -> list[ConfigKey]:
        """Returns the keys sorted by group and order, then required ones first, then by importance and name."""
        return _sort_keys(self.keys.values())

    def parse(self, props: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the typed value of every key. Raises ConfigError for a removed key, and for the first missing or invalid one;
        ignores unknown keys."""
        if undefined := self._undefined_dependents():
            # Kafka's message, letter for letter.
            listed = ",".join(undefined)
            raise ConfigError(f"Some configurations in are referred in the dependents, but not defined: {listed}")
        for name, instead in self.removed.items():
            if name in props:
                raise ConfigError(_removed_text(name, instead), key=name)
        return {name: self._parse(key, props) for name, key in self.keys.items()}

    def _parse(self, key: ConfigKey, props: Mapping[str, Any]) -> Any:
        given, raw = _lookup(key, props)
        if given:
            value = parse_value(key.name, raw, key.type)
        elif key.default is NO_DEFAULT:
            raise ConfigError(f'Missing required configuration "{key.name}" which has no default value.', key=key.name)
        else:
            value = key.default
        if value and isinstance(key.validator, DistinctList):
            # Kafka rejects repeated entries in validation and drops them here (vectors DropHeaders-0015, fuzz/chain-0350).
            value = list(dict.fromkeys(value))
        if key.validator is not None:
            key.validator(key.name, value)
        return value

    def validate(self, props: Mapping[str, Any]) -> list[ConfigValue]:
        """Returns one ConfigValue per key with all its errors, and one per removed key that is given; never raises for an invalid
        value.

        As in Kafka, a key is missing only if it is not given at all, and undefined keys among the ``dependents`` of others are
        reported under their names. A key is checked after each key that it depends on, so that an error of a key that depends
        on two is reported twice; keys that depend on each other in a cycle are not checked.
        """
        values = {name: ConfigValue(name) for name in self.keys}
        order = self._parents_first()
        parsed: dict[str, Any] = {}
        for name in order:
            self._check(self.keys[name], props, values[name])
            parsed[name] = values[name].value
        for name in order:
            _recommend(self.keys[name], parsed, values[name])
        for name in self._undefined_dependents():
            error = f"{name} is referred in the dependents, but not defined."
            values[name] = ConfigValue(name, errors=[error], visible=False)
        for name, instead in self.removed.items():
            if name in props:
                values[name] = ConfigValue(name, errors=[_removed_text(name, instead)], visible=False)
        return list(values.values())

    def _check(self, key: ConfigKey, props: Mapping[str, Any], entry: ConfigValue) -> None:
        given, raw = _lookup(key, props)
        entry.value = None
        try:
            if given:
                entry.value = parse_value(key.name, raw, key.type)
            elif key.default is NO_DEFAULT:
                entry.errors.append(f'Missing required configuration "{key.name}" which has no default value.')
            else:
                entry.value = key.default
        except ConfigError as e:
            entry.errors.append(e.message)
        # As in Kafka, the validator runs even without a value: tasks.max=abc has two errors (recording
        # validate-source-bad-numbers).
        if key.validator is not None:
            try:
                key.validator(key.name, entry.value)
            except ConfigError as e:
                entry.errors.append(e.message)

    def _parents_first(self) -> list[str]:
        """Returns every key that depends on no other, in order of definition, each followed by its dependents."""
        dependents = {name for key in self.keys.values() for name in key.dependents}
        found: list[str] = []

        def visit(name: str, path: tuple[str, ...]) -> None:
            if name in self.keys and name not in path:
                found.append(name)
                for dependent in self.keys[name].dependents:
                    visit(dependent, (*path, name))

        for name in self.keys:
            if name not in dependents:
                visit(name, ())
        return found

    def _undefined_dependents(self) -> list[str]:
        named = (dependent for key in self.keys.values() for dependent in key.dependents)
        return hash_set_order(name for name in named if name not in self.keys)

    def default_text(self, name: str) -> str | None:
        """Returns the default as text for REST; None when there is none."""
        key = self.keys[name]
        return None if key.default is NO_DEFAULT else to_text(key.default, key.type)


def _recommend(key: ConfigKey, parsed: Mapping[str, Any], entry: ConfigValue) -> None:
    if key.recommender is None:
        return
    try:
        suggested = key.recommender.valid_values(key.name, parsed)
        # For a key that depends on several, each recommendation narrows the one before.
        if entry.recommended_values:
            suggested = [value for value in suggested if value in entry.recommended_values]
        entry.recommended_values = suggested
        entry.visible = key.recommender.visible(key.name, parsed)
    except ConfigError as e:
        entry.errors.append(e.message)


def _removed_text(name: str, instead: str) -> str:
    return f"{name} no longer exists. {instead}"


def _lookup(key: ConfigKey, props: Mapping[str, Any]) -> tuple[bool, Any]:
    for name in (key.name, *key.aliases):
        if name in props:
            return True, props[name]
    return False, None


@dataclass(frozen=True, slots=True)
class _Unprefixed:
    """A validator of an embedded ConfigDef: it sees its key without the prefix, and so do its messages."""

    prefix: str
    rule: Callable[[str, Any], None]

    def __call__(self, name: str, value: Any) -> None:
        self.rule(name.removeprefix(self.prefix), value)

    def __str__(self) -> str:
        return str(self.rule)


class _UnprefixedRecommender(Recommender):
    def __init__(self, prefix: str, inner: Recommender) -> None:
        self._prefix = prefix
        self._inner = inner

    def _own(self, parsed: Mapping[str, Any]) -> dict[str, Any]:
        size = len(self._prefix)
        return {name[size:]: value for name, value in parsed.items() if name.startswith(self._prefix)}

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return self._inner.valid_values(name.removeprefix(self._prefix), self._own(parsed))

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self._inner.visible(name.removeprefix(self._prefix), self._own(parsed))


def _embedded_keys(keys: Iterable[ConfigKey], prefix: str, group: str, first_order: int) -> list[ConfigKey]:
    """Returns the keys for the outer ConfigDef: prefixed, in a group named after the outer one, numbered from ``first_order``."""
    return [_embedded(key, prefix, group, order) for order, key in enumerate(_sort_keys(keys), start=first_order)]


def _sort_keys(keys: Iterable[ConfigKey]) -> list[ConfigKey]:
    """Sorts keys like Kafka: by group and order, required ones first, then by importance and name."""
    listed = list(keys)
    groups = {group: i for i, group in enumerate(dict.fromkeys(key.group for key in listed if key.group is not None))}
    return sorted(
        listed,
        key=lambda key: (
            -1 if key.group is None else groups[key.group],
            key.order,
            not key.required,
            _IMPORTANCE_ORDER.index(key.importance),
            key.name,
        ),
    )


def _embedded(key: ConfigKey, prefix: str, group: str, order: int) -> ConfigKey:
    return replace(
        key,
        name=prefix + key.name,
        validator=None if key.validator is None else _Unprefixed(prefix, key.validator),
        recommender=None if key.recommender is None else _UnprefixedRecommender(prefix, key.recommender),
        group=group if key.group is None else f"{group}: {key.group}",
        order=order,
        display_name=key.display_name or key.name,
        dependents=tuple(prefix + name for name in key.dependents),
        aliases=tuple(prefix + name for name in key.aliases),
    )
