"""What is checked: one connector's configuration with what is known around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.connector import Connector, SinkConnector, SourceConnector
from connect.errors import ConnectError, PluginNotFoundError
from connect.plugins import Kind as PluginKind
from connect.plugins import Plugins
from connect.sink import SinkTask
from connect.source import SourceTask
from worker.error_text import describe
from worker.lint.provider_references import has_reference
from worker.validation.discovered_plugins import DiscoveredCatalogue
from worker.validation.extension_keys import own_keys
from worker.validation.framework_keys import CONVERTERS, plain_def
from worker.validation.plugin_catalog import CONNECTORS, Catalogue, Kind, Plugin
from worker.validation.transform_keys import add_stage_keys

Config = Mapping[str, str | None]
LISTS = {Kind.TRANSFORMATION: "transforms", Kind.PREDICATE: "predicates"}


@dataclass(frozen=True)
class Subject:
    """One connector's configuration. ``worker`` is the worker's own properties, None when they are not known."""

    config: Config
    plugins: Plugins
    worker: Mapping[str, str] | None = None
    lines: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def catalogue(self) -> Catalogue:
        return _WithStandIn(DiscoveredCatalogue(self.plugins), self)

    @cached_property
    def class_name(self) -> str:
        return (self.config.get("connector.class") or "").strip()

    @cached_property
    def connector(self) -> Connector | None:
        """An instance of the connector's class, or None when there is no such class here, or it cannot be made."""
        try:
            made = self._made()
        except Exception:
            return None  # connector_problem tells why
        return made if isinstance(made, SourceConnector | SinkConnector) else None

    @cached_property
    def connector_problem(self) -> str:
        """Why there is no connector, where more can be said than that there is none of that name."""
        try:
            self._made()
        except PluginNotFoundError as e:
            # For names, the list of all that there are would follow.
            return "" if ":" not in self.class_name and "cannot be loaded" not in e.message else e.message
        except Exception as e:  # somebody's plugin may raise anything
            return describe(e)
        return ""

    def _made(self) -> object:
        if not self.class_name:
            return None
        made: Connector = self.plugins.load(self.plugins.resolve(PluginKind.CONNECTOR, self.class_name))()
        made.config_def()
        return made

    @cached_property
    def kind(self) -> Kind:
        """SINK or SOURCE; of a class that is not here, what its name and keys look like."""
        if isinstance(self.connector, SinkConnector):
            return Kind.SINK
        if isinstance(self.connector, SourceConnector):
            return Kind.SOURCE
        simple = self.class_name.rpartition(".")[2]
        if "Source" in simple or "Sink" in simple:
            return Kind.SINK if "Sink" in simple else Kind.SOURCE
        return Kind.SINK if "topics" in self.config or "topics.regex" in self.config else Kind.SOURCE

    @property
    def is_known(self) -> bool:
        """Whether the connector's own keys can be judged."""
        return self.connector is not None

    def aliases(self, kind: Kind) -> list[str]:
        """The transforms or predicates that are listed."""
        return self.list_of(LISTS[kind])

    def list_of(self, key: str) -> list[str]:
        """The entries of a list, as they are written; empty when it is not known before a reference is resolved."""
        value = self.config.get(key)
        return [] if has_reference(value) else parse_value(key, value, ConfigType.LIST) or []

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean; what is no boolean has been told elsewhere."""
        value = (self.config.get(key) or "").strip().lower()
        return default if value not in ("true", "false") else value == "true"

    def number(self, key: str) -> int | None:
        """An integer, or None when it is not given or none."""
        value = (self.config.get(key) or "").strip()
        return int(value) if value.lstrip("+-").isdecimal() and len(value) < 20 else None

    def plugin_class(self, key: str, kind: Kind) -> type[Any] | None:
        """The class that a key names, None when there is none of that kind here."""
        name = (self.config.get(key) or "").strip()
        found = self.catalogue.find(name, [kind]) if name else None
        if found is None or kind not in found.kinds:
            return None
        try:
            return found.load()
        except ConnectError:
            return None

    def converter_class(self, role: str) -> tuple[type[Any], dict[str, str | None]] | None:
        """The converter in a role with its settings: the connector's, or else the worker's. None when it is not known."""
        for config in (self.config, self.worker or {}):
            if config.get(role):
                found = Subject(config, self.plugins).plugin_class(role, CONVERTERS[role])
                prefix = f"{role}."
                below = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
                return None if found is None else (found, below)
        return None

    @cached_property
    def tables(self) -> dict[str, ConfigKey]:
        """Every key that some part of the configuration reads, by its whole name, older names included."""
        return {name: key for key in self._keys() for name in (key.name, *key.aliases)}

    @cached_property
    def older_names(self) -> dict[str, str]:
        """Names that are still read, and the ones that took their place."""
        return {alias: key.name for key in self._keys() for alias in key.aliases}

    def _keys(self) -> Iterator[ConfigKey]:
        yield from plain_def(self.kind).keys.values()
        yield from own_keys(self.kind)
        if self.connector is not None:
            yield from self.connector.config_def().keys.values()
        stages = ConfigDef()
        for kind, list_key in LISTS.items():
            if not has_reference(self.config.get(list_key)):
                add_stage_keys(stages, kind, self.config, self.catalogue)
        yield from stages.keys.values()
        for role, kind in CONVERTERS.items():
            found = self.plugin_class(role, kind)
            for key in () if found is None else found.config_def().keys.values():
                yield replace(key, name=f"{role}.{key.name}", aliases=tuple(f"{role}.{alias}" for alias in key.aliases))


class _WithStandIn:
    """A catalogue that has a connector for the class that the configuration names, even if there is none: what the framework has
    to say about the other keys is wanted all the same."""

    def __init__(self, catalogue: Catalogue, subject: Subject) -> None:
        self._catalogue = catalogue
        self._subject = subject

    def find(self, name: str, kinds: Any = ()) -> Plugin | None:
        subject = self._subject
        if name == subject.class_name and tuple(kinds) == CONNECTORS and subject.connector is None:
            cls = _UnknownSink if subject.kind is Kind.SINK else _UnknownSource
            return Plugin(name, frozenset({subject.kind}), None, lambda: cls)
        return self._catalogue.find(name, kinds)

    def listed(self, kind: Kind) -> list[Plugin]:
        return self._catalogue.listed(kind)

    def unknown_connector(self, name: str) -> str:
        return self._catalogue.unknown_connector(name)


class _Unknown(Connector):
    """A connector of which nothing is known but its kind."""

    def start(self, config: Mapping[str, str]) -> None: ...

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []

    def stop(self) -> None: ...

    def config_def(self) -> ConfigDef:
        return ConfigDef()


class _UnknownSource(_Unknown, SourceConnector):
    def task_class(self) -> type[SourceTask]:
        return SourceTask


class _UnknownSink(_Unknown, SinkConnector):
    def task_class(self) -> type[SinkTask]:
        return SinkTask
