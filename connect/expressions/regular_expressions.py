"""Regular expressions for use on data: Java's, kept from running away.

Python's matcher goes back and tries again, and for some patterns the tries grow with a power of the text's length, or double
with each character. So each pattern is looked at first (:mod:`connect.expressions.regex_cost`): one that may double is refused,
and the others get the longest text for which the tries stay below a bound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from connect.expressions.errors import EvaluationError
from connect.expressions.regex_cost import CostlyRegexError, longest_subject
from connect.java.regex import RegexError, compile_java_regex

MAX_PATTERN_LENGTH = 2_000
"""Characters a pattern may have."""
_FLAGS = {"i": "i", "m": "m", "s": "s", "g": "", "u": "", "y": ""}


@dataclass(frozen=True, slots=True)
class Regex:
    """A compiled pattern. The methods raise EvaluationError for a text that is too long for it."""

    text: str
    compiled: re.Pattern[str]
    max_length_whole: int
    max_length_part: int
    replaces_all: bool = False
    """It had JavaScript's flag ``g``."""

    def matches(self, subject: str) -> bool:
        """Whether the whole text matches."""
        self._check(subject, self.max_length_whole)
        return self.compiled.fullmatch(subject) is not None

    def finds(self, subject: str) -> bool:
        """Whether a part of the text matches."""
        self._check(subject, self.max_length_part)
        return self.compiled.search(subject) is not None

    def search(self, subject: str) -> re.Match[str] | None:
        self._check(subject, self.max_length_part)
        return self.compiled.search(subject)

    def find_all(self, subject: str) -> list[re.Match[str]]:
        self._check(subject, self.max_length_part)
        return list(self.compiled.finditer(subject))

    def _check(self, subject: str, longest: int) -> None:
        if len(subject) > longest:
            raise EvaluationError(
                f"the text has {len(subject)} characters, and the regular expression {self.text} might take too long for more "
                f"than {longest}; make fewer of its parts open to the same characters"
            )


@dataclass(frozen=True, slots=True)
class Match:
    """What ``text =~ pattern`` gives: true if a part matches."""

    regex: Regex
    subject: str

    def __bool__(self) -> bool:
        return self.regex.finds(self.subject)

    def group(self, number: int = 0) -> str | None:
        """A group of the first match; null where there is none."""
        found = self.regex.search(self.subject)
        if found is None:
            raise EvaluationError(f"no part of the text matches {self.regex.text}")
        if not isinstance(number, int) or not 0 <= number <= self.regex.compiled.groups:
            raise EvaluationError(f"{self.regex.text} has {self.regex.compiled.groups} groups, and no number {number}")
        return found[number]


@lru_cache(maxsize=256)
def compile_regex(pattern: str, flags: str = "") -> Regex:
    """The pattern, from the cache or compiled now. Raises ValueError with what is wrong with it."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(f"the regular expression has {len(pattern)} characters; {MAX_PATTERN_LENGTH} are the most")
    unknown = sorted(set(flags) - set(_FLAGS))
    if unknown:
        raise ValueError(f"the regular expression has the flag {unknown[0]}; there are {', '.join(_FLAGS)}")
    inline = "".join(dict.fromkeys(_FLAGS[flag] for flag in flags))
    try:
        compiled = compile_java_regex(f"(?{inline}){pattern}" if inline else pattern)
        whole, part = longest_subject(compiled, whole=True), longest_subject(compiled, whole=False)
    except (RegexError, CostlyRegexError) as e:
        reason = str(e).partition("\n")[0]
        raise ValueError(f"the regular expression {pattern} cannot be used: {reason}") from e
    return Regex(pattern, compiled, whole, part, "g" in flags)


def compile_data_regex(pattern: str) -> Regex:
    """As :func:`compile_regex`, for a pattern that the data gave: raises EvaluationError."""
    try:
        return compile_regex(pattern)
    except ValueError as e:
        raise EvaluationError(str(e)) from e
