"""Validators of the connector's keys: regular expression lists, text patterns, and unsupported values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from connect.config.parsing import split_list
from connect.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SupportedValues:
    """Accepts only values that this connector supports; rejects others with a reason."""

    allowed: tuple[str, ...]
    reason: str

    def __call__(self, name: str, value: Any) -> None:
        if value is None or str(value).lower() in self.allowed:
            return
        raise ConfigError.invalid(name, value, self.reason)

    def __str__(self) -> str:
        return "[" + ", ".join(self.allowed) + "]" if self.allowed else "[not supported]"


_PLUGIN_OPTIONS = {
    "proto_version": ("1",),
    "publication_names": (),
    "binary": ("false", "off", "0"),
    "streaming": ("false", "off", "0"),
    "two_phase": ("false", "off", "0"),
}
"""Options of the output plugin that the connector sets itself or whose other values change the messages."""


def parse_plugin_options(name: str, text: str | None) -> tuple[tuple[str, str], ...]:
    """Parses ``option=value;option=value``. Raises ConfigError, also for an option that changes the protocol."""
    options: list[tuple[str, str]] = []
    for part in (text or "").split(";"):
        if part.strip():
            option, equals, value = part.partition("=")
            if not equals or not re.fullmatch(r"[A-Za-z_]+", option.strip()):
                raise ConfigError.invalid(name, text, "expected name=value;name=value")
            options.append((option.strip(), value.strip()))
    for option, value in options:
        if value.lower() not in _PLUGIN_OPTIONS.get(option, (value.lower(),)):
            raise ConfigError.invalid(name, text, f"{option}={value} changes the protocol, which is not supported")
    return tuple(options)


class PluginOptions:
    """Options of the output plugin that do not change the protocol."""

    def __call__(self, name: str, value: Any) -> None:
        parse_plugin_options(name, value)

    def __str__(self) -> str:
        return "name=value;name=value"


@dataclass(frozen=True, slots=True)
class RegexList:
    """Comma-separated regular expressions; ``\\,`` is a comma within one."""

    def __call__(self, name: str, value: Any) -> None:
        for part in split_list(value):
            try:
                re.compile(part)
            except re.error as e:
                raise ConfigError.invalid(name, part, f"not a regular expression: {e}") from e

    def __str__(self) -> str:
        return "comma separated regular expressions"


TOPIC_PREFIX = re.compile(r"[A-Za-z0-9._-]+")
SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")


@dataclass(frozen=True, slots=True)
class PatternText:
    """Text that matches a pattern."""

    pattern: re.Pattern[str]
    rule: str

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and not self.pattern.fullmatch(value):
            raise ConfigError.invalid(name, value, self.rule)

    def __str__(self) -> str:
        return self.rule
