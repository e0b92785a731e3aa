"""``GET /connector-plugins`` and the table of one plugin."""

from __future__ import annotations

from typing import Any

from connect.config.definition import ConfigDef
from connect.connector import Connector
from connect.converters.api import Converter, HeaderConverter
from connect.errors import BadRequestError, ConfigError, ConnectError, NotFoundError
from connect.transforms.api import Predicate, Transformation
from worker.client_overrides import JAVA_POLICIES
from worker.validation.answer import key_json
from worker.validation.catalogue import CONNECTORS, Catalogue, Kind
from worker.validation.framework import plain_def, with_version
from worker.validation.validate import kind_of
from worker.validation.versions import version_error

_POLICIES = {name for java in JAVA_POLICIES for name in (java, java.rpartition(".")[2])} | set(JAVA_POLICIES.values())
"""Names of plugins that have no table of keys."""


def plugin_list(catalogue: Catalogue, *, connectors_only: bool) -> list[dict[str, str]]:
    """Class, type and version of every plugin: sinks, sources, transformations, predicates, converters, header converters."""
    listed = []
    for kind in CONNECTORS if connectors_only else Kind:
        for plugin in catalogue.listed(kind):
            entry = {"class": plugin.name, "type": kind.value}
            if plugin.version is not None:
                entry["version"] = plugin.version
            listed.append(entry)
    return listed


def plugin_config(name: str, catalogue: Catalogue, version: str | None = None) -> list[dict[str, Any]]:
    """The keys of one plugin as REST shows them; a connector's own first, then the framework's that it doesn't define.

    Raises NotFoundError for an unknown plugin, BadRequestError for a version that there is not or a class without a table.
    """
    plugin = catalogue.find(name)
    if plugin is None:
        if catalogue.find(f"{name}$Value") is not None:
            # The class that Cast$Key and Cast$Value share: it is there, but abstract (recording plugin-config-smt-no-suffix).
            raise ConnectError("Instantiation error")
        if name in _POLICIES:
            raise BadRequestError(_no_table(name))
        raise NotFoundError(f"Unknown plugin {name}.")
    try:
        wrong_version = version_error(name, plugin.version, version or None)
    except ConfigError as e:
        raise BadRequestError(e.message) from e
    if wrong_version is not None:
        raise BadRequestError(wrong_version)
    keys = dict(_own_def(name, plugin.load()).keys)
    for kind in CONNECTORS:
        if kind in plugin.kinds:
            for key in plain_def(kind).keys.values():
                shown = with_version(key, plugin) if key.name == "connector.plugin.version" else key
                keys.setdefault(key.name, shown)
    return [key_json(key) for key in keys.values()]


def _own_def(name: str, cls: type) -> ConfigDef:
    if issubclass(cls, Connector):
        connector = _instance(cls)
        kind_of(connector)
        return connector.config_def()
    if issubclass(cls, Converter | HeaderConverter | Transformation | Predicate):
        return cls.config_def()
    raise BadRequestError(_no_table(name))


def _no_table(name: str) -> str:
    return f"Invalid plugin class {name}. Valid types are sink, source, converter, header_converter, transformation, predicate."


def _instance(cls: type[Connector]) -> Connector:
    try:
        return cls()
    except TypeError as e:
        raise ConnectError("Instantiation error") from e
