"""Parses requirements for plugin versions (KIP-891). A worker has one version of each plugin.

A requirement is a range in Maven's notation (``[1.0,2.0)``, several separated by commas), one version (``1.0``, which means
``[1.0]``) or ``latest``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from itertools import zip_longest
from typing import Any

from connect.config.parsing import JAVA_BLANKS
from connect.errors import ConfigError
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


_Item = int | str | list["_Item"]

_TOKEN = re.compile(r"[.-]|[0-9]+|[^0-9.-]+")
_WORDS = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
_ALIASES = {"ga": "", "final": "", "release": "", "cr": "rc"}
_ABBREVIATIONS = {"a": "alpha", "b": "beta", "m": "milestone"}
"""Only before a digit: ``1.0-a1``."""
_RELEASE = str(_WORDS.index(""))


@total_ordering
class MavenVersion:
    """A version. Any text is valid."""

    __slots__ = ("_items",)

    def __init__(self, text: str) -> None:
        self._items = _parsed(text.lower())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MavenVersion) and _compare(self._items, other._items) == 0

    def __lt__(self, other: MavenVersion) -> bool:
        return _compare(self._items, other._items) < 0

    def __hash__(self) -> int:
        return hash(repr(self._items))


def _parsed(text: str) -> list[_Item]:
    root: list[_Item] = []
    lists = [root]

    def start_list() -> None:
        below: list[_Item] = []
        lists[-1].append(below)
        lists.append(below)

    tokens = _TOKEN.findall(text)
    after_separator = True
    for index, token in enumerate(tokens):
        if token in ".-":
            if after_separator:
                lists[-1].append(0)
            if token == "-":
                start_list()
            after_separator = True
            continue
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        # A word followed by a separator stays in the current list.
        ends_list = not token.isdigit() and following not in (".", "-") and lists[-1]
        if not after_separator or ends_list:
            start_list()
        after_separator = False
        lists[-1].append(int(token) if token.isdigit() else _word(token, following))
    for found in reversed(lists):
        _trim(found)
    return root


def _word(token: str, following: str | None) -> str:
    word = _ABBREVIATIONS.get(token, token) if following is not None and following.isdigit() else token
    return _ALIASES.get(word, word)


def _trim(items: list[_Item]) -> None:
    for index in reversed(range(len(items))):
        if items[index] in (0, "", []):
            del items[index]
        elif not isinstance(items[index], list):
            break


def _compare(one: _Item | None, other: _Item | None) -> int:
    if one is None:
        return 0 if other is None else -_compare(other, None)
    match one, other:
        case int(), int():
            return (one > other) - (one < other)
        case int(), None:
            return 1 if one else 0
        case int(), _:
            return 1
        case str(), str() | None:
            left, right = _rank(one), _RELEASE if other is None else _rank(other)
            return (left > right) - (left < right)
        case str(), _:
            return -1
        case list(), None:
            return next((result for item in one if (result := _compare(item, None))), 0)
        case list(), list():
            return next((result for left, right in zip_longest(one, other) if (result := _compare(left, right))), 0)
        case list(), str():
            return 1
    return -1


def _rank(word: str) -> str:
    """Returns a rank that is compared as text. Unknown words sort alphabetically after known ones."""
    return str(_WORDS.index(word)) if word in _WORDS else f"{len(_WORDS)}-{word}"
