"""What validation asks of plugin discovery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Kind(Enum):
    """Kinds of plugins, named and ordered as ``GET /connector-plugins`` does."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


CONNECTORS = (Kind.SINK, Kind.SOURCE)

INTERFACES = {
    Kind.TRANSFORMATION: "Transformation",
    Kind.PREDICATE: "Predicate",
    Kind.CONVERTER: "Converter",
    Kind.HEADER_CONVERTER: "HeaderConverter",
}
"""The names that messages use."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class that can be named in a configuration."""

    name: str
    """The name REST shows: the Java name where the class has one, else ``module:Class``."""
    kinds: frozenset[Kind]
    version: str | None
    load: Callable[[], type]
    """Imports the class. Raises ConnectError when what it needs is not installed."""

    def listed_versions(self) -> Sequence[str]:
        """The versions in which it is there: one, or none where that is not known."""
        return [] if self.version is None else [self.version]


class Catalogue(Protocol):
    """All plugins of a worker. Calls may come from any thread."""

    def find(self, name: str, kinds: Sequence[Kind] = ()) -> Plugin | None:
        """The plugin of that Java name, Python path or alias; an alias prefers one of ``kinds``. None: no such plugin."""

    def listed(self, kind: Kind) -> list[Plugin]:
        """All of a kind, sorted by name."""

    def unknown_connector(self, name: str) -> str:
        """The message for a connector class that :meth:`find` does not find: the nearest and all known names."""
