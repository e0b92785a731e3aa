"""Tables that are listed, or chosen by a field of each record, instead of by topic and source block."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Routes:
    """Without ``field``, every record goes to every table."""

    tables: tuple[str, ...]
    """Empty if the value of the field, in lower case, is the table's name."""
    field: tuple[str, ...] = ()
    """The path of the field."""
    patterns: Mapping[str, re.Pattern[str]] = dataclasses.field(default_factory=dict)
    """By table: what the whole value must match. A table without a pattern gets no record."""

    @property
    def is_dynamic(self) -> bool:
        return not self.tables

    def tables_for(self, value: str | None) -> list[str]:
        """The tables of a record whose field has this value; none for a value that no table wants."""
        if value is None:
            return []
        if self.is_dynamic:
            return [value.lower()]
        return [table for table in self.tables if table in self.patterns and self.patterns[table].fullmatch(value)]
