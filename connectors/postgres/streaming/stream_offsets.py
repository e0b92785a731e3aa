"""The offsets of what a stream emits: the position, and what others add to it."""

from __future__ import annotations

from typing import Any

from connectors.postgres.offsets import catch_up_members
from connectors.postgres.streaming.change_events import ChangeEventBuilder
from connectors.postgres.streaming.observers import StreamObservers
from connectors.postgres.streaming.position_tracker import PositionTracker


class StreamOffsets:
    """Builds the offsets of a stream."""

    def __init__(self, position: PositionTracker, builder: ChangeEventBuilder, observers: StreamObservers) -> None:
        self._position = position
        self._builder = builder
        self._observers = observers
        self.requires_snapshot = False
        """Whether offsets of changes still require a snapshot."""
        self.snapshot_state: str | None = None
        """What of that snapshot is completed."""

    def of_record(self, message_type: str, *, last: bool) -> dict[str, Any]:
        """The offset of a record that is being emitted: see :meth:`PositionTracker.record_offset`."""
        return self._with_xmin(self._position.record_offset(message_type, last=last)) | self.extras()

    def of_message(self, lsn: int) -> dict[str, Any]:
        """The offset of a logical message without a transaction, which ends at ``lsn``."""
        return self._with_xmin(self._position.message_offset(lsn)) | self.extras()

    def of_position(self) -> dict[str, Any] | None:
        """The offset of the position up to which the stream was read; None if that is the offset of the last record."""
        offset = self.of_plain_position()
        return offset if offset is None else offset | dict(self._observers.offset_extras)

    def of_plain_position(self) -> dict[str, Any] | None:
        """The same without what observers add."""
        offset = self._position.position_offset()
        return offset if offset is None else self._with_xmin(offset)

    def extras(self) -> dict[str, Any]:
        """What others add to offsets."""
        return {**self._observers.offset_extras, **(catch_up_members(self.snapshot_state) if self.requires_snapshot else {})}

    def _with_xmin(self, offset: dict[str, Any]) -> dict[str, Any]:
        if (xmin := self._builder.xmin) is not None:
            offset["xmin"] = xmin
        return offset
