"""The catalogue over plugin discovery (:mod:`connect.plugins`)."""

from __future__ import annotations

from collections.abc import Sequence

from connect import plugins as discovery
from connect.errors import ConfigError, PluginNotFoundError
from worker.validation.plugin_catalog import Kind, Plugin

_DISCOVERED = {
    Kind.SINK: discovery.Kind.CONNECTOR,
    Kind.SOURCE: discovery.Kind.CONNECTOR,
    Kind.TRANSFORMATION: discovery.Kind.TRANSFORMATION,
    Kind.PREDICATE: discovery.Kind.PREDICATE,
    Kind.CONVERTER: discovery.Kind.CONVERTER,
    Kind.HEADER_CONVERTER: discovery.Kind.HEADER_CONVERTER,
}
_BY_TYPE = {kind.value: kind for kind in Kind}


class DiscoveredCatalogue:
    """The plugins of an environment, as validation sees them. Immutable; safe from any thread."""

    def __init__(self, plugins: discovery.Plugins) -> None:
        self._plugins = plugins
        self._kinds: dict[str, set[Kind]] = {}
        for desc in plugins.all():
            kind = _BY_TYPE.get(desc.type)
            if kind is not None:
                self._kinds.setdefault(desc.path, set()).add(kind)

    def find(self, name: str, kinds: Sequence[Kind] = ()) -> Plugin | None:
        for wanted in dict.fromkeys(_DISCOVERED[kind] for kind in kinds):
            try:
                return self._plugin(self._plugins.resolve(wanted, name))
            except PluginNotFoundError:
                continue
            except ConfigError:
                break  # the Python path of a class of another kind
        try:
            return self._plugin(self._plugins.find(name))
        except PluginNotFoundError:
            return None

    def listed(self, kind: Kind) -> list[Plugin]:
        found = (self._plugin(desc) for desc in self._plugins.of(_DISCOVERED[kind]))
        return [plugin for plugin in found if plugin is not None and kind in plugin.kinds]

    def unknown_connector(self, name: str) -> str:
        try:
            self._plugins.resolve(discovery.Kind.CONNECTOR, name)
        except PluginNotFoundError as e:
            return e.message
        # There is one by that name without the blanks around it, which count.
        return (
            f"Failed to find any class that implements Connector and which name matches {name}. Did you mean {name.strip()}? "
            "Blanks around the name of a connector's class count"
        )

    def _plugin(self, desc: discovery.PluginDesc) -> Plugin | None:
        kinds = self._kinds.get(desc.path)
        if kinds is None:
            # A Python path that no distribution registers: only the class can tell what it is.
            try:
                self._plugins.load(desc)
            except ConfigError:
                return None
            kinds = {_BY_TYPE[desc.type]} if desc.type in _BY_TYPE else set()
        version = None if desc.version == "unknown" else desc.version
        return Plugin(desc.class_name, frozenset(kinds), version, lambda: self._plugins.load(desc))
