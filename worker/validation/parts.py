"""Parts of a connector's configuration that have tables of their own: its converters, and the settings of its clients."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from connect.config.definition import ConfigValue
from connect.config.parsing import parse_value
from connect.converters.api import Converter, HeaderConverter
from connect.data.java_hash_order import hash_map_order
from worker.client_overrides import allows_override, canonical_policy
from worker.kafka.settings import ClientKind
from worker.validation.answer import Infos, prefixed_infos
from worker.validation.catalogue import Catalogue, Kind
from worker.validation.checks import dlq_topic
from worker.validation.client_keys import client_keys
from worker.validation.framework import CONVERTERS, VERSION_SUFFIX

Props = Mapping[str, str | None]


def converter_infos(role: str, props: Props, values: Mapping[str, ConfigValue], catalogue: Catalogue) -> Infos | None:
    """What the connector's own converter says about the keys below it; ``role`` is ``key.converter`` and so on.

    None when the connector has none of its own, or it is wrong by itself. What a broken converter class raises becomes an
    error of its key.
    """
    name = props.get(role)
    if name is None or values[role].errors or values[role + VERSION_SUFFIX].errors:
        return None
    plugin = catalogue.find(name.strip(), [CONVERTERS[role]])
    if plugin is None:
        return None
    cls = plugin.load()
    if not issubclass(cls, Converter | HeaderConverter) or inspect.isabstract(cls):
        return None
    prefix = f"{role}."
    given = {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix)}
    given.setdefault("converter.type", role.removesuffix(".converter"))
    table = cls.config_def()
    found = {value.name: value for value in table.validate(given)}
    return prefixed_infos(table.keys, [found[key] for key in hash_map_order(found)], prefix)


def client_kinds(kind: Kind, props: Props) -> list[ClientKind]:
    """The clients that a connector of this kind and configuration has, in the order of the answer."""
    if kind is Kind.SINK:
        return [ClientKind.PRODUCER, ClientKind.CONSUMER, ClientKind.ADMIN] if dlq_topic(props) else [ClientKind.CONSUMER]
    if any(key.startswith("topic.creation.") for key in props):
        return [ClientKind.PRODUCER, ClientKind.ADMIN]
    return [ClientKind.PRODUCER]


def client_infos(client: ClientKind, props: Props, policy: str) -> Infos:
    """The overrides of one client: parsed where the setting's type is known, refused where the policy says so.

    Raises ConfigError for a value that is not of its setting's type, as Apache does.
    """
    prefix = f"{client.value}.override."
    keys = client_keys(client)
    # Apache copies them out of one hash map into another: of names that fall into one bucket the order of the first decides.
    names = [key for key in hash_map_order(props) if key.startswith(prefix) and key != prefix]
    given = {key.removeprefix(prefix): props[key] for key in names}
    values = []
    for name in hash_map_order(given):
        key = keys.get(name)
        entry = ConfigValue(name, given[name] if key is None else parse_value(name, given[name], key.type))
        if not allows_override(policy, name):
            policy_name = canonical_policy(policy)
            entry.errors.append(
                f"The '{policy_name}' policy does not allow '{name}' to be overridden in the connector configuration."
            )
        values.append(entry)
    return prefixed_infos(keys, values, prefix)
