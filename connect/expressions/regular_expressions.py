"""Java regular expressions for matching data, with bounded run time.

Python's matcher backtracks: for some patterns, its run time grows with a power of the text length, or doubles with each
character. :mod:`connect.expressions.regex_cost` therefore analyzes each pattern: one whose run time may double is rejected, any
other gets a maximum text length that bounds the run time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from connect.expressions.errors import EvaluationError
from connect.expressions.regex_cost import CostlyRegexError, longest_subject
from connect.java.regex import RegexError, compile_java_regex

MAX_PATTERN_LENGTH = 2_000
"""Maximum number of characters of a pattern."""
_FLAGS = {"i": "i", "m": "m", "s": "s", "g": "", "u": "", "y": ""}


@dataclass(frozen=True, slots=True)
class Regex:
    """A compiled pattern. Its methods raise EvaluationError for text that is too long for the pattern."""

    text: str
    compiled: re.Pattern[str]
    max_length_whole: int
    max_length_part: int
    replaces_all: bool = False
    """Whether it has JavaScript's flag ``g``."""

    def matches(self, subject: str) -> bool:
        """Whether the whole text matches."""
        self._check(subject, self.max_length_whole)
        return self.compiled.fullmatch(subject) is not None

    def finds(self, subject: str) -> bool:
        """Whether part of the text matches."""
        self._check(subject, self.max_length_part)
        return self.compiled.search(subject) is not None

    def search(self, subject: str) -> re.Match[str] | None:
        self._check(subject, self.max_length_part)
        return self.compiled.search(subject)

    def find_all(self, subject: str) -> list[re.Match[str]]:
        self._check(subject, self.max_length_part)
        return list(self.compiled.finditer(subject))

    def _check(self, subject: str, max_length: int) -> None:
        if len(subject) > max_length:
            raise EvaluationError(
                f"the text has {len(subject)} characters, but the regular expression {self.text} might take too long for more "
                f"than {max_length}; use fewer parts that can match the same characters"
            )


@dataclass(frozen=True, slots=True)
class Match:
    """The result of ``text =~ pattern``: true if part of the text matches."""

    regex: Regex
    subject: str

    def __bool__(self) -> bool:
        return self.regex.finds(self.subject)

    def group(self, number: int = 0) -> str | None:
        """A group of the first match; null if the group did not match."""
        found = self.regex.search(self.subject)
        if found is None:
            raise EvaluationError(f"the text has no match for {self.regex.text}")
        if not isinstance(number, int) or not 0 <= number <= self.regex.compiled.groups:
            raise EvaluationError(f"{self.regex.text} has {self.regex.compiled.groups} groups, but no group {number}")
        return found[number]


@lru_cache(maxsize=256)
def compile_regex(pattern: str, flags: str = "") -> Regex:
    """Compiles a pattern, with a cache. Raises ValueError with the reason."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(f"the regular expression has {len(pattern)} characters; the limit is {MAX_PATTERN_LENGTH}")
    unknown = sorted(set(flags) - set(_FLAGS))
    if unknown:
        raise ValueError(f"the regular expression has the unknown flag {unknown[0]}; expected {', '.join(_FLAGS)}")
    inline = "".join(dict.fromkeys(_FLAGS[flag] for flag in flags))
    try:
        compiled = compile_java_regex(f"(?{inline}){pattern}" if inline else pattern)
        whole, part = longest_subject(compiled, whole=True), longest_subject(compiled, whole=False)
    except (RegexError, CostlyRegexError) as e:
        reason = str(e).partition("\n")[0]
        raise ValueError(f"the regular expression {pattern} cannot be used: {reason}") from e
    return Regex(pattern, compiled, whole, part, "g" in flags)


def compile_data_regex(pattern: str) -> Regex:
    """Compiles a pattern from the data, as :func:`compile_regex`. Raises EvaluationError."""
    try:
        return compile_regex(pattern)
    except ValueError as e:
        raise EvaluationError(str(e)) from e
