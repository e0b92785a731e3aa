"""Keys of rows as Debezium stores them in offsets.

Source: Debezium's AbstractIncrementalSnapshotContext, which serializes the key of a row as a Java array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.errors import DataError
from connect.java.serialization import JavaType, parse_java_array, write_java_array

Position = tuple[str | None, ...]
"""The key of a row, as texts of the server; None is null."""


@dataclass(frozen=True, slots=True)
class JavaKeys:
    """Converts keys of one database. ``values`` says what its JDBC driver returns for a type, by name.

    Its function raises DataError for a text without such a value. ``text`` turns the value into the server's text, and raises
    DataError if it cannot.
    """

    values: Mapping[str, tuple[JavaType, Callable[[str], Any]]]
    text: Callable[[Any], str | None]

    def write(self, position: Position | None, types: Sequence[str]) -> str | None:
        """The key as Debezium stores it; None if a type of a column has no Java value that we know."""
        if position is None:
            return write_java_array(None).hex()
        if len(types) != len(position):
            return None
        values: list[tuple[JavaType, Any]] = []
        try:
            for text, name in zip(position, types, strict=True):
                if name not in self.values:
                    return None
                type_, convert = self.values[name]
                values.append((type_, None if text is None else convert(text)))
            return write_java_array(values).hex()
        except DataError:  # NaN, or a date that is none
            return None

    def parse(self, stored: str | None) -> Position | None:
        """Parses a key that Debezium stored; None if there is none. Raises DataError if it has values of other types."""
        if stored is None:
            return None
        try:
            values = parse_java_array(bytes.fromhex(stored))
        except ValueError as e:
            raise DataError(f"not hexadecimal: {e}") from e
        return None if values is None else tuple(map(self.text, values))
