"""Rules that the connector's keys share: regular expression lists, fixed forms, and values that are refused by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from connect.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Only:
    """Accepts just the values that mean "off" or the one way this connector works; everything else is refused by name."""

    allowed: tuple[str, ...]
    reason: str

    def __call__(self, name: str, value: Any) -> None:
        if value is None or str(value).lower() in self.allowed:
            return
        raise ConfigError.invalid(name, value, self.reason)

    def __str__(self) -> str:
        return "[" + ", ".join(self.allowed) + "]" if self.allowed else "[not supported]"


@dataclass(frozen=True, slots=True)
class RegexList:
    """Comma separated regular expressions; a comma inside one is written ``\\,``."""

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
class Matches:
    """Text of one form."""

    pattern: re.Pattern[str]
    rule: str

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and not self.pattern.fullmatch(value):
            raise ConfigError.invalid(name, value, self.rule)

    def __str__(self) -> str:
        return self.rule


def split_list(text: str | None) -> list[str]:
    """The parts of a comma separated list, trimmed, without empty ones."""
    parts = re.split(r"(?<!\\),", text) if text else []
    return [part.strip().replace("\\,", ",") for part in parts if part.strip()]
