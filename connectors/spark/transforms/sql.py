"""Parts of Spark SQL expressions. They assume Spark's default parser settings."""

from __future__ import annotations

from collections.abc import Iterable

_PLAIN = frozenset(map(chr, range(0x20, 0x7F))) - {"'", "\\", "$"}
"""A dollar sign begins a variable, which Spark replaces also inside quotes."""


def quote_text(text: str) -> str:
    """A string literal."""
    return f"'{''.join(c if c in _PLAIN else _escape(c) for c in text)}'"


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def all_of(conditions: Iterable[str]) -> str:
    """The conjunction of conditions; true if there are none."""
    return " AND ".join(conditions) or "true"


def concatenate(parts: list[str]) -> str:
    """The concatenation of texts."""
    return parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})"
