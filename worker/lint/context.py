"""A connector configuration and what lint knows about it: classes, ConfigDefs, worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.connector import Connector, SinkConnector, SourceConnector
from connect.errors import ConnectError, MissingExtraError, PluginNotFoundError
from connect.plugins import Kind, Plugins
from connect.sink import SinkTask
from connect.source import SourceTask
from worker.config.extension_keys import connector_extension_keys
from worker.error_text import describe
from worker.lint.provider_references import has_reference
from worker.validation.framework_def import CONVERTERS, plain_framework_def
from worker.validation.plugin_index import CONNECTOR_TYPES, DiscoveredPluginIndex, Plugin, PluginIndex, PluginType
from worker.validation.transform_keys import add_stage_keys

Config = Mapping[str, str | None]
LISTS = {PluginType.TRANSFORMATION: "transforms", PluginType.PREDICATE: "predicates"}


@dataclass(frozen=True)
class LintContext:
    """One connector's configuration. ``worker`` is the worker's properties, None if unknown."""

    config: Config
    plugins: Plugins
    worker: Mapping[str, str] | None = None
    lines: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def plugin_index(self) -> PluginIndex:
        return _WithPlaceholder(DiscoveredPluginIndex(self.plugins), self)

    @cached_property
    def class_name(self) -> str:
        return (self.config.get("connector.class") or "").strip()

    @cached_property
    def connector(self) -> Connector | None:
        """An instance of the connector's class; None if the class is unknown or cannot be instantiated."""
        try:
            connector = self._new_connector()
        except Exception:
            return None  # connector_problem says why
        return connector if isinstance(connector, SourceConnector | SinkConnector) else None

    @cached_property
    def connector_problem(self) -> str:
        """Why there is no connector instance; empty if there is one, or if simply no class has this name."""
        try:
            self._new_connector()
        except PluginNotFoundError as e:
            if isinstance(e, MissingExtraError) or ":" in self.class_name or "cannot be loaded" in e.message:
                return e.message
            return ""  # for a Java name or alias, the message would list all connectors
        except Exception as e:  # a plugin may raise anything
            return describe(e)
        return ""

    def _new_connector(self) -> object:
        if not self.class_name:
            return None
        made: Connector = self.plugins.load(self.plugins.resolve(Kind.CONNECTOR, self.class_name))()
        made.config_def()
        return made

    @cached_property
    def kind(self) -> PluginType:
        """SINK or SOURCE; for an unknown class, guessed from its name and keys."""
        if isinstance(self.connector, SinkConnector):
            return PluginType.SINK
        if isinstance(self.connector, SourceConnector):
            return PluginType.SOURCE
        simple = self.class_name.rpartition(".")[2]
        if "Source" in simple or "Sink" in simple:
            return PluginType.SINK if "Sink" in simple else PluginType.SOURCE
        return PluginType.SINK if "topics" in self.config or "topics.regex" in self.config else PluginType.SOURCE

    @property
    def is_known(self) -> bool:
        """Whether the connector's own keys can be checked."""
        return self.connector is not None

    def aliases(self, kind: PluginType) -> list[str]:
        """Returns the listed aliases of transforms or predicates."""
        return self.list_of(LISTS[kind])

    def list_of(self, key: str) -> list[str]:
        """Returns the entries of a list; empty if it contains a reference."""
        value = self.config.get(key)
        return [] if has_reference(value) else parse_value(key, value, ConfigType.LIST) or []

    def flag(self, key: str, default: bool = False) -> bool:
        """Returns a boolean value; the default if it is missing or invalid."""
        value = (self.config.get(key) or "").strip().lower()
        return default if value not in ("true", "false") else value == "true"

    def number(self, key: str) -> int | None:
        """Returns an integer value; None if it is missing or invalid."""
        value = (self.config.get(key) or "").strip()
        return int(value) if value.lstrip("+-").isdecimal() and len(value) < 20 else None

    def plugin_class(self, key: str, kind: PluginType) -> type[Any] | None:
        """Returns the class that a key names; None if no class of this type has the name."""
        name = (self.config.get(key) or "").strip()
        found = self.plugin_index.find(name, [kind]) if name else None
        if found is None or kind not in found.kinds:
            return None
        try:
            return found.load()
        except ConnectError:
            return None

    def converter_class(self, role: str) -> tuple[type[Any], dict[str, str | None]] | None:
        """Returns the converter class for a role and its settings: the connector's, else the worker's. None if unknown."""
        for config in (self.config, self.worker or {}):
            if config.get(role):
                found = LintContext(config, self.plugins).plugin_class(role, CONVERTERS[role])
                prefix = f"{role}."
                below = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
                return None if found is None else (found, below)
        return None

    @cached_property
    def tables(self) -> dict[str, ConfigKey]:
        """All keys that some component reads, by full name, including deprecated names."""
        return {name: key for key in self._keys() for name in (key.name, *key.aliases)}

    @cached_property
    def older_names(self) -> dict[str, str]:
        """Deprecated names with their replacements."""
        return {alias: key.name for key in self._keys() for alias in key.aliases}

    @property
    def removed(self) -> Mapping[str, str]:
        """Keys of earlier releases that the connector refuses, with what to do instead."""
        return {} if self.connector is None else self.connector.config_def().removed

    def _keys(self) -> Iterator[ConfigKey]:
        yield from plain_framework_def(self.kind).keys.values()
        yield from connector_extension_keys(for_source=self.kind is PluginType.SOURCE)
        if self.connector is not None:
            yield from self.connector.config_def().keys.values()
        stages = ConfigDef()
        for kind, list_key in LISTS.items():
            if not has_reference(self.config.get(list_key)):
                add_stage_keys(stages, kind, self.config, self.plugin_index)
        yield from stages.keys.values()
        for role, kind in CONVERTERS.items():
            found = self.plugin_class(role, kind)
            for key in () if found is None else found.config_def().keys.values():
                yield replace(key, name=f"{role}.{key.name}", aliases=tuple(f"{role}.{alias}" for alias in key.aliases))


class _WithPlaceholder:
    """Adds a placeholder for an unknown connector class, so that validation still checks the framework's keys."""

    def __init__(self, plugin_index: PluginIndex, context: LintContext) -> None:
        self._plugin_index = plugin_index
        self._subject = context

    def find(self, name: str, kinds: Any = ()) -> Plugin | None:
        context = self._subject
        if name == context.class_name and tuple(kinds) == CONNECTOR_TYPES and context.connector is None:
            cls = _UnknownSink if context.kind is PluginType.SINK else _UnknownSource
            return Plugin(name, frozenset({context.kind}), None, lambda: cls)
        return self._plugin_index.find(name, kinds)

    def listed(self, kind: PluginType) -> list[Plugin]:
        return self._plugin_index.listed(kind)

    def unknown_connector(self, name: str) -> str:
        return self._plugin_index.unknown_connector(name)


class _Unknown(Connector):
    """A connector of an unknown class."""

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
