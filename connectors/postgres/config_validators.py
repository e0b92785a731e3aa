"""Validators of the connector's own keys: names of slots, and options of the output plugin."""

from __future__ import annotations

import re
from typing import Any

from connect.errors import ConfigError

SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")

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
