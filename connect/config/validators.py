"""Validators of ConfigDef keys: Kafka's, with its messages. Like its ``toString``, their ``str()`` describes the rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from connect.config.parsing import Password
from connect.errors import ConfigError
from connect.java.hash_order import hash_map_order
from connect.java.number_text import double_text

Check = Callable[[str, Any], None]


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two inclusive bounds; None means unbounded. Null is allowed only with ``nullable``."""

    minimum: float | None = None
    maximum: float | None = None
    nullable: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            if self.nullable:
                return
            raise ConfigError.invalid(name, None, "Value must be non-null")
        if self.minimum is not None and value < self.minimum:
            raise ConfigError.invalid(name, _number(value), f"Value must be at least {_number(self.minimum)}")
        if self.maximum is not None and value > self.maximum:
            raise ConfigError.invalid(name, _number(value), f"Value must be no more than {_number(self.maximum)}")

    def __str__(self) -> str:
        if self.minimum is None:
            return "[...]" if self.maximum is None else f"[...,{_number(self.maximum)}]"
        low = _number(self.minimum)
        return f"[{low},...]" if self.maximum is None else f"[{low},...,{_number(self.maximum)}]"


def at_least(minimum: float) -> Range:
    return Range(minimum=minimum)


def between(minimum: float, maximum: float) -> Range:
    return Range(minimum, maximum)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several texts: Kafka's ``ValidString``, and with ``ignore_case`` its ``CaseInsensitiveValidString``."""

    values: tuple[str | None, ...]
    ignore_case: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if not self.allows(value):
            case = " (case insensitive)" if self.ignore_case else ""
            raise ConfigError.invalid(name, value, f"String must be one of{case}: {', '.join(self._shown())}")

    def allows(self, value: str | None) -> bool:
        """Whether the value is one of them."""
        if self.ignore_case:
            return value is not None and value.upper() in self._shown()
        return value in self.values

    def _shown(self) -> list[str]:
        texts = ["null" if value is None else value for value in self.values]
        # Kafka stores these in a hash set, in upper case.
        return hash_map_order(text.upper() for text in texts) if self.ignore_case else texts

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.ignore_case else ''}[{', '.join(self._shown())}]"


def one_of(*values: str | None, ignore_case: bool = False) -> OneOf:
    return OneOf(values, ignore_case)


@dataclass(frozen=True, slots=True)
class DistinctList:
    """A list without empty or repeated entries, optionally limited to some values: Kafka's ``ValidList``."""

    values: tuple[str, ...] = ()
    may_be_empty: bool = False
    may_be_null: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            if self.may_be_null:
                return
            raise ConfigError(f"Configuration '{name}' values must not be null.", key=name)
        if not value and not self.may_be_empty:
            valid = f"[{', '.join(self.values)}]" if self.values else "any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {valid}", key=name)
        if len(set(value)) < len(value):
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.", key=name)
        for entry in value:
            if not entry:
                raise ConfigError(f"Configuration '{name}' values must not be empty.", key=name)
            if self.values:
                OneOf(self.values)(name, entry)

    def __str__(self) -> str:
        if self.values:
            return f"[{', '.join(self.values)}]"
        # Kafka's has no text for it.
        return "list without repeated entries" if self.may_be_empty else "non-empty list without repeated entries"


@dataclass(frozen=True, slots=True)
class AtMost:
    """A list with a maximum size: Kafka's ``ListSize``. Null is allowed."""

    size: int

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and len(value) > self.size:
            raise ConfigError.invalid(name, f"[{', '.join(value)}]", f"exceeds maximum list size of [{self.size}].")

    def __str__(self) -> str:
        return f"List containing maximum of {self.size} elements"


@dataclass(frozen=True, slots=True)
class NonNull:
    """Any value, but not null: Kafka's ``NonNullValidator``."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigError.invalid(name, None, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """Text that is not empty; null is allowed. Kafka's ``NonEmptyString``."""

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and not (value.value if isinstance(value, Password) else value):
            raise ConfigError.invalid(name, "", "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


@dataclass(frozen=True, slots=True)
class NonEmptyWithoutControlCharacters:
    """Text that is not empty and has no control characters. Null is allowed: the key may be required otherwise."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        if value == "":
            raise ConfigError.invalid(name, value, "String may not be empty")
        illegal = [str(ord(c)) for c in value if ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F]
        if illegal:
            listed = ", ".join(illegal)
            reason = f"String may not contain control sequences but had the following ASCII chars: {listed}"
            raise ConfigError.invalid(name, value, reason)

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Several rules in order; the first violation is reported. Kafka's ``CompositeValidator``."""

    validators: Sequence[Check]

    def __call__(self, name: str, value: Any) -> None:
        for validator in self.validators:
            validator(name, value)

    def __str__(self) -> str:
        return ", ".join(str(v) for v in self.validators)


@dataclass(frozen=True, slots=True)
class Described:
    """A function with a description of its rule: Kafka's ``LambdaValidator``."""

    check: Check
    rule: str

    def __call__(self, name: str, value: Any) -> None:
        self.check(name, value)

    def __str__(self) -> str:
        return self.rule


def _number(value: float) -> str:
    return double_text(value) if isinstance(value, float) else str(value)
