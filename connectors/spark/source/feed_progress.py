"""What the feeds of all table formats share: their settings, and how far they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from connect.errors import ConnectError
from connectors.spark.source.offsets import FeedPosition
from connectors.spark.source.table_feed import FeedBatch, FeedChanges, FeedItem, FeedVersion, TableSchema, Waiting


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """How to read a table. ``start`` is SNAPSHOT, LATEST, or the first version whose changes are read."""

    keys: tuple[str, ...]
    start: str | int
    pairing_rows: int
    batch_rows: int

    @property
    def order(self) -> str:
        """See :class:`connectors.spark.source.table_feed.FeedVersion`."""
        return f"{','.join(self.keys)}/{self.pairing_rows}" if self.keys else ""


@dataclass(slots=True)
class FeedProgress:
    """How far the feed of the table ``location`` is. ``position`` is what follows; None before the start of a feed without a
    stored offset."""

    location: str
    settings: FeedSettings
    position: FeedPosition | None
    phase: str = "starting"
    rows: int = 0
    newest: int = -1
    """The newest version."""

    def figures(self, lag: int) -> Mapping[str, Any]:
        """The progress of the task. ``lag``: versions to read."""
        found: dict[str, Any] = {"phase": self.phase, "rows": self.rows}
        position = self.position
        if position is not None:
            found |= {"version": position.version, "row": position.row, "newest_version": self.newest}
            found["lag_versions"] = max(0, lag)
        return found

    def unread(self, version: FeedVersion, schema: TableSchema, changes: FeedChanges, row: int) -> Iterator[FeedItem]:
        """The changes that the position has not passed, with the position after them. ``row`` is the number of the first."""
        position = self.position
        assert position is not None
        end = row + len(changes)
        if end <= position.row:
            yield Waiting(is_idle=False)
            return
        skipped = max(0, position.row - row)
        rest = changes.slice(skipped, len(changes) - skipped) if skipped else changes
        self.position = replace(position, row=end, order=version.order or None)
        self.rows += len(rest)
        yield FeedBatch(version, schema, rest, row + skipped)

    def require_order(self, position: FeedPosition) -> None:
        """Raises ConnectError if the row of a position was counted with other settings."""
        # An offset that a user wrote has no id, and is taken as it is.
        stored = (position.order or "") if position.table_id is not None else self.settings.order
        if position.row and not position.snapshot and stored != self.settings.order:
            raise ConnectError(
                f"the offset of table {self.location} is in the middle of version {position.version}, which was read with other "
                f"key.columns or another source.pairing.max.rows ({stored or 'no keys'}). Set them back until the version is "
                "complete, or PATCH the offset to row 0"
            )
