"""What one evaluation may make at most."""

from __future__ import annotations

from connect.expressions.errors import EvaluationError

MOST_TEXT = 1_000_000
"""Characters of a text that an expression puts together."""
MOST_MEMBERS = 10_000
"""Members of a list that an expression makes."""
MOST_BITS = 4_096
"""Bits of a whole number that an expression calculates."""


def check_text(length: int) -> None:
    if length > MOST_TEXT:
        raise EvaluationError(f"a text of {length} characters would be made; {MOST_TEXT} are the most")


def check_members(count: int) -> None:
    if count > MOST_MEMBERS:
        raise EvaluationError(f"a list of {count} members would be made; {MOST_MEMBERS} are the most")


def check_bits(bits: int) -> None:
    if bits > MOST_BITS:
        raise EvaluationError(f"a number of {bits} bits would be calculated; {MOST_BITS} are the most")
