"""Declared types, by SQLite's rules: any text is a type, and words in it decide which values the column prefers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from connectors.cdc.schema.source_type import SourceType

_PARTS: Final = re.compile(r"\s*([^(]*?)\s*(?:\(\s*([+-]?\d+)\s*(?:,\s*([+-]?\d+)\s*)?\)\s*)?", re.DOTALL)


class TypeAffinity(Enum):
    """What a column converts values to, if that loses nothing."""

    INTEGER = "integer"
    TEXT = "text"
    BLOB = "blob"
    """Converts nothing."""
    REAL = "real"
    NUMERIC = "numeric"


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A declared type: its words in capitals, and the numbers in parentheses."""

    text: str
    name: str
    length: int | None
    scale: int | None
    affinity: TypeAffinity


def parse_declared_type(text: str, *, is_strict: bool = False) -> DeclaredType:
    """Parses a declared type; empty for a column without one. ``is_strict``: of a STRICT table, where ANY converts nothing."""
    match = _PARTS.fullmatch(text)
    name, length, scale = (text, None, None) if match is None else match.groups()
    name = " ".join(name.upper().split())
    affinity = TypeAffinity.BLOB if is_strict and name == "ANY" else _affinity(name)
    return DeclaredType(
        text, name, None if length is None else int(length), None if scale is None else int(scale), affinity
    )  # fmt: skip


def _affinity(name: str) -> TypeAffinity:
    """The rules of https://sqlite.org/datatype3.html, section 3.1, in their order."""
    if "INT" in name:
        return TypeAffinity.INTEGER
    if any(word in name for word in ("CHAR", "CLOB", "TEXT")):
        return TypeAffinity.TEXT
    if "BLOB" in name or not name:
        return TypeAffinity.BLOB
    if any(word in name for word in ("REAL", "FLOA", "DOUB")):
        return TypeAffinity.REAL
    return TypeAffinity.NUMERIC


def source_type(declared: DeclaredType) -> SourceType:
    """The type as rules for columns see it."""
    return SourceType(declared.name or "ANY", declared.length, declared.scale, declared.affinity is TypeAffinity.TEXT)
