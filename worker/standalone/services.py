"""Services of a standalone worker for its tasks: offsets in a file, no exactly-once."""

from __future__ import annotations

from collections.abc import Sequence

from connect.errors import UnsupportedError
from worker.model import TaskId
from worker.storage.offset_store import OffsetPair, OffsetRecord, OffsetStore

NO_EXACTLY_ONCE = "Kafka Connect in standalone mode does not support exactly-once source connectors."


class StandaloneServices:
    """Implements :class:`worker.executor.WorkerServices`."""

    def __init__(self, offsets: OffsetStore) -> None:
        self._offsets = offsets

    @property
    def offsets(self) -> OffsetStore:
        return self._offsets

    def offset_records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        raise UnsupportedError(NO_EXACTLY_ONCE)

    def offsets_committed(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        raise UnsupportedError(NO_EXACTLY_ONCE)

    def before_commit(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        raise UnsupportedError(NO_EXACTLY_ONCE)

    def confirm_task(self, start_id: int, task: TaskId, *, with_coordinator: bool = False) -> None:
        raise UnsupportedError(NO_EXACTLY_ONCE)
