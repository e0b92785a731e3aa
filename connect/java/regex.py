"""Translates regular expressions of ``java.util.regex`` to Python's ``re``.

It translates what differs: in Java, ``\\w \\d \\s`` and the POSIX classes are ASCII, classes nest and intersect, and ``.`` and
``$`` have five line terminators; Python lacks ``\\Q..\\E``, ``\\h``, ``\\R``, ``\\p{IsGreek}``, flags in the middle, and
lookbehind of bounded width. Rejects what Java rejects, and what ``re`` cannot do (an unknown script, a lookbehind with too many
widths), so that nothing matches differently.
"""

from __future__ import annotations

import re

from connect.java import code_points
from connect.java.code_points import Ranges
from connect.java.regex_classes import CharacterParser
from connect.java.regex_lookbehind import expand_lookbehind
from connect.java.regex_reader import Flags, PatternReader, RegexError

_GROUP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_REPEAT_BEGUN = re.compile(r"\{\d+(?:,\d*)?")
_TERMINATOR = r"(?:\r\n|[\n\r\x85\u2028\u2029])"
_END_OF_LAST_LINE = r"(?:(?=\r\n\Z)|(?<!\r)(?=\n\Z)|(?=[\r\x85\u2028\u2029]?\Z))"
_END_OF_LINE = r"(?:(?=[\r\x85\u2028\u2029])|(?<!\r)(?=\n)|\Z)"
_START_OF_LINE = r"(?:\A|(?<=[\n\x85\u2028\u2029])(?!\Z)|(?<=\r)(?!\n)(?!\Z))"
_NO_BOUNDARY = r"(?!(?u:\b))"  # the empty text has none: Python's \B, before 3.14, says otherwise
_CLUSTER = r"(?:\r\n|(?s:.)[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u200d\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]*)"
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


class _RegexTranslator:
    def __init__(self, pattern: str) -> None:
        self._reader = PatternReader(pattern)
        self._characters = CharacterParser(self._reader)
        self._groups = 0
        self._names: set[str] = set()

    def translate(self) -> str:
        result = self._alternatives(Flags(), 0)
        if self._reader.at < len(self._reader.text):
            raise self._reader.error("Unmatched closing ')'", self._reader.at - 1)
        return result

    def _alternatives(self, flags: Flags, depth: int) -> str:
        """Translates everything up to the group's end. A flag set on the way applies up to there, across alternatives."""
        if depth > 200:
            raise self._reader.error("Groups are nested too deeply")
        outer = flags
        branches: list[str] = []
        segments: list[tuple[Flags, list[str]]] = [(flags, [])]

        def finish_branch() -> None:
            branches.append("".join([_scoped(outer, inner, "".join(pieces)) for inner, pieces in segments]))

        while self._reader.at < len(self._reader.text) and self._reader.peek() != ")":
            if self._reader.peek() == "|":
                self._reader.at += 1
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

    def _flag_switch(self, flags: Flags) -> Flags | None:
        """Returns the flags after ``(?i)``; None if there is no such group here."""
        found = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?\)").match(self._reader.text, self._reader.at)
        if found is None:
            return None
        changed = self._changed(flags, found[1], found[2] or "")
        self._reader.at = found.end()
        return changed

    def _changed(self, flags: Flags, on: str, off: str) -> Flags:
        members = {name: getattr(flags, name) for name in _FLAG_LETTERS.values()}
        for letters, value in ((on, True), (off, False)):
            for letter in letters:
                if letter not in _FLAG_LETTERS:
                    raise self._reader.error("Unknown inline modifier", self._reader.text.index(letter, self._reader.at))
                members[_FLAG_LETTERS[letter]] = value
        return Flags(**members)

    def _piece(self, flags: Flags, depth: int) -> str:
        """Translates one atom with its quantifier."""
        char = self._reader.peek()
        if flags.comments and (char.isspace() or char == "#"):
            self._reader.skip_comment()
            return ""
        if char in "*+?":
            raise self._reader.error(f"Dangling meta character '{char}'")
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

    def _quantifier(self, flags: Flags) -> str:
        if flags.comments:
            while self._reader.peek() and (self._reader.peek().isspace() or self._reader.peek() == "#"):
                self._reader.skip_comment()
        char = self._reader.peek()
        if char and char in "*+?":
            self._reader.at += 1
            count = char
        elif char == "{":
            found = _REPEAT.match(self._reader.text, self._reader.at)
            if found is None:
                begun = _REPEAT_BEGUN.match(self._reader.text, self._reader.at)
                if begun is not None:
                    raise self._reader.error("Unclosed counted closure", begun.end())
                raise self._reader.error("Illegal repetition", self._reader.at + 1)
            for group in (1, 3):
                if int(found[group] or 0) >= 1 << 31:
                    raise self._reader.error("Illegal repetition range", found.start(group) + 9)
            if found[3] and int(found[3]) < int(found[1]):
                raise self._reader.error("Illegal repetition range", found.end() - 1)
            self._reader.at = found.end()
            count = found[0]
        else:
            return ""
        mode = self._reader.peek()
        if mode and mode in "?+":
            self._reader.at += 1
            count += mode
        if self._reader.peek() and self._reader.peek() in "*+?":
            raise self._reader.error(f"Dangling meta character '{self._reader.peek()}'")
        return count

    def _atom(self, flags: Flags, depth: int) -> str:
        char = self._reader.take()
        match char:
            case "(":
                return self._group(flags, depth)
            case "[":
                return _class_text(self._characters.parse(flags), flags)
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

    def _group(self, flags: Flags, depth: int) -> str:
        if self._reader.peek() != "?":
            self._groups += 1
            return f"({self._rest_of_group(flags, depth)})"
        self._reader.at += 1
        if not self._reader.text[self._reader.at :]:
            raise self._reader.error("Unknown inline modifier")
        head = self._reader.take()
        if head in ":=!>":
            return f"(?{head}{self._rest_of_group(flags, depth)})"
        if head == "<":
            if self._reader.peek() in ("=", "!"):
                kind = self._reader.take()
                before = self._groups
                body = self._rest_of_group(flags, depth)
                try:
                    return expand_lookbehind(kind, body, captures=self._groups != before)
                except ValueError as e:
                    raise self._reader.error(str(e)) from e
            found = _GROUP_NAME.match(self._reader.text, self._reader.at)
            if found is None:
                raise self._reader.error("capturing group name does not start with a Latin letter")
            if self._reader.text[found.end() : found.end() + 1] != ">":
                raise self._reader.error("named capturing group is missing trailing '>'", found.end())
            if found[0] in self._names:
                raise self._reader.error(f"Named capturing group <{found[0]}> is already defined", found.end())
            self._names.add(found[0])
            self._groups += 1
            self._reader.at = found.end() + 1
            return f"(?P<{found[0]}>{self._rest_of_group(flags, depth)})"
        self._reader.at -= 1
        modifiers = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]*))?:").match(self._reader.text, self._reader.at)
        if modifiers is None:
            while self._reader.peek() and self._reader.peek() in _FLAG_LETTERS:
                self._reader.at += 1
            raise self._reader.error("Unknown inline modifier")
        changed = self._changed(flags, modifiers[1], modifiers[2] or "")
        self._reader.at = modifiers.end()
        return _scoped(flags, changed, self._rest_of_group(changed, depth), always=True)

    def _rest_of_group(self, flags: Flags, depth: int) -> str:
        body = self._alternatives(flags, depth + 1)
        if self._reader.peek() != ")":
            raise self._reader.error("Unclosed group")
        self._reader.at += 1
        return body

    # -- escapes

    def _escape(self, flags: Flags) -> str:
        char = self._reader.take() if self._reader.at < len(self._reader.text) else ""
        if not char:
            raise self._reader.error("Unexpected internal error")
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
            found = re.compile(r"<([A-Za-z][A-Za-z0-9]*)>").match(self._reader.text, self._reader.at)
            if found is None or found[1] not in self._names:
                raise self._reader.error("named capturing group does not exist")
            self._reader.at = found.end()
            return f"(?P={found[1]})"
        ranges = self._characters.escaped_set(char, flags)
        if ranges is not None:
            return code_points.to_python(ranges)
        return re.escape(self._characters.escaped_character(char))

    def _quoted(self) -> str:
        end = self._reader.text.find(r"\E", self._reader.at)
        quoted = self._reader.text[self._reader.at :] if end < 0 else self._reader.text[self._reader.at : end]
        self._reader.at = len(self._reader.text) if end < 0 else end + 2
        # A quantifier after \E belongs to the last character, as nothing groups the quoted text.
        return "".join(re.escape(c) for c in quoted) or "(?:)"

    def _back_reference(self, first: str) -> str:
        number = int(first)
        while self._reader.peek().isdigit() and number * 10 + int(self._reader.peek()) <= self._groups:
            number = number * 10 + int(self._reader.take())
        # A group that comes later has matched nothing, so the reference cannot match.
        return rf"(?:\{number})" if number <= self._groups else "(?!)"


def _scoped(outer: Flags, inner: Flags, body: str, *, always: bool = False) -> str:
    """Scopes the inner flags to the body if they differ from the outer ones; with ``always``, returns a group in any case."""
    if inner.python == outer.python:
        return f"(?:{body})" if always else body
    if not body:
        return ""
    if "i" not in inner.python:
        return f"(?-i:{body})"
    ascii_again = "a" if "u" in outer.python and "u" not in inner.python else ""
    return f"(?{ascii_again}{inner.python}:{body})"


def _class_text(ranges: Ranges, flags: Flags) -> str:
    text = code_points.to_python(ranges)
    # The set already contains both cases where needed; Python must not fold what a negation excluded.
    return f"(?-i:{text})" if flags.ignore_case and ranges else text


__all__ = ["RegexError", "compile_java_regex"]
