"""Reads and writes Java ``.properties`` files; knows the line of every entry.

The format is that of ``java.util.Properties``. Java reads such files as ISO-8859-1 with escapes such as ``\\u00e9``. Here, a
file that is valid UTF-8 is read as UTF-8, because that is what people write, and any other file as ISO-8859-1. Escapes work in
both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import javaproperties

from connect.errors import ConfigError

_LINE_END = re.compile(r"\r\n|\r|\n")
_BAD_ESCAPE = re.compile(r"\\u(?![0-9a-fA-F]{4})")


@dataclass(frozen=True, slots=True)
class Entry:
    """One ``key=value`` of a file. ``line`` is its first line, counted from 1; a value may span several lines."""

    key: str
    value: str
    line: int


class Properties(Mapping[str, str]):
    """The content of a properties file: a mapping, and the line of each key. Immutable.

    The last entry of a duplicate key counts, as in Java; :meth:`duplicates` returns the others.
    """

    def __init__(self, path: str, entries: Iterable[Entry], encoding: str = "utf-8") -> None:
        self.path = path
        self.entries = tuple(entries)
        self.encoding = encoding
        """``utf-8`` or ``iso-8859-1``: the encoding of the file."""
        self._values = {entry.key: entry.value for entry in self.entries}

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Properties({self.path!r}, {len(self)} keys)"  # values may be secrets

    def line_of(self, key: str) -> int | None:
        """Returns the line of the entry that counts, or None."""
        return next((entry.line for entry in reversed(self.entries) if entry.key == key), None)

    def location(self, key: str) -> str:
        """Returns ``file:line`` of a key, or the file alone."""
        line = self.line_of(key)
        return self.path if line is None else f"{self.path}:{line}"

    def duplicates(self) -> list[tuple[Entry, Entry]]:
        """Returns pairs of an entry and the later one that overrides it."""
        last = {entry.key: entry for entry in self.entries}
        return [(entry, last[entry.key]) for entry in self.entries if last[entry.key] is not entry]


def read_properties(path: str | Path) -> Properties:
    """Reads a file. Raises ConfigError with ``file:line`` when it cannot be read or has a malformed escape."""
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise ConfigError(f"{path}: cannot read the file: {e.strerror or e}") from e
    try:
        return parse_properties(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        return parse_properties(data.decode("iso-8859-1"), str(path), encoding="iso-8859-1")


def parse_properties(text: str, path: str, *, encoding: str = "utf-8") -> Properties:
    """Parses a text; ``path`` is for messages. Raises ConfigError with ``path:line``."""
    return Properties(path, _entries(text, path), encoding)


def write_properties(values: Mapping[str, str]) -> str:
    """Formats these values, in their order; in ASCII, so that every reader accepts it."""
    return "".join(f"{javaproperties.join_key_value(key, value)}\n" for key, value in values.items())


def _entries(text: str, path: str) -> Iterator[Entry]:
    line = 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                yield Entry(element.key, element.value, line)
            line += len(_LINE_END.findall(element.source))
    except javaproperties.InvalidUEscapeError as e:
        raise ConfigError(
            f"{path}:{_line_of_bad_escape(text, line)}: malformed escape {e.escape}: \\u takes four hexadecimal digits"
        ) from e


def _line_of_bad_escape(text: str, start_line: int) -> int:
    """Returns the line of the escape, which may be a later line of the entry that starts at ``start_line``."""
    lines = _LINE_END.split(text)
    for number in range(start_line, len(lines) + 1):
        if _BAD_ESCAPE.search(lines[number - 1].replace("\\\\", "")):
            return number
    return start_line
