"""Builds the ConfigDef of the framework's keys for one connector configuration.

Defaults, recommended values, and validators depend on the worker's converters and the available plugins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey, Recommender, Validator
from connect.errors import ConfigError
from worker.config.worker_config import WorkerConfig
from worker.validation.connector_keys import COMMON_KEYS, SINK_KEYS, SOURCE_KEYS
from worker.validation.named_classes import NamedClass, find_plugin, named_class
from worker.validation.plugin_index import CONNECTOR_TYPES, INTERFACES, Plugin, PluginIndex, PluginType
from worker.validation.plugin_versions import AvailableVersion, IsRange, available_versions

CONVERTERS = {
    "key.converter": PluginType.CONVERTER,
    "value.converter": PluginType.CONVERTER,
    "header.converter": PluginType.HEADER_CONVERTER,
}
VERSION_SUFFIX = ".plugin.version"


class Suggested(Recommender):
    """A fixed list of recommended values, visible or not."""

    def __init__(self, values: list[str], *, visible: bool = True) -> None:
        self._values = values
        self._visible = visible

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return list(self._values)

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self._visible


@dataclass(frozen=True, slots=True)
class Implements:
    """Accepts a class of one plugin type that can be instantiated. Lookup reports unknown classes, so they pass here."""

    plugin_index: PluginIndex
    kind: PluginType

    def __call__(self, name: str, value: Any) -> None:
        found = None if value is None else named_class(self.plugin_index, value, self.kind)
        problem = None if found is None else found.problem(self.kind)
        if problem is not None:
            raise ConfigError(problem, key=name)

    def __str__(self) -> str:
        return f"a class that implements {INTERFACES[self.kind]}"


def plain_framework_def(kind: PluginType) -> ConfigDef:
    """Returns the keys of sinks or sources without values that depend on a worker."""
    return ConfigDef((*COMMON_KEYS, *(SINK_KEYS if kind is PluginType.SINK else SOURCE_KEYS)))


def framework_def(
    kind: PluginType, connector: Plugin, props: Mapping[str, str | None], worker: WorkerConfig, plugin_index: PluginIndex
) -> ConfigDef:
    """Returns the keys for one configuration of one connector on this worker."""
    table = ConfigDef()
    for key in (*COMMON_KEYS, *(SINK_KEYS if kind is PluginType.SINK else SOURCE_KEYS)):
        table.add(_adapted(key, connector, props, worker, plugin_index))
    return table


def _adapted(
    key: ConfigKey, connector: Plugin, props: Mapping[str, str | None], worker: WorkerConfig, plugin_index: PluginIndex
) -> ConfigKey:
    if key.name == "connector.plugin.version":
        return connector_version(key, connector)
    if key.name in CONVERTERS:
        kind = CONVERTERS[key.name]
        names = [plugin.name for plugin in plugin_index.listed(kind)]
        found = plugin_index.find(_default_converter(key.name, worker), [kind])
        default = found.name if found is not None else None
        return replace(key, default=default, validator=Implements(plugin_index, kind), recommender=Suggested(names))
    role = key.name.removesuffix(VERSION_SUFFIX)
    if role in CONVERTERS and role != key.name:
        return _converter_version(key, role, props, worker, plugin_index)
    return key


def _converter_version(
    key: ConfigKey, role: str, props: Mapping[str, str | None], worker: WorkerConfig, plugin_index: PluginIndex
) -> ConfigKey:
    given, kind = props.get(role), CONVERTERS[role]
    chosen = find_plugin(plugin_index, _default_converter(role, worker) if given is None else given, kind)
    # A null converter names no class, but its default version is that of the worker's converter.
    name = props[role] if role in props else _default_converter(role, worker)
    named = None if name is None else named_class(plugin_index, name, kind)
    return version_key(key, chosen, IsRange(), recommended=versions_of(named, kind), visible=named is not None)


def _default_converter(role: str, worker: WorkerConfig) -> str:
    match role:
        case "key.converter":
            return worker.key_converter
        case "value.converter":
            return worker.value_converter
        case _:
            return worker.header_converter


def unversioned_def(connector: Plugin, props: Mapping[str, str | None], plugin_index: PluginIndex) -> ConfigDef:
    """Returns the keys for a class that is unavailable in the requested version: only those that all connectors have."""
    table = ConfigDef()
    for key in COMMON_KEYS:
        role = key.name.removesuffix(VERSION_SUFFIX)
        if key.name == "connector.plugin.version":
            chosen = connector if connector.kinds.intersection(CONNECTOR_TYPES) else None
            table.add(version_key(key, chosen, AvailableVersion(connector), recommended=available_versions(connector)))
        elif key.name in CONVERTERS:
            table.add(replace(key, validator=Implements(plugin_index, CONVERTERS[key.name])))
        elif role in CONVERTERS:
            given = props.get(role)
            named = None if given is None else named_class(plugin_index, given, CONVERTERS[role])
            table.add(version_key(key, None, IsRange(), visible=named is not None))
        else:
            table.add(key)
    return table


def connector_version(key: ConfigKey, connector: Plugin) -> ConfigKey:
    """Adapts the key of the connector's version."""
    rule = AvailableVersion(connector)
    return version_key(key, connector, rule, recommended=connector.listed_versions())


def version_key(
    key: ConfigKey, chosen: Plugin | None, rule: Validator | None, *, recommended: Sequence[str] = (), visible: bool = True
) -> ConfigKey:
    """Adapts the key of a plugin's version; the default is the version of the chosen plugin."""
    default = None if chosen is None else chosen.version
    return replace(key, default=default, validator=rule, recommender=Suggested(list(recommended), visible=visible))


def versions_of(named: NamedClass | None, kind: PluginType) -> Sequence[str]:
    """Returns the available versions of a class, if it is a plugin of that type."""
    plugin = None if named is None else named.plugin
    return plugin.listed_versions() if plugin is not None and kind in plugin.kinds else ()
