"""Offsets topics of connectors (``offsets.storage.topic``, KIP-618), opened when they are first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from connect.errors import IllegalStateError
from worker.executors.futures import fail
from worker.storage.kafka_offset_store import OffsetTopic

_START_TIMEOUT_S = 60.0

TopicKey = tuple[str, ...]
"""The topic's name, and the clusters of its clients."""


@dataclass(slots=True, eq=False)
class _Opening:
    topic: OffsetTopic
    started: Future[None] = field(default_factory=Future)


class OwnOffsetTopics:
    """Owns the topics that it opens. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: dict[TopicKey, _Opening] = {}
        self._is_closing = False

    def open(self, key: TopicKey, create: Callable[[], OffsetTopic]) -> OffsetTopic:
        """Returns a topic that has been read to its end. Concurrent calls share one start. A topic that fails to start is closed,
        and the next call starts another. Blocks up to a minute. Raises ConnectError."""
        with self._lock:
            if self._is_closing:
                raise IllegalStateError("the worker is shutting down")
            opening = self._topics.get(key)
            is_first = opening is None
            if opening is None:
                opening = self._topics[key] = _Opening(create())
        if is_first:
            self._start(key, opening)
        opening.started.result()
        return opening.topic

    def _start(self, key: TopicKey, opening: _Opening) -> None:
        # Outside the lock, which ask_to_close needs.
        try:
            opening.topic.start(_START_TIMEOUT_S)
        except BaseException as e:
            with self._lock:
                self._topics.pop(key, None)
            fail(opening.started, e)
            opening.topic.close()
        else:
            opening.started.set_result(None)

    def ask_to_close(self) -> None:
        """Makes a later close quick, also of topics that are being started. No topic can be opened afterwards."""
        for topic in self._closing():
            topic.ask_to_close()

    def close(self) -> None:
        for topic in self._closing():
            topic.close()

    def _closing(self) -> list[OffsetTopic]:
        with self._lock:
            self._is_closing = True
            return [opening.topic for opening in self._topics.values()]
