"""Keys of transformations and predicates: what ``transforms=a,b`` adds to a connector's table (KIP-66, KIP-585)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey, Importance, Recommender, Validator, Width
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.transforms.api import Predicate, Transformation
from worker.validation.catalogue import Catalogue, Kind, Plugin
from worker.validation.framework import Implements, Suggested, with_version

_IMPORTANCE_ORDER = (Importance.HIGH, Importance.MEDIUM, Importance.LOW)

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


@dataclass(frozen=True, slots=True)
class _Embedded:
    """A rule of a stage's own table: it knows its key without the prefix, and its messages say it so."""

    prefix: str
    rule: Validator

    def __call__(self, name: str, value: Any) -> None:
        self.rule(name.removeprefix(self.prefix), value)

    def __str__(self) -> str:
        return str(self.rule)


class _EmbeddedRecommender(Recommender):
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
    rule = StageType(Implements(catalogue, kind), prefix, props)
    place: dict[str, Any] = {"importance": Importance.HIGH, "group": group, "width": Width.LONG}
    table.define(
        f"{prefix}type", ConfigType.CLASS, doc=f"Class for the '{alias}' {what}.", order=0, validator=rule,
        display_name=f"{what.capitalize()} type for {alias}", recommender=Suggested(names), **place,
    )  # fmt: skip
    version = ConfigKey(
        f"{prefix}plugin.version", ConfigType.STRING, None, doc=f"Version of the '{alias}' {what}.", order=1,
        display_name=f"{what.capitalize()} version for {alias}", **place,
    )  # fmt: skip
    table.add(with_version(version, plugin, "" if plugin is None else plugin.name))
    if plugin is not None:
        for order, key in enumerate(_own_keys(plugin, kind), start=2):
            table.add(_embedded(key, prefix, group, order))


def _plugin_of(name: str | None, kind: Kind, catalogue: Catalogue) -> Plugin | None:
    """The stage's class if there is one of the right kind; what is wrong otherwise, the rule of its type key says."""
    plugin = None if name is None else catalogue.find(name.strip(), [kind])
    if plugin is None or kind not in plugin.kinds or inspect.isabstract(plugin.load()):
        return None
    return plugin


def _own_keys(plugin: Plugin, kind: Kind) -> list[ConfigKey]:
    cls = plugin.load()
    if not issubclass(cls, Transformation | Predicate):
        return []
    shared = {key.name for key in _STAGE_KEYS[kind]}
    own = [key for key in cls.config_def().keys.values() if key.name not in shared]
    return sorted_keys([*_STAGE_KEYS[kind], *own])


def sorted_keys(keys: list[ConfigKey]) -> list[ConfigKey]:
    """Kafka's order of a table that is built into another: by group and order, required first, then importance and name."""
    groups = {group: i for i, group in enumerate(dict.fromkeys(key.group for key in keys if key.group is not None))}
    return sorted(
        keys,
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
        validator=None if key.validator is None else _Embedded(prefix, key.validator),
        recommender=None if key.recommender is None else _EmbeddedRecommender(prefix, key.recommender),
        group=group if key.group is None else f"{group}: {key.group}",
        order=order,
        display_name=key.display_name or key.name,
        dependents=tuple(prefix + name for name in key.dependents),
        aliases=tuple(prefix + name for name in key.aliases),
    )
