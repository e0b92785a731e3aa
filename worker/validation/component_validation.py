"""Validates a connector's converters and the overrides of its Kafka clients."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from connect.config.definition import ConfigValue
from connect.config.parsing import JAVA_BLANKS, parse_value
from connect.converters.api import Converter, HeaderConverter
from connect.java.hash_order import copied_map_order, hash_map_order
from worker.config.client_overrides import allows_override, canonical_policy
from worker.config.distributed_config import DistributedSettings, ExactlyOnce
from worker.config.worker_config import WorkerConfig
from worker.kafka.client_keys import client_keys
from worker.kafka.settings import ClientKind
from worker.validation.framework_def import CONVERTERS, VERSION_SUFFIX
from worker.validation.named_classes import find_plugin
from worker.validation.plugin_index import PluginIndex, PluginType
from worker.validation.response import ConfigInfos, prefixed_infos
from worker.validation.sink_checks import dlq_topic

Props = Mapping[str, str | None]


def validate_converter(
    role: str, props: Props, values: Mapping[str, ConfigValue], plugin_index: PluginIndex
) -> ConfigInfos | None:
    """Validates the keys of the connector's own converter for a role, such as ``key.converter``.

    Returns None if the connector has no converter of its own, or if its class or version is invalid.
    """
    name = props.get(role)
    if name is None or values[role].errors or values[role + VERSION_SUFFIX].errors:
        return None
    plugin = find_plugin(plugin_index, name, CONVERTERS[role])
    if plugin is None:
        return None
    cls = plugin.load()
    if not issubclass(cls, Converter | HeaderConverter) or inspect.isabstract(cls):
        return None
    prefix = f"{role}."
    given = {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix)}
    if given.get("converter.type") is None:
        given["converter.type"] = role.removesuffix(".converter")
    table = cls.config_def()
    found = {value.name: value for value in table.validate(given)}
    return prefixed_infos(table.keys, [found[key] for key in hash_map_order(found)], prefix)


def validate_client_overrides(kind: PluginType, props: Props, worker: WorkerConfig) -> list[ConfigInfos]:
    """Validates the overrides of all clients of a connector, in Apache's order. Raises ConfigError."""
    own_offsets = kind is PluginType.SOURCE and _has_offset_clients(props, worker.distributed)
    found = {client: validate_overrides(client, props, worker) for client in _clients_of(kind, props, own_offsets)}
    return [found[client] for client in _RESPONSE_ORDER if client in found]


_RESPONSE_ORDER = (ClientKind.PRODUCER, ClientKind.CONSUMER, ClientKind.ADMIN)


def _clients_of(kind: PluginType, props: Props, own_offsets: bool) -> list[ClientKind]:
    """Returns the clients of a connector in the order in which Apache validates them."""
    if kind is PluginType.SINK:
        return [ClientKind.PRODUCER, ClientKind.ADMIN, ClientKind.CONSUMER] if dlq_topic(props) else [ClientKind.CONSUMER]
    if own_offsets:
        return [ClientKind.PRODUCER, ClientKind.ADMIN, ClientKind.CONSUMER]
    if any(key.startswith("topic.creation.") for key in props):
        return [ClientKind.PRODUCER, ClientKind.ADMIN]
    return [ClientKind.PRODUCER]


def _has_offset_clients(props: Props, cluster: DistributedSettings | None) -> bool:
    """Returns whether a distributed worker gives a source its own clients for offsets."""
    if cluster is None:
        return False
    own_topic = (props.get("offsets.storage.topic") or "").strip(JAVA_BLANKS)
    return cluster.exactly_once is ExactlyOnce.ENABLED or own_topic != ""


def validate_overrides(client: ClientKind, props: Props, worker: WorkerConfig) -> ConfigInfos:
    """Validates the overrides of one client. Adds an error to those that the policy does not allow.

    Raises ConfigError for a value that does not have its setting's type, like Apache.
    """
    prefix = f"{client.value}.override."
    keys = client_keys(client)
    # Apache copies them from one hash map to others. Names in the same bucket keep the order of the previous map.
    names = [key.removeprefix(prefix) for key in copied_map_order(props) if key.startswith(prefix) and key != prefix]
    parsed = {}
    for name in copied_map_order(hash_map_order(names)):
        key, given = keys.get(name), props[prefix + name]
        parsed[name] = given if key is None else parse_value(name, given, key.type)
    values = []
    for name in hash_map_order(parsed):
        entry = ConfigValue(name, parsed[name])
        if not allows_override(worker, name):
            policy_name = canonical_policy(worker.override_policy)
            entry.errors.append(
                f"The '{policy_name}' policy does not allow '{name}' to be overridden in the connector configuration."
            )
        values.append(entry)
    return prefixed_infos(keys, values, prefix)
