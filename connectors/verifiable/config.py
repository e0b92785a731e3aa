"""Reads the few keys of these connectors.

Their tables of keys are empty, for Apache's are (recording plugin-config-verifiable-source): REST shows and checks none of them,
and a wrong one fails the task when it starts, not the request. So the tasks read each key by itself.
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


def required_int(task_class: str, config: Mapping[str, str], key: str, type: ConfigType = ConfigType.INT) -> int:
    """The value of a key that the task cannot do without. ``task_class`` is Apache's name of it, ``type`` INT or LONG.

    Raises ConnectError in the words of Apache's task, and says which key it is.
    """
    try:
        return int(parse_value(key, _given(task_class, config, key, "an integer"), type))
    except ConfigError as e:
        raise ConnectError(f"Invalid {task_class} configuration: {e.message}") from e


def required_text(task_class: str, config: Mapping[str, str], key: str) -> str:
    """As :func:`required_int`, for a text."""
    return _given(task_class, config, key, "a text")


def _given(task_class: str, config: Mapping[str, str], key: str, expected: str) -> str:
    value = config.get(key)
    if value is None:
        raise ConnectError(f"Invalid {task_class} configuration: {key} is missing, expected {expected}")
    return value


def is_true(config: Mapping[str, str], key: str) -> bool:
    """Java's ``parseBoolean``: whatever is not ``true`` is false."""
    return config.get(key, "").lower() == "true"
