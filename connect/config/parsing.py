"""Parses and formats configuration values with Kafka's rules and messages."""

from __future__ import annotations

import re
from typing import Any

from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.java.number_text import double_text
from connect.java.numbers import NumberFormatError, parse_double, parse_integer

HIDDEN = "[hidden]"
_Class = type  # the parameter `type` below hides the built-in
_COMMA = re.compile(r"\s*,\s*", re.ASCII)
_RANGES = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_INTEGER_NAMES = {
    ConfigType.SHORT: "16-bit integer (short)",
    ConfigType.INT: "32-bit integer",
    ConfigType.LONG: "64-bit integer (long)",
}
JAVA_BLANKS = "".join(map(chr, range(0x21)))
"""The characters that Java's ``trim`` removes: everything up to the space."""


class Password:
    """A secret. ``str`` and ``repr`` show ``[hidden]`` (promise 9); ``value`` is the text itself."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __str__(self) -> str:
        return HIDDEN

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def parse_value(name: str, value: Any, type: ConfigType) -> Any:
    """Parses a value to its type. Trims text; None stays None. Raises ConfigError with Kafka's message.

    BOOLEAN gives bool; INT, SHORT, and LONG give int; DOUBLE float; STRING and CLASS str; LIST list of str; PASSWORD
    :class:`Password`. A CLASS remains a name, which :class:`connect.plugins.Plugins` resolves.
    """
    if value is None:
        return None
    trimmed = value.strip(JAVA_BLANKS) if isinstance(value, str) else value
    match type:
        case ConfigType.BOOLEAN:
            if isinstance(trimmed, bool):
                return trimmed
            if isinstance(trimmed, str) and trimmed.lower() in ("true", "false"):
                return trimmed.lower() == "true"
            raise ConfigError.invalid(name, _shown(value), "Expected value to be either true or false")
        case ConfigType.STRING:
            if isinstance(trimmed, str):
                return trimmed
            raise ConfigError.invalid(name, _shown(value), f"Expected value to be a string, but it was a {_java_class(value)}")
        case ConfigType.PASSWORD:
            if isinstance(trimmed, Password):
                return trimmed
            if isinstance(trimmed, str):
                return Password(trimmed)
            raise ConfigError.invalid(name, HIDDEN, f"Expected value to be a string, but it was a {_java_class(value)}")
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _parse_integer(name, value, trimmed, type)
        case ConfigType.DOUBLE:
            if isinstance(trimmed, int | float) and not isinstance(trimmed, bool):
                return float(trimmed)
            if not isinstance(trimmed, str):
                raise ConfigError.invalid(
                    name, _shown(value), f"Expected value to be a double, but it was a {_java_class(value)}"
                )
            try:
                return parse_double(trimmed)
            except NumberFormatError:
                raise ConfigError.invalid(name, value, "Not a number of type DOUBLE") from None
        case ConfigType.LIST:
            if isinstance(trimmed, list | tuple):
                return list(trimmed)
            if isinstance(trimmed, str):
                return [] if not trimmed else _COMMA.split(trimmed)
            raise ConfigError.invalid(name, _shown(value), "Expected a comma separated list.")
        case ConfigType.CLASS:
            if isinstance(trimmed, str):
                return trimmed
            if isinstance(trimmed, _Class):
                return f"{trimmed.__module__}.{trimmed.__qualname__}"
            raise ConfigError.invalid(name, _shown(value), "Expected a Class instance or class name.")


def _parse_integer(name: str, value: Any, trimmed: Any, type: ConfigType) -> int:
    bits = _RANGES[type]
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ConfigError.invalid(
            name, _shown(value), f"Expected value to be a {_INTEGER_NAMES[type]}, but it was a {_java_class(value)}"
        )
    try:
        number = parse_integer(trimmed, bits) if isinstance(trimmed, str) else int(trimmed)
    except NumberFormatError:
        raise ConfigError.invalid(name, value, f"Not a number of type {type.value}") from None
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ConfigError.invalid(name, value, f"Not a number of type {type.value}")
    return number


def to_text(value: Any, type: ConfigType) -> str | None:
    """Formats a value for REST: lists joined by commas, booleans in lower case, secrets hidden."""
    if value is None:
        return None
    match type:
        case ConfigType.PASSWORD:
            return HIDDEN
        case ConfigType.BOOLEAN:
            return "true" if value else "false"
        case ConfigType.LIST:
            return ",".join(str(v) for v in value)
        case ConfigType.DOUBLE:
            return double_text(float(value))
        case _:
            return str(value)


def _java_class(value: Any) -> str:
    # The message contains Java's class names because clients match on them.
    names = {bool: "java.lang.Boolean", int: "java.lang.Integer", float: "java.lang.Double", str: "java.lang.String"}
    return names.get(value.__class__) or str(value.__class__.__name__)


def split_list(text: str | None) -> list[str]:
    """Splits a comma-separated list; trims the parts and drops empty ones."""
    parts = re.split(r"(?<!\\),", text) if text else []
    return [part.strip().replace("\\,", ",") for part in parts if part.strip()]


def _shown(value: Any) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value
