"""What commits do to a table, whoever makes them and however they are named."""

from __future__ import annotations

import enum


class Effect(enum.Flag):
    """A commit may have several."""

    ADDS_ROWS = enum.auto()
    CHANGES_ROWS = enum.auto()
    """Removes rows, or has other rows in their place."""
    REARRANGES = enum.auto()
    """Other files with the same rows."""
    ALTERS = enum.auto()
    """The table has another schema, or other properties or features."""
    MOVES_HISTORY = enum.auto()
    """The rows were exchanged for others, so that offsets in the table no longer say what it contains."""
