"""Compares versions like Maven, as Apache's workers do for plugins (KIP-891).

A version is a list of numbers and words. A dot continues the list; a hyphen, or a change between digits and letters, starts
a nested list. Insignificant items at the end of a list (0, ``final``, an empty list) are dropped, so that ``4.3.1`` equals
``4.3.1.0``. ``alpha beta milestone rc snapshot`` sort before the release, ``sp`` and other words after it.
"""

from __future__ import annotations

import re
from functools import total_ordering
from itertools import zip_longest

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
