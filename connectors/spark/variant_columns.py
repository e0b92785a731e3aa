"""Which values become VARIANT."""

from __future__ import annotations

from dataclasses import dataclass, replace

from connect.change_events.toast import UNAVAILABLE_VALUE

JSON_TYPE = "io.debezium.data.Json"


@dataclass(frozen=True, slots=True)
class VariantColumns:
    """Which values become VARIANT, and what text there means."""

    json: bool = False
    """Whether fields of Debezium's Json do, nested ones too."""
    names: frozenset[str] = frozenset()
    """Columns of the row, whatever their values are."""
    parses_text: bool = False
    """Whether text in these columns is JSON. Text of Debezium's Json always is."""
    placeholder: str = UNAVAILABLE_VALUE
    """The text of an unavailable value, which need not be JSON."""

    def with_names(self, names: frozenset[str]) -> VariantColumns:
        return replace(self, names=self.names | names)


NO_VARIANTS = VariantColumns()
