"""The check of a connector's configuration, whole, as Apache's herder does it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from connect.config.definition import ConfigDef, ConfigValue
from connect.config.types import ConfigType
from connect.connector import Connector, SinkConnector, SourceConnector
from connect.data.java_hash_order import describe_map
from connect.errors import BadRequestError
from worker.config import WorkerConfig
from worker.validation.answer import infos_of, merged_answer
from worker.validation.catalogue import CONNECTORS, Catalogue, Kind, Plugin
from worker.validation.checks import check_sink
from worker.validation.framework import CONVERTERS, framework_def
from worker.validation.parts import client_infos, client_kinds, converter_infos
from worker.validation.stages import add_stage_keys

NULL_VALUE = "Null value can not be supplied as the configuration value."

Check = Callable[[Connector, Mapping[str, str | None], dict[str, ConfigValue]], None]
"""Looks at a configuration in the worker's own way and adds errors to the values; as distributed workers check groups."""


def validate(
    config: Mapping[str, Any],
    worker: WorkerConfig,
    catalogue: Catalogue,
    *,
    resolve: Callable[[Mapping[str, str | None]], Mapping[str, str | None]] | None = None,
    check: Check | None = None,
    offline: bool = False,
) -> dict[str, Any]:
    """The whole answer of ``PUT /connector-plugins/{plugin}/config/validate``; never changes anything.

    ``resolve`` replaces variables of config providers. The connector's own ``validate`` runs and may look at the outside world;
    with ``offline`` it is its ``check_config``, which does not.
    Raises BadRequestError when the configuration names no connector class, or one that there is not.
    """
    props = dict(config) if resolve is None else dict(resolve(config))
    class_name = props.get("connector.class")
    if class_name is None:
        raise BadRequestError(f"Connector config {describe_map(props)} contains no connector type")
    plugin, connector = new_connector(class_name, catalogue)
    kind = kind_of(connector)
    table = framework_def(kind, plugin, props, worker, catalogue)
    for stage in (Kind.TRANSFORMATION, Kind.PREDICATE):
        add_stage_keys(table, stage, props, catalogue)
    values = _framework_values(table, props, catalogue)
    if kind is Kind.SINK:
        check_sink(props, values)
    if check is not None:
        check(connector, props, values)
    for name in [key for key, value in props.items() if value is None]:
        values.setdefault(name, ConfigValue(name)).errors.append(NULL_VALUE)

    own = connector.config_def()
    own_check = connector.check_config if offline else connector.validate
    own_values = own_check({key: value for key, value in props.items() if value is not None})
    # The connector's word on a key of the same name counts, also where it forgives a null that the framework does not
    # (recordings config-put-null-value and create-config-unknown-null-value).
    infos = infos_of(
        {**table.keys, **own.keys}, [*values.values(), *own_values], list(dict.fromkeys((*table.groups, *own.groups)))
    )
    converters = [converter_infos(role, props, values, catalogue) for role in CONVERTERS]
    clients = [client_infos(client, props, worker.override_policy) for client in client_kinds(kind, props)]
    return merged_answer(class_name, (infos, *clients, *converters))


def new_connector(name: str, catalogue: Catalogue) -> tuple[Plugin, Connector]:
    """The plugin and a fresh instance. Raises BadRequestError with what there is, when there is no such connector."""
    plugin = catalogue.find(name.strip(), CONNECTORS)
    if plugin is None or not plugin.kinds.intersection(CONNECTORS):
        raise BadRequestError(catalogue.unknown_connector(name))
    cls = plugin.load()
    if not issubclass(cls, Connector) or inspect.isabstract(cls):
        raise BadRequestError(f"Class {plugin.name} is no connector that can be created")
    return plugin, cls()


def kind_of(connector: Connector) -> Kind:
    """SINK or SOURCE. Raises BadRequestError for a connector that is neither."""
    if isinstance(connector, SinkConnector):
        return Kind.SINK
    if isinstance(connector, SourceConnector):
        return Kind.SOURCE
    raise BadRequestError(f"{type(connector).__qualname__} is neither a SourceConnector nor a SinkConnector")


def _framework_values(table: ConfigDef, props: Mapping[str, str | None], catalogue: Catalogue) -> dict[str, ConfigValue]:
    values = {value.name: value for value in table.validate(props)}
    for name, key in table.keys.items():
        entry = values[name]
        if key.type is ConfigType.CLASS and entry.value is not None:
            # An alias is shown as the class it stands for; a class that there is not, as null.
            found = catalogue.find(entry.value, [_kind_of_key(name)])
            entry.value = None if found is None else found.name
    return values


def _kind_of_key(name: str) -> Kind:
    if name in CONVERTERS:
        return CONVERTERS[name]
    return Kind.TRANSFORMATION if name.startswith("transforms.") else Kind.PREDICATE
