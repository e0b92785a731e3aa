"""Looks up classes that a configuration names, and says why one is invalid where a plugin of some type is expected.

Apache's worker finds every class of its JVM, so classes of its API and of Java itself exist here too, but are no plugins.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from connect.config.parsing import JAVA_BLANKS
from worker.validation.plugin_index import INTERFACES, Plugin, PluginIndex, PluginType

_CONNECT = "org.apache.kafka.connect."
INSTANTIATION_ERROR = "Instantiation error"
"""Apache's message for a class that exists but cannot be instantiated."""

_INTERFACES = {
    f"{_CONNECT}transforms.Transformation": PluginType.TRANSFORMATION,
    f"{_CONNECT}transforms.predicates.Predicate": PluginType.PREDICATE,
    f"{_CONNECT}storage.Converter": PluginType.CONVERTER,
    f"{_CONNECT}storage.HeaderConverter": PluginType.HEADER_CONVERTER,
}
_ABSTRACT_CONNECTORS = {f"{_CONNECT}{name}" for name in ("connector.Connector", "sink.SinkConnector", "source.SourceConnector")}
_TASKS = {
    *(f"{_CONNECT}file.FileStream{half}Task" for half in ("Sink", "Source")),
    *(f"{_CONNECT}tools.{name}Task" for name in ("MockSink", "MockSource", "SchemaSource", "VerifiableSink", "VerifiableSource")),
}
_JAVA = """Boolean Byte Character Class Double Enum Error Exception Float Integer Long Math Number Object Process
    RuntimeException Short String StringBuffer StringBuilder System Thread Throwable Void"""
_OTHERS = {
    *(f"{_CONNECT}{name}" for name in ("sink.SinkTask", "source.SourceTask")),
    *(f"java.lang.{name}" for name in _JAVA.split()),
}
_JAVA_INTERFACES = "Appendable AutoCloseable CharSequence Cloneable Comparable Iterable Readable Runnable"
_OTHER_INTERFACES = {f"{_CONNECT}connector.Task", *(f"java.lang.{name}" for name in _JAVA_INTERFACES.split())}


@dataclass(frozen=True, slots=True)
class NamedClass:
    """An existing class."""

    name: str
    """The name in REST responses."""
    plugin: Plugin | None = None
    kind: PluginType | None = None
    """The plugin type of an abstract class."""
    choices: tuple[str, ...] = ()
    """Classes that can be used instead."""
    is_interface: bool = False

    def problem(self, kind: PluginType) -> str | None:
        """Returns Apache's message if the class cannot be used as a plugin of this type; None if it can."""
        if kind is not self.kind and (self.plugin is None or kind not in self.plugin.kinds):
            what = "interface" if self.is_interface else "class"
            return f"Class {what} {self.name} does not implement the {INTERFACES[kind]} interface"
        if self.plugin is None or inspect.isabstract(self.plugin.load()):
            hint = f" Did you mean {', '.join(self.choices)}?" if self.choices else ""
            return f"This class is abstract and cannot be created.{hint}"
        return None


def named_class(plugin_index: PluginIndex, name: str, kind: PluginType) -> NamedClass | None:
    """Returns the class with this name, ignoring blanks around it; None if there is none. Prefers aliases of ``kind``."""
    name = name.strip(JAVA_BLANKS)
    plugin = plugin_index.find(name, [kind])
    if plugin is not None:
        return NamedClass(plugin.name, plugin)
    # The class that Cast$Key and Cast$Value share.
    halves = tuple(f"{name}{half}" for half in ("$Key", "$Value"))
    shared = plugin_index.find(halves[0], [kind])
    if shared is not None and plugin_index.find(halves[1], [kind]) is not None:
        return NamedClass(name, kind=next(iter(shared.kinds)), choices=halves)
    if name in _INTERFACES:
        return NamedClass(name, kind=_INTERFACES[name], is_interface=True)
    if name in _TASKS or cannot_instantiate(name):
        return NamedClass(name, is_interface=name in _OTHER_INTERFACES)
    return None


def is_abstract_connector(name: str) -> bool:
    """Returns whether it is the Java name of an abstract connector class."""
    return name in _ABSTRACT_CONNECTORS


def is_task(name: str) -> bool:
    """Returns whether it is the Java name of a task: a class that can be instantiated but is no plugin."""
    return name in _TASKS


def cannot_instantiate(name: str) -> bool:
    """Returns whether it is the Java name of an existing class that is no plugin and cannot be instantiated."""
    return name in _INTERFACES or name in _OTHER_INTERFACES or name in _OTHERS or is_abstract_connector(name)


def find_plugin(plugin_index: PluginIndex, name: str | None, kind: PluginType) -> Plugin | None:
    """Returns the plugin of this type with exactly this name, blanks included; None if there is none."""
    if name is None or name != name.strip(JAVA_BLANKS):
        return None
    plugin = plugin_index.find(name, [kind])
    return plugin if plugin is not None and kind in plugin.kinds else None
