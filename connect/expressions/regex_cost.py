"""How long Python's matcher may take for a pattern, told from the pattern alone.

Where the matcher can go on in two ways that begin with the same characters, it may have to try both. Once, that doubles the
work; in a repetition without an end it makes the work a power of the text's length; within another such repetition the work
doubles with each character. This walks over the parsed pattern, keeps for each place the characters that may come next, and
counts those choices. It may count too many: then a pattern is refused that would have done no harm.
"""

from __future__ import annotations

import importlib
import math
import re
from typing import Any, NamedTuple

from connect.java import code_points
from connect.java.code_points import Ranges

# The parser that re.compile uses. It is not documented, but the alternative, a second parser, could disagree with it.
_parser: Any = importlib.import_module("re._parser")

_MOST_TRIES_LOG2 = 28.0
_MOST_SUBJECT = 1_000_000
_LEAST_SUBJECT = 32
_MANY = 100
"""A repetition between bounds that are further apart counts as one without an end."""
_ALL: Ranges = ((0, code_points.LAST),)
_CATEGORIES = {
    "CATEGORY_DIGIT": code_points.DIGIT, "CATEGORY_SPACE": code_points.SPACE, "CATEGORY_WORD": code_points.WORD,
}  # fmt: skip


class CostlyRegexError(ValueError):
    """The pattern may take a time that doubles with each character of a text."""


class _Next(NamedTuple):
    """What an item of a pattern may begin with, and whether it may match nothing."""

    first: Ranges
    empty: bool


def longest_subject(pattern: re.Pattern[str], *, whole: bool) -> int:
    """The longest text for which the tries stay bounded, for ``fullmatch`` or for ``search``. Raises CostlyRegexError."""
    walk = _Walk()
    items = _parser.parse(pattern.pattern, pattern.flags)
    walk.sequence(list(items), (), 1.0, bool(pattern.flags & re.IGNORECASE))
    anchored = bool(items) and str(items[0][0]) == "AT" and str(items[0][1]) in ("AT_BEGINNING", "AT_BEGINNING_STRING")
    # Reading to the end once is the least that a repetition without one costs, and a search begins anew at each character.
    powers = max(walk.powers + walk.look_powers, 1.0 if walk.endless else 0.0)
    if walk.endless and not whole and not anchored:
        powers += 1
    room = _MOST_TRIES_LOG2 - walk.doublings
    low, high = 0, _MOST_SUBJECT if room > 0 else 0
    while low < high:
        middle = (low + high + 1) // 2
        if _log2_of_ways(middle, powers) <= room:
            low = middle
        else:
            high = middle - 1
    if low < _LEAST_SUBJECT:
        raise CostlyRegexError("it has too many parts that can match the same characters in different ways")
    return low


def _log2_of_ways(length: int, powers: float) -> float:
    """The ways to cut a text of that length in ``powers`` places."""
    return (math.lgamma(length + powers + 1) - math.lgamma(powers + 1) - math.lgamma(length + 1)) / math.log(2)


class _Walk:
    """One pass over a pattern. ``counts`` False only finds out what comes first."""

    def __init__(self, *, counts: bool = True) -> None:
        self._counts = counts
        self.powers = 0.0
        """Repetitions without an end that may stop in several places."""
        self.look_powers = 0.0
        """The same of the costliest look ahead or behind, which is gone through anew at each place where it is tried."""
        self.doublings = 0.0
        """Choices between two ways, outside of such repetitions."""
        self.endless = False
        """There is a repetition without an end."""

    def sequence(self, items: list[Any], follow: Ranges, times: float, folded: bool) -> _Next:
        """Counts the choices in a sequence, from its end to its beginning. ``follow`` is what may come after it, ``times`` how
        often all of it may be gone through."""
        after = follow
        result = _Next((), True)
        for item in reversed(items):
            found = self._item(item, after, times, folded)
            first = code_points.union(found.first, result.first) if found.empty else found.first
            result = _Next(first, found.empty and result.empty)
            after = code_points.union(found.first, after) if found.empty else found.first
        return result

    def _item(self, item: Any, follow: Ranges, times: float, folded: bool) -> _Next:
        kind, argument = str(item[0]), item[1]
        match kind:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return _Next(_characters(kind, argument, folded), False)
            case "AT":
                return _Next((), True)
            case "ASSERT" | "ASSERT_NOT":
                self._look_around(list(argument[1]), folded)
                return _Next((), True)
            case "SUBPATTERN":
                _, on, off, body = argument
                inner = (folded or bool(on & re.IGNORECASE)) and not off & re.IGNORECASE
                return self.sequence(list(body), follow, times, inner)
            case "ATOMIC_GROUP":
                return self._within_itself(list(argument), times, folded)
            case "BRANCH":
                return self._branches([list(branch) for branch in argument[1]], follow, times, folded)
            case "MAX_REPEAT" | "MIN_REPEAT":
                low, high, body = argument
                return self._repeat(low, high, list(body), follow, times, folded)
            case "POSSESSIVE_REPEAT":
                low, high, body = argument
                found = self._within_itself(list(body), math.inf if high == _parser.MAXREPEAT else times * high, folded)
                self.endless = self.endless or high == _parser.MAXREPEAT
                return _Next(found.first, found.empty or low == 0)
        # A reference to a group, or a condition on one: as costly as what can match anything.
        self.endless = True
        self._choice(math.inf, times)
        return _Next(_ALL, True)

    def _within_itself(self, body: list[Any], times: float, folded: bool) -> _Next:
        """What is never gone back into has choices only while it is matched."""
        return self.sequence(body, (), times, folded)

    def _look_around(self, body: list[Any], folded: bool) -> None:
        inner = _Walk(counts=self._counts)
        inner.sequence(body, (), 1.0, folded)
        self.look_powers = max(self.look_powers, inner.powers + inner.look_powers, 1.0 if inner.endless else 0.0)
        self.doublings += inner.doublings

    def _branches(self, branches: list[list[Any]], follow: Ranges, times: float, folded: bool) -> _Next:
        powers, doublings = self.powers, self.doublings
        most = (powers, doublings)
        first: Ranges = ()
        empty = False
        beginnings: list[list[Ranges]] = []
        for branch in branches:
            self.powers, self.doublings = powers, doublings
            found = self.sequence(branch, follow, times, folded)
            if not _only_looks(branch):
                beginnings.append(self._beginning(branch, found, follow, folded))
            first, empty = code_points.union(first, found.first), empty or found.empty
            most = (max(most[0], self.powers), max(most[1], self.doublings))
        self.powers, self.doublings = most
        if any(_overlap(one, other) for i, one in enumerate(beginnings) for other in beginnings[:i]):
            self._choice(len(branches), times)
        return _Next(first, empty)

    def _beginning(self, branch: list[Any], found: _Next, follow: Ranges, folded: bool) -> list[Ranges]:
        """What a branch's first characters may be, one by one as far as that is plain."""
        known: list[Ranges] = []
        for kind, argument in branch:
            if str(kind) not in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
                return known or [code_points.union(found.first, follow) if found.empty else found.first]
            known.append(_characters(str(kind), argument, folded))
        return [*known, follow]

    def _repeat(self, low: int, high: int, body: list[Any], follow: Ranges, times: float, folded: bool) -> _Next:
        endless = high == _parser.MAXREPEAT
        self.endless = self.endless or endless
        # What the body begins with is also what may follow it.
        found = _Walk(counts=False).sequence(body, (), 1.0, folded)
        if not self._counts:
            return _Next(found.first, found.empty or low == 0)
        around = code_points.union(found.first, follow) if endless or high > 1 else follow
        self.sequence(body, around, math.inf if endless else times * max(high, 1), folded)
        if low != high and (code_points.intersection(found.first, follow) or (found.empty and (endless or high > 1))):
            self._choice(math.inf if endless or high - low > _MANY else high - low + 1, times)
        return _Next(found.first, found.empty or low == 0)

    def _choice(self, ways: float, times: float) -> None:
        """There are so many ways to go on; with infinitely many, as many as characters are left."""
        if not self._counts:
            return
        if times == math.inf:
            raise CostlyRegexError(
                "a repetition without an end holds a part that can match the same characters in different ways, so the time to "
                "find that a text does not match can double with each character"
            )
        if ways == math.inf:
            self.powers += times
        else:
            self.doublings += math.log2(ways) * times


def _overlap(one: list[Ranges], other: list[Ranges]) -> bool:
    """Whether two ways to go on cannot be told apart by their first characters."""
    return all(code_points.intersection(a, b) for a, b in zip(one, other, strict=False))


def _only_looks(branch: list[Any]) -> bool:
    return bool(branch) and all(str(kind) in ("AT", "ASSERT", "ASSERT_NOT") for kind, _ in branch)


def _characters(kind: str, argument: Any, folded: bool) -> Ranges:
    if kind == "ANY":
        return _ALL
    if kind in ("LITERAL", "NOT_LITERAL"):
        ranges = _folded(((argument, argument),), folded)
        return code_points.complement(ranges) if kind == "NOT_LITERAL" else ranges
    ranges = ()
    negated = False
    for member, value in argument:
        match str(member):
            case "NEGATE":
                negated = True
            case "LITERAL":
                ranges = code_points.union(ranges, ((value, value),))
            case "RANGE":
                ranges = code_points.union(ranges, (tuple(value),))
            case _:
                category = _CATEGORIES.get(str(value))
                if category is None:
                    return _ALL
                ranges = code_points.union(ranges, category)
    ranges = _folded(ranges, folded)
    return code_points.complement(ranges) if negated else ranges


def _folded(ranges: Ranges, folded: bool) -> Ranges:
    return code_points.fold_case(ranges, True) if folded and ranges else ranges
