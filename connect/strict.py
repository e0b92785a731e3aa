"""``conversion.strict``: conversions that would silently lose data raise an error.

Promise 8: where an Apache class loses data (300 as int8 becomes 44), its counterpart returns the same result. With
``conversion.strict=true`` on a connector, it raises a DataError that names the field instead. ``docs/compatibility.md`` lists
every such case.

The worker passes the key to every converter, and the chain passes it to every transformation and predicate, together with their
own settings. Their ConfigDefs do not list it, so that validation answers like Apache's. A class reads it once, in ``configure``,
and selects its functions then, so that the default costs nothing per record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigKey, Importance
from connect.config.parsing import parse_value
from connect.config.types import ConfigType

STRICT = "conversion.strict"

STRICT_KEY = ConfigKey(
    STRICT,
    ConfigType.BOOLEAN,
    False,
    importance=Importance.LOW,
    doc="Whether a conversion that would lose something in silence, as Apache Kafka Connect's does, is an error instead.",
    display_name="Strict conversion",
)


def is_strict(configs: Mapping[str, Any]) -> bool:
    """Returns whether these settings ask for strict conversion. Raises ConfigError for a value that is not a boolean."""
    return bool(parse_value(STRICT, configs.get(STRICT), ConfigType.BOOLEAN))


def strict_settings(config: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings to pass on to a component of a connector: the key if it is true, nothing otherwise."""
    return {STRICT: "true"} if is_strict(config) else {}
