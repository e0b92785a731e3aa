"""Parses what stands for characters in a regular expression of Java: escapes and character classes."""

from __future__ import annotations

import re
import unicodedata

from connect.java import code_points
from connect.java.code_points import Ranges
from connect.java.regex_reader import Flags, PatternReader

_PAIR_OR_UNIT = re.compile(r"([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|([0-9a-fA-F]{4})")
"""A pair of ``u`` escapes for one character, or a single one."""
_SIMPLE_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}


class CharacterParser:
    """Parses at the position of a reader."""

    def __init__(self, reader: PatternReader) -> None:
        self._reader = reader

    def escaped_set(self, char: str, flags: Flags) -> Ranges | None:
        """Parses the escape of a set of characters, such as ``\\d``, from behind ``char``; None if ``char`` begins none."""
        if char in "pP":
            if self._reader.peek() == "{":
                end = self._reader.text.find("}", self._reader.at)
                if end < 0:
                    raise self._reader.error("Unclosed character family")
                name = self._reader.text[self._reader.at + 1 : end]
                self._reader.at = end + 1
            else:
                name = self._reader.take()
            negated = name.startswith("^")
            ranges = code_points.property_named(name.removeprefix("^"))
            if ranges is None:
                raise self._reader.error(f"Unknown character property name {{{name}}}", self._reader.at - 1)
            if flags.ignore_case and name in ("Lower", "Upper", "Ll", "Lu", "Lt", "IsLowercase", "IsUppercase"):
                ranges = code_points.fold_case(ranges, flags.unicode_case or name not in ("Lower", "Upper"))
            return code_points.complement(ranges) if (char == "P") != negated else ranges
        unicode_sets = {
            "d": ("unicode digit", str.isdecimal),
            "s": ("unicode space", str.isspace),
            "w": ("unicode word", lambda c: c.isalnum() or c == "_" or unicodedata.category(c) in ("Mn", "Mc", "Me", "Pc")),
        }
        sets = {
            "d": code_points.DIGIT, "s": code_points.SPACE, "w": code_points.WORD, "h": code_points.HORIZONTAL_SPACE,
            "v": code_points.VERTICAL_SPACE,
        }  # fmt: skip
        kind = char.lower()
        if kind not in sets:
            return None
        ranges = code_points.matching(*unicode_sets[kind]) if flags.unicode_classes and kind in unicode_sets else sets[kind]
        return code_points.complement(ranges) if char.isupper() else ranges

    def escaped_character(self, char: str) -> str:
        """Returns the character of an escape, inside or outside a class."""
        if char in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[char]
        match char:
            case "0":
                found = re.compile(r"[0-3]?[0-7]{1,2}").match(self._reader.text, self._reader.at)
                if found is None:
                    raise self._reader.error("Illegal octal escape sequence")
                self._reader.at = found.end()
                return chr(int(found[0], 8))
            case "x":
                found = re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\}").match(self._reader.text, self._reader.at)
                if found is None:
                    raise self._reader.error("Illegal hexadecimal escape sequence")
                self._reader.at = found.end()
                return self._char(int(found[1] or found[2], 16))
            case "u":
                found = _PAIR_OR_UNIT.match(self._reader.text, self._reader.at)
                if found is None:
                    raise self._reader.error("Illegal Unicode escape sequence")
                self._reader.at = found.end()
                units = [int(unit, 16) for unit in found.groups() if unit]
                return b"".join([unit.to_bytes(2, "little") for unit in units]).decode("utf-16-le", "surrogatepass")
            case "c":
                return chr(ord(self._reader.take()) ^ 64)
            case "N":
                found = re.compile(r"\{([^}]+)\}").match(self._reader.text, self._reader.at)
                try:
                    named = unicodedata.lookup(found[1]) if found is not None else ""
                except KeyError:
                    named = ""
                if found is None or not named:
                    raise self._reader.error("Illegal character name escape sequence")
                self._reader.at = found.end()
                return named
        if char.isascii() and char.isalpha():
            raise self._reader.error("Illegal/unsupported escape sequence", self._reader.at - 1)
        return char

    def _char(self, point: int) -> str:
        if point > code_points.LAST:
            raise self._reader.error("Hexadecimal codepoint is too big")
        return chr(point)

    def parse(self, flags: Flags) -> Ranges:
        """Parses the character class after ``[``, up to its ``]``."""
        negated = self._reader.peek() == "^"
        if negated:
            self._reader.at += 1
        result: Ranges | None = None
        current: Ranges = ()
        empty = True
        while True:
            if self._reader.at >= len(self._reader.text):
                raise self._reader.error("Unclosed character class", self._reader.at - 1)
            char = self._reader.peek()
            if char == "]" and (not empty or result is not None):
                self._reader.at += 1
                break
            if flags.comments and (char.isspace() or char == "#"):
                self._reader.skip_comment()
                continue
            if self._reader.text.startswith("&&", self._reader.at):
                self._reader.at += 2
                while self._reader.peek() == "&":
                    self._reader.at += 1
                if not empty:
                    result = current if result is None else code_points.intersection(result, current)
                current, empty = (), True
                continue
            self._reader.at += 1
            current = code_points.union(current, self._member(char, flags))
            empty = False
        if not empty:
            result = current if result is None else code_points.intersection(result, current)
        ranges = result or ()
        return code_points.complement(ranges) if negated else ranges

    def _member(self, char: str, flags: Flags) -> Ranges:
        reader = self._reader
        if char == "[":
            return self.parse(flags)
        if char == "\\":
            escape = reader.take()
            if escape == "Q":
                end = reader.text.find(r"\E", reader.at)
                end = len(reader.text) if end < 0 else end
                quoted, reader.at = reader.text[reader.at : end], end + 2
                return self._cased(code_points.of_text(quoted), flags)
            ranges = self.escaped_set(escape, flags)
            if ranges is not None:
                return ranges
            if escape == "R" or escape == "X" or (escape.isdigit() and escape != "0"):
                raise reader.error("Illegal/unsupported escape sequence", reader.at - 1)
            char = self.escaped_character(escape)
        low = ord(char)
        following = reader.text[reader.at + 1 : reader.at + 2]
        if reader.peek() == "-" and following and following not in "[]" and not reader.text.startswith("-&&", reader.at):
            reader.at += 1
            high_char = reader.take()
            if high_char == "\\":
                high_char = self.escaped_character(reader.take())
            if ord(high_char) < low:
                raise reader.error("Illegal character range", reader.at - 1)
            return self._cased(((low, ord(high_char)),), flags)
        return self._cased(((low, low),), flags)

    def _cased(self, ranges: Ranges, flags: Flags) -> Ranges:
        return code_points.fold_case(ranges, flags.unicode_case) if flags.ignore_case else ranges
