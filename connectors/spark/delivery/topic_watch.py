"""Notices that a topic was recreated while a task reads it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping

from connect.sink import Offsets, TopicIdentity
from connectors.spark.delivery.start_offsets import check_topics

log = logging.getLogger(__name__)

_INTERVAL_S = 5.0
_ANSWER_S = 0.25
"""How long an answer takes, usually."""
_JOIN_S = 1.0
Progress = tuple[int, ...]
"""Counts that change when records are read."""


class TopicWatch:
    """If a recreated topic has more records than the task has read of the old one, the consumer continues there unawares.

    So the brokers are asked for the IDs of topics at intervals, but only after records have been read: the answer to a question
    that was asked after a record proves its topic. Used on the task's thread; a thread of its own asks.
    """

    def __init__(
        self,
        owner: str,
        ask: Callable[[Collection[str]], Mapping[str, TopicIdentity]],
        topics: Mapping[str, TopicIdentity],
        positions: Callable[[], Offsets],
        clock: Callable[[], float],
    ) -> None:
        """``owner`` names the thread. ``topics`` is a live view of those that the task has opened."""
        self._name = f"topic-watch-{owner}"
        self._ask = ask
        self._topics = topics
        self._positions = positions
        self._clock = clock
        self._next_at = clock() + _INTERVAL_S
        self._proven: Progress | None = None
        """Up to where the answers say that topics are the same."""
        self._thread: threading.Thread | None = None
        self._asked: tuple[Progress, Mapping[str, TopicIdentity]] = (), {}
        """Up to where the question says that topics are the same, if they still are these."""
        self._answer: Mapping[str, TopicIdentity] | None = None

    def next_at(self, progress: Progress) -> float | None:
        """Returns when to call :meth:`advance` again; None if it need not be."""
        if self._thread is not None:
            return self._clock() + _ANSWER_S
        return None if progress == self._proven else self._next_at

    def advance(self, progress: Progress) -> None:
        """Takes the answer to the last question, and asks again if it is due. Raises OtherTopicError if a topic was recreated."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._take_answer()
        now = self._clock()
        if self._thread is not None or progress == self._proven or now < self._next_at:
            return
        self._next_at = now + _INTERVAL_S
        topics = {tp.topic: self._topics[tp.topic] for tp in self._positions() if tp.topic in self._topics}
        self._asked, self._answer = (progress, topics), None
        if not topics:
            self._proven = progress
            return
        self._thread = threading.Thread(target=self._ask_brokers, name=self._name, daemon=True)
        self._thread.start()

    def _ask_brokers(self) -> None:
        try:
            self._answer = self._ask(list(self._asked[1]))
        except Exception as e:
            log.debug("the IDs of topics are not known now: %s", e)

    def _take_answer(self) -> None:
        progress, asked = self._asked
        if (present := self._answer) is None:
            return
        # A topic may have been opened anew meanwhile.
        same = {topic: known for topic, known in asked.items() if self._topics.get(topic) == known}
        check_topics(same, present, self._positions())
        if present.keys() == asked.keys():
            self._proven = progress

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(_JOIN_S)
