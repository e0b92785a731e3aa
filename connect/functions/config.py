"""Settings from type hints: a frozen dataclass, or the parameters of a function, as a table of keys.

    @dataclass(frozen=True)
    class Config:
        topic: Annotated[str, "Where the numbers go."]
        pause_s: Annotated[float, "Seconds between two batches.", at_least(0)] = 1.0

A field ``pause_s`` is the key ``pause.s``; an underscore at the end is dropped (``from_`` is ``from``). The text is the key's
documentation, a validator its rule, an :class:`~connect.config.definition.Importance` its importance. A field without a default
must be given. What hints cannot say, a :class:`~connect.config.definition.ConfigDef` can.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from connect.config.definition import NO_DEFAULT, ConfigDef, ConfigKey, ConfigValue, Importance
from connect.config.parsing import Password
from connect.config.types import ConfigType
from connect.config.validators import AllOf, one_of
from connect.errors import ConfigError, ConnectError

_TYPES: dict[Any, ConfigType] = {
    str: ConfigType.STRING,
    int: ConfigType.LONG,
    float: ConfigType.DOUBLE,
    bool: ConfigType.BOOLEAN,
    Password: ConfigType.PASSWORD,
    list[str]: ConfigType.LIST,
    tuple[str, ...]: ConfigType.LIST,
}
_CHOICES = "str, int, float, bool, Password, list[str], tuple[str, ...], Literal of texts, and these with None as default"


@dataclass(frozen=True, slots=True)
class Setting:
    """One field or parameter, and its key."""

    argument: str
    key: ConfigKey
    is_tuple: bool

    def value(self, parsed: Any) -> Any:
        """What the field holds, from the key's parsed value."""
        return tuple(parsed) if self.is_tuple and parsed is not None else parsed


def build_setting(owner: str, name: str, hint: Any, default: Any = NO_DEFAULT) -> Setting:
    """The setting that a name, its type hint and default stand for. Raises ConfigError for a hint that no key can have."""
    extras: list[Any] = []
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        inner = [one for one in get_args(hint) if one is not types.NoneType]
        hint = inner[0] if len(inner) == 1 else hint
    rules = [one for one in extras if callable(one) and not isinstance(one, Importance | str)]
    if get_origin(hint) is Literal and all(isinstance(one, str) for one in get_args(hint)):
        # With None as default, null is a choice too: it is what the key has when it is not given.
        rules.insert(0, one_of(*get_args(hint), *([None] if default is None else [])))
        hint = str
    type_ = _TYPES.get(hint)
    if type_ is None:
        shown = hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)
        raise ConfigError(f"{owner}: a setting cannot be of type {shown}, as {name} is; expected {_CHOICES}")
    key = ConfigKey(
        name.rstrip("_").replace("_", "."),
        type_,
        default,
        None if not rules else rules[0] if len(rules) == 1 else AllOf(rules),
        next(
            (one for one in extras if isinstance(one, Importance)),
            Importance.HIGH if default is NO_DEFAULT else Importance.MEDIUM,
        ),
        next((one for one in extras if isinstance(one, str)), ""),
    )
    return Setting(name, key, get_origin(hint) is tuple)


class FunctionConfig:
    """What a connector function's ``config`` says: a dataclass, a ConfigDef, or nothing."""

    def __init__(self, owner: str, config: type | ConfigDef | None) -> None:
        """``owner`` is how errors name it. Raises ConfigError for a class that is no dataclass, or has a field no key can be."""
        self._owner = owner
        self._class: type | None = None
        self._settings: list[Setting] = []
        if isinstance(config, ConfigDef):
            self.table = config
            return
        self.table = ConfigDef()
        if config is None:
            return
        if not (isinstance(config, type) and dataclasses.is_dataclass(config)):
            raise ConfigError(f"{owner}: config={config!r}, expected a dataclass or a ConfigDef")
        self._class = config
        try:
            hints = get_type_hints(config, include_extras=True)
        except (NameError, TypeError) as e:
            raise ConfigError(f"{owner}: the type hints of class {config.__name__} cannot be read: {e}") from e
        for field in dataclasses.fields(config):
            if field.init:
                setting = build_setting(f"{owner}, class {config.__name__}", field.name, hints[field.name], _default(field))
                self._settings.append(setting)
                self.table.add(setting.key)

    def validate(self, configs: Mapping[str, Any]) -> list[ConfigValue]:
        """One entry a key. When each by itself is right, the class is asked too; what it refuses is told at the key that its
        error names, or at the first."""
        values = self.table.validate(configs)
        if values and not any(value.errors for value in values):
            try:
                self.read(configs)
            except ConfigError as e:
                entry = next((value for value in values if value.name == e.key), values[0])
                entry.errors.append(e.message)
        return values

    def read(self, configs: Mapping[str, Any]) -> Any:
        """The dataclass of these settings, or a dict by key. Raises ConfigError, also for what the class itself refuses."""
        parsed = self.table.parse(configs)
        if self._class is None:
            return parsed
        try:
            return self._class(**{one.argument: one.value(parsed[one.key.name]) for one in self._settings})
        except ConnectError:
            raise
        except Exception as e:
            raise ConfigError(f"{self._owner}: {self._class.__name__} refuses the configuration: {e}") from e


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return NO_DEFAULT if field.default is dataclasses.MISSING else field.default
