"""The states of a task, from the start of a connection to streaming."""

from __future__ import annotations

from enum import Enum


class CaptureState(Enum):
    """What a task does now. The value is the ``phase`` of its progress."""

    STARTING = "starting"
    CREATING_SLOT = "creating slot"
    """Only with PostgreSQL."""
    SNAPSHOT = "snapshot"
    SNAPSHOT_COMPLETED = "snapshot completed"
    """The stream has not started yet."""
    CATCHING_UP = "catching up"
    """Streams changes up to the point of a snapshot."""
    STREAMING = "streaming"
    RECONNECTING = "reconnecting"
    WAITING_FOR_SLOT = "waiting for slot"
    """Only with PostgreSQL."""
    DONE = "done"
    """The snapshot of ``initial_only`` is complete."""
