"""Debezium's keys that have no effect, those that are rejected, and keys that exclude one another.

A key is ignored if leaving it out gives the same records; it is rejected if ignoring it would give different records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from connect.config.definition import ConfigDef, ConfigType, ConfigValue, Importance
from connect.errors import ConfigError
from connectors.cdc.config.column_rules import find_rule_errors
from connectors.cdc.config.configured_mode import find_mode_errors
from connectors.cdc.config.converter_keys import check_converters
from connectors.cdc.config.post_processor_keys import check_post_processors
from connectors.cdc.config.signal_keys import find_notification_errors
from connectors.cdc.config.topic_naming import find_topic_naming_errors
from connectors.cdc.config.validators import SupportedValues


class Unsupported(NamedTuple):
    """A key of an unsupported feature. ``allowed`` are its values that change nothing, in lower case."""

    default: str | None
    allowed: tuple[str, ...] = ()
    reason: str = "this connector does not support the feature yet; remove the key"


def define_ignored_keys(keys: ConfigDef, ignored: Mapping[str, str | None]) -> None:
    """Defines keys that have no effect, by name with their defaults."""
    for name, default in ignored.items():
        keys.define(
            name,
            ConfigType.STRING,
            default,
            importance=Importance.LOW,
            group="Without effect",
            doc="A key of Debezium that is accepted and ignored.",
        )


def define_unsupported_keys(keys: ConfigDef, unsupported: Mapping[str, Unsupported]) -> None:
    """Defines keys that are rejected unless their value changes nothing."""
    for name, key in unsupported.items():
        keys.define(
            name,
            ConfigType.STRING,
            key.default,
            importance=Importance.LOW,
            group="Not supported",
            validator=SupportedValues(key.allowed, key.reason),
            doc="A key of Debezium for an unsupported feature; only its default is accepted.",
        )


def check_shared_keys(config: Mapping[str, str], exclusive: Iterable[tuple[str, str]]) -> list[ConfigValue]:
    """Checks keys without a fixed name (``column.mask.with.N.chars``), and mutually ``exclusive`` keys.

    Those without an error may be left out.
    """
    found = find_rule_errors(config)
    found += find_topic_naming_errors(config)
    found += find_notification_errors(config)
    found += check_post_processors(config)
    found += check_converters(config)
    found += find_mode_errors(config)
    for include, exclude in exclusive:
        if config.get(include) and config.get(exclude):
            reason = f"{include} and {exclude} are mutually exclusive: set only one"
            found.append(
                ConfigValue(exclude, config[exclude], errors=[str(ConfigError.invalid(exclude, config[exclude], reason))])
            )
    return found
