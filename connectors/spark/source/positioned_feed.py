"""What feeds share (:class:`connectors.spark.source.table_feed.TableFeed`): where they are, and, for tables with versions, how
changes move them on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from connect.errors import ConnectError
from connectors.spark.source.config import SNAPSHOT
from connectors.spark.source.offsets import FeedPosition, StorablePosition
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


PositionT = TypeVar("PositionT", bound=StorablePosition)


class PositionedFeed(Generic[PositionT]):
    """A feed that holds nothing that must be released."""

    def __init__(self, start: str | int, position: PositionT | None) -> None:
        """``start``: where the feed starts without a position."""
        self._start = start
        self._position = position
        self._phase = "starting"
        self._rows = 0

    @property
    def position(self) -> PositionT | None:
        """What follows is next; None before the start of a feed without a stored offset."""
        return self._position

    def move_to(self, position: PositionT | None) -> None:
        """Sets the position of the next call of ``items``."""
        self._position = position

    def start_again(self) -> None:
        """Makes the next call of ``items`` start with a snapshot."""
        self._start = SNAPSHOT
        self._position = None

    def close(self) -> None:
        """Does nothing: no file stays open."""


class VersionedFeed(PositionedFeed[FeedPosition]):
    """The feed of a table whose positions are numbers of versions and of changes in them."""

    def __init__(self, location: str, settings: FeedSettings, position: FeedPosition | None) -> None:
        """``location`` names the table in messages; without a position, the feed starts as the settings say."""
        super().__init__(settings.start, position)
        self._location = location
        self._settings = settings
        self._schemas: dict[TableSchema, TableSchema] = {}
        self._newest = -1
        """The newest version."""

    def _figures(self, lag: int) -> Mapping[str, Any]:
        """The progress of the task. ``lag``: versions to read."""
        found: dict[str, Any] = {"phase": self._phase, "rows": self._rows}
        position = self._position
        if position is not None:
            found |= {"version": position.version, "row": position.row, "newest_version": self._newest}
            found["lag_versions"] = max(0, lag)
        return found

    def _unread(self, version: FeedVersion, schema: TableSchema, changes: FeedChanges, row: int) -> Iterator[FeedItem]:
        """The changes that the position has not passed, with the position after them. ``row`` is the number of the first."""
        position = self._position
        assert position is not None
        end = row + len(changes)
        if end <= position.row:
            yield Waiting(is_idle=False)
            return
        skipped = max(0, position.row - row)
        rest = changes.slice(skipped, len(changes) - skipped) if skipped else changes
        self._position = replace(position, row=end, order=version.order or None)
        self._rows += len(rest)
        yield FeedBatch(version, schema, rest, row + skipped)

    def _require_order(self, position: FeedPosition) -> None:
        """Raises ConnectError if the row of a position was counted with other settings."""
        # An offset that a user wrote has no id, and is taken as it is.
        stored = (position.order or "") if position.table_id is not None else self._settings.order
        if position.row and not position.snapshot and stored != self._settings.order:
            raise ConnectError(
                f"the offset of table {self._location} is in the middle of version {position.version}, which was read with other "
                f"key.columns or another source.pairing.max.rows ({stored or 'no keys'}). Set them back until the version is "
                "complete, or PATCH the offset to row 0"
            )
