"""Validators for ConfigDef keys, with Kafka's messages. ``str()`` of each tells the rule, for the docs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from connect.config.parsing import Password
from connect.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two bounds, both included; None leaves a side open. Null is allowed only with ``nullable``."""

    minimum: float | None = None
    maximum: float | None = None
    nullable: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            if self.nullable:
                return
            raise ConfigError.invalid(name, None, "Value must be non-null")
        if self.minimum is not None and value < self.minimum:
            raise ConfigError.invalid(name, value, f"Value must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise ConfigError.invalid(name, value, f"Value must be no more than {self.maximum}")

    def __str__(self) -> str:
        if self.minimum is None:
            return "[...]" if self.maximum is None else f"[...,{self.maximum}]"
        return f"[{self.minimum},...]" if self.maximum is None else f"[{self.minimum},...,{self.maximum}]"


def at_least(minimum: float) -> Range:
    return Range(minimum=minimum)


@dataclass(frozen=True, slots=True)
class OneOf:
    """Text out of a list."""

    values: tuple[str | None, ...]
    ignore_case: bool = False

    def __call__(self, name: str, value: Any) -> None:
        fits = value in self.values
        if not fits and self.ignore_case and value is not None:
            fits = value.lower() in {v.lower() for v in self.values if v is not None}
        if not fits:
            shown = ", ".join("null" if v is None else v for v in self.values)
            how = "String must be one of (case insensitive): " if self.ignore_case else "String must be one of: "
            raise ConfigError.invalid(name, value, how + shown)

    def __str__(self) -> str:
        head = "(case insensitive) " if self.ignore_case else ""
        return f"{head}[{', '.join('null' if v is None else v for v in self.values)}]"


def one_of(*values: str | None, ignore_case: bool = False) -> OneOf:
    return OneOf(values, ignore_case)


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """Text that is not empty; null is allowed."""

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and not (value.value if isinstance(value, Password) else value):
            raise ConfigError.invalid(name, "", "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


@dataclass(frozen=True, slots=True)
class PatternList:
    """Text, or a list of texts, each a regular expression."""

    def __call__(self, name: str, value: Any) -> None:
        for part in value if isinstance(value, list) else [value] if value else []:
            try:
                re.compile(part)
            except re.error as e:
                raise ConfigError.invalid(name, part, f"not a regular expression: {e}") from e

    def __str__(self) -> str:
        return "regular expressions"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of several rules."""

    validators: Sequence[Callable[[str, Any], None]]

    def __call__(self, name: str, value: Any) -> None:
        for validator in self.validators:
            validator(name, value)

    def __str__(self) -> str:
        return ",".join(str(v) for v in self.validators)
