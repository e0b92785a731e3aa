"""The annotations of a schema (``arg.properties``), in the form of Confluent's avro-random-generator."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from connect.errors import SchemaError
from connect.suggestions import did_you_mean
from connectors.registry.avro.types import AvroType

_log = logging.getLogger(__name__)

PROPERTY = "arg.properties"
OPTIONS, RANGE, ITERATION, LENGTH, REGEX = "options", "range", "iteration", "length", "regex"
PREFIX, SUFFIX, KEYS, ODDS = "prefix", "suffix", "keys", "odds"
KNOWN = (OPTIONS, RANGE, ITERATION, LENGTH, REGEX, PREFIX, SUFFIX, KEYS, ODDS)
DEFAULT_LENGTHS = range(8, 16)
MAX_LENGTH = 1_000_000
_NUMBER = (OPTIONS, RANGE, ITERATION)
_DECIMAL = (OPTIONS, RANGE)
_TEXT = (OPTIONS, LENGTH, REGEX, PREFIX, SUFFIX)
_APPLICABLE: dict[str, tuple[str, ...]] = {
    "boolean": (OPTIONS, ITERATION, ODDS),
    "int": _NUMBER,
    "long": _NUMBER,
    "float": _NUMBER,
    "double": _NUMBER,
    "bytes": (OPTIONS, LENGTH),
    "fixed": (OPTIONS,),
    "decimal": _DECIMAL,
    "string": (*_TEXT, ITERATION),
    "map key": _TEXT,
    "enum": (OPTIONS,),
    "array": (OPTIONS, LENGTH),
    "map": (OPTIONS, LENGTH, KEYS),
    "record": (OPTIONS,),
}
_TOGETHER: dict[str, tuple[str, ...]] = {
    OPTIONS: (),
    ITERATION: (PREFIX, SUFFIX),
    LENGTH: (REGEX, PREFIX, SUFFIX, KEYS),
}
"""The annotations that may stand beside one that excludes others."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """An object of annotations, or one inside it such as a range, and the path to it for messages."""

    path: str
    values: Mapping[str, Any]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def error(self, message: str) -> SchemaError:
        return SchemaError(f"{self.path}: {message}")

    def check(self, kind: str) -> Annotations:
        """Returns itself. Raises SchemaError for annotations that exclude each other. Warns of an unknown one, and of one that
        does not apply to the kind of schema: Confluent's connector ignores them, too."""
        applicable = _APPLICABLE.get(kind, ())
        for name in self.values:
            if name not in KNOWN:
                hint = did_you_mean(name, KNOWN, "; ")
                _log.warning("%s: ignoring the unknown annotation %s%s", self.path, name, hint)
            elif name not in applicable:
                expected = ", ".join(applicable) or "none"
                _log.warning("%s: ignoring the annotation %s, which %s does not have; it has %s", self.path, name, kind, expected)
        for name, allowed in _TOGETHER.items():
            other = next((other for other in self.values if other != name and other not in allowed), None)
            if name in self.values and other is not None:
                raise self.error(f"annotations {name} and {other} exclude each other: remove one of them")
        return self

    def inside(self, name: str, *members: str) -> Annotations:
        """Returns the object of that name. Warns of members that are not among the given ones."""
        value = self.values[name]
        if not isinstance(value, dict):
            raise self.error(f"{name} is {value!r}, expected an object with {', '.join(members)}")
        for member in value:
            if members and member not in members:
                hint = did_you_mean(member, members, "; ")
                _log.warning("%s: ignoring the unknown member %s of %s%s", self.path, member, name, hint)
        return replace(self, path=f"{self.path}.{name}", values=value)

    def integer(self, name: str, low: int, high: int) -> int | None:
        """Returns the integer of that name; None without one."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"{name} is {value!r}, expected an integer")
        if not low <= value <= high:
            raise self.error(f"{name} is {value}, expected {low} to {high}")
        return value

    def number(self, name: str, limit: float) -> float | int | None:
        """Returns the number of that name; None without one."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.error(f"{name} is {value!r}, expected a number")
        if abs(value) > limit:
            raise self.error(f"{name} is {value}, expected a number up to {limit}")
        return value

    def decimal(self, name: str) -> Decimal | None:
        """Returns the number of that name with exactly the digits that it shows; None without one."""
        value = self.number(name, math.inf)
        return None if value is None else Decimal(repr(value))

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise self.error(f"{name} is {value!r}, expected a string")
        return value

    def lengths(self) -> range | None:
        """Returns the allowed lengths; None without ``length``. As in the original, ``max`` is exclusive."""
        value = self.values.get(LENGTH)
        if value is None:
            return None
        if not isinstance(value, dict):
            length = self.integer(LENGTH, 0, MAX_LENGTH) or 0
            return range(length, length + 1)
        bounds = self.inside(LENGTH, "min", "max")
        low, high = bounds.integer("min", 0, MAX_LENGTH), bounds.integer("max", 0, MAX_LENGTH + 1)
        if low is None and high is None:
            raise bounds.error("expected min, max, or both")
        low = low or 0
        if high is None:
            high = max(DEFAULT_LENGTHS.stop, low + len(DEFAULT_LENGTHS))
        if high <= low:
            raise bounds.error(f"min {low} and max {high} allow no length, expected min < max: max is exclusive")
        return range(low, high)


def annotations_of(avro: AvroType, path: str, of_field: object = None) -> Annotations:
    """Returns the checked annotations of a schema. Those of its field count if the schema has none: Confluent's own
    ``fleet_mgmt_location`` places them there."""
    found = avro.props.get(PROPERTY, of_field)
    if found is None:
        return Annotations(path, {})
    if not isinstance(found, dict):
        raise SchemaError(f"{path}: {PROPERTY} is {found!r}, expected an object")
    is_decimal = avro.kind in ("bytes", "fixed") and avro.props.get("logicalType") == "decimal"
    return Annotations(path, found).check("decimal" if is_decimal else avro.kind)
