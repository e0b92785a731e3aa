"""Parses requirements for plugin versions (KIP-891). A worker has one version of each plugin.

A requirement is a range in Maven's notation (``[1.0,2.0)``, several separated by commas), one version (``1.0``, which means
``[1.0]``) or ``latest``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connect.config.parsing import JAVA_BLANKS
from connect.errors import ConfigError
from worker.validation.maven_versions import MavenVersion
from worker.validation.plugin_index import Plugin

LATEST = "latest"
_UNISOLATED = "org.apache.kafka.connect.tools."
"""Connectors that Apache's worker loads without choosing among versions."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of versions; None means unbounded."""

    low: str | None
    high: str | None
    low_included: bool
    high_included: bool

    def contains(self, version: str) -> bool:
        found = MavenVersion(version)
        if self.low is not None:
            low = MavenVersion(self.low)
            if found < low or (found == low and not self.low_included):
                return False
        if self.high is None:
            return True
        high = MavenVersion(self.high)
        return found < high or (found == high and self.high_included)

    def __str__(self) -> str:
        return f"{'[' if self.low_included else '('}{self.low or ''},{self.high or ''}{']' if self.high_included else ')'}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """The versions that a configuration accepts; no intervals means any version."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, text: str | None) -> Requirement:
        """Parses a requirement. Raises ConfigError with Maven's message for an invalid range."""
        if text is None or text == LATEST:
            return cls()
        spec = text.strip(JAVA_BLANKS)
        return cls(tuple(_intervals(spec if spec[:1] in ("[", "(") else f"[{spec}]")))

    def allows(self, version: str | None) -> bool:
        """Returns whether a version is accepted. An unknown version is accepted only if any version is."""
        if not self.intervals:
            return True
        return version is not None and any(interval.contains(version) for interval in self.intervals)

    def __str__(self) -> str:
        return ",".join(map(str, self.intervals))


def version_error(plugin: Plugin, requirement: str | None) -> str | None:
    """Returns Apache's message if a plugin does not meet a requirement, else None. Raises ConfigError for an invalid range."""
    wanted = Requirement.of(requirement)
    if wanted.allows(plugin.version):
        return None
    if plugin.name.startswith(_UNISOLATED):
        return f"Plugin {plugin.name} has version {plugin.version} which does not match the required version range {wanted}"
    available = ", ".join(available_versions(plugin))
    return f"Plugin {plugin.name} not found that matches the version range {wanted}, available versions: [{available}]"


def available_versions(plugin: Plugin) -> list[str]:
    """Returns its version once per plugin type: in Apache, a converter of values and of headers is two plugins."""
    return [plugin.version or ""] * max(1, len(plugin.kinds))


@dataclass(frozen=True, slots=True)
class IsRange:
    """Accepts any valid requirement, whether or not it is met."""

    def __call__(self, name: str, value: Any) -> None:
        Requirement.of(value)

    def __str__(self) -> str:
        return "a version, a range in Maven's notation, or latest"


@dataclass(frozen=True, slots=True)
class AvailableVersion:
    """Accepts a requirement that a plugin meets."""

    plugin: Plugin

    def __call__(self, name: str, value: Any) -> None:
        error = version_error(self.plugin, value)
        if error is not None:
            raise ConfigError(error, key=name)

    def __str__(self) -> str:
        return "an available version, a range in Maven's notation, or latest"


def _intervals(spec: str) -> list[Interval]:
    found: list[Interval] = []
    rest = spec
    while rest[:1] in ("[", "(") and rest:
        ends = [end for end in (rest.find(")"), rest.find("]")) if end >= 0]
        if not ends:
            raise ConfigError(f"Unbounded range: {spec}")
        interval = _interval(rest[: min(ends) + 1])
        # As in Maven, an interval that follows one without an upper bound is not compared with it.
        before = found[-1].high if found else None
        if before is not None and (interval.low is None or MavenVersion(interval.low) < MavenVersion(before)):
            raise ConfigError(f"Ranges overlap: {spec}")
        found.append(interval)
        rest = rest[min(ends) + 1 :].strip(JAVA_BLANKS).removeprefix(",").strip(JAVA_BLANKS)
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
    if low and high:
        lowest, highest = MavenVersion(low), MavenVersion(high)
        if highest < lowest or (highest == lowest and not (low_included and high_included)):
            raise ConfigError(f"Range defies version ordering: {text}")
    return Interval(low or None, high or None, low_included, high_included)
