"""Adds the keys of transformations and predicates that ``transforms=a,b`` declares to a ConfigDef (KIP-66, KIP-585)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey, Importance, Width
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.transforms.api import Predicate, Transformation
from worker.validation.framework_def import Implements, Suggested, version_key, versions_of
from worker.validation.named_classes import find_plugin, named_class
from worker.validation.plugin_index import Plugin, PluginIndex, PluginType
from worker.validation.plugin_versions import AvailableVersion, IsRange, version_error

_NEGATE = ConfigKey("negate", ConfigType.BOOLEAN, False, doc="Whether the configured predicate should be negated.")
_PREDICATE = ConfigKey(
    "predicate",
    ConfigType.STRING,
    None,
    doc="The alias of a predicate used to determine whether to apply this transformation.",
)
_STAGE_KEYS = {PluginType.TRANSFORMATION: (_PREDICATE, _NEGATE), PluginType.PREDICATE: ()}
"""Keys of every transformation. They hide its own keys of the same name."""

_LISTS = {PluginType.TRANSFORMATION: ("transforms", "Transforms"), PluginType.PREDICATE: ("predicates", "Predicates")}


@dataclass(frozen=True, slots=True)
class StageType:
    """Accepts a class in the requested version. A negated transformation needs a predicate."""

    implements: Implements
    prefix: str
    props: Mapping[str, str | None]

    def __call__(self, name: str, value: Any) -> None:
        kind = self.implements.kind
        negate, predicate = f"{self.prefix}negate", f"{self.prefix}predicate"
        if kind is PluginType.TRANSFORMATION and negate in self.props and predicate not in self.props:
            raise ConfigError(
                f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate to be negated."
            )
        found = None if value is None else named_class(self.implements.plugin_index, value, kind)
        if found is None:
            return
        version = self.props.get(f"{self.prefix}plugin.version")
        IsRange()(name, version)
        self.implements(name, value)
        if found.plugin is not None:
            AvailableVersion(found.plugin)(name, version)

    def __str__(self) -> str:
        return str(self.implements)


@dataclass(frozen=True, slots=True)
class StageVersion:
    """Accepts a version requirement; if the plugin is known, it must be available in that version."""

    plugin: Plugin | None

    def __call__(self, name: str, value: Any) -> None:
        IsRange()(name, value)
        if self.plugin is not None:
            AvailableVersion(self.plugin)(name, value)

    def __str__(self) -> str:
        return "a version, a range in Maven's notation, or latest"


def add_stage_keys(table: ConfigDef, kind: PluginType, props: Mapping[str, str | None], plugin_index: PluginIndex) -> None:
    """Adds the keys of every alias that the configuration lists, in this order."""
    list_key, group = _LISTS[kind]
    for alias in dict.fromkeys(parse_value(list_key, props.get(list_key), ConfigType.LIST) or ()):
        _add_alias(table, kind, alias, f"{list_key}.{alias}.", f"{group}: {alias}", props, plugin_index)


def _add_alias(
    table: ConfigDef,
    kind: PluginType,
    alias: str,
    prefix: str,
    group: str,
    props: Mapping[str, str | None],
    plugin_index: PluginIndex,
) -> None:
    what = kind.value
    given = props.get(f"{prefix}type")
    named = None if given is None else named_class(plugin_index, given, kind)
    # As in Apache, keys and version are looked up by the name as given, including blanks.
    plugin = find_plugin(plugin_index, given, kind)
    if plugin is not None and inspect.isabstract(plugin.load()):
        plugin = None
    common: dict[str, Any] = {"importance": Importance.HIGH, "group": group, "width": Width.LONG}
    table.define(
        f"{prefix}type", ConfigType.CLASS, doc=f"Class for the '{alias}' {what}.", order=0,
        validator=StageType(Implements(plugin_index, kind), prefix, props), display_name=f"{what.capitalize()} type for {alias}",
        recommender=Suggested([listed.name for listed in plugin_index.listed(kind)]), **common,
    )  # fmt: skip
    version = ConfigKey(
        f"{prefix}plugin.version", ConfigType.STRING, None, doc=f"Version of the '{alias}' {what}.", order=1,
        display_name=f"{what.capitalize()} version for {alias}", **common,
    )  # fmt: skip
    rule = None if given is None else StageVersion(plugin)
    table.add(version_key(version, plugin, rule, recommended=versions_of(named, kind)))
    if plugin is not None and _has_version(plugin, props.get(version.name)):
        table.embed(prefix, group, 2, _own_def(plugin, kind))


def _has_version(plugin: Plugin, requirement: str | None) -> bool:
    """Returns whether a class is available in the requested version."""
    try:
        return version_error(plugin, requirement) is None
    except ConfigError:
        return False


def _own_def(plugin: Plugin, kind: PluginType) -> ConfigDef:
    cls = plugin.load()
    if not issubclass(cls, Transformation | Predicate):
        return ConfigDef()
    shared = {key.name for key in _STAGE_KEYS[kind]}
    own = [key for key in cls.config_def().keys.values() if key.name not in shared]
    return ConfigDef([*_STAGE_KEYS[kind], *own])
