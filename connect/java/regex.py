"""Translates regular expressions of ``java.util.regex`` to Python's ``re``.

It translates what differs: in Java, ``\\w \\d \\s`` and the POSIX classes are ASCII, classes nest and intersect, and ``.`` and
``$`` have five line terminators; Python lacks ``\\Q..\\E``, ``\\h``, ``\\R``, ``\\p{IsGreek}``, flags in the middle, and
lookbehind of bounded width. Rejects what Java rejects, and what ``re`` cannot do (an unknown script, a lookbehind with too many
widths), so that nothing matches differently.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from connect.java import code_points
from connect.java.code_points import Ranges
from connect.java.regex_lookbehind import expand_lookbehind

_GROUP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_REPEAT_BEGUN = re.compile(r"\{\d+(?:,\d*)?")
_PAIR_OR_UNIT = re.compile(r"([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|([0-9a-fA-F]{4})")
"""A pair of ``u`` escapes for one character, or a single one."""
_SIMPLE_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_TERMINATOR = r"(?:\r\n|[\n\r\x85\u2028\u2029])"
_END_OF_LAST_LINE = r"(?:(?=\r\n\Z)|(?<!\r)(?=\n\Z)|(?=[\r\x85\u2028\u2029]?\Z))"
_END_OF_LINE = r"(?:(?=[\r\x85\u2028\u2029])|(?<!\r)(?=\n)|\Z)"
_START_OF_LINE = r"(?:\A|(?<=[\n\x85\u2028\u2029])(?!\Z)|(?<=\r)(?!\n)(?!\Z))"
_NO_BOUNDARY = r"(?!(?u:\b))"  # the empty text has none: Python's \B, before 3.14, says otherwise
_CLUSTER = r"(?:\r\n|(?s:.)[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u200d\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]*)"


class RegexError(ValueError):
    """The expression is invalid, or ``re`` cannot do it."""


@dataclass(frozen=True, slots=True)
class _Flags:
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


_FLAG_LETTERS = {
    "i": "ignore_case", "u": "unicode_case", "m": "multiline", "s": "dot_all", "d": "unix_lines", "x": "comments",
    "U": "unicode_classes",
}  # fmt: skip


def compile_java_regex(pattern: str) -> re.Pattern[str]:
    """Returns the Python pattern that matches like the Java pattern. Use ``fullmatch`` for ``matches()`` and ``search`` for
    ``find()``. Raises :class:`RegexError`."""
    translated = _RegexTranslator(pattern).translate()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, RecursionError, OverflowError) as e:
        raise RegexError(f"{e} in {pattern}") from e


# Large class: a recursive-descent parser whose methods share the position in the text.
class _RegexTranslator:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._groups = 0
        self._names: set[str] = set()

    def translate(self) -> str:
        result = self._alternatives(_Flags(), 0)
        if self._at < len(self._text):
            raise self._error("Unmatched closing ')'", self._at - 1)
        return result

    def _error(self, message: str, index: int | None = None) -> RegexError:
        """Returns the error of PatternSyntaxException, with a mark below the position; by default, that of the next character."""
        if index is None:
            index = min(self._at, len(self._text))
        place = f" near index {index}" if index >= 0 else ""
        mark = f"\n{' ' * index}^" if 0 <= index < len(self._text) else ""
        return RegexError(f"{message}{place}\n{self._text}{mark}")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise self._error("Unexpected end of the expression")
        char = self._text[self._at]
        self._at += 1
        return char

    def _alternatives(self, flags: _Flags, depth: int) -> str:
        """Translates everything up to the group's end. A flag set on the way applies up to there, across alternatives."""
        if depth > 200:
            raise self._error("Groups are nested too deeply")
        outer = flags
        branches: list[str] = []
        segments: list[tuple[_Flags, list[str]]] = [(flags, [])]

        def finish_branch() -> None:
            branches.append("".join([_scoped(outer, inner, "".join(pieces)) for inner, pieces in segments]))

        while self._at < len(self._text) and self._peek() != ")":
            if self._peek() == "|":
                self._at += 1
                finish_branch()
                segments = [(flags, [])]
                continue
            changed = self._flag_switch(flags)
            if changed is not None:
                flags = changed
                segments.append((flags, []))
                continue
            segments[-1][1].append(self._piece(flags, depth))
        finish_branch()
        return "|".join(branches)

    def _flag_switch(self, flags: _Flags) -> _Flags | None:
        """Returns the flags after ``(?i)``; None if there is no such group here."""
        found = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?\)").match(self._text, self._at)
        if found is None:
            return None
        changed = self._changed(flags, found[1], found[2] or "")
        self._at = found.end()
        return changed

    def _changed(self, flags: _Flags, on: str, off: str) -> _Flags:
        members = {name: getattr(flags, name) for name in _FLAG_LETTERS.values()}
        for letters, value in ((on, True), (off, False)):
            for letter in letters:
                if letter not in _FLAG_LETTERS:
                    raise self._error("Unknown inline modifier", self._text.index(letter, self._at))
                members[_FLAG_LETTERS[letter]] = value
        return _Flags(**members)

    def _piece(self, flags: _Flags, depth: int) -> str:
        """Translates one atom with its quantifier."""
        char = self._peek()
        if flags.comments and (char.isspace() or char == "#"):
            self._skip_comment()
            return ""
        if char in "*+?":
            raise self._error(f"Dangling meta character '{char}'")
        if char == "{":
            # It repeats nothing: a{2}{3} is a{2}, followed by the empty text three times.
            self._quantifier(flags)
            return ""
        atom = self._atom(flags, depth)
        if not atom:
            return ""
        count = self._quantifier(flags)
        # Java repeats anchors too, which re rejects.
        return f"(?:{atom}){count}" if count and atom in (r"\A", r"\Z") else atom + count

    def _skip_comment(self) -> None:
        if self._take() == "#":
            while self._at < len(self._text) and self._take() not in "\n\r\x85\u2028\u2029":
                pass

    def _quantifier(self, flags: _Flags) -> str:
        if flags.comments:
            while self._peek() and (self._peek().isspace() or self._peek() == "#"):
                self._skip_comment()
        char = self._peek()
        if char and char in "*+?":
            self._at += 1
            count = char
        elif char == "{":
            found = _REPEAT.match(self._text, self._at)
            if found is None:
                begun = _REPEAT_BEGUN.match(self._text, self._at)
                if begun is not None:
                    raise self._error("Unclosed counted closure", begun.end())
                raise self._error("Illegal repetition", self._at + 1)
            for group in (1, 3):
                if int(found[group] or 0) >= 1 << 31:
                    raise self._error("Illegal repetition range", found.start(group) + 9)
            if found[3] and int(found[3]) < int(found[1]):
                raise self._error("Illegal repetition range", found.end() - 1)
            self._at = found.end()
            count = found[0]
        else:
            return ""
        mode = self._peek()
        if mode and mode in "?+":
            self._at += 1
            count += mode
        if self._peek() and self._peek() in "*+?":
            raise self._error(f"Dangling meta character '{self._peek()}'")
        return count

    def _atom(self, flags: _Flags, depth: int) -> str:
        char = self._take()
        match char:
            case "(":
                return self._group(flags, depth)
            case "[":
                return _class_text(self._class(flags), flags)
            case ".":
                if flags.dot_all:
                    return "(?s:.)"
                return r"[^\n]" if flags.unix_lines else r"[^\n\r\x85\u2028\u2029]"
            case "^":
                if flags.multiline:
                    return r"(?:\A|(?<=\n)(?!\Z))" if flags.unix_lines else _START_OF_LINE
                return r"\A"
            case "$":
                if flags.unix_lines:
                    return r"(?=\n|\Z)" if flags.multiline else r"(?=\n?\Z)"
                return _END_OF_LINE if flags.multiline else _END_OF_LAST_LINE
            case "\\":
                return self._escape(flags)
        return re.escape(char)

    # -- groups

    def _group(self, flags: _Flags, depth: int) -> str:
        if self._peek() != "?":
            self._groups += 1
            return f"({self._rest_of_group(flags, depth)})"
        self._at += 1
        if not self._text[self._at :]:
            raise self._error("Unknown inline modifier")
        head = self._take()
        if head in ":=!>":
            return f"(?{head}{self._rest_of_group(flags, depth)})"
        if head == "<":
            if self._peek() in ("=", "!"):
                kind = self._take()
                before = self._groups
                body = self._rest_of_group(flags, depth)
                try:
                    return expand_lookbehind(kind, body, captures=self._groups != before)
                except ValueError as e:
                    raise self._error(str(e)) from e
            found = _GROUP_NAME.match(self._text, self._at)
            if found is None:
                raise self._error("capturing group name does not start with a Latin letter")
            if self._text[found.end() : found.end() + 1] != ">":
                raise self._error("named capturing group is missing trailing '>'", found.end())
            if found[0] in self._names:
                raise self._error(f"Named capturing group <{found[0]}> is already defined", found.end())
            self._names.add(found[0])
            self._groups += 1
            self._at = found.end() + 1
            return f"(?P<{found[0]}>{self._rest_of_group(flags, depth)})"
        self._at -= 1
        modifiers = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]*))?:").match(self._text, self._at)
        if modifiers is None:
            while self._peek() and self._peek() in _FLAG_LETTERS:
                self._at += 1
            raise self._error("Unknown inline modifier")
        changed = self._changed(flags, modifiers[1], modifiers[2] or "")
        self._at = modifiers.end()
        return _scoped(flags, changed, self._rest_of_group(changed, depth), always=True)

    def _rest_of_group(self, flags: _Flags, depth: int) -> str:
        body = self._alternatives(flags, depth + 1)
        if self._peek() != ")":
            raise self._error("Unclosed group")
        self._at += 1
        return body

    # -- escapes

    def _escape(self, flags: _Flags) -> str:
        char = self._take() if self._at < len(self._text) else ""
        if not char:
            raise self._error("Unexpected internal error")
        if char == "Q":
            return self._quoted()
        if char.isdigit() and char != "0":
            return self._back_reference(char)
        anchors = {"A": r"\A", "z": r"\Z", "Z": _END_OF_LAST_LINE, "G": r"\A", "b": r"(?u:\b)", "B": _NO_BOUNDARY}
        if char == "Z" and flags.unix_lines:
            return r"(?=\n?\Z)"
        if char in anchors:
            return anchors[char]
        if char == "R":
            return _TERMINATOR
        if char == "X":
            return _CLUSTER
        if char == "k":
            found = re.compile(r"<([A-Za-z][A-Za-z0-9]*)>").match(self._text, self._at)
            if found is None or found[1] not in self._names:
                raise self._error("named capturing group does not exist")
            self._at = found.end()
            return f"(?P={found[1]})"
        ranges = self._class_escape(char, flags)
        if ranges is not None:
            return code_points.to_python(ranges)
        return re.escape(self._character_escape(char))

    def _quoted(self) -> str:
        end = self._text.find(r"\E", self._at)
        quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
        self._at = len(self._text) if end < 0 else end + 2
        # A quantifier after \E belongs to the last character, as nothing groups the quoted text.
        return "".join(re.escape(c) for c in quoted) or "(?:)"

    def _back_reference(self, first: str) -> str:
        number = int(first)
        while self._peek().isdigit() and number * 10 + int(self._peek()) <= self._groups:
            number = number * 10 + int(self._take())
        # A group that comes later has matched nothing, so the reference cannot match.
        return rf"(?:\{number})" if number <= self._groups else "(?!)"

    def _class_escape(self, char: str, flags: _Flags) -> Ranges | None:
        if char in "pP":
            if self._peek() == "{":
                end = self._text.find("}", self._at)
                if end < 0:
                    raise self._error("Unclosed character family")
                name = self._text[self._at + 1 : end]
                self._at = end + 1
            else:
                name = self._take()
            negated = name.startswith("^")
            ranges = code_points.property_named(name.removeprefix("^"))
            if ranges is None:
                raise self._error(f"Unknown character property name {{{name}}}", self._at - 1)
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

    def _character_escape(self, char: str) -> str:
        """Returns the character of an escape, inside or outside a class."""
        if char in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[char]
        match char:
            case "0":
                found = re.compile(r"[0-3]?[0-7]{1,2}").match(self._text, self._at)
                if found is None:
                    raise self._error("Illegal octal escape sequence")
                self._at = found.end()
                return chr(int(found[0], 8))
            case "x":
                found = re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\}").match(self._text, self._at)
                if found is None:
                    raise self._error("Illegal hexadecimal escape sequence")
                self._at = found.end()
                return self._char(int(found[1] or found[2], 16))
            case "u":
                found = _PAIR_OR_UNIT.match(self._text, self._at)
                if found is None:
                    raise self._error("Illegal Unicode escape sequence")
                self._at = found.end()
                units = [int(unit, 16) for unit in found.groups() if unit]
                return b"".join([unit.to_bytes(2, "little") for unit in units]).decode("utf-16-le", "surrogatepass")
            case "c":
                return chr(ord(self._take()) ^ 64)
            case "N":
                found = re.compile(r"\{([^}]+)\}").match(self._text, self._at)
                try:
                    named = unicodedata.lookup(found[1]) if found is not None else ""
                except KeyError:
                    named = ""
                if found is None or not named:
                    raise self._error("Illegal character name escape sequence")
                self._at = found.end()
                return named
        if char.isascii() and char.isalpha():
            raise self._error("Illegal/unsupported escape sequence", self._at - 1)
        return char

    def _char(self, point: int) -> str:
        if point > code_points.LAST:
            raise self._error("Hexadecimal codepoint is too big")
        return chr(point)

    # -- character classes

    def _class(self, flags: _Flags) -> Ranges:
        """Parses the character class after ``[``, up to its ``]``."""
        negated = self._peek() == "^"
        if negated:
            self._at += 1
        result: Ranges | None = None
        current: Ranges = ()
        empty = True
        while True:
            if self._at >= len(self._text):
                raise self._error("Unclosed character class", self._at - 1)
            char = self._peek()
            if char == "]" and (not empty or result is not None):
                self._at += 1
                break
            if flags.comments and (char.isspace() or char == "#"):
                self._skip_comment()
                continue
            if self._text.startswith("&&", self._at):
                self._at += 2
                while self._peek() == "&":
                    self._at += 1
                if not empty:
                    result = current if result is None else code_points.intersection(result, current)
                current, empty = (), True
                continue
            self._at += 1
            current = code_points.union(current, self._class_member(char, flags))
            empty = False
        if not empty:
            result = current if result is None else code_points.intersection(result, current)
        ranges = result or ()
        return code_points.complement(ranges) if negated else ranges

    def _class_member(self, char: str, flags: _Flags) -> Ranges:
        if char == "[":
            return self._class(flags)
        if char == "\\":
            escape = self._take()
            if escape == "Q":
                end = self._text.find(r"\E", self._at)
                end = len(self._text) if end < 0 else end
                quoted, self._at = self._text[self._at : end], end + 2
                return self._cased(code_points.of_text(quoted), flags)
            ranges = self._class_escape(escape, flags)
            if ranges is not None:
                return ranges
            if escape == "R" or escape == "X" or (escape.isdigit() and escape != "0"):
                raise self._error("Illegal/unsupported escape sequence", self._at - 1)
            char = self._character_escape(escape)
        low = ord(char)
        following = self._text[self._at + 1 : self._at + 2]
        if self._peek() == "-" and following and following not in "[]" and not self._text.startswith("-&&", self._at):
            self._at += 1
            high_char = self._take()
            if high_char == "\\":
                high_char = self._character_escape(self._take())
            if ord(high_char) < low:
                raise self._error("Illegal character range", self._at - 1)
            return self._cased(((low, ord(high_char)),), flags)
        return self._cased(((low, low),), flags)

    def _cased(self, ranges: Ranges, flags: _Flags) -> Ranges:
        return code_points.fold_case(ranges, flags.unicode_case) if flags.ignore_case else ranges


def _scoped(outer: _Flags, inner: _Flags, body: str, *, always: bool = False) -> str:
    """Scopes the inner flags to the body if they differ from the outer ones; with ``always``, returns a group in any case."""
    if inner.python == outer.python:
        return f"(?:{body})" if always else body
    if not body:
        return ""
    if "i" not in inner.python:
        return f"(?-i:{body})"
    ascii_again = "a" if "u" in outer.python and "u" not in inner.python else ""
    return f"(?{ascii_again}{inner.python}:{body})"


def _class_text(ranges: Ranges, flags: _Flags) -> str:
    text = code_points.to_python(ranges)
    # The set already contains both cases where needed; Python must not fold what a negation excluded.
    return f"(?-i:{text})" if flags.ignore_case and ranges else text
