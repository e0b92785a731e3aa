"""Validators of keys: regular expression lists, text patterns, and unsupported values."""

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
