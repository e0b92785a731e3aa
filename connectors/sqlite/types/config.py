"""The typed settings of values."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SqliteTypeSettings:
    """How columns are mapped to schemas."""

    decimal_mode: str = "precise"
    """``decimal.handling.mode``: precise, string, or double."""
    time_mode: str = "text"
    """``time.precision.mode``: text, adaptive, or connect."""
    binary_mode: str = "bytes"
    """``binary.handling.mode``: bytes, base64, base64-url-safe, or hex."""
    kinds: tuple[tuple[re.Pattern[str], str], ...] = ()
    """``column.types``: what columns (schema.table.column) are captured as."""

    def kind_of(self, column: str) -> str | None:
        """What a column is captured as, if ``column.types`` names it."""
        return next((kind for pattern, kind in self.kinds if pattern.fullmatch(column)), None)
