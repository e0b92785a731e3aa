"""Reads the few keys of these connectors.

Like Apache's, their ConfigDefs are empty (recording plugin-config-verifiable-source): REST neither shows nor checks the keys, and
an invalid value fails the task at its start, not the request. So the tasks parse each key themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.errors import ConfigError, ConnectError

NAME = "name"
ID = "id"
TOPIC = "topic"
THROUGHPUT = "throughput"


def require_int(task_class: str, config: Mapping[str, str], key: str, type: ConfigType = ConfigType.INT) -> int:
    """Parses a required key. ``task_class`` is Apache's name of the task class; ``type`` is INT or LONG.

    Raises ConnectError with the message of Apache's task, plus the key.
    """
    try:
        return int(parse_value(key, _require_value(task_class, config, key, "an integer"), type))
    except ConfigError as e:
        raise ConnectError(f"Invalid {task_class} configuration: {e.message}") from e


def require_text(task_class: str, config: Mapping[str, str], key: str) -> str:
    """Like :func:`require_int`, for a string."""
    return _require_value(task_class, config, key, "a text")


def _require_value(task_class: str, config: Mapping[str, str], key: str, expected: str) -> str:
    value = config.get(key)
    if value is None:
        raise ConnectError(f"Invalid {task_class} configuration: {key} is missing, expected {expected}")
    return value


def is_true(config: Mapping[str, str], key: str) -> bool:
    """Java's ``parseBoolean``: every value except ``true`` is false."""
    return config.get(key, "").lower() == "true"
