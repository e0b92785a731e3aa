"""Pairs in settings: ``old:new``, ``field:type``."""

from __future__ import annotations


def split_spec(text: str) -> list[str]:
    """The parts between colons as Java's ``String.split`` gives them: empty ones at the end are dropped, so ``a:`` has one."""
    parts = text.split(":")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts
