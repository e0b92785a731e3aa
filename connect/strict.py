"""``conversion.strict``: what the original loses in silence becomes an error.

Promise 8: where an Apache class loses something (an int8 read from 300 becomes 44) its namesake here answers the same. With
``conversion.strict=true`` on a connector the same place raises DataError that names the field. ``docs/compatibility.md`` lists
every such place.

The worker hands the key to every converter, and the chain to every transformation and predicate, among their own settings; no
table lists it there, so that validation answers as Apache's. A class asks once, in ``configure``, and picks its functions then:
what is not strict pays nothing a record.
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
    """Whether these settings ask for strict conversion. Raises ConfigError for a value that is neither true nor false."""
    return bool(parse_value(STRICT, configs.get(STRICT), ConfigType.BOOLEAN))


def strict_settings(config: Mapping[str, Any]) -> dict[str, str]:
    """What a part of a connector is given of this key: itself when it is set, nothing otherwise."""
    return {STRICT: "true"} if is_strict(config) else {}
