"""The plugins that validation can look up: an interface, and its implementation over plugin discovery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from connect import plugins as discovery
from connect.errors import ConfigError, PluginNotFoundError


class PluginType(Enum):
    """The type of a plugin. Names and order are those of ``GET /connector-plugins``."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


CONNECTOR_TYPES = (PluginType.SINK, PluginType.SOURCE)

INTERFACES = {
    PluginType.TRANSFORMATION: "Transformation",
    PluginType.PREDICATE: "Predicate",
    PluginType.CONVERTER: "Converter",
    PluginType.HEADER_CONVERTER: "HeaderConverter",
}
"""Names of Apache's interfaces, for messages."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class that a configuration can name."""

    name: str
    """The name in REST responses: the Java name if the class has one, ``module:Class`` otherwise."""
    kinds: frozenset[PluginType]
    version: str | None
    load: Callable[[], type]
    """Imports the class. Raises ConnectError if a dependency is not installed."""

    def listed_versions(self) -> Sequence[str]:
        """Returns the available versions: one, or none if the version is unknown."""
        return [] if self.version is None else [self.version]


class PluginIndex(Protocol):
    """All plugins of a worker. Methods may be called from any thread."""

    def find(self, name: str, kinds: Sequence[PluginType] = ()) -> Plugin | None:
        """Returns the plugin with this Java name, Python path, or alias; None if there is none.

        If plugins of several types share an alias, one of ``kinds`` is preferred.
        """

    def listed(self, kind: PluginType) -> list[Plugin]:
        """Returns all plugins of a type, sorted by name."""

    def unknown_connector(self, name: str) -> str:
        """Returns the error message for a connector class that :meth:`find` does not find, with the nearest and all names."""


_DISCOVERED = {
    PluginType.SINK: discovery.Kind.CONNECTOR,
    PluginType.SOURCE: discovery.Kind.CONNECTOR,
    PluginType.TRANSFORMATION: discovery.Kind.TRANSFORMATION,
    PluginType.PREDICATE: discovery.Kind.PREDICATE,
    PluginType.CONVERTER: discovery.Kind.CONVERTER,
    PluginType.HEADER_CONVERTER: discovery.Kind.HEADER_CONVERTER,
}
_BY_NAME = {kind.value: kind for kind in PluginType}


class DiscoveredPluginIndex:
    """A :class:`PluginIndex` over the plugins of an environment. Immutable; safe for use from any thread."""

    def __init__(self, plugins: discovery.Plugins) -> None:
        self._plugins = plugins
        self._kinds: dict[str, set[PluginType]] = {}
        for desc in plugins.all():
            kind = _BY_NAME.get(desc.type)
            if kind is not None:
                self._kinds.setdefault(desc.path, set()).add(kind)

    def find(self, name: str, kinds: Sequence[PluginType] = ()) -> Plugin | None:
        for wanted in dict.fromkeys(_DISCOVERED[kind] for kind in kinds):
            try:
                return self._plugin(self._plugins.resolve(wanted, name))
            except PluginNotFoundError:
                continue
            except ConfigError:
                break  # the Python path of a class of another type
        try:
            return self._plugin(self._plugins.find(name))
        except PluginNotFoundError:
            return None

    def listed(self, kind: PluginType) -> list[Plugin]:
        found = (self._plugin(desc) for desc in self._plugins.of(_DISCOVERED[kind]))
        return [plugin for plugin in found if plugin is not None and kind in plugin.kinds]

    def unknown_connector(self, name: str) -> str:
        try:
            self._plugins.resolve(discovery.Kind.CONNECTOR, name)
        except PluginNotFoundError as e:
            return e.message
        # The name is known without the blanks around it. Like Apache, we do not trim it.
        return (
            f"Failed to find any class that implements Connector and which name matches {name}. Did you mean {name.strip()}? "
            "Blanks around the class name of a connector are significant"
        )

    def _plugin(self, desc: discovery.PluginDesc) -> Plugin | None:
        kinds = self._kinds.get(desc.path)
        if kinds is None:
            # No distribution registers this Python path, so the type is known only once the class is loaded.
            try:
                self._plugins.load(desc)
            except ConfigError:
                return None
            kinds = {_BY_NAME[desc.type]} if desc.type in _BY_NAME else set()
        version = None if desc.version == "unknown" else desc.version
        return Plugin(desc.class_name, frozenset(kinds), version, lambda: self._plugins.load(desc))
