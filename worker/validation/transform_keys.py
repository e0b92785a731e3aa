"""Keys of transformations and predicates: what ``transforms=a,b`` adds to a connector's table (KIP-66, KIP-585)."""

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
"""What every transformation has besides its own keys, which it hides."""

_LISTS = {PluginType.TRANSFORMATION: ("transforms", "Transforms"), PluginType.PREDICATE: ("predicates", "Predicates")}


@dataclass(frozen=True, slots=True)
class StageType:
    """The class of a stage, in the version asked for; a transformation that is negated needs a predicate."""

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
    """A version of a stage that has a class; one that there is, where the class is one."""

    plugin: Plugin | None

    def __call__(self, name: str, value: Any) -> None:
        IsRange()(name, value)
        if self.plugin is not None:
            AvailableVersion(self.plugin)(name, value)

    def __str__(self) -> str:
        return "a version, a range in Maven's notation, or latest"


def add_stage_keys(table: ConfigDef, kind: PluginType, props: Mapping[str, str | None], plugin_index: PluginIndex) -> None:
    """Adds the keys of every alias that the configuration lists, in the order listed, to the table."""
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
    # Its keys and its version are looked up by the name as it was given, blanks and all.
    plugin = find_plugin(plugin_index, given, kind)
    if plugin is not None and inspect.isabstract(plugin.load()):
        plugin = None
    place: dict[str, Any] = {"importance": Importance.HIGH, "group": group, "width": Width.LONG}
    table.define(
        f"{prefix}type", ConfigType.CLASS, doc=f"Class for the '{alias}' {what}.", order=0,
        validator=StageType(Implements(plugin_index, kind), prefix, props), display_name=f"{what.capitalize()} type for {alias}",
        recommender=Suggested([listed.name for listed in plugin_index.listed(kind)]), **place,
    )  # fmt: skip
    version = ConfigKey(
        f"{prefix}plugin.version", ConfigType.STRING, None, doc=f"Version of the '{alias}' {what}.", order=1,
        display_name=f"{what.capitalize()} version for {alias}", **place,
    )  # fmt: skip
    rule = None if given is None else StageVersion(plugin)
    table.add(version_key(version, plugin, rule, recommended=versions_of(named, kind)))
    if plugin is not None and _is_there(plugin, props.get(version.name)):
        table.embed(prefix, group, 2, _own_def(plugin, kind))


def _is_there(plugin: Plugin, requirement: str | None) -> bool:
    """Whether a class has the version asked for; without it nothing is known of its keys."""
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
