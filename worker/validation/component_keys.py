"""Parts of a connector's configuration that have tables of their own: its converters, and the settings of its clients."""

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
from worker.validation.framework_keys import CONVERTERS, VERSION_SUFFIX
from worker.validation.named_classes import plugin_of
from worker.validation.plugin_catalog import Catalogue, Kind
from worker.validation.response import Infos, prefixed_infos
from worker.validation.sink_checks import dlq_topic

Props = Mapping[str, str | None]


def converter_infos(role: str, props: Props, values: Mapping[str, ConfigValue], catalogue: Catalogue) -> Infos | None:
    """What the connector's own converter says about the keys below it; ``role`` is ``key.converter`` and so on.

    None when the connector has none of its own, or it is wrong by itself. What a broken converter class raises becomes an
    error of its key.
    """
    name = props.get(role)
    if name is None or values[role].errors or values[role + VERSION_SUFFIX].errors:
        return None
    plugin = plugin_of(catalogue, name, CONVERTERS[role])
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


def clients_infos(kind: Kind, props: Props, worker: WorkerConfig) -> list[Infos]:
    """The overrides of all clients of a connector, in the order of the answer. Raises ConfigError as :func:`client_infos`."""
    own_offsets = kind is Kind.SOURCE and _has_offset_clients(props, worker.distributed)
    found = {client: client_infos(client, props, worker) for client in _clients_of(kind, props, own_offsets)}
    return [found[client] for client in _ANSWER_ORDER if client in found]


_ANSWER_ORDER = (ClientKind.PRODUCER, ClientKind.CONSUMER, ClientKind.ADMIN)


def _clients_of(kind: Kind, props: Props, own_offsets: bool) -> list[ClientKind]:
    """The clients that a connector has, in the order in which Apache looks at their settings."""
    if kind is Kind.SINK:
        return [ClientKind.PRODUCER, ClientKind.ADMIN, ClientKind.CONSUMER] if dlq_topic(props) else [ClientKind.CONSUMER]
    if own_offsets:
        return [ClientKind.PRODUCER, ClientKind.ADMIN, ClientKind.CONSUMER]
    if any(key.startswith("topic.creation.") for key in props):
        return [ClientKind.PRODUCER, ClientKind.ADMIN]
    return [ClientKind.PRODUCER]


def _has_offset_clients(props: Props, cluster: DistributedSettings | None) -> bool:
    """Whether a source of a cluster reads and writes its offsets with clients of its own."""
    if cluster is None:
        return False
    own_topic = (props.get("offsets.storage.topic") or "").strip(JAVA_BLANKS)
    return cluster.exactly_once is ExactlyOnce.ENABLED or own_topic != ""


def client_infos(client: ClientKind, props: Props, worker: WorkerConfig) -> Infos:
    """The overrides of one client: parsed where the setting's type is known, refused where the policy says so.

    Raises ConfigError for a value that is not of its setting's type, as Apache does.
    """
    prefix = f"{client.value}.override."
    keys = client_keys(client)
    # Apache copies them from one hash map into others: of names that fall into one bucket the order of the map before decides.
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
