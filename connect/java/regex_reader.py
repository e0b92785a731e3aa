"""Reads the characters of a regular expression of Java."""

from __future__ import annotations

from dataclasses import dataclass


class RegexError(ValueError):
    """The expression is invalid, or ``re`` cannot do it."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that apply to a part of an expression."""

    ignore_case: bool = False
    unicode_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    unix_lines: bool = False
    comments: bool = False
    unicode_classes: bool = False

    @property
    def python(self) -> str:
        """The inline flags of the Python pattern; the others need none after translation."""
        return ("i" if self.ignore_case else "") + ("u" if self.ignore_case and self.unicode_case else "")


class PatternReader:
    """A regular expression, and the position in it of those who parse it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def error(self, message: str, index: int | None = None) -> RegexError:
        """Returns the error of PatternSyntaxException, with a mark below the position; by default, that of the next character."""
        if index is None:
            index = min(self.at, len(self.text))
        place = f" near index {index}" if index >= 0 else ""
        mark = f"\n{' ' * index}^" if 0 <= index < len(self.text) else ""
        return RegexError(f"{message}{place}\n{self.text}{mark}")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        if self.at >= len(self.text):
            raise self.error("Unexpected end of the expression")
        char = self.text[self.at]
        self.at += 1
        return char

    def skip_comment(self) -> None:
        if self.take() == "#":
            while self.at < len(self.text) and self.take() not in "\n\r\x85\u2028\u2029":
                pass
