"""Replacement text of ``Matcher.replaceFirst``: ``$1``, ``${name}``, and backslash escapes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from connect.errors import DataError

_NAME = re.compile(r"[A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A compiled replacement for one pattern. An invalid one fails at the first match, as in Java."""

    parts: tuple[str | int, ...]
    """Texts and group numbers."""
    error: str | None = None

    def replace_first(self, pattern: re.Pattern[str], text: str) -> str:
        """Returns the text with the first match replaced. Raises DataError if there is a match and the replacement is invalid."""
        found = pattern.search(text)
        if found is None:
            return text
        if self.error is not None:
            raise DataError(self.error)
        return text[: found.start()] + "".join(self._expanded(found)) + text[found.end() :]

    def _expanded(self, found: re.Match[str]) -> list[str]:
        return [part if isinstance(part, str) else found[part] or "" for part in self.parts]


def compile_replacement(text: str, pattern: re.Pattern[str]) -> Replacement:
    """Compiles a replacement. A number extends as long as there is such a group: with one group, ``$12`` is group 1 and a 2."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\":
            if at == len(text):
                return Replacement((), "character to be escaped is missing")
            parts.append(text[at])
            at += 1
        elif char == "$":
            try:
                group, at = _group(text, at, pattern)
            except ValueError as e:
                return Replacement((), str(e))
            parts.append(group)
        else:
            parts.append(char)
    return Replacement(tuple(parts))


def _group(text: str, at: int, pattern: re.Pattern[str]) -> tuple[int, int]:
    if at == len(text):
        raise ValueError("Illegal group reference: group index is missing")
    if text[at] == "{":
        found = _NAME.match(text, at + 1)
        name = "" if found is None else found[0]
        if not name:
            raise ValueError("named capturing group has 0 length name")
        end = at + 1 + len(name)
        if text[end : end + 1] != "}":
            raise ValueError("named capturing group is missing trailing '}'")
        if name[0].isdigit():
            raise ValueError(f"capturing group name {{{name}}} starts with digit character")
        if name not in pattern.groupindex:
            raise ValueError(f"No group with name {{{name}}}")
        return pattern.groupindex[name], end + 1
    if not (text[at].isascii() and text[at].isdigit()):
        raise ValueError("Illegal group reference")
    number, at = int(text[at]), at + 1
    if number > pattern.groups:
        raise ValueError(f"No group {number}")
    while at < len(text) and text[at].isascii() and text[at].isdigit() and number * 10 + int(text[at]) <= pattern.groups:
        number, at = number * 10 + int(text[at]), at + 1
    return number, at
