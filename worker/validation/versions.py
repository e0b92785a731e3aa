"""Versions of plugins (KIP-891): which one a configuration asks for. A worker here has one version of each plugin.

A requirement is a range in Maven's notation (``[1.0,2.0)``, several separated by commas), one version (``1.0``, which means
``[1.0]``) or ``latest``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connect.config.parsing import JAVA_BLANKS
from connect.errors import ConfigError

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval of versions; None leaves a side open."""

    low: str | None
    high: str | None
    low_included: bool
    high_included: bool

    def contains(self, version: str) -> bool:
        found = _parts(version)
        if self.low is not None and not (_parts(self.low) <= found if self.low_included else _parts(self.low) < found):
            return False
        return self.high is None or (found <= _parts(self.high) if self.high_included else found < _parts(self.high))

    def __str__(self) -> str:
        return f"{'[' if self.low_included else '('}{self.low or ''},{self.high or ''}{']' if self.high_included else ')'}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a configuration asks for; no intervals: anything."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, text: str | None) -> Requirement:
        """Raises ConfigError, in Maven's words, for a range that is none."""
        spec = None if text is None else text.strip(JAVA_BLANKS)
        if spec is None or spec == LATEST:
            return cls()
        return cls(tuple(_intervals(spec if spec[:1] in ("[", "(") else f"[{spec}]")))

    def allows(self, version: str | None) -> bool:
        """Whether a version meets it. A plugin without a version meets only what asks for nothing."""
        if not self.intervals:
            return True
        return version is not None and any(interval.contains(version) for interval in self.intervals)

    def __str__(self) -> str:
        return ",".join(map(str, self.intervals))


def version_error(plugin: str, version: str | None, requirement: str | None) -> str | None:
    """What is wrong with asking for this version of a plugin, None when nothing is. Raises ConfigError for what is no range."""
    wanted = Requirement.of(requirement)
    if wanted.allows(version):
        return None
    return f"Plugin {plugin} not found that matches the version range {wanted}, available versions: [{version or ''}]"


@dataclass(frozen=True, slots=True)
class AvailableVersion:
    """A version that is there; of a plugin that is not the configuration's own choice, only a requirement that is one."""

    plugin: str
    version: str | None
    is_chosen: bool = True

    def __call__(self, name: str, value: Any) -> None:
        error = version_error(self.plugin, self.version, value)
        if error is not None and self.is_chosen:
            raise ConfigError(error, key=name)

    def __str__(self) -> str:
        return "an available version, a range in Maven's notation, or latest"


@dataclass(frozen=True, slots=True)
class HasVersion:
    """A class that there is in the version that another key asks for."""

    plugin: str
    version: str | None
    requirement: str | None

    def __call__(self, name: str, value: Any) -> None:
        error = version_error(self.plugin, self.version, self.requirement)
        if error is not None:
            raise ConfigError(error, key=name)

    def __str__(self) -> str:
        return "a class in an available version"


def listed_versions(version: str | None) -> Sequence[str]:
    """What is recommended for a version key."""
    return [] if version is None else [version]


def _intervals(spec: str) -> list[Interval]:
    found: list[Interval] = []
    rest = spec
    while rest[:1] in ("[", "(") and rest:
        ends = [end for end in (rest.find(")"), rest.find("]")) if end >= 0]
        if not ends:
            raise ConfigError(f"Unbounded range: {spec}")
        interval = _interval(rest[: min(ends) + 1])
        if found and (interval.low is None or found[-1].high is None or _parts(interval.low) < _parts(found[-1].high)):
            raise ConfigError(f"Ranges overlap: {spec}")
        found.append(interval)
        rest = rest[min(ends) + 1 :].strip().removeprefix(",").strip()
    if rest:
        raise ConfigError(f"Only fully-qualified sets allowed in multiple set scenario: {spec}")
    return found


def _interval(text: str) -> Interval:
    low_included, high_included = text[0] == "[", text[-1] == "]"
    low, comma, high = (part.strip(JAVA_BLANKS) for part in text[1:-1].partition(","))
    if not comma:
        if not (low_included and high_included):
            raise ConfigError(f"Single version must be surrounded by []: {text}")
        return Interval(low, low, low_included=True, high_included=True)
    if low and high and (_parts(high) < _parts(low) or (_parts(high) == _parts(low) and not (low_included and high_included))):
        raise ConfigError(f"Range defies version ordering: {text}")
    return Interval(low or None, high or None, low_included, high_included)


def _parts(version: str) -> list[tuple[int, str]]:
    return [(int(p), "") if p.isdecimal() else (-1, p) for p in re.findall(r"\d+|[^\d.\-+]+", version)]
