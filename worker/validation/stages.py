"""Keys of transformations and predicates: what ``transforms=a,b`` adds to a connector's table (KIP-66, KIP-585)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey, Importance, Validator, Width
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.config.validators import AllOf
from connect.errors import ConfigError
from connect.transforms.api import Predicate, Transformation
from worker.validation.catalogue import Catalogue, Kind, Plugin
from worker.validation.framework import Implements, Suggested, with_version
from worker.validation.versions import HasVersion

_NEGATE = ConfigKey("negate", ConfigType.BOOLEAN, False, doc="Whether the configured predicate should be negated.")
_PREDICATE = ConfigKey(
    "predicate",
    ConfigType.STRING,
    None,
    doc="The alias of a predicate used to determine whether to apply this transformation.",
)
_STAGE_KEYS = {Kind.TRANSFORMATION: (_PREDICATE, _NEGATE), Kind.PREDICATE: ()}
"""What every transformation has besides its own keys, which it hides."""

_LISTS = {Kind.TRANSFORMATION: ("transforms", "Transforms"), Kind.PREDICATE: ("predicates", "Predicates")}


@dataclass(frozen=True, slots=True)
class StageType:
    """The class of a stage; a transformation that is negated needs a predicate."""

    implements: Implements
    prefix: str
    props: Mapping[str, str | None]

    def __call__(self, name: str, value: Any) -> None:
        negate, predicate = f"{self.prefix}negate", f"{self.prefix}predicate"
        if self.implements.kind is Kind.TRANSFORMATION and negate in self.props and predicate not in self.props:
            raise ConfigError(
                f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate to be negated."
            )
        self.implements(name, value)

    def __str__(self) -> str:
        return str(self.implements)


def add_stage_keys(table: ConfigDef, kind: Kind, props: Mapping[str, str | None], catalogue: Catalogue) -> None:
    """Adds the keys of every alias that the configuration lists, in the order listed, to the table."""
    list_key, group = _LISTS[kind]
    for alias in dict.fromkeys(parse_value(list_key, props.get(list_key), ConfigType.LIST) or ()):
        _add_alias(table, kind, alias, f"{list_key}.{alias}.", f"{group}: {alias}", props, catalogue)


def _add_alias(
    table: ConfigDef,
    kind: Kind,
    alias: str,
    prefix: str,
    group: str,
    props: Mapping[str, str | None],
    catalogue: Catalogue,
) -> None:
    what = kind.value
    plugin = _plugin_of(props.get(f"{prefix}type"), kind, catalogue)
    names = [listed.name for listed in catalogue.listed(kind)]
    rule: Validator = StageType(Implements(catalogue, kind), prefix, props)
    has_version = None
    if plugin is not None:
        requirement = props.get(f"{prefix}plugin.version")
        has_version = HasVersion(plugin.name, plugin.version, requirement)
        rule = AllOf((rule, has_version))
    place: dict[str, Any] = {"importance": Importance.HIGH, "group": group, "width": Width.LONG}
    table.define(
        f"{prefix}type", ConfigType.CLASS, doc=f"Class for the '{alias}' {what}.", order=0, validator=rule,
        display_name=f"{what.capitalize()} type for {alias}", recommender=Suggested(names), **place,
    )  # fmt: skip
    version = ConfigKey(
        f"{prefix}plugin.version", ConfigType.STRING, None, doc=f"Version of the '{alias}' {what}.", order=1,
        display_name=f"{what.capitalize()} version for {alias}", **place,
    )  # fmt: skip
    table.add(with_version(version, plugin))
    if plugin is not None and has_version is not None and _is_there(has_version, prefix):
        table.embed(prefix, group, 2, _own_def(plugin, kind))


def _is_there(has_version: HasVersion, prefix: str) -> bool:
    """Whether the stage's class has the version asked for; without it nothing is known of its keys."""
    try:
        has_version(f"{prefix}type", None)
    except ConfigError:
        return False
    return True


def _plugin_of(name: str | None, kind: Kind, catalogue: Catalogue) -> Plugin | None:
    """The stage's class if there is one of the right kind; what is wrong otherwise, the rule of its type key says."""
    plugin = None if name is None else catalogue.find(name.strip(), [kind])
    if plugin is None or kind not in plugin.kinds or inspect.isabstract(plugin.load()):
        return None
    return plugin


def _own_def(plugin: Plugin, kind: Kind) -> ConfigDef:
    cls = plugin.load()
    if not issubclass(cls, Transformation | Predicate):
        return ConfigDef()
    shared = {key.name for key in _STAGE_KEYS[kind]}
    own = [key for key in cls.config_def().keys.values() if key.name not in shared]
    return ConfigDef([*_STAGE_KEYS[kind], *own])
