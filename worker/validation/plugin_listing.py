"""Lists plugins (``GET /connector-plugins``) and the keys of one plugin."""

from __future__ import annotations

from typing import Any

from connect.config.definition import ConfigDef
from connect.connector import Connector
from connect.converters.api import Converter, HeaderConverter
from connect.errors import BadRequestError, ConfigError, ConnectError, NotFoundError
from connect.transforms.api import Predicate, Transformation
from worker.config.client_overrides import JAVA_POLICIES
from worker.validation.framework_def import connector_version, plain_framework_def
from worker.validation.named_classes import INSTANTIATION_ERROR, cannot_instantiate, is_task
from worker.validation.plugin_index import CONNECTOR_TYPES, PluginIndex, PluginType
from worker.validation.plugin_versions import Requirement, version_error
from worker.validation.response import key_json
from worker.validation.validate import connector_type

_EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
_WITHOUT_KEYS = {
    *JAVA_POLICIES.values(),
    *(name for java in (*JAVA_POLICIES, _EXTENSION) for name in (java, java.rpartition(".")[2])),
}
"""Names of plugins that have no ConfigDef."""


def list_plugins(plugin_index: PluginIndex, *, connectors_only: bool) -> list[dict[str, str]]:
    """Returns class, type, and version of every plugin in Apache's order."""
    listed = []
    for kind in CONNECTOR_TYPES if connectors_only else PluginType:
        for plugin in plugin_index.listed(kind):
            entry = {"class": plugin.name, "type": kind.value}
            if plugin.version is not None:
                entry["version"] = plugin.version
            listed.append(entry)
    return listed


def plugin_config(name: str, plugin_index: PluginIndex, version: str | None = None) -> list[dict[str, Any]]:
    """Returns the keys of one plugin in REST's form: a connector's own keys, then the framework's that it does not define.

    Raises NotFoundError for an unknown plugin; BadRequestError for an unavailable or invalid version or a class without
    ConfigDef; ConnectError for a class that cannot be instantiated.
    """
    try:
        wanted = Requirement.of(version)
    except ConfigError as e:
        raise BadRequestError(f"Invalid version specification: {version}") from e
    plugin = plugin_index.find(name)
    if plugin is None:
        raise _no_plugin(name, plugin_index, versioned=bool(wanted.intervals))
    if (wrong_version := version_error(plugin, version)) is not None:
        raise BadRequestError(wrong_version)
    keys = dict(_own_def(name, plugin.load()).keys)
    for kind in CONNECTOR_TYPES:
        if kind in plugin.kinds:
            for key in plain_framework_def(kind).keys.values():
                shown = connector_version(key, plugin) if key.name == "connector.plugin.version" else key
                keys.setdefault(key.name, shown)
    return [key_json(key) for key in keys.values()]


def _no_plugin(name: str, plugin_index: PluginIndex, *, versioned: bool) -> ConnectError:
    """Returns the error for a name that no plugin with a ConfigDef has."""
    if name in _WITHOUT_KEYS:
        return BadRequestError(_no_table(name))
    # The class that Cast$Key and Cast$Value share is abstract (recording plugin-config-smt-no-suffix); a class of the JVM's own
    # is no plugin either (recording plugin-config-jdk-class).
    is_class = cannot_instantiate(name) or plugin_index.find(f"{name}$Value") is not None
    if versioned and (is_class or is_task(name)):
        return BadRequestError(f"Plugin {name} is not part of Connect's plugin loading mechanism (ClassPath or Plugin Path)")
    if is_class:
        return ConnectError(INSTANTIATION_ERROR)
    if is_task(name):
        return BadRequestError(_no_table(name))
    return NotFoundError(f"Unknown plugin {name}.")


def _own_def(name: str, cls: type) -> ConfigDef:
    if issubclass(cls, Connector):
        connector = _instance(cls)
        connector_type(connector)
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
        raise ConnectError(INSTANTIATION_ERROR) from e
