"""Entries of plugin tables. Imports nothing, because every process reads the tables at startup."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kinds of plugin. ``value`` is the entry-point group of single classes."""

    CONNECTOR = "connect.connectors"
    CONVERTER = "connect.converters"
    HEADER_CONVERTER = "connect.header_converters"
    TRANSFORMATION = "connect.transforms"
    PREDICATE = "connect.predicates"
    CONFIG_PROVIDER = "connect.config_providers"
    CUSTOM_CONVERTER = "connect.custom_converters"


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """One entry of a package's plugin table. ``type`` is ``source`` or ``sink`` for connectors and empty for other kinds."""

    kind: Kind
    path: str
    """``package.module:Class``."""
    java_names: tuple[str, ...] = ()
    """Full names of the Java classes that it replaces; the first is the one shown."""
    aliases: tuple[str, ...] = ()
    type: str = ""
    former_paths: tuple[str, ...] = ()
    """Paths of the class in earlier releases; configs may still use them."""
    extra: str = ""
    """The extra of the distribution without which the class cannot run: a key of ``connect.extras.EXTRAS``."""
