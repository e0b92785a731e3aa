"""The keys of custom converters: ``converters`` names them, and ``<name>.type`` is the class of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.change_events.custom_converters import CustomConverter
from connect.config.definition import NO_DEFAULT, ConfigDef, ConfigType, ConfigValue, Importance
from connect.config.parsing import split_list
from connect.errors import ConfigError, PluginNotFoundError
from connect.functions.user_code import FAILURES, UserCode
from connect.plugin_entry import Kind
from connect.plugin_rules import plugin_rules
from connect.plugins import Plugins

_LIST = "converters"
_TYPE = "type"


@dataclass(frozen=True, slots=True)
class NamedConverter:
    """A converter, configured, and its name in the configuration."""

    name: str
    converter: CustomConverter
    code: UserCode


def define_converter_keys(keys: ConfigDef) -> None:
    keys.define(
        _LIST,
        ConfigType.STRING,
        None,
        group="Events",
        importance=Importance.LOW,
        doc="Names of custom converters, which replace the schemas and values of columns that they choose. <name>.type is the "
        "class: one of Debezium's, or a Python class of yours as package.module:Class; its keys start with <name>. as well. The "
        "first converter in this list that chooses a column applies.",
    )


def check_converters(config: Mapping[str, str]) -> list[ConfigValue]:
    """The keys of converters that are set, with their errors. Imports the classes."""
    found: list[ConfigValue] = []
    for name in _names(config):
        key = f"{name}.{_TYPE}"
        if not config.get(key):
            reason = f"set {key} to the class of the converter {name}"
            found.append(ConfigValue(_LIST, config[_LIST], errors=[ConfigError.invalid(_LIST, config[_LIST], reason).message]))
            continue
        try:
            class_ = _load_class(key, config[key])
            values = {value.name: value for value in _keys(name, class_).validate(config) if value.name in config or value.errors}
            found += values.values()
            if not any(value.errors for value in values.values()):
                _create(name, class_, config)
        except ConfigError as e:
            at = e.key if e.key is not None and e.key in config else key
            found.append(ConfigValue(at, config[at], errors=[e.message]))
    return found


def parse_converters(config: Mapping[str, str]) -> tuple[NamedConverter, ...]:
    """Creates the converters, in their order. Raises ConfigError."""
    found: list[NamedConverter] = []
    for name in _names(config):
        class_ = _load_class(f"{name}.{_TYPE}", config.get(f"{name}.{_TYPE}"))
        _keys(name, class_).parse(config)
        found.append(_create(name, class_, config))
    return tuple(found)


def _names(config: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(split_list(config.get(_LIST))))


def _keys(name: str, class_: type[CustomConverter]) -> ConfigDef:
    prefix = f"{name}."
    keys = ConfigDef().define(prefix + _TYPE, ConfigType.STRING, NO_DEFAULT, doc="The class.")
    try:
        return keys.embed(prefix, f"Converters: {name}", 0, class_.config_def())
    except FAILURES as e:
        raise ConfigError(f"converter {name}: {UserCode.of(class_).failure(e, ConfigError).message}", key=prefix + _TYPE) from e


def _load_class(key: str, given: str | None) -> type[CustomConverter]:
    plugins = Plugins.discover().restricted(plugin_rules())
    try:
        class_: type[CustomConverter] = plugins.load(plugins.resolve(Kind.CUSTOM_CONVERTER, given or ""))
    except PluginNotFoundError as e:
        if ":" in (given or "") or "not allowed" in e.message:
            raise ConfigError.invalid(key, given, e.message) from e
        known = ", ".join(desc.class_name for desc in plugins.of(Kind.CUSTOM_CONVERTER))
        reason = (
            "this class is not known here, and a converter in Java cannot run in Python. Known converters: "
            f"{known or 'none'}. Write others as a Python class (connect.CustomConverter) and name it as package.module:Class; "
            "or remove it from converters, and its columns have the connector's own types"
        )
        raise ConfigError.invalid(key, given, reason) from e
    except ConfigError as e:
        raise ConfigError.invalid(key, given, e.message) from e
    return class_


def _create(name: str, class_: type[CustomConverter], config: Mapping[str, str]) -> NamedConverter:
    """Creates and configures a converter. Raises ConfigError, also for other exceptions of a user's class."""
    prefix = f"{name}."
    own = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
    own.pop(_TYPE)
    code = UserCode.of(class_)
    try:
        converter = class_()
        converter.configure(own)
    except ConfigError as e:
        raise ConfigError(e.message, key=None if e.key is None else prefix + e.key) from e
    except FAILURES as e:
        raise ConfigError(f"converter {name}: {code.failure(e, ConfigError).message}", key=prefix + _TYPE) from e
    return NamedConverter(name, converter, code)
