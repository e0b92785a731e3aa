"""Config keys from type hints: those of a frozen dataclass, or of the parameters of a function.

    @dataclass(frozen=True)
    class Config:
        topic: Annotated[str, "Topic for the numbers."]
        pause_s: Annotated[float, "Seconds between batches.", at_least(0)] = 1.0

A field ``pause_s`` is the key ``pause.s``; a trailing underscore is dropped (``from_`` is ``from``). In ``Annotated``, a string
is the documentation of the key, a callable its validator, and an :class:`~connect.config.definition.Importance` its importance. A
field without a default is required. Use a :class:`~connect.config.definition.ConfigDef` for anything else.
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

_CONFIG_TYPES: dict[Any, ConfigType] = {
    str: ConfigType.STRING,
    int: ConfigType.LONG,
    float: ConfigType.DOUBLE,
    bool: ConfigType.BOOLEAN,
    Password: ConfigType.PASSWORD,
    list[str]: ConfigType.LIST,
    tuple[str, ...]: ConfigType.LIST,
}
_SUPPORTED_TYPES = "str, int, float, bool, Password, list[str], tuple[str, ...], Literal of strings, or these or None"


@dataclass(frozen=True, slots=True)
class Setting:
    """A field or parameter, and its key."""

    argument: str
    key: ConfigKey
    is_tuple: bool

    def value(self, parsed: Any) -> Any:
        """Converts the parsed value of the key to the value of the field."""
        return tuple(parsed) if self.is_tuple and parsed is not None else parsed


def build_setting(owner: str, name: str, hint: Any, default: Any = NO_DEFAULT) -> Setting:
    """Builds a setting from a name, a type hint, and a default. Raises ConfigError for an unsupported type."""
    extras: list[Any] = []
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        inner = [one for one in get_args(hint) if one is not types.NoneType]
        hint = inner[0] if len(inner) == 1 else hint
    validators = [one for one in extras if callable(one) and not isinstance(one, Importance | str)]
    if get_origin(hint) is Literal and all(isinstance(one, str) for one in get_args(hint)):
        # If the default is None, null is valid too.
        validators.insert(0, one_of(*get_args(hint), *([None] if default is None else [])))
        hint = str
    type_ = _CONFIG_TYPES.get(hint)
    if type_ is None:
        shown = hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)
        raise ConfigError(f"{owner}: {name} has type {shown}, which a setting cannot have; expected {_SUPPORTED_TYPES}")
    key = ConfigKey(
        name.rstrip("_").replace("_", "."),
        type_,
        default,
        None if not validators else validators[0] if len(validators) == 1 else AllOf(validators),
        next(
            (one for one in extras if isinstance(one, Importance)),
            Importance.HIGH if default is NO_DEFAULT else Importance.MEDIUM,
        ),
        next((one for one in extras if isinstance(one, str)), ""),
    )
    return Setting(name, key, get_origin(hint) is tuple)


class FunctionConfig:
    """The configuration of a connector function, from its ``config``: a dataclass, a ConfigDef, or None."""

    def __init__(self, owner: str, config: type | ConfigDef | None) -> None:
        """``owner`` names the function in errors. Raises ConfigError unless the class is a dataclass with supported fields."""
        self._owner = owner
        self._class: type | None = None
        self._settings: list[Setting] = []
        if isinstance(config, ConfigDef):
            self.config_def = config
            return
        self.config_def = ConfigDef()
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
                setting = build_setting(f"{owner}, class {config.__name__}", field.name, hints[field.name], _default_of(field))
                self._settings.append(setting)
                self.config_def.add(setting.key)

    def validate(self, configs: Mapping[str, Any]) -> list[ConfigValue]:
        """Validates the keys, one entry per key. If all are valid, creates the dataclass too, and adds its error to the key that
        the error names, or to the first one."""
        values = self.config_def.validate(configs)
        if values and not any(value.errors for value in values):
            try:
                self.read(configs)
            except ConfigError as e:
                entry = next((value for value in values if value.name == e.key), values[0])
                entry.errors.append(e.message)
        return values

    def read(self, configs: Mapping[str, Any]) -> Any:
        """Parses the keys to the dataclass, or to a dict by key. Raises ConfigError, also for errors of the class."""
        parsed = self.config_def.parse(configs)
        if self._class is None:
            return parsed
        try:
            return self._class(**{one.argument: one.value(parsed[one.key.name]) for one in self._settings})
        except ConnectError:
            raise
        except Exception as e:
            raise ConfigError(f"{self._owner}: {self._class.__name__} rejects the configuration: {e}") from e


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return NO_DEFAULT if field.default is dataclasses.MISSING else field.default
