"""Validates a whole connector configuration like Apache's herder."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from connect.config.definition import ConfigDef, ConfigValue
from connect.config.types import ConfigType
from connect.connector import Connector, SinkConnector, SourceConnector
from connect.errors import BadRequestError, ConfigError
from connect.java.hash_order import computed_map_order, copied_map_order, describe_map
from worker.config.secrets import SecretMask, mask_error
from worker.config.worker_config import WorkerConfig
from worker.validation.component_validation import validate_client_overrides, validate_converter
from worker.validation.framework_def import CONVERTERS, VERSION_SUFFIX, framework_def, unversioned_def
from worker.validation.named_classes import INSTANTIATION_ERROR, find_plugin, is_abstract_connector, named_class
from worker.validation.plugin_index import CONNECTOR_TYPES, Plugin, PluginIndex, PluginType
from worker.validation.plugin_versions import Requirement, version_error
from worker.validation.response import build_infos, merge_infos
from worker.validation.sink_checks import check_sink
from worker.validation.transform_keys import add_stage_keys

_VERSION = "connector.plugin.version"
NULL_VALUE = "Null value can not be supplied as the configuration value."

WorkerCheck = Callable[[Connector, Mapping[str, str | None], dict[str, ConfigValue]], None]
"""Adds errors that depend on the worker's mode: see :mod:`worker.validation.cluster_checks`."""


def validate(
    config: Mapping[str, Any],
    worker: WorkerConfig,
    plugin_index: PluginIndex,
    *,
    resolve: Callable[[Mapping[str, str | None]], Mapping[str, str | None]] | None = None,
    check: WorkerCheck | None = None,
    offline: bool = False,
) -> dict[str, Any]:
    """Returns the response of ``PUT /connector-plugins/{plugin}/config/validate``. Changes nothing.

    ``resolve`` resolves config provider references. Calls the connector's ``validate``, which may access external systems, or
    with ``offline`` its ``check_config``, which does not. Raises BadRequestError if the connector class is missing or unknown.
    """
    props = dict(config) if resolve is None else dict(resolve(config))
    class_name = props.get("connector.class")
    if class_name is None:
        raise BadRequestError(f"Connector config {describe_map(props)} contains no connector type")
    if (response := _check_connector_version(class_name, props, plugin_index)) is not None:
        return response
    plugin, connector = new_connector(class_name, plugin_index)
    kind = connector_type(connector)
    table = framework_def(kind, plugin, props, worker, plugin_index)
    for stage in (PluginType.TRANSFORMATION, PluginType.PREDICATE):
        add_stage_keys(table, stage, props, plugin_index)
    values = _framework_values(table, props, plugin_index)
    if kind is PluginType.SINK:
        check_sink(props, values)
    if check is not None:
        check(connector, props, values)
    values = _reject_nulls(props, values)

    own = connector.config_def()
    own_check = connector.check_config if offline else connector.validate
    try:
        own_values = own_check({key: value for key, value in props.items() if value is not None})
    except Exception as e:
        # Promise 9: nobody else knows which keys are secret, as there will be no response.
        mask = SecretMask()
        mask.add(props, [key.name for key in (*table.keys.values(), *own.keys.values()) if key.type is ConfigType.PASSWORD])
        if (masked := mask_error(e, mask)) is e:
            raise
        raise masked.with_traceback(e.__traceback__) from None
    if None in props.values():
        # Connectors never get a null. Their ConfigDefs give the error that Apache's would.
        of_table = {value.name: value for value in own.validate(props)}
        own_values = [of_table[v.name] if v.name in of_table and _is_null(props, v.name) else v for v in own_values]
    if kind is PluginType.SINK:
        _keep_sink_errors(props, own_values)
    # The connector's result for a key of the same name wins, even if it accepts a null that the framework rejects
    # (recordings config-put-null-value and create-config-unknown-null-value).
    infos = build_infos(
        {**table.keys, **own.keys}, [*values.values(), *own_values], list(dict.fromkeys((*table.groups, *own.groups)))
    )
    clients = validate_client_overrides(kind, props, worker)
    converters = [validate_converter(role, props, values, plugin_index) for role in sorted(CONVERTERS)]
    return merge_infos(class_name, (infos, *clients, *converters))


def _check_connector_version(
    class_name: str, props: Mapping[str, str | None], plugin_index: PluginIndex
) -> dict[str, Any] | None:
    """Returns the response for a class that is unavailable in the requested version; None if it is available.

    Raises BadRequestError for an invalid version range, whatever the class is.
    """
    try:
        Requirement.of(props.get(_VERSION))
    except ConfigError as e:
        raise BadRequestError(e.message) from e
    plugin = plugin_index.find(class_name, CONNECTOR_TYPES)
    error = None if plugin is None or class_name != class_name.strip() else version_error(plugin, props.get(_VERSION))
    if plugin is None or error is None:
        return None
    table = unversioned_def(plugin, props, plugin_index)
    values = {value.name: value for value in table.validate(props)}
    _resolve_classes(table, props, values, plugin_index)
    values["connector.class"].errors.append(error)
    return merge_infos(class_name, (build_infos(table.keys, _reject_nulls(props, values).values(), table.groups),))


def _reject_nulls(props: Mapping[str, str | None], values: dict[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Adds an error for every null; returns the values in the order of Apache's hash map."""
    nulls = [key for key in copied_map_order(props) if props[key] is None]
    order = computed_map_order(values, nulls)
    for name in nulls:
        values.setdefault(name, ConfigValue(name)).errors.append(NULL_VALUE)
    return {name: values[name] for name in order}


def _keep_sink_errors(props: Mapping[str, str | None], own_values: list[ConfigValue]) -> None:
    """Repeats the errors across keys for topic keys that the connector declares itself."""
    found: dict[str, ConfigValue] = {}
    check_sink(props, found)
    for value in own_values:
        if value.name in found:
            value.errors.extend(error for error in found[value.name].errors if error not in value.errors)


def _is_null(props: Mapping[str, str | None], name: str) -> bool:
    return name in props and props[name] is None


def new_connector(name: str, plugin_index: PluginIndex) -> tuple[Plugin, Connector]:
    """Returns the plugin and a new instance. Raises BadRequestError with the available classes for an unknown connector."""
    if is_abstract_connector(name):
        raise BadRequestError(INSTANTIATION_ERROR)
    # Blanks are significant in this class name only.
    plugin = plugin_index.find(name, CONNECTOR_TYPES) if name == name.strip() else None
    if plugin is None or not plugin.kinds.intersection(CONNECTOR_TYPES):
        raise BadRequestError(plugin_index.unknown_connector(name))
    cls = plugin.load()
    if not issubclass(cls, Connector) or inspect.isabstract(cls):
        raise BadRequestError(f"Class {plugin.name} is not a connector that can be instantiated")
    return plugin, cls()


def connector_type(connector: Connector) -> PluginType:
    """Returns SINK or SOURCE. Raises BadRequestError for a connector that is neither."""
    if isinstance(connector, SinkConnector):
        return PluginType.SINK
    if isinstance(connector, SourceConnector):
        return PluginType.SOURCE
    raise BadRequestError(f"{type(connector).__qualname__} is neither a SourceConnector nor a SinkConnector")


def _framework_values(table: ConfigDef, props: Mapping[str, str | None], plugin_index: PluginIndex) -> dict[str, ConfigValue]:
    values = {value.name: value for value in table.validate(props)}
    _resolve_classes(table, props, values, plugin_index)
    for role, converter_kind in CONVERTERS.items():
        _check_converter_version(role, converter_kind, props, values, plugin_index)
    return values


def _resolve_classes(
    table: ConfigDef, props: Mapping[str, str | None], values: Mapping[str, ConfigValue], plugin_index: PluginIndex
) -> None:
    for name, key in table.keys.items():
        entry = values[name]
        if key.type is ConfigType.CLASS and entry.value is not None:
            # An alias is shown as its class, an unknown class as null.
            found = named_class(plugin_index, entry.value, _kind_of_key(name))
            if found is None:
                given = props.get(name)
                entry.errors.insert(0, ConfigError.invalid(name, given, f"Class {given} could not be found.").message)
            entry.value = None if found is None else found.name


def _check_converter_version(
    role: str, kind: PluginType, props: Mapping[str, str | None], values: Mapping[str, ConfigValue], plugin_index: PluginIndex
) -> None:
    """Looks up the connector's own converter by its exact name in the requested version."""
    given, entry, version = props.get(role), values[role], values[role + VERSION_SUFFIX]
    if given is None or entry.errors or version.errors:
        return
    plugin = find_plugin(plugin_index, given, kind)
    if plugin is None:
        entry.errors.append(f"Failed to load class {given}: {given}")
    elif (error := version_error(plugin, version.value)) is not None:
        entry.errors.append(error)
        version.errors.append(error)


def _kind_of_key(name: str) -> PluginType:
    if name in CONVERTERS:
        return CONVERTERS[name]
    return PluginType.TRANSFORMATION if name.startswith("transforms.") else PluginType.PREDICATE
