"""Discovers plugins and resolves their names.

Plugins register with two kinds of entry points. A *table* (group ``connect.tables``) names a tuple of :class:`PluginEntry`: one
table per package, in a module next to the classes that imports nothing heavy. It maps Java names to classes. A single class
(groups ``connect.connectors``, ``connect.converters``, ...) is the short form for third parties; the entry point's name is its
alias. Discovery imports no plugin: only :meth:`Plugins.load` does.

Names resolve as in Apache's workers (KIP-898's aliases): a full Java name, a Python path ``package.module:Class``, an alias, the
simple class name, and that without ``Connector``, ``Converter``, and so on, as long as it is unambiguous.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Any

from connect.change_events.custom_converters import CustomConverter
from connect.config.providers.api import ConfigProvider
from connect.connector import Connector, SinkConnector, SourceConnector
from connect.converters.api import Converter, HeaderConverter
from connect.errors import ConfigError, PluginNotFoundError
from connect.extras import require_extra
from connect.plugin_entry import Kind, PluginEntry
from connect.plugin_rules import PluginRules
from connect.suggestions import nearest
from connect.transforms.api import Predicate, Transformation

__all__ = [
    "APACHE_VERSION",
    "TABLES",
    "Kind",
    "PluginDesc",
    "PluginEntry",
    "Plugins",
]

TABLES = "connect.tables"
APACHE_VERSION = "4.3.1"
"""The version of Apache Kafka whose classes ours replace. They report it as their own, so that a configuration that requires it
(``transforms.x.plugin.version``, KIP-891) works."""
_APACHE = "org.apache.kafka."
_log = logging.getLogger(__name__)


_BASES: dict[Kind, type] = {
    Kind.CONNECTOR: Connector,
    Kind.CONVERTER: Converter,
    Kind.HEADER_CONVERTER: HeaderConverter,
    Kind.TRANSFORMATION: Transformation,
    Kind.PREDICATE: Predicate,
    Kind.CONFIG_PROVIDER: ConfigProvider,
    Kind.CUSTOM_CONVERTER: CustomConverter,
}
_SUFFIXES = {
    Kind.CONNECTOR: "Connector",
    Kind.CONVERTER: "Converter",
    Kind.HEADER_CONVERTER: "HeaderConverter",
    Kind.TRANSFORMATION: "Transformation",
    Kind.PREDICATE: "Predicate",
    Kind.CONFIG_PROVIDER: "ConfigProvider",
    Kind.CUSTOM_CONVERTER: "CustomConverter",
}
_NOUNS = {
    Kind.CONNECTOR: "connector",
    Kind.CONVERTER: "converter",
    Kind.HEADER_CONVERTER: "header converter",
    Kind.TRANSFORMATION: "transformation",
    Kind.PREDICATE: "predicate",
    Kind.CONFIG_PROVIDER: "config provider",
    Kind.CUSTOM_CONVERTER: "custom converter",
}


@dataclass(frozen=True, slots=True)
class PluginDesc:
    """Description of a plugin, known without importing it."""

    kind: Kind
    path: str
    java_names: tuple[str, ...]
    aliases: tuple[str, ...]
    type: str
    """As in REST: ``source``, ``sink``, ``converter``, ``header_converter``, ``transformation``, ``predicate``."""
    version: str
    """Version of the distribution; of Apache Kafka for a class that replaces one of Apache's."""
    distribution: str
    former_paths: tuple[str, ...] = ()
    extra: str = ""
    """The extra of the distribution that the class needs; empty if it needs none."""

    @property
    def class_name(self) -> str:
        """The name that REST shows: the Java name if there is one, else the Python path."""
        return self.java_names[0] if self.java_names else self.path

    def names(self) -> Iterator[str]:
        """Yields the names that mean this plugin regardless of other plugins."""
        for path in (self.path, *self.former_paths):
            yield path
            yield path.replace(":", ".")
        yield from self.java_names
        yield from self.aliases

    def short_names(self) -> Iterator[str]:
        """Yields the names that mean this plugin if no other has them: simple class names, with and without the kind's suffix."""
        for simple in {self.path.rpartition(":")[2], *(name.rpartition(".")[2].rpartition("$")[2] for name in self.java_names)}:
            yield simple
            position = simple.rfind(_SUFFIXES[self.kind])
            if position > 0:
                yield simple[:position]


class Plugins:
    """The installed plugins. Immutable and thread-safe."""

    def __init__(self, descs: Iterable[PluginDesc], rules: PluginRules | None = None, refused: Plugins | None = None) -> None:
        """``rules`` decide about paths that no distribution registers. ``refused`` has the plugins that the rules left out."""
        self._rules = rules or PluginRules()
        self._refused = refused
        self._descs = sorted(descs, key=lambda d: (d.class_name, d.kind.value))
        self._by_name: dict[tuple[Kind, str], PluginDesc] = {}
        shared: set[tuple[Kind, str]] = set()
        for desc in self._descs:
            for name in desc.names():
                self._by_name.setdefault((desc.kind, name), desc)
        for desc in self._descs:
            for name in set(desc.short_names()):
                known = self._by_name.setdefault((desc.kind, name), desc)
                if known is not desc and name not in known.names():
                    shared.add((desc.kind, name))
        for key in shared:
            del self._by_name[key]

    @classmethod
    def discover(cls) -> Plugins:
        """Returns the plugins of every installed distribution. Read once per process; imports nothing heavy."""
        return _discover()

    def restricted(self, rules: PluginRules) -> Plugins:
        """Returns the plugins that the rules allow. Naming another one is an error that says so."""
        if rules.is_open:
            return self
        allowed = [desc for desc in self._descs if rules.allows((*desc.names(), *desc.short_names()))]
        kept = {(desc.kind, desc.path) for desc in allowed}
        return Plugins(allowed, rules, Plugins(desc for desc in self._descs if (desc.kind, desc.path) not in kept))

    def all(self) -> list[PluginDesc]:
        """Returns every plugin, sorted by displayed name."""
        return list(self._descs)

    def of(self, kind: Kind) -> list[PluginDesc]:
        """Returns the plugins of a kind."""
        return [d for d in self._descs if d.kind is kind]

    def connectors(self) -> list[PluginDesc]:
        return self.of(Kind.CONNECTOR)

    def converters(self) -> list[PluginDesc]:
        return self.of(Kind.CONVERTER)

    def header_converters(self) -> list[PluginDesc]:
        return self.of(Kind.HEADER_CONVERTER)

    def transforms(self) -> list[PluginDesc]:
        return self.of(Kind.TRANSFORMATION)

    def predicates(self) -> list[PluginDesc]:
        return self.of(Kind.PREDICATE)

    def resolve(self, kind: Kind, name: str) -> PluginDesc:
        """Returns the plugin of that name. A Python path need not be registered. Raises PluginNotFoundError, which lists the
        nearest and all known names."""
        found = self._by_name.get((kind, name.strip()))
        if found is not None:
            return found
        self._require_allowed(kind, name.strip())
        module, colon, attribute = name.strip().partition(":")
        if colon and all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
            desc = PluginDesc(kind, f"{module}:{attribute}", (), (), _default_type(kind), "unknown", "")
            if kind is Kind.CONNECTOR:
                desc = _typed_by_class(desc, self.load(desc))
            return desc
        raise PluginNotFoundError(self._unknown(kind, name))

    def _require_allowed(self, kind: Kind, name: str) -> None:
        # Before the class is imported, which runs its module.
        is_refused = self._refused is not None and (kind, name) in self._refused._by_name
        if is_refused or (":" in name and not self._rules.allows_path(name)):
            raise PluginNotFoundError(
                f"The {_NOUNS[kind]} {name} is not allowed on this worker: see plugin.allow and plugin.deny of the worker"
            )

    def find(self, name: str) -> PluginDesc:
        """Returns the plugin of that name, of any kind; connectors first. Raises PluginNotFoundError."""
        for kind in Kind:
            found = self._by_name.get((kind, name))
            if found is not None:
                return found
        raise PluginNotFoundError(f"Unknown plugin {name}.")

    def _unknown(self, kind: Kind, name: str) -> str:
        base, noun = _SUFFIXES[kind], _NOUNS[kind]
        known = ", ".join(_shown(d) for d in self.of(kind)) or "none"
        text = f"Failed to find any class that implements {base} and which name matches {name}, available {noun}s are: {known}"
        names = {n: d for (k, n), d in self._by_name.items() if k is kind}
        found = nearest(name, names)
        if found is None:
            by_simple_name = {n.rpartition(".")[2]: n for n in names}
            found = by_simple_name.get(nearest(name.rpartition(".")[2], by_simple_name, cutoff=0.7) or "")
        return f"{text}. Did you mean {found}?" if found else text

    def load(self, desc: PluginDesc) -> type[Any]:
        """Imports the plugin's module and returns its class. Raises MissingExtraError when the packages that it needs are not
        installed, PluginNotFoundError when the import fails, ConfigError when the class is of another kind."""
        module, _, attribute = desc.path.partition(":")
        shown = f"The {_NOUNS[desc.kind]} {desc.class_name}"
        if desc.extra:
            # Before the import, which may work without packages that only the tasks use.
            require_extra(desc.extra, shown)
        try:
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        except (Exception, SystemExit) as e:  # a third party's module may raise anything on import
            reason = str(e) if isinstance(e, ImportError | AttributeError) else f"{type(e).__name__}: {e}"
            raise PluginNotFoundError(f"{shown} cannot be loaded from {desc.path}: {reason}") from e
        base = _BASES.get(desc.kind)
        if not isinstance(found, type) or (base is not None and not issubclass(found, base)):
            raise ConfigError(f"{desc.path} is no {_NOUNS[desc.kind]}: it does not extend {_SUFFIXES[desc.kind]}")
        return found

    def new_connector(self, name: str) -> Connector:
        made: Connector = self._new(Kind.CONNECTOR, name)
        return made

    def new_converter(self, name: str) -> Converter:
        """Creates a converter, not configured yet."""
        made: Converter = self._new(Kind.CONVERTER, name)
        return made

    def new_header_converter(self, name: str) -> HeaderConverter:
        made: HeaderConverter = self._new(Kind.HEADER_CONVERTER, name)
        return made

    def new_transformation(self, name: str) -> Transformation:
        made: Transformation = self._new(Kind.TRANSFORMATION, name)
        return made

    def new_predicate(self, name: str) -> Predicate:
        made: Predicate = self._new(Kind.PREDICATE, name)
        return made

    def new_config_provider(self, name: str) -> ConfigProvider:
        """Creates a config provider, not configured yet."""
        made: ConfigProvider = self._new(Kind.CONFIG_PROVIDER, name)
        return made

    def _new(self, kind: Kind, name: str) -> Any:
        return self.load(self.resolve(kind, name))()


def _shown(desc: PluginDesc) -> str:
    aliases = ", ".join(desc.aliases)
    return f"{desc.class_name} ({aliases})" if aliases else desc.class_name


def _default_type(kind: Kind) -> str:
    return "unknown" if kind is Kind.CONNECTOR else kind.name.lower()


def _typed_by_class(desc: PluginDesc, found: type) -> PluginDesc:
    type_name = "source" if issubclass(found, SourceConnector) else "sink" if issubclass(found, SinkConnector) else "unknown"
    return replace(desc, type=type_name)


@lru_cache(maxsize=1)
def _discover() -> Plugins:
    descs: dict[tuple[Kind, str], PluginDesc] = {}
    for point in entry_points(group=TABLES):
        try:
            table = _read_table(point)
        except (ImportError, AttributeError) as e:
            # One broken distribution must not hide the others.
            _log.warning("The plugin table %s of %s cannot be read: %s", point.value, point.dist and point.dist.name, e)
            continue
        for entry in table:
            descs[entry.kind, entry.path] = _of_table(entry, point.dist)
    for kind in Kind:
        for point in entry_points(group=kind.value):
            if (kind, point.value) not in descs:
                descs[kind, point.value] = _of_point(kind, point)
    return Plugins(descs.values())


def _read_table(point: EntryPoint) -> Iterable[PluginEntry]:
    """Returns the tuple that an entry point names. Executes only the module with the table, not its packages: they import their
    connectors, and those import drivers."""
    top, *rest = point.module.split(".")
    name, spec = top, importlib.util.find_spec(top)
    for part in rest:
        name = f"{name}.{part}"
        spec = spec and PathFinder.find_spec(name, spec.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {point.module!r}", name=point.module)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table: Iterable[PluginEntry] = getattr(module, point.attr)
    return table


def _of_table(entry: PluginEntry, distribution: Distribution | None) -> PluginDesc:
    name, version = _named(distribution)
    if entry.java_names and entry.java_names[0].startswith(_APACHE):
        version = APACHE_VERSION
    return PluginDesc(
        entry.kind,
        entry.path,
        entry.java_names,
        entry.aliases,
        entry.type or _default_type(entry.kind),
        version,
        name,
        entry.former_paths,
        entry.extra,
    )


def _of_point(kind: Kind, point: EntryPoint) -> PluginDesc:
    name, version = _named(point.dist)
    desc = PluginDesc(kind, point.value, (), (point.name,), _default_type(kind), version, name)
    if kind is not Kind.CONNECTOR:
        return desc
    # Only the class tells whether it is a source or a sink; a table would save this import.
    try:
        return _typed_by_class(desc, point.load())
    except (ImportError, AttributeError, TypeError):
        return desc


def _named(distribution: Distribution | None) -> tuple[str, str]:
    return ("", "unknown") if distribution is None else (distribution.name, distribution.version)
