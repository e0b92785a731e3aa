"""The framework's own table of a connector's keys, for one configuration.

Defaults, suggestions and rules depend on the worker's converters and on the plugins there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey, Recommender
from connect.errors import ConfigError
from worker.config import WorkerConfig
from worker.validation.catalogue import INTERFACES, Catalogue, Kind, Plugin
from worker.validation.common_keys import COMMON_KEYS
from worker.validation.sink_keys import SINK_KEYS
from worker.validation.source_keys import SOURCE_KEYS
from worker.validation.versions import AvailableVersion, listed_versions

CONVERTERS = {
    "key.converter": Kind.CONVERTER,
    "value.converter": Kind.CONVERTER,
    "header.converter": Kind.HEADER_CONVERTER,
}
VERSION_SUFFIX = ".plugin.version"


class Suggested(Recommender):
    """A fixed list of suggestions, shown or not."""

    def __init__(self, values: list[str], *, visible: bool = True) -> None:
        self._values = values
        self._visible = visible

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return list(self._values)

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self._visible


@dataclass(frozen=True, slots=True)
class Implements:
    """The name of a class that there is and that is of one kind."""

    catalogue: Catalogue
    kind: Kind

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        plugin = self.catalogue.find(value, [self.kind])
        if plugin is None:
            if is_shared_name(self.catalogue, value, self.kind):
                hint = f"Did you mean {value}$Key, {value}$Value?"
                raise ConfigError(f"This class is abstract and cannot be created. {hint}", key=name)
            raise ConfigError.invalid(name, value, f"Class {value} could not be found.")
        if self.kind not in plugin.kinds:
            raise ConfigError(f"Class class {plugin.name} does not implement the {INTERFACES[self.kind]} interface", key=name)

    def __str__(self) -> str:
        return f"a class that implements {INTERFACES[self.kind]}"


def is_shared_name(catalogue: Catalogue, name: str, kind: Kind) -> bool:
    """Whether it is the name of the class that ``Cast$Key`` and ``Cast$Value`` share."""
    return all(catalogue.find(f"{name}{half}", [kind]) is not None for half in ("$Key", "$Value"))


def plain_def(kind: Kind) -> ConfigDef:
    """The table for sinks or sources by itself, without a worker."""
    return ConfigDef((*COMMON_KEYS, *(SINK_KEYS if kind is Kind.SINK else SOURCE_KEYS)))


def framework_def(
    kind: Kind, connector: Plugin, props: Mapping[str, str | None], worker: WorkerConfig, catalogue: Catalogue
) -> ConfigDef:
    """The table for one configuration of one connector on this worker."""
    table = ConfigDef()
    for key in (*COMMON_KEYS, *(SINK_KEYS if kind is Kind.SINK else SOURCE_KEYS)):
        table.add(_adapted(key, connector, props, worker, catalogue))
    return table


def _adapted(
    key: ConfigKey, connector: Plugin, props: Mapping[str, str | None], worker: WorkerConfig, catalogue: Catalogue
) -> ConfigKey:
    if key.name == "connector.plugin.version":
        return with_version(key, connector)
    if key.name in CONVERTERS:
        kind = CONVERTERS[key.name]
        names = [plugin.name for plugin in catalogue.listed(kind)]
        found = catalogue.find(_default_converter(key.name, worker), [kind])
        default = found.name if found is not None else None
        return replace(key, default=default, validator=Implements(catalogue, kind), recommender=Suggested(names))
    role = key.name.removesuffix(VERSION_SUFFIX)
    if role in CONVERTERS and role != key.name:
        given = props.get(role)
        plugin = catalogue.find((_default_converter(role, worker) if given is None else given).strip(), [CONVERTERS[role]])
        # Of a class of another kind there is no version to choose.
        converter = plugin if plugin is not None and CONVERTERS[role] in plugin.kinds else None
        return with_version(key, converter, is_chosen=given is not None, hide=plugin is None)
    return key


def _default_converter(role: str, worker: WorkerConfig) -> str:
    match role:
        case "key.converter":
            return worker.key_converter
        case "value.converter":
            return worker.value_converter
        case _:
            return worker.header_converter


def unversioned_def(connector: Plugin) -> ConfigDef:
    """The table for a connector that is not there in the version asked for: nothing is known but what all connectors have."""
    return ConfigDef(
        with_version(key, connector)
        if key.name == "connector.plugin.version"
        else with_version(key, None, hide=True)
        if key.name.endswith(VERSION_SUFFIX)
        else key
        for key in COMMON_KEYS
    )


def with_version(key: ConfigKey, plugin: Plugin | None, *, is_chosen: bool = True, hide: bool = False) -> ConfigKey:
    """A version key whose default is the version of the plugin. Without a plugin it has none, and with ``hide`` is not shown."""
    version = None if plugin is None else plugin.version
    shown = Suggested(list(listed_versions(version)), visible=not hide or plugin is not None)
    rule = None if plugin is None else AvailableVersion(plugin.name, version, is_chosen)
    return replace(key, default=version, validator=rule, recommender=shown)
